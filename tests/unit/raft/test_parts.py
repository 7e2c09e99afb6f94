"""The accumulator, the voters, the history of the log, and the requests on their way."""

import random

import pytest

from bowstring._native.record.decode import batch_headers, decode_batches
from bowstring.engine.raft.accumulator import MAX_BATCH_BYTES, BatchAccumulator
from bowstring.engine.raft.config import QuorumConfig
from bowstring.engine.raft.control_state import LogHistory
from bowstring.engine.raft.keys import OffsetAndEpoch, ReplicaKey
from bowstring.engine.raft.request_manager import RequestManager
from bowstring.engine.raft.states import EpochElection
from bowstring.engine.raft.voters import Node, VoterSet
from tests.support.raft_harness import key, voter, voters


def test_records_linger_and_control_records_do_not():
    accumulator = BatchAccumulator(4, 10, 25)
    assert accumulator.append([(None, b"a"), (None, b"b")], 100) == 11
    assert accumulator.append([(None, b"c")], 110) == 12
    assert accumulator.drain_at_ms == 125
    assert accumulator.append_control([(b"\0\0\0\2", b"x")], 111) == 13
    assert accumulator.drain_at_ms == 111
    headers = [batch_headers(each)[0] for each in accumulator.drain()]
    assert [(each.base_offset, each.last_offset, each.control) for each in headers] == [
        (10, 12, False),
        (13, 13, True),
    ]
    assert {each.leader_epoch for each in headers} == {4}
    assert accumulator.drain() == [] and accumulator.drain_at_ms is None


def test_a_batch_is_never_too_large():
    accumulator = BatchAccumulator(1, 0, 0)
    large = b"x" * (MAX_BATCH_BYTES // 2)
    accumulator.append([(None, large)], 0)
    accumulator.append([(None, large)], 0)
    assert [len(decode_batches(each)) for each in accumulator.drain()] == [1, 1]
    with pytest.raises(ValueError, match="too much"):
        accumulator.append([(None, b"x" * MAX_BATCH_BYTES)], 0)


def test_a_voter_set():
    some = voters(1, 2)
    assert some.with_voter(voter(2, port=1)) is None
    assert some.with_voter(voter(3)) == voters(1, 2, 3)
    assert some.without_voter(ReplicaKey(1, bytes(16))) is None
    assert some.without_voter(key(1)) == voters(2)
    assert voters(2).without_voter(key(2)) is None
    assert some.needs_update(voter(1, port=1)) and not some.needs_update(voter(1))
    assert VoterSet.from_record(some.to_record()) == some
    assert some.overlaps(voters(1, 3)) and not some.overlaps(voters(3, 4))


def test_a_key_without_a_directory_means_all_of_its_node():
    assert key(1).is_meant_by(ReplicaKey(1))
    assert not ReplicaKey(1).is_meant_by(key(1))


def test_the_epoch_counts_before_the_offset():
    assert OffsetAndEpoch(1, 2).is_up_to_date_with(OffsetAndEpoch(9, 1))
    assert not OffsetAndEpoch(9, 1).is_up_to_date_with(OffsetAndEpoch(1, 2))


@pytest.mark.parametrize(("ids", "majority"), [((0,), 1), ((0, 1), 2), ((0, 1, 2), 2), ((0, 1, 2, 3), 3)])
def test_a_majority(ids, majority):
    votes = EpochElection(voters(*ids), key(0))
    assert votes.majority == majority
    for id in ids[1:majority]:
        assert not votes.is_granted
        votes.record(id, granted=True)
    assert votes.is_granted
    votes.record(ids[-1], granted=False)
    votes.record(99, granted=True)
    assert 99 not in votes.granting


def test_history_follows_truncation():
    history = LogHistory[str]()
    for offset, value in ((-1, "a"), (5, "b"), (9, "c")):
        history.add(offset, value)
    assert [history.at(each) for each in (-1, 4, 5, 100)] == ["a", "a", "b", "c"]
    history.truncate_new(9)
    assert history.last() == (5, "b")
    history.truncate_old(7)
    assert history.at(4) is None and history.at(7) == "b"


def test_requests_time_out_and_pause():
    manager = RequestManager([Node(1, "a", 1)], QuorumConfig(), random.Random(1).randrange)
    assert manager.is_ready(1, 0)
    first = manager.sent(1, 0)
    assert not manager.is_ready(1, 1999) and manager.ready_bootstrap_server(10) is None
    assert manager.has_timed_out(1, 2000)
    second = manager.sent(1, 2000)
    assert not manager.is_expected(1, first) and manager.is_expected(1, second)
    manager.answered(1, first, success=True, now_ms=2001)
    assert manager.is_expected(1, second)
    manager.answered(1, second, success=False, now_ms=2001)
    assert manager.is_backing_off(1, 2020) and manager.is_ready(1, 2021)
