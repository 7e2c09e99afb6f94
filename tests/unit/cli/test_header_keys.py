"""Header keys that are not UTF-8, by every way out of a broker and back in."""

import json

from bowstring import Consumer, Producer, read
from bowstring._native.record.encode import encode_batch
from tests.support.waiting import HANG_S

KEYS = [
    ("\udcff", "\\xff", {"base64": "/w=="}),
    ("\udcfe", "\\xfe", {"base64": "/g=="}),
    ("grün", "grün", "grün"),
]
TEXTS, ESCAPED, IN_JSON = ([forms[i] for forms in KEYS] for i in range(3))


def polled(bootstrap, topic, arrow=False):
    """The header keys of each record, by poll() or poll_arrow()."""
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        if arrow:
            found = consumer.poll_arrow(timeout=HANG_S).column("headers").to_pylist()
            return [[pair["key"] for pair in headers] for headers in found]
        return [[name for name, _ in record.headers] for record in consumer.poll(timeout=HANG_S)]


def test_one_rule_for_every_way_out(bootstrap, cli, topic):
    cli("topics", "create", topic, "-p", 1)
    with Producer(bootstrap) as producer:
        producer.send(topic, b"v", headers=[(text, b"1") for text in TEXTS]).result(HANG_S)
    assert polled(bootstrap, topic) == [TEXTS]
    assert polled(bootstrap, topic, arrow=True) == [ESCAPED]
    table = read(topic, bootstrap_servers=bootstrap, columns=["headers"])
    assert [pair["key"] for pair in table.column("headers")[0].as_py()] == ESCAPED
    assert cli("consume", topic, "--headers").lines == [",".join(f"{key}=1" for key in ESCAPED) + "\tv"]

    printed = cli("consume", topic, "--json").out
    assert [header["key"] for header in json.loads(printed)["headers"]] == IN_JSON
    assert cli("produce", topic, "--format", "json", stdin=printed.encode()).code == 0
    assert polled(bootstrap, topic) == [TEXTS, TEXTS], "what was printed was sent again unchanged"


def test_arguments_that_are_not_utf_8_are_sent_as_they_are(bootstrap, cli, topic):
    """Python decodes the bytes of a command line to surrogates."""
    cli("topics", "create", topic, "-p", 1)
    done = cli("produce", topic, "--key", "k\udcff", "--header", "n\udcff=v\udcff", stdin=b"v\n")
    assert done.code == 0, done.err
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        (record,) = consumer.poll(timeout=HANG_S)
    assert (record.key, record.headers) == (b"k\xff", (("n\udcff", b"v\xff"),))


def test_dump_log(offline, tmp_path):
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(encode_batch([(b"k", b"v", 1, [(text, b"1") for text in TEXTS])]))
    assert f"headerKeys: [{','.join(ESCAPED)}]" in offline("dump-log", log, "--print-data-log").out
    assert [
        header["key"] for header in _dumped_headers(offline("dump-log", log, "--print-data-log", "--json"))
    ] == IN_JSON


def _dumped_headers(result):
    return next(found["headers"] for found in map(json.loads, result.lines) if "headers" in found)
