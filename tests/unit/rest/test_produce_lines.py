"""bowstring._native.rest.produce_lines: any bytes, in any pieces, against Python's json."""

import itertools
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bowstring._native.rest.produce_lines import ProduceLines
from bowstring.clients.producer.producer import Producer
from bowstring.rest.records.produce_stream import explain, refuse_schema

DATA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PART = st.fixed_dictionaries({"type": st.just("JSON"), "data": DATA}) | st.fixed_dictionaries(
    {"type": st.just("STRING"), "data": st.text(max_size=20)}
)
RECORD = st.fixed_dictionaries({"value": PART}, optional={"key": PART})


@pytest.fixture(scope="module")
def topic_of(bootstrap):
    """A topic of one partition, and a producer of it."""
    from bowstring import Admin

    with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        admin.create_topic("produce-lines", 1)
        producer.partitions_for("produce-lines")
        yield producer, "produce-lines"
        admin.delete_topics(["produce-lines"])


def answers_of(topic_of, pieces):
    producer, topic = topic_of
    lines = ProduceLines(producer, topic, b"", explain, lambda: None, refuse_schema, 1 << 20)
    for piece in pieces:
        lines.feed(piece)
        while lines.take(7):
            pass
    lines.end()
    while lines.take(7):
        pass
    producer.flush()
    found = [json.loads(line) for line in lines.answers(1 << 30).splitlines()]
    assert lines.waiting == 0
    return found, lines


def size_of(part):
    if part is None or part["data"] is None:
        return -1
    if part["type"] == "STRING":
        return len(part["data"].encode())
    return len(json.dumps(part["data"], separators=(",", ":"), ensure_ascii=False).encode())


def pieces_of(data, cuts):
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


@given(
    st.lists(RECORD, max_size=6),
    st.lists(st.integers(0, 5000), max_size=5),
    st.sampled_from(["", "\n", " \r\n\t"]),
)
def test_pieces_make_no_difference(topic_of, records, cuts, space):
    texts = [
        json.dumps(
            each, ensure_ascii=False, separators=(f"{space},", f": {space}") if number % 2 else (",", ":")
        )
        for number, each in enumerate(records)
    ]
    found, lines = answers_of(topic_of, pieces_of(space.join(texts).encode(), cuts))
    assert [each["error_code"] for each in found] == [200] * len(records)
    assert [each["value"]["size"] for each in found] == [size_of(each["value"]) for each in records]
    assert [each.get("key", {}).get("size") for each in found] == [
        size_of(each["key"]) if "key" in each else None for each in records
    ]
    assert (lines.sent, lines.refused, lines.broken) == (len(records), 0, False)


MUTATIONS = st.lists(st.tuples(st.integers(0, 500), st.binary(max_size=3), st.integers(0, 4)), max_size=4)
SAMPLE = (
    b'{"partition_id":0,"headers":[{"name":"a","value":"aGk="}],"key":{"type":"BINARY","data":"AP8="},'
    b'"value":{"type":"JSON","data":{"a":[1,2.5e3,"x\\u00e9\\ud83d\\ude00"]}},"timestamp":"2021-02-05T19:14:42Z"}'
)


@settings(max_examples=300)
@given(MUTATIONS, st.lists(st.integers(0, 500), max_size=3))
@example([(10, b"\\", 1)], [11])
@example([(0, b'"', 0)], [])
def test_mutated_records_are_refused_or_taken_but_never_more(topic_of, mutations, cuts):
    data = SAMPLE
    for place, put, cut in mutations:
        data = data[:place] + put + data[place + cut :]
    found, _ = answers_of(topic_of, pieces_of(data + b"{}", cuts))
    for each in found:
        assert each["error_code"] == 200 or each["message"]
    whole, _ = answers_of(topic_of, [data + b"{}"])
    assert [each["error_code"] for each in found] == [each["error_code"] for each in whole]


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=3))
def test_any_bytes(topic_of, data, cuts):
    found, _ = answers_of(topic_of, pieces_of(data, cuts))
    assert {each["error_code"] for each in found} <= {200, 400}


def test_what_is_too_large_is_not_kept(topic_of):
    producer, topic = topic_of
    lines = ProduceLines(producer, topic, b"", explain, lambda: None, refuse_schema, 1000)
    lines.feed(b'{"value":{"type":"STRING","data":"' + b"a" * 2000)
    assert lines.take(1) == 0
    assert lines.broken
    lines.feed(b"a" * 2000)
    assert json.loads(lines.answers(1 << 20))["error_code"] == 413
    assert lines.waiting == 0


def test_a_refusal_answers_every_record(topic_of):
    producer, topic = topic_of
    lines = ProduceLines(producer, topic, b"", explain, lambda: None, refuse_schema, 1000)
    lines.feed(b"{}{}{}")
    assert lines.take(10, (40403, 'no "topic"')) == 3
    found = [json.loads(line) for line in lines.answers(1 << 20).splitlines()]
    assert found == [{"error_code": 40403, "message": 'no "topic"'}] * 3


def test_answers_come_in_parts_and_can_be_given_up(topic_of):
    producer, topic = topic_of
    lines = ProduceLines(producer, topic, b"", explain, lambda: None, refuse_schema, 1000)
    lines.feed(b"{}" * 300)
    assert lines.take(1000) == 300
    producer.flush()
    parts = []
    while part := lines.answers(500):
        parts.append(part)
    assert len(parts) > 10
    assert [json.loads(line)["error_code"] for line in b"".join(parts).splitlines()] == [200] * 300
    lines.feed(b"{}" * 10)
    lines.take(100)
    lines.give_up()
    assert (lines.waiting, lines.answers(1 << 20)) == (0, b"")
    producer.flush()
