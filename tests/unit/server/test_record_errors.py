"""The records that a refused batch's answer names (KIP-467), and how much of an answer they may become."""

import re
import time
import uuid

import pytest

from bowstring._native.record.encode import encode_batch
from bowstring.protocol.messages import produce as p
from tests.support.memory import resident_bytes, resident_slack
from tests.support.plane_requests import produce
from tests.support.reference_batch import crc32c
from tests.support.waiting import FOR_EVER_MS, wait_until

INVALID_TIMESTAMP, INVALID_RECORD = 32, 87
NAMED_MAX, TOLD_MAX = 65_536, 2000
NOW_MS = int(time.time() * 1000)
COMPACTED_ID = uuid.uuid5(uuid.NAMESPACE_DNS, "compacted").bytes


def keyless(count, every=1, codec=0, timestamp=NOW_MS):
    """A batch in which every n-th record has no key."""
    return encode_batch(
        [(None if i % every == 0 else b"k", b"", timestamp, None) for i in range(count)], codec
    )


@pytest.fixture
def compacted(served):
    served.add_topic("compacted", COMPACTED_ID, 4, compacted=True, max_message_bytes=64 << 20)
    return "compacted"


def ask(client, data, version=9, topic="compacted"):
    return client.call(produce(data, version, topic=topic), version).responses[0].partition_responses[0]


def named(part):
    return [each.batch_index for each in part.record_errors]


def test_each_refused_record_is_named(compacted, client):
    part = ask(client, keyless(30, every=10))
    assert (part.error_code, named(part)) == (INVALID_RECORD, [0, 10, 20])
    assert {each.batch_index_error_message for each in part.record_errors} == {
        "The record has no key, which a compacted topic requires."
    }
    assert re.fullmatch(
        r"3 records were refused; the first ones: \[0\] .* \[10\] .* \[20\] .*", part.error_message
    )
    assert ask(client, keyless(30, every=10), version=7).error_code == INVALID_RECORD
    one = ask(client, keyless(1))
    assert (named(one), one.error_message[:26]) == ([0], "1 record was refused; the ")


def test_timestamps_are_told_with_what_would_do(served, client):
    served.add_topic(
        "narrow", uuid.uuid4().bytes, 1, timestamp_before_max_ms=1000, timestamp_after_max_ms=2000
    )
    asked_ms = time.time_ns() // 1_000_000
    part = ask(client, keyless(2, timestamp=5000), topic="narrow")
    assert (part.error_code, named(part)) == (INVALID_TIMESTAMP, [0, 1])
    for index, each in enumerate(part.record_errors):
        timestamp, offset, earliest, latest = map(
            int, re.findall(r"(?<!\.)\b\d+\b", each.batch_index_error_message)
        )
        assert (timestamp, offset, latest - earliest) == (5000, index, 3000)
        assert asked_ms <= earliest + 1000 <= time.time_ns() // 1_000_000


def test_a_million_refused_records_are_counted_and_the_first_named(compacted, client):
    """As many answers as there are records would be a hundred megabytes."""
    part = ask(client, keyless(1_000_000))
    assert part.error_code == INVALID_RECORD
    assert named(part) == list(range(NAMED_MAX))
    told = [each.batch_index_error_message for each in part.record_errors]
    assert all(told[:TOLD_MAX])
    assert not any(told[TOLD_MAX:])
    assert part.error_message.startswith("1000000 records were refused")


def test_one_request_names_no_more_than_one_batch_may(compacted, client):
    """And each of its batches at least one: an answer without any says that all records are bad."""
    data = [
        p.PartitionProduceData(index=index, records=keyless(count))
        for index, count in enumerate((40_000, 40_000, 10, 0))
        if count
    ]
    request = p.ProduceRequest(
        acks=1, timeout_ms=FOR_EVER_MS, topic_data=[p.TopicProduceData(name="compacted", partition_data=data)]
    )
    parts = client.call(request, 9).responses[0].partition_responses
    assert [len(part.record_errors) for part in parts] == [40_000, NAMED_MAX - 40_000, 1]
    assert [part.error_message.split()[0] for part in parts] == ["40000", "40000", "10"]


def test_lists_of_refused_records_are_given_back(compacted, client):
    """A connection is not read from while it holds too much: what its answers held no longer counts."""
    data = keyless(70_000)
    for version in (9, 7, 13):
        for _ in range(6):
            client.call(produce(data, version, topic="compacted", topic_id=COMPACTED_ID), version)
    for _ in range(20):
        client.send(produce(data, 9, topic="compacted"), 9)
    for _ in range(20):
        assert len(client.receive(0, 9).responses[0].partition_responses[0].record_errors) == NAMED_MAX


def test_refusing_leaks_nothing(compacted, client):
    data = keyless(70_000)
    for _ in range(20):
        ask(client, data, version=7)
    before = resident_bytes()
    for _ in range(100):  # a list of a megabyte each
        ask(client, data, version=7)
    assert resident_bytes() - before < (20 << 20) + resident_slack()


def test_acks_zero_ends_the_connection_that_sent_refused_records(compacted, client):
    client.send(produce(keyless(100), 9, topic="compacted", acks=0), 9)
    assert client.closed()


def test_malformed_records_name_none(compacted, client):
    data = bytearray(keyless(10))
    data[57:61] = (11).to_bytes(4, "big")  # the count
    data[23:27] = (10).to_bytes(4, "big")
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    part = ask(client, bytes(data))
    assert (part.error_code, part.record_errors) == (INVALID_RECORD, [])
    assert "malformed" in part.error_message


def test_a_connection_that_goes_takes_its_lists_along(compacted, served):
    for _ in range(10):
        client = served.client()
        client.send(produce(keyless(70_000), 9, topic="compacted"), 9)
        client.close()
    wait_until(lambda: served.plane.counters()["connections"] == 0, "they are gone")
