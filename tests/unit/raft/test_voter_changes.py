"""AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter: one change at a time."""

import pytest

from bowstring.engine.raft.keys import OffsetAndEpoch, ReplicaKey
from bowstring.engine.raft.leader import LeaderState
from bowstring.engine.raft.messages import (
    AddVoterRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    LeaderAndEpoch,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
)
from bowstring.engine.raft.states import Resigned
from bowstring.engine.raft.voters import VersionRange
from bowstring.protocol.errors import Errors
from tests.support.raft_harness import Harness, key, stored, voter, voters

VERSIONS = VersionRange(0, 1)


def fetch(node, replica, high_watermark=-1):
    end = OffsetAndEpoch(node.disk.end_offset, 1)
    return node.ask(FetchRequest("c", key(replica), 1, end, high_watermark, 0, 1 << 20), f"fetch {replica}")


def add(id=3, ack=True):
    return AddVoterRequest("c", key(id), voter(id).endpoints, 1000, ack)


def remove(id):
    return RemoveVoterRequest("c", key(id))


def leader(ids=(0, 1, 2), dynamic=True):
    node = Harness(ids=ids, dynamic=dynamic).lead()
    for id in ids[1:]:
        fetch(node, id)
    assert node.state.high_watermark == (3 if dynamic else 1)
    # No request is on its way to the others.
    for send in [each for each in node.sent if isinstance(each.request, BeginQuorumEpochRequest)]:
        node.sent.append(send)
        node.answer(BeginQuorumEpochResponse(LeaderAndEpoch(0, 1)))
    return node


def asked(node):
    node.sent = [each for each in node.sent if isinstance(each.request, ApiVersionsRequest)]
    return bool(node.sent)


def test_an_observer_that_has_caught_up_is_added():
    node = leader()
    fetch(node, 3)
    assert node.ask(add()) is None and asked(node)
    node.answer(ApiVersionsResponse(versions=VERSIONS))
    assert node.replica.voters == voters(0, 1, 2, 3), "it counts from the append on"
    fetch(node, 1)
    assert "token" not in node.answers, "three of four are a majority"
    fetch(node, 3)
    assert node.answers["token"].error is Errors.NONE


def test_an_answer_at_the_append():
    node = leader()
    fetch(node, 3)
    node.ask(add(ack=False))
    asked(node)
    node.answer(ApiVersionsResponse(versions=VERSIONS))
    assert node.answers["token"].error is Errors.NONE


def test_an_observer_that_has_not_caught_up_is_not_added():
    node = leader()
    node.ask(add())
    asked(node)
    node.answer(ApiVersionsResponse(versions=VERSIONS))
    assert node.answers["token"].error is Errors.REQUEST_TIMED_OUT
    assert node.replica.voters == voters(0, 1, 2)


@pytest.mark.parametrize("versions", [None, VersionRange(0, 0)])
def test_a_voter_must_support_the_kraft_version(versions):
    node = leader()
    fetch(node, 3)
    node.ask(add())
    asked(node)
    node.answer(ApiVersionsResponse(versions=versions))
    assert node.answers["token"].error is Errors.INVALID_REQUEST


def test_no_change_before_the_epoch_has_committed_a_record():
    node = Harness().lead()
    assert node.ask(remove(2)).error is Errors.REQUEST_TIMED_OUT


def test_one_change_at_a_time():
    node = leader()
    node.ask(remove(2), "first")
    assert node.ask(remove(1), "second").error is Errors.REQUEST_TIMED_OUT
    fetch(node, 1)
    assert node.answers["first"].error is Errors.NONE
    assert node.replica.voters == voters(0, 1)


def test_a_change_that_takes_too_long_is_answered_and_still_blocks_the_next():
    node = leader()
    node.ask(remove(2), "first")
    node.wait(2000)
    assert node.answers["first"].error is Errors.REQUEST_TIMED_OUT
    assert node.ask(remove(1), "second").error is Errors.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (add(1), Errors.DUPLICATE_VOTER),
        (AddVoterRequest("c", ReplicaKey(3), voter(3).endpoints, 1), Errors.INVALID_REQUEST),
        (AddVoterRequest("c", key(3), (), 1), Errors.INVALID_REQUEST),
        (AddVoterRequest("x", key(3), voter(3).endpoints, 1), Errors.INCONSISTENT_CLUSTER_ID),
        (remove(7), Errors.VOTER_NOT_FOUND),
        (RemoveVoterRequest("c", ReplicaKey(1, bytes(15) + b"x")), Errors.VOTER_NOT_FOUND),
        (UpdateVoterRequest("c", 0, key(1), voter(1).endpoints, VERSIONS), Errors.FENCED_LEADER_EPOCH),
        (UpdateVoterRequest("c", 1, key(7), voter(7).endpoints, VERSIONS), Errors.VOTER_NOT_FOUND),
        (UpdateVoterRequest("c", 1, key(1), (), VERSIONS), Errors.INVALID_REQUEST),
    ],
)
def test_wrong_changes(request_, error):
    assert leader().ask(request_).error is error


def test_configured_voters_cannot_be_changed():
    node = Harness(dynamic=False).lead()
    fetch(node, 1)
    assert node.ask(remove(2)).error is Errors.UNSUPPORTED_VERSION


def test_the_last_voter_stays():
    assert leader(ids=(0,)).ask(remove(0)).error is Errors.VOTER_NOT_FOUND


def test_a_leader_that_is_removed_leads_until_that_is_committed():
    node = leader()
    node.ask(remove(0))
    assert isinstance(node.state, LeaderState)
    fetch(node, 1)
    assert isinstance(node.state, LeaderState), "it does not count itself"
    fetch(node, 2)
    assert isinstance(node.state, Resigned)
    assert node.answers["token"].error is Errors.NONE


def test_only_others_change_the_voters():
    assert Harness().ask(add()).error is Errors.NOT_LEADER_OR_FOLLOWER


def test_a_voter_that_moved_is_updated():
    node = leader()
    request = UpdateVoterRequest("c", 1, key(1), voter(1, port=9009).endpoints, VERSIONS)
    assert node.ask(request) is None and asked(node)
    assert node.sent[-1].destination.port == 9009
    node.answer(ApiVersionsResponse(versions=VERSIONS))
    assert node.answers["token"].error is Errors.NONE
    assert node.replica.voters.endpoints(1) == voter(1, port=9009).endpoints


def test_voters_of_records_that_are_cut_off_do_not_count():
    node = leader()
    node.ask(remove(2))
    assert node.replica.voters == voters(0, 1)
    says = LeaderAndEpoch(1, 2, voter(1).endpoints)
    node.ask(BeginQuorumEpochRequest("c", key(0), says))
    node.answer(FetchResponse(says, diverging=OffsetAndEpoch(3, 1)))
    assert node.replica.voters == voters(0, 1, 2)


def test_the_only_voter_that_gets_a_second_one_gives_it_time():
    node = leader(ids=(0,))
    node.wait(60_000)
    fetch(node, 3)
    node.wait(60_000)
    node.ask(add())
    asked(node)
    node.answer(ApiVersionsResponse(versions=VERSIONS))
    assert node.replica.voters == voters(0, 3)
    node.wait(2900)
    assert isinstance(node.state, LeaderState)
    node.wait(200)
    assert isinstance(node.state, Resigned)


# ---------------------------------------------------------------- kraft.version


def configured_leader():
    """Leads configured voters, whose directories are unknown."""
    return leader(dynamic=False)


def told(node, id, versions=VERSIONS):
    """A configured voter sends UpdateRaftVoter to the leader."""
    node.ask(UpdateVoterRequest("c", 1, key(id), voter(id).endpoints, versions), f"told {id}")
    if asked(node):
        node.answer(ApiVersionsResponse(versions=versions))
    return node.answers[f"told {id}"].error


def upgrade(node, version=1):
    assert node.replica.kraft_version_refusal(version) is None
    offset, out = node.replica.upgrade_kraft_version(1, version, node.now)
    node.carry_out(out)
    return offset


def test_configured_voters_come_into_the_log():
    node = configured_leader()
    assert node.ask(add()).error is Errors.UNSUPPORTED_VERSION
    assert "Voter 1 has not told its directory" in node.replica.kraft_version_refusal(1)
    assert told(node, 1) is told(node, 2) is Errors.NONE
    assert node.replica.kraft_version == 0
    assert upgrade(node) == node.disk.end_offset - 1
    assert (node.replica.kraft_version, node.replica.voters) == (1, voters(0, 1, 2))
    assert node.state.high_watermark < node.disk.end_offset, "one of three has it"
    fetch(node, 1)
    assert node.state.high_watermark == node.disk.end_offset
    assert upgrade(node) is None
    assert "cannot be lowered" in node.replica.kraft_version_refusal(0)
    fetch(node, 3)
    assert node.ask(add()) is None, "voters can be added now"


def test_each_configured_voter_must_support_the_kraft_version():
    node = configured_leader()
    told(node, 1)
    assert "Voter 2 has not told" in node.replica.kraft_version_refusal(1)
    assert told(node, 2, VersionRange(0, 0)) is Errors.NONE
    assert "Voter 2 supports kraft.version 0 to 0" in node.replica.kraft_version_refusal(1)


def followed(leader_id, epoch):
    return LeaderAndEpoch(leader_id, epoch, voter(leader_id).endpoints)


def test_an_upgrade_that_is_cut_off_is_undone():
    node = configured_leader()
    told(node, 1)
    told(node, 2)
    end = node.disk.end_offset
    upgrade(node)
    node.ask(BeginQuorumEpochRequest("c", key(0), followed(1, 2)))
    node.sent = [each for each in node.sent if isinstance(each.request, FetchRequest)]
    node.answer(FetchResponse(followed(1, 2), diverging=OffsetAndEpoch(end, 1)))
    assert (node.disk.end_offset, node.replica.kraft_version, node.replica.voters_offset) == (end, 0, None)


def test_a_configured_voter_tells_each_leader_its_directory_once():
    node = Harness(dynamic=False)
    times = []
    for epoch in (1, 2):
        node.sent.clear()
        node.ask(BeginQuorumEpochRequest("c", key(0), followed(1, epoch)))
        for _ in range(40):
            for send in list(node.sent):
                node.sent.remove(send)
                node.sent.append(send)
                if isinstance(send.request, UpdateVoterRequest):
                    assert send.request.voter == key(0)
                    times.append(epoch)
                    # The leader is busy with another voter at first.
                    error = Errors.NONE if times.count(epoch) > 1 else Errors.REQUEST_TIMED_OUT
                    node.answer(UpdateVoterResponse(followed(1, epoch), error))
                else:
                    node.answer(FetchResponse(followed(1, epoch)))
            node.wait(500)
    assert times == [1, 1, 2, 2]


def stands(node, epoch=2):
    """A node begins an epoch once its timeouts are over and it has the votes of all others."""
    node.wait(4 * node.config.election_timeout_ms)
    node.vote()
    node.vote()
    return isinstance(node.state, LeaderState) and node.state.epoch >= epoch


def test_a_leader_that_removed_itself_leads_again_until_the_others_have_the_record():
    """Found by seed 4278 of whole nodes: the other voter also lacked records from before the removal."""
    first = leader(ids=(0, 1))
    first.carry_out(first.replica.append(1, [(None, b"v")], first.now)[1])
    first.ask(remove(0))
    node = Harness(ids=(0, 1), disk=first.disk, stored=stored(1, 0))
    assert node.replica.voters == voters(1)
    assert stands(node)
    epoch, end = node.state.epoch, node.disk.end_offset
    fetched = FetchRequest("c", key(1), epoch, OffsetAndEpoch(end, epoch), -1, 0, 1 << 20)
    node.ask(fetched)
    assert node.high_watermarks and not isinstance(node.state, LeaderState), (
        "it commits the removal, and resigns"
    )


def test_a_voter_that_is_removed_leads_a_leader_that_has_lost_the_record():
    """Found by seed 406 of whole nodes: the leader lost power before its sync ended."""
    first = leader(ids=(0, 1))
    first.ask(remove(1))
    node = Harness(ids=(0, 1), disk=first.disk, id=1)
    assert node.replica.voters == voters(0)
    assert stands(node)


@pytest.mark.parametrize("state", [None, stored(1, 0), stored(1, 1), stored(2, voted=key(1))])
def test_who_is_removed_and_is_no_controller_any_more_does_not_stand(state):
    """It cannot see that its removal is committed, and must not continue an election of its previous life."""
    first = leader(ids=(0, 1))
    first.ask(remove(1))
    node = Harness(ids=(0, 1), disk=first.disk, stored=state, id=1, is_controller=False)
    assert node.replica.voters == voters(0)
    assert not stands(node) and not node.requests(VoteRequest)


def test_who_is_removed_for_good_does_not_stand():
    first = leader(ids=(0, 1, 2))
    first.ask(remove(2))
    fetch(first, 1)
    assert first.answers["token"].error is Errors.NONE
    node = Harness(ids=(0, 1, 2), disk=first.disk, id=2)
    says = LeaderAndEpoch(0, 1, voter(0).endpoints)
    node.ask(BeginQuorumEpochRequest("c", key(2), says))
    node.answer(FetchResponse(says, high_watermark=first.disk.end_offset))
    assert node.high_watermarks == [first.disk.end_offset]
    assert not stands(node)
