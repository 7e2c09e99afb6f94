"""Replication: a leader's answers to fetches, its high watermark, and what followers do with answers."""

import pytest

from bowstring.engine.raft.keys import OffsetAndEpoch
from bowstring.engine.raft.leader import LeaderState
from bowstring.engine.raft.messages import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    LeaderAndEpoch,
)
from bowstring.engine.raft.states import Follower, Resigned
from bowstring.engine.raft.voters import VoterSet
from bowstring.protocol.errors import Errors, KafkaError
from tests.support.raft_harness import Harness, batch, key, log_of, stored, voter


def fetch(replica, offset, epoch, leader_epoch=1, high_watermark=-1, wait=0):
    end = OffsetAndEpoch(offset, epoch)
    return FetchRequest("c", key(replica), leader_epoch, end, high_watermark, wait, 1 << 20)


def says(id=1, epoch=1):
    return LeaderAndEpoch(id, epoch, voter(id).endpoints)


def follower(**arguments):
    node = Harness(**arguments)
    epoch = max(1, node.state.epoch)
    node.ask(BeginQuorumEpochRequest("c", key(0), says(1, epoch)))
    assert isinstance(node.state, Follower)
    node.sent = node.sent[-1:]
    return node, epoch


def test_the_high_watermark_is_what_a_majority_has():
    node = Harness(ids=(0, 1, 2, 3, 4)).lead()
    end = node.disk.end_offset
    node.ask(fetch(1, end, 1))
    assert node.state.high_watermark is None
    node.ask(fetch(2, end, 1))
    assert node.state.high_watermark == end
    assert node.high_watermarks == [end]


def test_the_leader_counts_itself_once_it_has_synced():
    node = Harness()
    node.wait(2000)
    node.vote()
    node.vote()
    node.ask(fetch(1, 3, 1))
    assert node.state.high_watermark == 3
    node.auto = False
    node.replica.append(1, [(None, b"x")], node.now)
    node.carry_out(node.replica.poll(node.now))
    node.ask(fetch(1, 4, 1))
    assert node.state.high_watermark == 3
    node.auto = True
    node.carry_out(node.replica.log_flushed(99, node.now))
    assert node.state.high_watermark == 4


def test_records_of_older_epochs_do_not_count_alone():
    node = Harness(disk=log_of(1, 1, 1), dynamic=False, stored=stored(1)).lead()
    assert node.state.epoch == 2 and node.disk.end_offset == 4
    node.ask(fetch(1, 3, 1, leader_epoch=2))
    assert node.state.high_watermark is None
    node.ask(fetch(1, 4, 2, leader_epoch=2))
    assert node.state.high_watermark == 4


def test_observers_do_not_count():
    node = Harness().lead()
    node.ask(fetch(7, 3, 1))
    assert node.state.high_watermark is None


def test_a_fetch_waits_for_records():
    node = Harness().lead()
    assert node.ask(fetch(1, 3, 1, high_watermark=3, wait=500), "waits") is None
    offset, out = node.replica.append(1, [(None, b"x")], node.now)
    node.carry_out(out)
    assert offset == 3
    assert node.answers["waits"].records == node.disk.read(3, 1000)


def test_a_fetch_waits_for_the_high_watermark():
    node = Harness().lead()
    node.ask(fetch(1, 3, 1, wait=500), "first")
    node.ask(fetch(1, 3, 1, high_watermark=3, wait=500), "second")
    assert node.answers["first"].high_watermark == 3
    assert "second" not in node.answers
    node.wait(500)
    assert node.answers["second"].high_watermark == 3


@pytest.mark.parametrize(
    ("offset", "epoch", "diverging"),
    [(2, 1, (1, 1)), (5, 2, (3, 2)), (9, 5, (4, 5)), (1, 1, None), (3, 2, None), (4, 5, None)],
)
def test_a_log_that_differs_is_cut(offset, epoch, diverging):
    node = Harness(disk=log_of(1, 2, 2), dynamic=False, stored=stored(4)).lead()
    assert node.state.epoch == 5
    found = node.ask(fetch(1, offset, epoch, leader_epoch=5)).diverging
    assert found == (None if diverging is None else OffsetAndEpoch(*diverging))


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (fetch(1, 3, 1, leader_epoch=0), Errors.INVALID_REQUEST),
        (fetch(1, 3, 0, leader_epoch=0), Errors.FENCED_LEADER_EPOCH),
        (fetch(1, 3, 1, leader_epoch=2), Errors.UNKNOWN_LEADER_EPOCH),
        (fetch(1, -1, 1), Errors.INVALID_REQUEST),
        (fetch(0, 3, 1), Errors.INVALID_REQUEST),
    ],
)
def test_wrong_fetches(request_, error):
    assert Harness().lead().ask(request_).error is error


def test_a_follower_appends_and_fetches_on_when_it_has_synced():
    node, _ = follower()
    node.auto = False
    node.answer(FetchResponse(says(), records=batch(0, 1, b"a", b"b"), high_watermark=1))
    assert node.disk.end_offset == 2 and not node.sent
    assert node.high_watermarks == [1]
    node.flush()
    assert [each.end for each in node.requests(FetchRequest)] == [OffsetAndEpoch(2, 1)]


def test_a_follower_cuts_its_log_by_epoch():
    node, epoch = follower(disk=log_of(1, 1, 3, 3), dynamic=False, stored=stored(4))
    node.answer(FetchResponse(says(1, epoch), diverging=OffsetAndEpoch(9, 2)))
    assert node.disk.end_offset == 2, "the leader has no epoch 3"
    node.answer(FetchResponse(says(1, epoch), diverging=OffsetAndEpoch(1, 1)))
    assert node.disk.end_offset == 1


def test_what_is_committed_is_never_cut():
    node, epoch = follower(disk=log_of(1, 1), dynamic=False, stored=stored(1))
    node.answer(FetchResponse(says(1, epoch), high_watermark=2))
    with pytest.raises(AssertionError, match="below the high watermark"):
        node.answer(FetchResponse(says(1, epoch), diverging=OffsetAndEpoch(1, 1)))


@pytest.mark.parametrize(
    "records",
    [
        batch(1, 1),
        batch(0, 2),
        batch(0, 1)[:-1] + b"?",
        batch(0, 1) + batch(2, 1),
        batch(0, 1)[:40],
        b"nonsense" * 20,
    ],
    ids=["gap", "later-epoch", "damage", "gap-inside", "cut-off", "nonsense"],
)
def test_records_that_do_not_continue_the_log_are_refused(records):
    node, _ = follower()
    deadline = node.state.fetch_deadline_ms
    node.now += 100
    node.answer(FetchResponse(says(), records=records))
    assert node.disk.end_offset == 0
    assert node.state.fetch_deadline_ms == deadline, "not a fetch that worked"


def test_a_batch_that_the_limit_cut_off_is_left_out():
    node, _ = follower()
    node.answer(FetchResponse(says(), records=batch(0, 1) + batch(1, 1)[:50]))
    assert node.disk.end_offset == 1


def test_a_follower_whose_leader_is_silent_asks_others():
    node, _ = follower()
    sent = node.sent[-1]
    assert sent.destination.id == 1
    node.wait(1999)
    assert isinstance(node.state, Follower)


def test_a_follower_takes_over_where_its_leader_listens_now():
    node, _ = follower()
    moved = LeaderAndEpoch(1, 1, voter(1, port=9009).endpoints)
    node.answer(FetchResponse(moved))
    assert node.sent[-1].destination.port == 9009


def test_a_leader_that_cannot_write_takes_all_back_and_resigns():
    """The records before the one that did not fit are gone as well, and no reader has seen them."""
    node = Harness().lead()
    end, voters = node.disk.end_offset, node.replica.voters
    assert node.ask(fetch(1, end, 1, high_watermark=end, wait=500)) is None
    node.state.append_voters(VoterSet([voter(0), voter(1)]), node.now)
    node.disk.room = 1
    node.carry_out(node.replica.append(1, [(None, b"x")], node.now)[1])
    assert isinstance(node.state, Resigned)
    assert (node.disk.end_offset, node.replica.voters) == (end, voters)
    assert node.answers["token"].error is Errors.NOT_LEADER_OR_FOLLOWER and not node.answers["token"].records
    assert node.requests(EndQuorumEpochRequest)


def test_a_leader_of_one_leads_again_when_it_can_write():
    node = Harness(ids=(0,))
    end = node.disk.end_offset
    node.disk.room = 0
    node.carry_out(node.replica.append(1, [(None, b"x")], node.now)[1])
    node.wait(10_000)
    assert node.state.epoch > 2 and node.disk.end_offset == end
    node.disk.room = None
    node.wait(10_000)
    assert isinstance(node.state, LeaderState)
    node.carry_out(node.replica.append(node.state.epoch, [(None, b"y")], node.now)[1])
    assert node.high_watermarks[-1] == node.disk.end_offset > end


def test_a_follower_that_cannot_write_fetches_again():
    node, epoch = follower()
    records = batch(0, epoch) + batch(1, epoch)
    node.disk.room = 1
    for _ in range(2):
        node.answer(FetchResponse(says(epoch=epoch), high_watermark=2, records=records))
        assert isinstance(node.state, Follower) and node.disk.end_offset == 0
        node.wait(node.config.retry_backoff_ms)
        node.disk.room = 0
    assert len(node.notes) == 1
    node.disk.room = None
    node.answer(FetchResponse(says(epoch=epoch), high_watermark=2, records=records))
    assert node.disk.end_offset == node.high_watermarks[-1] == 2


def test_only_the_leader_appends():
    node, _ = follower()
    with pytest.raises(KafkaError, match="NOT_LEADER"):
        node.replica.append(1, [(None, b"x")], node.now)


def test_the_leader_describes_its_quorum():
    node = Harness().lead()
    node.ask(fetch(1, 3, 1))
    node.ask(fetch(7, 0, 0))
    answer = node.ask(DescribeQuorumRequest())
    assert answer.high_watermark == 3
    assert {each.key.id: each.end_offset for each in answer.voters} == {0: 3, 1: 3, 2: -1}
    assert [each.key.id for each in answer.observers] == [7]
    assert isinstance(node.state, LeaderState)


def test_others_do_not_describe_it():
    assert Harness().ask(DescribeQuorumRequest()).error is Errors.NOT_LEADER_OR_FOLLOWER
