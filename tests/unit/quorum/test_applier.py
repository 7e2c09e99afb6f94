"""The image follows large batches in slices: the control thread has heartbeats and votes to answer meanwhile."""

from pathlib import Path

import pytest

from bowstring._native.record.encode import encode_batch
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.quorum import QuorumFacts
from bowstring.engine.metadata.records import encode_record
from bowstring.engine.quorum.applier import ImageApplier
from bowstring.engine.raft.keys import OffsetAndEpoch
from bowstring.protocol.records.cluster_metadata.topics import PartitionRecord, TopicRecord

ID = b"t" * 16
PARTITIONS = 2000
AT_ONCE = 0  # CLOCK_MONOTONIC: every slice is over at its first look


class Log:
    """A log with one batch: a topic and its partitions."""

    path = Path("data/log")

    def __init__(self):
        records = [TopicRecord(name="topic", topic_id=ID)]
        records += (
            PartitionRecord(partition_id=i, topic_id=ID, replicas=[1], isr=[1], leader=1)
            for i in range(PARTITIONS)
        )
        self.end_offset = len(records)
        self.data = encode_batch([(None, encode_record(each), 7, ()) for each in records])

    def read(self, offset, size_bytes):
        return self.data if offset < self.end_offset else b""

    def bytes_from(self, offset):
        return 0


@pytest.fixture
def log():
    return Log()


def test_a_batch_is_applied_as_a_whole_after_many_slices(log):
    applier = ImageApplier(log)
    told = []
    applier.on_applied.append(lambda records, end_offset, epoch: told.append((len(records), end_offset)))
    slices = 0
    while not applier.advance(log.end_offset, AT_ONCE):
        slices += 1
        assert (applier.applied, applier.image.topics, told) == (0, {}, [])
    assert slices >= PARTITIONS / 100
    assert applier.image.partition_count == PARTITIONS
    assert told == [(log.end_offset, log.end_offset)] and applier.new_bytes == len(log.data)


def test_what_is_not_committed_is_not_read_ahead(log):
    applier = ImageApplier(log)
    assert applier.advance(0, AT_ONCE) and applier.applied == 0
    log.data = b""  # it was cut
    assert applier.advance(1, AT_ONCE) and applier.applied == 0


def test_a_snapshot_replaces_a_batch_that_is_half_decoded(log):
    applier = ImageApplier(log)
    assert not applier.advance(log.end_offset, AT_ONCE)
    applier.take(OffsetAndEpoch(log.end_offset, 3), ClusterImage(), QuorumFacts())
    assert applier.advance(log.end_offset, AT_ONCE)
    assert (applier.applied, applier.epoch, applier.image.topics) == (log.end_offset, 3, {})


def test_the_records_ahead_are_read_without_being_applied(log):
    applier = ImageApplier(log)
    (topic,) = applier.records_ahead(log.end_offset, {TopicRecord})
    assert topic.name == "topic"
    assert len(applier.records_ahead(log.end_offset, {PartitionRecord})) == PARTITIONS
    assert (applier.applied, applier.image.topics) == (0, {})
    assert applier.records_ahead(0, {TopicRecord}) == []
