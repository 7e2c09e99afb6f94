"""Snapshots: which replica gets one, piece by piece, and how it is installed."""

import pytest

from bowstring.engine.raft.keys import OffsetAndEpoch
from bowstring.engine.raft.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderAndEpoch,
)
from bowstring.protocol.errors import Errors
from tests.simulation.quorum.batches import EMPTY, snapshot
from tests.support.raft_harness import Harness, key, voter, voters

ID = OffsetAndEpoch(20, 2)
OWN = OffsetAndEpoch(3, 1)


def fetch(offset, epoch):
    return FetchRequest("c", key(1), 1, OffsetAndEpoch(offset, epoch), -1, 0, 1 << 20)


def piece(position, max_bytes=100, id=OWN, leader_epoch=1):
    return FetchSnapshotRequest("c", key(1), leader_epoch, id, position, max_bytes)


def leader():
    node = Harness(ids=(0,))
    id = OffsetAndEpoch(3, 1)
    data = snapshot(id, node.replica.snapshot_records(id), EMPTY)
    node.disk.add_snapshot(id, data, keep_old=False)
    node.replica.snapshot_created(id)
    _, out = node.replica.append(1, [(None, b"x")], node.now)
    node.carry_out(out)
    return node, data


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [(0, 0, True), (2, 1, True), (3, 0, True), (3, 1, False), (4, 1, False)],
)
def test_a_follower_below_the_log_gets_the_snapshot(offset, epoch, expected):
    node, _ = leader()
    assert node.ask(fetch(offset, epoch)).snapshot_id == (OffsetAndEpoch(3, 1) if expected else None)


def test_a_snapshot_comes_in_pieces():
    node, data = leader()
    found = b""
    while len(found) < len(data):
        answer = node.ask(piece(len(found)))
        assert (answer.position, answer.size_bytes) == (len(found), len(data))
        found += answer.data
    assert found == data


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (piece(0, id=OffsetAndEpoch(9, 1)), Errors.SNAPSHOT_NOT_FOUND),
        (piece(0, id=OffsetAndEpoch(0, 0)), Errors.SNAPSHOT_NOT_FOUND),
        (piece(1 << 20), Errors.POSITION_OUT_OF_RANGE),
        (piece(-1), Errors.POSITION_OUT_OF_RANGE),
        (piece(0, leader_epoch=0), Errors.FENCED_LEADER_EPOCH),
    ],
)
def test_wrong_pieces(request_, error):
    assert leader()[0].ask(request_).error is error


def test_a_snapshot_has_the_voters_of_its_end():
    node, _ = leader()
    assert len(node.replica.snapshot_records(OffsetAndEpoch(4, 1))) == 2
    with pytest.raises(ValueError, match="not between"):
        node.replica.snapshot_records(OffsetAndEpoch(9, 1))


def told(**fields):
    return FetchSnapshotResponse(LeaderAndEpoch(1, 3, voter(1).endpoints), **fields)


def follower():
    node = Harness()
    says = LeaderAndEpoch(1, 3, voter(1).endpoints)
    node.ask(BeginQuorumEpochRequest("c", key(0), says))
    node.sent = node.sent[-1:]
    node.answer(FetchResponse(says, snapshot_id=ID))
    return node


def content():
    helper = Harness(ids=(0,))
    return snapshot(ID, helper.replica.snapshot_records(OffsetAndEpoch(3, 1)), EMPTY)


def test_a_follower_installs_a_snapshot_and_goes_on_after_it():
    node, data = follower(), content()
    half = len(data) // 2
    node.answer(told(snapshot_id=ID, size_bytes=len(data), position=0, data=data[:half]))
    assert node.sent[-1].request.position == half
    node.answer(told(snapshot_id=ID, size_bytes=len(data), position=half, data=data[half:]))
    assert node.installs == [ID] and not node.sent, "it fetches when the snapshot is there"
    node.disk.install_snapshot(ID)
    node.carry_out(node.replica.snapshot_installed(ID, node.now))
    assert node.sent[-1].request.end == ID
    assert node.high_watermarks == [20]
    assert node.replica.voters == voters(0), "the snapshot has them"


def test_a_damaged_snapshot_is_fetched_again():
    node = follower()
    node.answer(told(snapshot_id=ID, size_bytes=4, position=0, data=b"oops"))
    assert node.installs == [ID]
    node.carry_out(node.replica.snapshot_failed(ID, node.now))
    assert isinstance(node.sent[-1].request, FetchRequest)


@pytest.mark.parametrize(
    "response",
    [
        told(error=Errors.SNAPSHOT_NOT_FOUND),
        told(snapshot_id=OffsetAndEpoch(21, 2), size_bytes=9, position=0, data=b"x"),
        told(snapshot_id=ID, size_bytes=9, position=3, data=b"x"),
        told(snapshot_id=ID, size_bytes=2, position=0, data=b"xyz"),
    ],
    ids=["gone", "other", "position", "too-long"],
)
def test_what_does_not_fit_begins_again(response):
    node = follower()
    node.answer(response)
    node.wait(100)
    assert isinstance(node.sent[-1].request, FetchRequest)
    assert node.installs == []
