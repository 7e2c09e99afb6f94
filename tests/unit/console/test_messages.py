"""The pages of messages: search, views, export, download, produce; and messages that would do harm."""

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from bowstring.clients.producer.producer import Producer
from bowstring.console.app import create_app
from bowstring.console.options import ConsoleOptions
from bowstring.console.pages import messages
from tests.support.waiting import HANG_S

BIDI = "\u202etxt.exe\u2066"
HOSTILE = {
    "script": b"<script>alert(1)</script>",
    "markup": b'{"<img src=x onerror=alert(1)>": "</pre></details><svg onload=alert(1)>"}',
    "terminal": b"\x1b]0;owned\x07\x1b[2J",
    "bidi": json.dumps({"name": BIDI}, ensure_ascii=False).encode(),
    "not UTF-8": b"\xff\xfe\x80<b>",
    "deep": b"[" * 50_000 + b"]" * 50_000,
    "deep object": b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
    "huge number": b"9" * 10_000,
    "number": b'{"n": 1e400, "m": -' + b"8" * 4_000 + b"}",
    "nan": b'{"n": NaN, "i": -Infinity}',
    "lone surrogate": b'{"s": "\\ud800"}',
    "wide": json.dumps({f"f{number}": number for number in range(3_000)}).encode(),
    "template": b"{{ 7 * 7 }}{% for %}",
    "formula": b'=HYPERLINK("http://example.org")',
    "empty": b"",
    "tombstone": None,
}


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    monkeypatch.setattr(messages, "PAGE_LIMITS", replace(messages.PAGE_LIMITS, seconds=HANG_S))
    monkeypatch.setattr(messages, "EXPORT_LIMITS", replace(messages.EXPORT_LIMITS, seconds=HANG_S))


def client_of(bootstrap, **options):
    app = create_app(ConsoleOptions(bootstrap_servers=bootstrap, **options))
    return TestClient(app, base_url="http://localhost:8080", follow_redirects=False)


@pytest.fixture(scope="module")
def client(bootstrap):
    with client_of(bootstrap) as made:
        yield made


@pytest.fixture(scope="module")
def writer(bootstrap):
    with client_of(bootstrap, write=True) as made:
        yield made


@pytest.fixture(scope="module")
def topic(bootstrap, admin):
    name = "console-messages"
    admin.create_topic(name, 2, configs={"retention.ms": "-1"})
    with Producer(bootstrap, acks="all") as producer:
        for number in range(120):
            value = json.dumps({"id": number, "user": {"name": "Bob", "tags": ["a", "b"]}}).encode()
            headers = [("trace", b"%d" % number), ("none", None)]
            producer.send(
                name,
                value,
                key=b"k%d" % number,
                headers=headers,
                partition=number % 2,
                timestamp=10**12 + number,
            )
    yield name
    admin.delete_topics([name])


@pytest.fixture(scope="module")
def hostile(bootstrap, admin):
    name = "console-hostile"
    admin.create_topic(name, 1, configs={"retention.ms": "-1", "max.message.bytes": str(12 << 20)})
    with Producer(bootstrap, acks="all", max_request_size=12 << 20) as producer:
        for what, value in HOSTILE.items():
            header = f"<b>{what}\x1b[1m{BIDI}"
            producer.send(name, value, key=f"<i>{what}\x07".encode(), headers=[(header, b"<u>\xff")])
        producer.send(name, b'{"pad": "<script>' + b"x" * (10 << 20) + b'"}', key=b"=large")
    yield name
    admin.delete_topics([name])


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found, self.open = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "br", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag != "path":
            assert self.open.pop() == tag


def offsets(text):
    return re.findall(r">partition (\d+), offset (\d+)<", text)


def test_newest_and_further(client, topic):
    first = client.get(f"/topics/{topic}/messages?count=20")
    assert first.status_code == 200
    assert offsets(first.text)[:3] == [("1", "59"), ("0", "59"), ("1", "58")]
    further = re.search(r'rel="next" href="([^"]+)"', first.text)[1].replace("&amp;", "&")
    second = client.get(further)
    assert len(offsets(second.text)) == 20 and offsets(second.text)[0] == ("1", "49")
    oldest = client.get(f"/topics/{topic}/messages?order=oldest&count=20&partition=0").text
    assert offsets(oldest) == [("0", str(number)) for number in range(20)]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("q=%22ID%22%3A+7%2C", 1),
        ("key=k8", 1),
        ("header=trace%3D119", 1),
        ("header=%3D119", 1),
        ("header=none&count=200", 120),
        ("expr=" + quote('value.id >= 100 and "a" in value.user.tags and headers["trace"] != "111"'), 19),
        ("start=time&at=" + quote("2001-09-09T01:46:40.100") + "&order=oldest", 20),
        ("start=offset&at=55&order=oldest&partition=1", 5),
        ("count=200&committed=1", 120),
        ("q=nothing", 0),
        ("start=offset&at=99&order=oldest", 0),
    ],
)
def test_filters(client, topic, query, count):
    answer = client.get(f"/topics/{topic}/messages?{query}")
    assert answer.status_code == 200
    assert len(offsets(answer.text)) == count


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("expr=value.id+%3E", "column 11"),
        ("partition=x", "write numbers such as 0, 3"),
        ("start=offset&at=-1", "write a number from 0"),
        ("start=time&at=yesterday", "2026-01-31T12:00"),
        ("partition=7", "partitions 0 to 1, not 7"),
    ],
)
def test_refusals_say_what_to_write(client, topic, query, says):
    answer = client.get(f"/topics/{topic}/messages?{query}")
    assert answer.status_code == 400 and says in answer.text


def test_values_are_trees(client, topic):
    text = client.get(f"/topics/{topic}/messages?key=k5").text
    assert '<span class="tree-name">name</span> <span class="tree-text">&#34;Bob&#34;</span>' in text
    assert "2 items" in text and "trace" in text
    assert "<pre>{&#34;id&#34;: 5" in client.get(f"/topics/{topic}/messages?key=k5&view=text").text
    assert "00000000  7b 22 69 64" in client.get(f"/topics/{topic}/messages?key=k5&view=hex").text


@pytest.mark.parametrize("view", ["tree", "text", "hex"])
def test_hostile_messages_do_nothing(client, hostile, view):
    answer = client.get(f"/topics/{hostile}/messages?count=100&order=oldest&view={view}")
    assert answer.status_code == 200 and len(answer.content) < 4_000_000
    text = answer.text
    assert len(offsets(text)) == len(HOSTILE) + 1
    tags = Tags(text).found
    assert [attrs["src"].split("?")[0] for tag, attrs in tags if tag == "script"] == ["/static/console.js"]
    assert {tag for tag, _ in tags} & {"b", "i", "u", "img", "iframe", "object"} == set()
    assert not [name for _, attrs in tags for name in attrs if name.startswith("on") or name == "style"]
    assert [tag for tag, _ in tags].count("svg") == 1, "only that of the page's own mark"
    assert not set(text) & set("\x1b\x07\x00\x80\u202e\u2066\ufeff")
    assert "␛" in text and "49" not in re.findall(r"\{\{ (.*?) \}\}", text)


def test_large_values_are_cut_and_downloaded(client, hostile):
    place = f"/topics/{hostile}/messages/0/{len(HOSTILE)}"
    text = client.get(f"/topics/{hostile}/messages?key=%3Dlarge").text
    assert "only a part is shown" in text and f'href="{place}/value"' in text and len(text) < 200_000
    value = client.get(f"{place}/value")
    assert len(value.content) > 10 << 20 and value.headers["content-type"] == "application/octet-stream"
    assert value.headers["content-disposition"].startswith("attachment")
    assert client.get(f"{place}/key").content == b"=large"
    assert client.get(f"/topics/{hostile}/messages/0/999/value").status_code == 404
    assert client.get(f"/topics/{hostile}/messages/0/0/other").status_code == 404


def test_exports(client, topic, hostile):
    rows = client.get(f"/topics/{topic}/messages/export/json?key=k5").json()
    assert rows[0]["value"]["user"]["name"] == "Bob" and rows[0]["headers"][0] == {
        "key": "trace",
        "value": "5",
    }
    every = client.get(f"/topics/{hostile}/messages/export/json?count=100&order=oldest").json()
    assert len(every) == len(HOSTILE) + 1 and every[-1]["value_is_cut"]
    assert every[[*HOSTILE].index("tombstone")]["value"] is None
    before = csv.field_size_limit(1 << 24)
    cells = [
        *csv.DictReader(io.StringIO(client.get(f"/topics/{hostile}/messages/export/csv?count=100").text))
    ]
    csv.field_size_limit(before)
    assert len(cells) == len(HOSTILE) + 1
    assert not [cell for row in cells for cell in row.values() if cell.startswith(("=", "+", "-", "@"))]
    assert [row["value"][:12] for row in cells if "formula" in row["key"]] == ["'=HYPERLINK("]
    assert client.get(f"/topics/{topic}/messages/export/xls").status_code == 404


def test_parquet(client, hostile):
    pq = pytest.importorskip("pyarrow.parquet")
    data = client.get(f"/topics/{hostile}/messages/export/parquet?count=100&order=oldest").content
    table = pq.read_table(io.BytesIO(data))
    assert table["value"].to_pylist()[: len(HOSTILE)] == [*HOSTILE.values()]
    assert json.loads(table["value_json"][[*HOSTILE].index("nan")].as_py()) == {"n": "nan", "i": "-inf"}


def test_without_pyarrow_the_error_names_the_extra(client, topic, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    answer = client.get(f"/topics/{topic}/messages/export/parquet")
    assert answer.status_code == 501 and "bowstring[arrow]" in answer.text


def produce(client, topic, **fields):
    page = client.get(f"/topics/{topic}/messages/produce").text
    token = re.search(r'name="csrf_token" value="(\w+)"', page)[1]
    return client.post(f"/topics/{topic}/messages/produce", data={"csrf_token": token} | fields)


def test_produce(writer, client, new_topic, consumer_for):
    topic = new_topic(partitions=2)
    done = produce(
        writer, topic, value='{"a":\r\n 1}', value_kind="json", key="k", headers="x: 1\n<b>: ä", partition="1"
    )
    assert done.status_code == 303
    assert "offset 0<" in client.get(done.headers["location"]).text
    assert produce(writer, topic, value="00 ff", value_kind="hex", partition="0").status_code == 303
    assert produce(writer, topic, value_kind="null", key="k", partition="0").status_code == 303
    records = sorted(read(consumer_for(topic), 3), key=lambda record: (record.partition, record.offset))
    assert [(r.partition, r.key, r.value) for r in records] == [
        (0, None, b"\x00\xff"), (0, b"k", None), (1, b"k", b'{"a":\n 1}')
    ]  # fmt: skip
    assert records[-1].headers == (("x", b"1"), ("<b>", "ä".encode()))


def read(consumer, count):
    records = []
    while len(records) < count:
        records += consumer.poll(1)
    return records


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"value": "{", "value_kind": "json"}, "line 1, column 2"),
        ({"value": "0", "value_kind": "hex"}, "pairs of digits"),
        ({"value": "a", "headers": "x"}, "headers, line 1"),
        ({"value": "a", "partition": "-1"}, "write a number"),
        ({"value": "a", "value_kind": "xml"}, "text, json, hex, null"),
    ],
)
def test_produce_refusals_keep_the_form(writer, topic, fields, says):
    answer = produce(writer, topic, **fields)
    assert answer.status_code == 400 and says in answer.text


def test_produce_needs_write_and_a_token(client, writer, topic):
    assert client.post(f"/topics/{topic}/messages/produce", data={"value": "a"}).status_code == 403
    assert writer.post(f"/topics/{topic}/messages/produce", data={"value": "a"}).status_code == 403
    assert "read-only" in client.get(f"/topics/{topic}/messages/produce").text


def test_choice_of_topics(client, topic, hostile):
    text = client.get("/messages").text
    assert f"/topics/{topic}/messages" in text and f"/topics/{hostile}/messages" in text
    assert client.get(f"/messages?q={topic}").headers["location"] == f"/topics/{topic}/messages"


def test_unknown_topics(client):
    answer = client.get("/topics/no-such-topic/messages")
    assert answer.status_code == 404 and "no-such-topic" in answer.text
