"""Search in topics: order, filters, limits, and going on where it stopped."""

import json
from dataclasses import replace

import pytest

from bowstring.clients.errors import ConfigError, UnknownTopicError
from bowstring.clients.producer.producer import Producer
from bowstring.search.expression import Expression
from bowstring.search.record_filter import RecordFilter
from bowstring.search.record_search import SearchLimits, SearchRequest, read_one, search
from tests.support.waiting import HANG_S

COUNT = 3_000
PATIENT = SearchLimits(seconds=HANG_S)


@pytest.fixture(scope="module")
def topic(bootstrap, admin):
    name = "searched"
    admin.create_topic(name, 3, configs={"retention.ms": "-1"})
    with Producer(bootstrap, acks="all") as producer:
        for number in range(COUNT):
            value = json.dumps({"id": number, "user": {"name": f"Bob {number}"}}).encode()
            headers = [("color", b"Red" if number % 2 else b"blue")]
            producer.send(
                name,
                value,
                key=b"k%d" % number,
                headers=headers,
                partition=number % 3,
                timestamp=1000 + number,
            )
    yield name
    admin.delete_topics([name])


def ids(result):
    return [json.loads(each.record.value)["id"] for each in result.found]


def find(bootstrap, topic, limits=None, **request):
    wanted = RecordFilter(**request.pop("wanted", {}))
    return search(
        {"bootstrap_servers": bootstrap},
        SearchRequest(topic, wanted=wanted, **request),
        limits=limits or PATIENT,
    )


def test_newest_and_oldest(bootstrap, topic):
    newest = find(bootstrap, topic, count=9)
    assert ids(newest) == [*range(COUNT - 1, COUNT - 10, -1)]
    assert newest.stopped_by == "count" and newest.looked_at == 9 and newest.total == COUNT
    assert ids(find(bootstrap, topic, count=9, cursor=newest.cursor)) == [*range(COUNT - 10, COUNT - 19, -1)]
    oldest = find(bootstrap, topic, count=9, newest_first=False)
    assert ids(oldest) == [*range(9)]
    after = find(bootstrap, topic, count=9, newest_first=False, cursor=oldest.cursor)
    assert ids(after) == [*range(9, 18)] and after.looked_at == 18


@pytest.mark.parametrize("newest_first", [True, False])
def test_every_record_once(bootstrap, topic, newest_first):
    found, cursor, searches = [], None, 0
    while searches == 0 or cursor is not None:
        result = find(
            bootstrap, topic, replace(PATIENT, records=700), count=11, cursor=cursor, newest_first=newest_first,
            wanted={"expression": Expression("value.id % 50 == 7")},
        )  # fmt: skip
        found += ids(result)
        cursor, searches = result.cursor, searches + 1
    assert sorted(found) == [*range(7, COUNT, 50)]
    assert searches > 3 and result.looked_at == result.total == COUNT and result.stopped_by == ""


def test_filters(bootstrap, topic):
    assert ids(find(bootstrap, topic, wanted={"text": 'bob 17"}'})) == [17]
    assert ids(find(bootstrap, topic, wanted={"text": "K2999"})) == [2999]
    assert ids(find(bootstrap, topic, wanted={"key": b"k5"})) == [5]
    assert ids(find(bootstrap, topic, count=1, wanted={"header": "color", "header_value": "red"})) == [2999]
    assert ids(find(bootstrap, topic, count=1, wanted={"header_value": "BLUE"})) == [2998]
    assert ids(find(bootstrap, topic, wanted={"header": "Color"})) == []
    assert ids(find(bootstrap, topic, count=2, partitions=(1,))) == [2998, 2995]
    both = {
        "text": "bob",
        "expression": Expression('headers["color"] == "Red" and key == "k77" and partition == 2'),
    }
    assert ids(find(bootstrap, topic, wanted=both)) == [77]


def test_places_and_times(bootstrap, topic):
    assert ids(find(bootstrap, topic, newest_first=False, start="offset", at=4, count=3)) == [12, 13, 14]
    assert ids(find(bootstrap, topic, start="offset", at=4, count=3)) == [14, 13, 12]
    assert ids(find(bootstrap, topic, newest_first=False, start="time", at=1500, count=2)) == [500, 501]
    before = find(bootstrap, topic, start="time", at=1500, count=2)
    assert ids(before) == [499, 498] and before.total == 500
    assert ids(find(bootstrap, topic, newest_first=False, start="time", at=10**10)) == []
    assert len(ids(find(bootstrap, topic, start="time", at=10**10))) == 50


def test_refusals(bootstrap, topic):
    with pytest.raises(ConfigError, match="partitions 0 to 2, not 7"):
        find(bootstrap, topic, partitions=(7,))
    with pytest.raises(UnknownTopicError, match="no-such-topic"):
        find(bootstrap, "no-such-topic")


@pytest.mark.parametrize("newest_first", [True, False])
def test_large_values_are_cut_and_counted(bootstrap, new_topic, newest_first):
    topic = new_topic(partitions=2, max_message_bytes=12 << 20)
    large = b'{"id": 1, "pad": "' + b"x" * (10 << 20) + b'"}'
    with Producer(bootstrap, max_request_size=12 << 20) as producer:
        for number in range(4):
            producer.send(topic, large, partition=number % 2, timestamp=number)
        producer.send(topic, b'{"id": 2}', partition=0, timestamp=9)
    result = find(bootstrap, topic, newest_first=newest_first)
    assert [len(each.record.value) for each in result.found].count(64 << 10) == 4
    assert [each.value_size for each in result.found].count(len(large)) == 4
    typed = {"expression": Expression("value.id > 0")}
    assert find(bootstrap, topic, newest_first=newest_first, wanted=typed).undecoded == 4
    # Each search reads at least one record, whatever its limits are.
    offsets, cursor = [], None
    for _ in range(5):
        result = find(bootstrap, topic, replace(PATIENT, bytes=1), newest_first=newest_first, cursor=cursor)
        offsets += [(each.record.partition, each.record.offset) for each in result.found]
        cursor = result.cursor
        if cursor is None:
            break
    assert sorted(offsets) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    settings = {"bootstrap_servers": bootstrap}
    assert read_one(settings, topic, 0, 0).value == large
    assert read_one(settings, topic, 0, 3) is None and read_one(settings, topic, 5, 0) is None
