"""Users' programs are checked like ours: everything has its type, and errors are found."""

from pathlib import Path

import mypy.api
import pytest

ROOT = Path(__file__).parents[3]
USER = Path(__file__).with_name("typed_user.py")
HEAD = "import bowstring\nfrom bowstring import TopicPartition\n"
WRONG = {
    "bowstring.Producer('a:1', lingerms=5)": "lingerms",
    "bowstring.Producer('a:1').send('t', 5)": "arg-type",
    "bowstring.Consumer('a:1').poll(timeout='soon')": "arg-type",
    "bowstring.Consumer('a:1').poll()[0].val": "attr-defined",
    "bowstring.Consumer('a:1', auto_offset_reset='earlest')": "auto_offset_reset",
    "bowstring.Consumer('a:1', isolation_level='committed')": "isolation_level",
    "bowstring.Consumer('a:1', group_protocol='new')": "group_protocol",
    "bowstring.Consumer('a:1').poll_arrow(layout='view')": "layout",
    "bowstring.Producer('a:1', acks='some')": "acks",
    "bowstring.Producer('a:1', compression='zip')": "compression",
    "bowstring.Producer('a:1', partitioner='murmur')": "partitioner",
    "bowstring.ShareConsumer('a:1', group_id='g', acknowledgement_mode='x')": "acknowledgement_mode",
    "bowstring.aio.Consumer('a:1', auto_offset_reset='earlest')": "auto_offset_reset",
    "bowstring.Consumer('a:1', default_api_timeout='5')": "default_api_timeout",
    "bowstring.Consumer('a:1', default_api_timeout_ms='5')": "default_api_timeout_ms",
    "bowstring.ShareConsumer('a:1')": "call-arg",
    "x: int = bowstring.Consumer('a:1').lag(TopicPartition('t', 0))": "assignment",
    "bowstring.Admin('a:1').create_topic(5)": "arg-type",
    "bowstring.aio.Admin('a:1', timeout='x')": "timeout",
    "async def f() -> int:\n    return await bowstring.aio.Admin('a:1').topics()": "return-value",
    "async def g() -> None:\n    await bowstring.aio.Producer('a:1').send_arrow(5, None)": "arg-type",
    "async def h() -> None:\n    await bowstring.aio.Consumer('a:1').seek('t')": "call-arg",
}


def checked(*arguments):
    config = ["--config-file", str(ROOT / "pyproject.toml"), "--strict"]
    out, errors, status = mypy.api.run([*config, *arguments])
    assert not errors, errors
    return out, status


@pytest.fixture(autouse=True)
def in_the_tree(monkeypatch):
    monkeypatch.chdir(ROOT)


def test_a_program_that_uses_everything():
    out, status = checked(str(USER))
    assert status == 0, out


def test_what_is_wrong_is_found(tmp_path):
    program = tmp_path / "wrong.py"
    program.write_text(HEAD + "\n".join(WRONG) + "\n")
    out, status = checked(str(program))
    assert status == 1
    lines = HEAD.count("\n") + 1
    for code, word in WRONG.items():
        last = lines + code.count("\n")
        found = [line for line in out.splitlines() if f"wrong.py:{last}:" in line]
        assert any(word in line for line in found), (code, found)
        lines = last + 1
