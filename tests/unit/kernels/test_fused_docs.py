"""The examples of docs/fused-functions.md run."""

import re
from pathlib import Path

import pytest

import bowstring
from bowstring.demo import flights

PAGE = Path(__file__).resolve().parents[3] / "docs" / "fused-functions.md"
COUNT = 4_000


@pytest.fixture(scope="module")
def servers():
    with bowstring.Broker(config={"log.retention.ms": -1}) as broker:
        with bowstring.Producer(broker.bootstrap_servers) as producer:
            for _, event in zip(range(COUNT), flights.events(flights.data_file()), strict=False):
                producer.send("flights", event.value, event.key, timestamp=event.timestamp)
            producer.flush(30)
        yield broker.bootstrap_servers


def test_examples(servers, monkeypatch, capsys):
    monkeypatch.setenv("BOWSTRING_BOOTSTRAP_SERVERS", servers)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    scope = {}
    for block in (each for each in blocks if "spark" not in each):
        exec(compile(block, str(PAGE), "exec"), scope)
    said = capsys.readouterr().out
    assert "carrier" in said and "UA" in said
    rows = scope["worst"].to_pylist()
    assert sum(row["flights"] for row in rows) > 100 and all(row["worst"] > 60 for row in rows)
    assert scope["late"](b'{"dep_delay":75}') and not scope["late"](b'{"dep_delay":5}')
