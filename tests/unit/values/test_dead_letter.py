"""Values that do not decode go to a topic, as they were."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

import bowstring
from tests.support.waiting import HANG_S


def test_bad_values_go_to_a_topic():
    schema = pa.schema({"id": pa.int64()})
    with bowstring.Broker() as broker, bowstring.Producer(broker.bootstrap_servers) as producer:
        for value, key in ((b'{"id":1}', b"a"), (b"{", b"b"), (b'{"id":2}', None), (b'{"id":"x"}', None)):
            producer.send("orders", value, key=key, partition=0)
        producer.flush()
        form = bowstring.Json(schema, on_error=bowstring.DeadLetter("orders.bad", producer))
        table = bowstring.read("orders", bootstrap_servers=broker.bootstrap_servers, value=form)
        assert table.column("value").to_pylist() == [{"id": 1}, None, {"id": 2}, None]
        producer.flush()
        bad = bowstring.read("orders.bad", bootstrap_servers=broker.bootstrap_servers)
        by_value = {row["value"]: row for row in bad.to_pylist()}
        assert set(by_value) == {b"{", b'{"id":"x"}'} and by_value[b"{"]["key"] == b"b"
        headers = {each["key"]: each["value"] for each in by_value[b'{"id":"x"}']["headers"]}
        assert headers == {
            "__error": b"at byte 6: an integer is needed for id",
            "__topic": b"orders",
            "__partition": b"0",
            "__offset": b"3",
        }


def test_on_error_is_checked():
    with pytest.raises(bowstring.ConfigError, match="on_error"):
        bowstring.Json(pa.schema({"a": pa.int8()}), on_error="ignore")


@pytest.mark.parametrize(
    ("name", "package", "extra"), [("Json", "pyarrow", "arrow"), ("Protobuf", "google.protobuf", "protobuf")]
)
def test_a_missing_package_names_its_extra(name, package, extra):
    code = (
        "import sys, bowstring\n"
        f"sys.modules[{package!r}] = None\n"
        "try:\n"
        f"    bowstring.{name}(object)\n"
        "except bowstring.ClientError as error:\n"
        "    print(error)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=True
    )
    assert f"pip install 'bowstring[{extra}]'" in ran.stdout


def test_the_consumer_decodes_keys_and_values():
    form = bowstring.Json(pa.schema({"id": pa.int64()}))
    with bowstring.Broker() as broker:
        servers = broker.bootstrap_servers
        with bowstring.Producer(servers) as producer:
            table = pa.table({"id": list(range(5))})
            producer.send_arrow("typed", table, value=form)
            producer.flush()
            producer.send("typed", b"?", key=b'{"id":9}', partition=0).result()
        with bowstring.Consumer(servers, auto_offset_reset="earliest", value=form, key=form) as consumer:
            consumer.assign([("typed", 0)])
            batch = consumer.poll_arrow(columns=["offset", "key", "value"], timeout=HANG_S)
            while batch.num_rows < 6:
                more = consumer.poll_arrow(columns=["offset", "key", "value"], timeout=HANG_S)
                batch = pa.concat_batches([batch, more])
            assert batch.schema == consumer.arrow_schema(columns=["offset", "key", "value"])
            assert batch.schema.names == ["offset", "key", "key_error", "value", "value_error"]
            assert batch.column("value").to_pylist() == [*table.to_pylist(), None]
            assert batch.column("key").to_pylist() == [None] * 5 + [{"id": 9}]
            assert batch.column("value_error").null_count == 5
            assert consumer.arrow_schema(columns=["offset"]).names == ["offset"]
