"""ListOffsets, DeleteRecords, OffsetForLeaderEpoch, DescribeProducers, InitProducerId over the wire."""

import time

import pytest

from bowstring._native.record.encode import encode_batch
from bowstring.engine.requests.led_logs import LedLogs
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import delete_records as dr
from bowstring.protocol.messages import describe_producers as dp
from bowstring.protocol.messages import init_producer_id as ip
from bowstring.protocol.messages import list_offsets as lo
from bowstring.protocol.messages import offset_for_leader_epoch as ole
from tests.support.waiting import FOR_EVER_MS

NOW = time.time_ns() // 1_000_000
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = range(-1, -7, -1)


def batch(*timestamps, **fields):
    return encode_batch([(None, b"v", NOW + timestamp, []) for timestamp in timestamps], **fields)


def list_offset(served, timestamp, version=11, *, topic="t", partition=0, epoch=-1, **fields):
    wanted = lo.ListOffsetsPartition(
        partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch
    )
    request = lo.ListOffsetsRequest(
        replica_id=-1, topics=[lo.ListOffsetsTopic(name=topic, partitions=[wanted])], **fields
    )
    return served.ask(request, version).topics[0].partitions[0]


@pytest.fixture
def topic(served):
    """Offsets 0 to 5 with timestamps 0, 10, 50 | 20, 20, 30 after NOW."""
    served.create_topic("t")
    assert served.produce("t", batch(0, 10, 50)).base_offset == 0
    assert served.produce("t", batch(20, 20, 30)).base_offset == 3
    return served


@pytest.mark.parametrize("version", range(1, 12))
def test_special_places_in_every_version(topic, version):
    lowest = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, PENDING_UPLOAD: 11}
    expected = {
        LATEST: (6, -1),
        EARLIEST: (0, -1),
        MAX_TIMESTAMP: (2, NOW + 50),
        EARLIEST_LOCAL: (0, -1),
        LATEST_TIERED: (-1, -1),
        PENDING_UPLOAD: (-1, -1),
    }
    for place, (offset, timestamp) in expected.items():
        found = list_offset(topic, place, version)
        if version < lowest.get(place, 1):
            assert Errors.of(found.error_code) is Errors.UNSUPPORTED_VERSION
        else:
            assert (found.error_code, found.offset, found.timestamp) == (0, offset, timestamp)
            known = version >= 4 and offset >= 0
            assert found.leader_epoch == (0 if known else -1)


@pytest.mark.parametrize(
    "after, offset, timestamp", [(-5, 0, 0), (0, 0, 0), (1, 1, 10), (11, 2, 50), (50, 2, 50), (51, -1, None)]
)
def test_the_first_record_not_before_a_time(topic, after, offset, timestamp):
    found = list_offset(topic, NOW + after)
    assert (found.error_code, found.offset) == (0, offset)
    assert found.timestamp == (-1 if timestamp is None else NOW + timestamp)


def test_a_timestamp_in_an_empty_log_finds_nothing(served):
    served.create_topic("t")
    assert list_offset(served, 0).offset == -1
    assert list_offset(served, MAX_TIMESTAMP).offset == -1
    assert (list_offset(served, LATEST).offset, list_offset(served, EARLIEST).offset) == (0, 0)


def test_the_latest_of_records_without_timestamps_is_the_first(served):
    served.create_topic("t")
    for _ in range(2):
        served.produce("t", batch(-1 - NOW, -1 - NOW, -1 - NOW))
    for start in (0, 2, 3):
        delete_records(served, start)
        found = list_offset(served, MAX_TIMESTAMP)
        assert (found.error_code, found.offset, found.timestamp, found.leader_epoch) == (0, start, -1, 0)
    delete_records(served, 6)
    assert list_offset(served, MAX_TIMESTAMP).offset == -1


def test_read_committed_sees_the_last_stable_offset(topic):
    assert list_offset(topic, LATEST, isolation_level=1).offset == 6


@pytest.mark.parametrize("version", [1, 4, 5, 11])
def test_a_new_leader_does_not_tell_the_end_before_it_knows_it(topic, version):
    log, partitions = topic.engine.logs.get("t", 0), topic.engine.metadata.image.topics["t"].partitions
    partitions[0] = partitions[0]._replace(leader_epoch=1)
    topic.engine.plane.update_partition("t", 0, leader_epoch=1)
    log.append(batch(70), 0, NOW)  # from the previous leader: committed, as far as clients can see
    unknown = Errors.OFFSET_NOT_AVAILABLE if version >= 5 else Errors.LEADER_NOT_AVAILABLE
    expected = {
        LATEST: unknown,
        NOW + 60: unknown,
        EARLIEST: Errors.NONE,
        NOW: Errors.NONE,
        NOW + 80: Errors.NONE,
    }
    for place, error in expected.items():
        assert Errors.of(list_offset(topic, place, version).error_code) is error
    log.advance_high_watermark(7)
    assert [list_offset(topic, place, version).offset for place in expected] == [7, 6, 0, 0, -1]


def test_wrong_partitions_and_epochs(topic):
    for fields, error in (
        ({"topic": "none"}, Errors.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": 1}, Errors.UNKNOWN_TOPIC_OR_PARTITION),
        ({"epoch": 1}, Errors.UNKNOWN_LEADER_EPOCH),
    ):
        assert Errors.of(list_offset(topic, LATEST, **fields).error_code) is error
    wanted = lo.ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    twice = lo.ListOffsetsRequest(
        replica_id=-1, topics=[lo.ListOffsetsTopic(name="t", partitions=[wanted, wanted])]
    )
    codes = {each.error_code for each in topic.ask(twice).topics[0].partitions}
    assert codes == {Errors.INVALID_REQUEST.code}


# ---------------------------------------------------------------- DeleteRecords


def delete_records(served, offset, topic="t", partition=0, version=2):
    wanted = dr.DeleteRecordsPartition(partition_index=partition, offset=offset)
    topics = [dr.DeleteRecordsTopic(name=topic, partitions=[wanted])]
    request = dr.DeleteRecordsRequest(topics=topics, timeout_ms=FOR_EVER_MS)
    result = served.ask(request, version).topics[0].partitions[0]
    return Errors.of(result.error_code), result.low_watermark


def test_records_are_deleted_up_to_an_offset(topic):
    assert delete_records(topic, 4) == (Errors.NONE, 4)
    assert list_offset(topic, EARLIEST).offset == 4
    assert delete_records(topic, 2) == (Errors.NONE, 4)
    assert delete_records(topic, 7) == (Errors.OFFSET_OUT_OF_RANGE, -1)
    topic.restart()
    assert list_offset(topic, EARLIEST).offset == 4
    assert delete_records(topic, -1) == (Errors.NONE, 6)
    assert (list_offset(topic, EARLIEST).offset, list_offset(topic, LATEST).offset) == (6, 6)


def test_records_that_may_not_be_deleted(served):
    served.create_topic("compacted", cleanup_policy="compact")
    served.create_topic("both", cleanup_policy="compact,delete")
    assert delete_records(served, 0, "compacted") == (Errors.POLICY_VIOLATION, -1)
    assert delete_records(served, 0, "both") == (Errors.NONE, 0)
    assert delete_records(served, 0, "none") == (Errors.UNKNOWN_TOPIC_OR_PARTITION, -1)


class Followers:
    """Replication of a partition whose followers still have the records when another broker leads it."""

    def __init__(self):
        self.led = True

    def leads(self, topic_id, partition):
        return self.led

    def low_watermark(self, topic, partition):
        if not self.led:
            return 4  # a follower has no followers: this is its own log start offset
        self.led = False
        return 0

    def take_events(self):
        pass


def test_leadership_that_is_lost_while_followers_still_have_the_records(topic, monkeypatch):
    engine = topic.engine
    # The handler gets its parts with the first request.
    followers = Followers()
    led_logs = LedLogs(engine.metadata, engine.logs, engine.node_id, followers)
    monkeypatch.setattr(engine, "replication", followers)
    monkeypatch.setattr(engine, "led_logs", led_logs)
    assert delete_records(topic, 4) == (Errors.NOT_LEADER_OR_FOLLOWER, -1)


# ---------------------------------------------------------------- OffsetForLeaderEpoch


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_end_of_a_leader_epoch(topic, version):
    def end(epoch, current=-1):
        wanted = ole.OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
        request = ole.OffsetForLeaderEpochRequest(
            topics=[ole.OffsetForLeaderTopic(topic="t", partitions=[wanted])]
        )
        found = topic.ask(request, version).topics[0].partitions[0]
        return Errors.of(found.error_code), found.leader_epoch, found.end_offset

    assert end(0) == (Errors.NONE, 0, 6)
    assert end(0, current=0) == (Errors.NONE, 0, 6)
    assert end(5) == (Errors.NONE, -1, -1)
    assert end(0, current=3) == (Errors.UNKNOWN_LEADER_EPOCH, -1, -1)


# ---------------------------------------------------------------- producers


def init_producer(served, version=5, **fields):
    return served.ask(ip.InitProducerIdRequest(**{"transactional_id": None, **fields}), version)


def test_producer_ids_are_never_given_twice(served):
    seen = set()
    for _ in range(3):
        for version in range(6):
            response = init_producer(served, version)
            assert (response.error_code, response.producer_epoch) == (0, 0)
            assert response.producer_id not in seen
            seen.add(response.producer_id)
        served.restart()
    assert min(seen) == 0


def test_a_producer_that_has_an_id_gets_another(served):
    first = init_producer(served).producer_id
    assert init_producer(served, producer_id=first, producer_epoch=0).producer_id != first
    half = init_producer(served, producer_id=first)
    assert Errors.of(half.error_code) is Errors.INVALID_REQUEST


def test_producers_are_described(served):
    served.create_topic("t")
    producer_id = init_producer(served).producer_id
    served.produce("t", batch(0, 1, 2, producer_id=producer_id, producer_epoch=0, base_sequence=0))

    def described(topic, partition=0):
        request = dp.DescribeProducersRequest(
            topics=[dp.TopicRequest(name=topic, partition_indexes=[partition])]
        )
        return served.ask(request).topics[0].partitions[0]

    (producer,) = described("t").active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (producer_id, 0, 2)
    assert (producer.last_timestamp, producer.current_txn_start_offset) == (NOW + 2, -1)
    assert Errors.of(described("none").error_code) is Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert Errors.of(described("bad name").error_code) is Errors.INVALID_TOPIC_EXCEPTION
    assert Errors.of(described("t", 1).error_code) is Errors.UNKNOWN_TOPIC_OR_PARTITION
