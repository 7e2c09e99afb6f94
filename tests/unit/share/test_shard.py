"""The state of share partitions: epochs, snapshots, failed writes, the log."""

import pytest

from bowstring.engine.coordinators.effects import AppendRecords
from bowstring.engine.share.coordinator.records import SNAPSHOT, UPDATE, read_record
from bowstring.protocol.errors import Errors
from bowstring.protocol.share_batches import StateBatch
from tests.support.share_harness import KEY, TOPIC_ID, ShareHarness

OTHER = KEY._replace(partition=1)


def kinds(harness: ShareHarness) -> list[int]:
    return [int.from_bytes(key[:2], "big") for key, _ in harness.log]


def test_a_shard_that_reads_the_log_has_the_same_state():
    share = ShareHarness(updates=2)
    share.initialize(start_offset=-1)
    share.initialize(key=OTHER)
    for first in range(0, 50, 10):
        share.write((first, first + 9, 2, 1), start_offset=first, count=10)
    share.delete(OTHER)
    other = share.restarted()
    assert other.read() == share.read()
    assert len(other.shard) == 1
    assert other.read().batches == (StateBatch(40, 49, 2, 1),)
    assert other.shard.needed_offset() == share.shard.needed_offset()


def test_every_third_change_is_a_snapshot():
    share = ShareHarness(updates=2)
    share.initialize()
    for first in range(7):
        share.write((first, first, 2, 1))
    assert kinds(share) == [SNAPSHOT, UPDATE, UPDATE, SNAPSHOT, UPDATE, UPDATE, SNAPSHOT, UPDATE]
    assert share.shard.needed_offset() == 6
    assert share.read().snapshot_epoch == 2
    assert ShareHarness(updates=2, log=share.log[6:]).read() == share.read()


def test_without_updates_each_change_is_a_snapshot():
    share = ShareHarness(updates=0)
    share.initialize()
    share.write((0, 0, 2, 1))
    assert kinds(share) == [SNAPSHOT, SNAPSHOT]


def test_a_newer_leader_fences_older_ones():
    share = ShareHarness()
    share.initialize()
    assert share.write((0, 0, 2, 1), leader_epoch=1) is Errors.NONE
    assert share.read(leader_epoch=3).leader_epoch == 0, "as it was before"
    assert share.read(leader_epoch=3).leader_epoch == 3
    for other in (share, share.restarted()):
        assert other.write((1, 1, 2, 1), leader_epoch=2) is Errors.FENCED_LEADER_EPOCH
        assert other.read_error(2) is Errors.FENCED_LEADER_EPOCH
    assert len(share.log) == 3


def test_a_newer_state_fences_older_writes():
    share = ShareHarness()
    share.initialize(state_epoch=4)
    assert share.write((0, 0, 2, 1), state_epoch=3) is Errors.FENCED_STATE_EPOCH
    assert share.initialize(state_epoch=3) is Errors.FENCED_STATE_EPOCH
    assert share.write((0, 0, 2, 1), state_epoch=4) is Errors.NONE
    assert share.initialize(state_epoch=5, start_offset=9) is Errors.NONE
    assert (share.read().start_offset, share.read().batches) == (9, ())


def test_a_late_initialization_takes_nothing_back():
    """A group coordinator repeats a request without an answer."""
    share = ShareHarness()
    share.initialize(state_epoch=4, start_offset=-1)
    share.write((7, 9, 2, 1), state_epoch=4, start_offset=7, count=3)
    records = len(share.log)
    assert share.initialize(state_epoch=4, start_offset=-1) is Errors.NONE
    assert len(share.log) == records
    assert share.initialize(state_epoch=6, start_offset=-1) is Errors.NONE
    assert share.write((10, 10, 2, 1), state_epoch=4) is Errors.FENCED_STATE_EPOCH
    for each in (share, share.restarted()):
        state = each.read()
        assert (state.state_epoch, state.start_offset) == (6, 7)
        assert [tuple(batch) for batch in state.batches] == [(7, 9, 2, 1)]
        assert state.delivery_complete_count == 3


@pytest.mark.parametrize("updates", [0, 500])
def test_a_late_write_takes_nothing_back(updates):
    """A leader repeats a write without an answer, and the first request arrives after later writes."""
    share = ShareHarness(updates)
    share.initialize()
    for _ in range(2):
        share.write((0, 4, 2, 1), (9, 9, 2, 1), start_offset=0, count=6)
        share.write((5, 5, 0, 1), start_offset=5, count=1)
    for each in (share, share.restarted()):
        state = each.read()
        assert (state.start_offset, state.delivery_complete_count) == (5, 1)
        assert [tuple(batch) for batch in state.batches] == [(5, 5, 0, 1), (9, 9, 2, 1)]
    share.write((0, 4, 2, 1), start_offset=0, count=6)
    assert share.read().delivery_complete_count == 1


@pytest.mark.parametrize("updates", [0, 500])
def test_a_write_without_a_start_offset_leaves_the_count(updates):
    share = ShareHarness(updates)
    share.initialize()
    share.write((0, 9, 2, 1), start_offset=0, count=10)
    share.write((10, 10, 2, 1), start_offset=-1, count=0)
    for each in (share, share.restarted()):
        assert (each.read().start_offset, each.read().delivery_complete_count) == (0, 10)
    share.write((11, 11, 2, 1), start_offset=0, count=3)
    assert share.read().delivery_complete_count == 10, "the larger one at the same start offset"
    share.write(start_offset=11, count=1)
    assert (share.read().start_offset, share.read().delivery_complete_count) == (11, 1)


def test_requests_name_their_epochs():
    """Kafka 4.4 has no "any epoch" in Initialize-, Read- and WriteShareGroupState."""
    share = ShareHarness()
    assert share.initialize(state_epoch=-1) is Errors.INVALID_REQUEST
    assert share.read_error(-1) is Errors.INVALID_REQUEST
    share.initialize()
    assert share.read_error(-1) is Errors.INVALID_REQUEST
    assert share.write((0, 0, 2, 1), leader_epoch=-1) is Errors.INVALID_REQUEST
    assert share.write((0, 0, 2, 1), state_epoch=-1) is Errors.INVALID_REQUEST
    assert len(share.log) == 1


def test_what_is_not_written_changes_nothing():
    share = ShareHarness()
    share.initialize()
    share.refusal = Errors.NOT_ENOUGH_REPLICAS
    assert share.write((0, 9, 2, 1)) is Errors.COORDINATOR_NOT_AVAILABLE
    assert share.delete() is Errors.COORDINATOR_NOT_AVAILABLE
    share.refusal = Errors.NONE
    assert share.read().batches == ()


def test_unload_answers_what_waits():
    share = ShareHarness()
    share.initialize()
    (append,) = share.shard.delete(KEY, "token")
    assert isinstance(append, AppendRecords)
    (answer,) = share.shard.unload(0)
    assert (answer.token, answer.body.error) == ("token", Errors.NOT_COORDINATOR)


def test_deleted_topics_leave_tombstones():
    share = ShareHarness()
    share.initialize()
    share.initialize(key=OTHER)
    del share.topics[TOPIC_ID]
    share.carry(share.shard.topics_deleted({TOPIC_ID}))
    assert len(share.shard) == 0
    assert [value for _, value in share.log[2:]] == [None, None]
    assert share.shard.needed_offset() == 3
    assert share.shard.topics_deleted({TOPIC_ID}) == []


def test_share_partitions_at_rest_hold_up_no_pruning():
    share = ShareHarness(updates=0)
    share.initialize()
    share.initialize(key=OTHER)
    share.now_ms += 5000
    share.write((0, 0, 2, 1))
    assert share.shard.needed_offset() == 1, "the partition at rest"
    share.carry(share.shard.snapshot_cold(share.now_ms))
    assert share.shard.needed_offset() == 2
    assert share.read(key=OTHER).snapshot_epoch == 1
    share.now_ms += 5000
    share.carry(share.shard.snapshot_cold(share.now_ms))
    share.now_ms += 5000
    assert share.shard.snapshot_cold(share.now_ms) == [], "all are at rest"


def test_records_that_nobody_understands_are_skipped():
    share = ShareHarness()
    share.initialize()
    log = [*share.log, (b"\0\7abc", b""), (b"\0\0", b"x"), (None, b"x"), (share.log[0][0], b"\0\0")]
    other = ShareHarness(log=log)
    assert other.read() == share.read()
    assert read_record(b"\0\7abc", b"") is None
