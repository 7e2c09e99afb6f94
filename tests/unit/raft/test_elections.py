"""Vote, BeginQuorumEpoch, EndQuorumEpoch; which replica may vote for which."""

import pytest

from bowstring.engine.raft.keys import OffsetAndEpoch, ReplicaKey
from bowstring.engine.raft.leader import LeaderState
from bowstring.engine.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    ErrorResponse,
    FetchRequest,
    FetchResponse,
    LeaderAndEpoch,
    VoteRequest,
    VoteResponse,
)
from bowstring.engine.raft.states import NEVER, Candidate, Follower, Prospective, Resigned, Unattached
from bowstring.protocol.errors import Errors
from tests.support.raft_harness import Harness, key, log_of, stored, voter


def vote(epoch, candidate=1, end=(0, 0), pre_vote=False, to=None, cluster_id="c"):
    return VoteRequest(cluster_id, to, key(candidate), epoch, OffsetAndEpoch(*end), pre_vote)


def leader(id, epoch):
    return LeaderAndEpoch(id, epoch, voter(id).endpoints)


def test_a_voter_without_a_leader_asks_before_it_stands():
    node = Harness()
    assert isinstance(node.state, Unattached)
    node.wait(2000)
    assert isinstance(node.state, Prospective)
    assert [each.pre_vote for each in node.requests(VoteRequest)] == [True, True]
    assert node.state.epoch == 0 and len(node.persisted) == 1, "nothing durable changes"
    node.vote()
    assert isinstance(node.state, Candidate) and node.state.epoch == 1
    assert node.persisted[-1].voted == key(0)
    node.vote()
    assert isinstance(node.state, LeaderState)
    assert node.persisted[-1].leader_id == 0


def test_a_prospective_that_cannot_win_waits_in_its_epoch():
    node = Harness()
    node.wait(2000)
    node.vote(granted=False)
    assert isinstance(node.state, Unattached) and node.state.epoch == 0


def test_a_candidate_that_lost_waits_for_its_deadline():
    node = Harness()
    node.wait(2000)
    node.vote()
    node.vote(granted=False)
    assert isinstance(node.state, Candidate)
    node.wait(2000)
    assert isinstance(node.state, Prospective) and node.state.epoch == 1


def test_a_voter_that_knows_no_pre_votes_makes_a_candidate():
    node = Harness()
    node.wait(2000)
    node.answer(ErrorResponse(Errors.UNSUPPORTED_VERSION))
    assert isinstance(node.state, Candidate)


def test_one_vote_in_an_epoch():
    node = Harness()
    assert node.ask(vote(1, candidate=1)).vote_granted
    assert node.persisted[-1].voted == key(1), "before the answer"
    assert node.ask(vote(1, candidate=1)).vote_granted, "the same candidate again"
    assert not node.ask(vote(1, candidate=2)).vote_granted
    assert node.ask(vote(2, candidate=2)).vote_granted


def test_a_vote_survives_a_restart():
    node = Harness(stored=stored(1, voted=key(1)))
    assert not node.ask(vote(1, candidate=2)).vote_granted
    assert node.ask(vote(1, candidate=1)).vote_granted


def test_the_vote_is_persisted_before_the_answer_in_order():
    node = Harness()
    out = node.replica.receive_request("t", vote(1), node.now)
    kinds = [type(each).__name__ for each in out]
    assert kinds.index("PersistElection") < kinds.index("Respond")


@pytest.mark.parametrize(
    ("end", "granted"), [((3, 2), True), ((9, 2), True), ((2, 2), False), ((9, 1), False), ((1, 3), True)]
)
def test_only_a_log_that_is_up_to_date_gets_votes(end, granted):
    node = Harness(disk=log_of(1, 1, 2), dynamic=False)
    for pre_vote in (True, False):
        assert node.ask(vote(5, end=end, pre_vote=pre_vote)).vote_granted == granted


def test_a_pre_vote_binds_nobody():
    node = Harness()
    before = node.persisted[-1]
    assert node.ask(vote(0, candidate=1, pre_vote=True)).vote_granted
    assert node.ask(vote(0, candidate=2, pre_vote=True)).vote_granted
    assert node.persisted[-1] == before


def test_a_follower_that_hears_from_its_leader_refuses_pre_votes():
    node = Harness()
    node.ask(BeginQuorumEpochRequest("c", key(0), leader(1, 1)))
    assert isinstance(node.state, Follower)
    assert node.ask(vote(1, candidate=2, pre_vote=True)).vote_granted, "it has not heard from it yet"
    node.answer(FetchResponse(leader(1, 1)))
    assert not node.ask(vote(1, candidate=2, pre_vote=True)).vote_granted


GONE = ErrorResponse(Errors.BROKER_NOT_AVAILABLE, refused=True)
CLOSED = ErrorResponse(Errors.BROKER_NOT_AVAILABLE)


def follows(**config):
    """Replica 0 follows leader 2; its next Fetch is on its way."""
    node = Harness(**config)
    node.ask(BeginQuorumEpochRequest("c", key(0), leader(2, 1)))
    node.answer(FetchResponse(leader(2, 1)))
    assert node.state.has_fetched and node.sent[-1].destination.id == 2
    return node


def test_a_voter_whose_leader_ended_stands_early():
    node = follows()
    node.answer(GONE)
    assert isinstance(node.state, Prospective), "its turn is the first"
    assert all(each.pre_vote for each in node.requests(VoteRequest)), "nothing durable changes"
    assert node.state.epoch == 1


def test_a_leader_that_closes_the_connection_may_live():
    node = follows()
    node.answer(CLOSED)
    node.wait(node.config.fetch_timeout_ms - 1)
    assert isinstance(node.state, Follower)


def test_a_follower_grants_pre_votes_once_the_leader_has_closed_the_connection():
    node = follows()
    assert not node.ask(vote(1, candidate=1, pre_vote=True)).vote_granted
    node.answer(CLOSED)
    assert node.ask(vote(1, candidate=1, pre_vote=True)).vote_granted


def test_an_answer_of_the_leader_ends_the_doubt():
    node = follows()
    node.answer(CLOSED)
    node.answer(FetchResponse(leader(2, 1), Errors.NOT_LEADER_OR_FOLLOWER))  # of another node
    node.wait(20)
    assert node.sent[-1].destination.id == 2
    node.answer(FetchResponse(leader(2, 1)))
    assert not node.ask(vote(1, candidate=1, pre_vote=True)).vote_granted


def stands_after(node):
    """Milliseconds from the end of the leader's process until the replica sends pre-votes."""
    began = node.now
    node.answer(GONE)
    while not isinstance(node.state, Prospective):
        node.wait(1)
    return node.now - began


def test_voters_take_turns_when_their_leader_ended():
    waits = []
    for id in (1, 3, 4):
        node = Harness(ids=(1, 2, 3, 4), id=id)
        node.ask(BeginQuorumEpochRequest("c", key(id), leader(2, 1)))
        node.answer(FetchResponse(leader(2, 1)))
        waits.append(stands_after(node))
    assert waits == [0, 100, 200]


def test_attempts_in_vain_come_later_and_between_the_turns_of_others():
    node = follows()
    waits = []
    for _ in range(4):
        waits.append(stands_after(node))
        node.vote(granted=False)
        assert isinstance(node.state, Follower)
    assert waits == [0, 150, 350, 750]


def test_an_observer_whose_leader_ended_stands_never():
    node = Harness(ids=(1, 2))
    node.answer(FetchResponse(leader(2, 1)))
    node.answer(GONE)
    node.wait(10_000)
    assert isinstance(node.state, Follower)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (vote(0, end=(0, 0)), Errors.INVALID_REQUEST),
        (vote(2, end=(5, 2)), Errors.INVALID_REQUEST),
        (vote(2, end=(5, 3), pre_vote=True), Errors.INVALID_REQUEST),
        (vote(1, candidate=0), Errors.INVALID_REQUEST),
        (vote(4, to=ReplicaKey(0, bytes(15) + b"x")), Errors.INVALID_VOTER_KEY),
        (vote(4, to=key(0)), Errors.NONE),
    ],
)
def test_wrong_votes(request_, error):
    assert Harness().ask(request_).error is error


def test_an_old_epoch_is_fenced():
    node = Harness(stored=stored(5))
    answer = node.ask(vote(4))
    assert answer.error is Errors.FENCED_LEADER_EPOCH and answer.leader.epoch == 5


def test_another_cluster_is_refused():
    assert Harness().ask(vote(1, cluster_id="other")).error is Errors.INCONSISTENT_CLUSTER_ID


def test_a_leader_starts_again_as_resigned_and_takes_part_in_the_next_epoch():
    node = Harness(stored=stored(3, leader_id=0))
    assert isinstance(node.state, Resigned)
    assert not node.ask(vote(3, candidate=1)).vote_granted
    node.wait(2000)
    assert node.state.epoch == 4 and node.persisted[-1] == stored(4)


def test_a_candidate_starts_again_as_one():
    node = Harness(stored=stored(3, voted=key(0)))
    assert isinstance(node.state, Candidate) and node.state.epoch == 3


def test_a_log_with_a_later_epoch_than_quorum_state_counts():
    node = Harness(disk=log_of(1, 7), dynamic=False, stored=stored(2, voted=key(1)))
    assert (node.state.epoch, node.state.voted) == (7, None)


def test_the_only_voter_leads_at_once():
    node = Harness(ids=(0,))
    assert isinstance(node.state, LeaderState)
    assert node.high_watermarks == [3], "leader change, kraft.version, voters"


def test_the_only_voter_begins_its_epoch_with_one_write():
    """What it was before nobody has learned of."""
    for before in (None, stored(3), stored(3, leader_id=0), stored(3, voted=key(0))):
        node = Harness(ids=(0,), stored=before)
        assert node.persisted == [stored(node.state.epoch, leader_id=0)]
        assert node.state.epoch > (0 if before is None else 2)


def test_the_only_voter_has_no_timers():
    node = Harness(ids=(0,))
    assert node.replica.deadline_ms == NEVER
    node.wait(60_000)
    assert node.sent == [] and isinstance(node.state, LeaderState)


def test_the_only_voter_writes_at_once_whatever_the_linger():
    node = Harness(ids=(0,), linger_ms=25)
    offset, out = node.replica.append(node.state.epoch, [(None, b"record")], node.now)
    node.carry_out(out)
    assert node.high_watermarks[-1] == offset + 1
    several = Harness(linger_ms=25).lead()
    written = several.disk.end_offset
    several.carry_out(several.replica.append(several.state.epoch, [(None, b"record")], several.now)[1])
    assert several.disk.end_offset == written


def test_a_replica_does_not_stand_before_its_log_is_durable():
    """Its votes would be for a log that a crash may take away."""
    node = Harness()
    node.auto = False
    node.ask(BeginQuorumEpochRequest("c", key(0), leader(1, 1)))
    records = log_of(1).read(0, 100)
    node.replica.election_persisted(node.now)
    node.answer(FetchResponse(leader(1, 1), records=records))
    node.now += 10_000
    node.carry_out(node.replica.poll(node.now))
    assert isinstance(node.state, Follower)
    node.flush()
    assert isinstance(node.state, Prospective)


def test_a_leader_without_fetches_of_a_majority_resigns():
    node = Harness().lead()
    node.wait(2000)
    fetch = FetchRequest("c", key(1), 1, OffsetAndEpoch(0, 0), -1, 0, 1000)
    node.ask(fetch)
    node.wait(2900)
    assert isinstance(node.state, LeaderState)
    node.wait(200)
    assert isinstance(node.state, Resigned)
    assert [each.leader.epoch for each in node.requests(EndQuorumEpochRequest)] == [1, 1]


def test_the_first_successor_stands_at_once_and_the_others_later():
    for candidates, waits in (((0, 1), 0), ((1, 0), 500), ((1, 2), 1000)):
        node = Harness()
        node.ask(BeginQuorumEpochRequest("c", key(0), leader(2, 1)))
        node.ask(EndQuorumEpochRequest("c", leader(2, 1), tuple(key(id) for id in candidates)))
        if waits:
            node.wait(waits - 1)
            assert isinstance(node.state, Follower), candidates
            node.wait(1)
        assert isinstance(node.state, Prospective), candidates


def test_a_follower_of_a_leader_that_resigned_grants_its_pre_vote_to_the_successor():
    node = follows()
    assert not node.ask(vote(1, candidate=1, pre_vote=True)).vote_granted
    node.ask(EndQuorumEpochRequest("c", leader(2, 1), (key(1), key(0))))
    assert node.ask(vote(1, candidate=1, pre_vote=True)).vote_granted


def test_a_new_leader_announces_itself_to_the_silent():
    node = Harness().lead()
    assert {each.voter for each in node.requests(BeginQuorumEpochRequest)} == {key(1), key(2)}


def test_a_leader_writes_once_it_is_durable_that_it_leads():
    node = Harness()
    node.wait(2000)
    node.vote()
    node.auto = False
    node.vote()
    assert isinstance(node.state, LeaderState) and node.disk.end_offset == 0
    node.carry_out(node.replica.election_persisted(node.now))
    assert node.disk.end_offset == 3


def test_a_later_epoch_ends_the_leadership():
    node = Harness().lead()
    node.ask(FetchRequest("c", key(1), 1, OffsetAndEpoch(3, 1), 3, 500, 1000), "waits")
    assert node.answers.get("waits") is None
    assert node.ask(vote(9, candidate=1, end=(9, 1))).vote_granted
    assert node.answers["waits"].error is Errors.NOT_LEADER_OR_FOLLOWER
    assert isinstance(node.state, Unattached) and node.state.epoch == 9


def test_a_response_of_another_life_is_ignored():
    node = Harness()
    node.wait(2000)
    said = VoteResponse(LeaderAndEpoch(-1, 99))
    node.carry_out(node.replica.receive_response(1, 12345, said, node.now))
    assert node.state.epoch == 0


def test_a_nominee_that_is_stopped_sleeps():
    node = Harness()
    node.wait(2000)
    assert isinstance(node.state, Prospective)
    node.carry_out(node.replica.shutdown(1000, node.now))
    assert node.replica.is_stopped
    node.wait(10_000)
    assert isinstance(node.state, Prospective)


def test_a_node_that_knows_who_leads_but_not_where_follows_once_it_is_told():
    node = Harness(ids=(5, 6), dynamic=False, stored=stored(3, leader_id=1))
    assert isinstance(node.state, Unattached) and node.state.leader_id == 1
    node.answer(FetchResponse(leader(1, 3)))
    assert isinstance(node.state, Follower) and node.state.has_fetched


def test_a_node_with_a_new_disk_does_not_know_that_its_id_led():
    node = Harness()
    node.answer(FetchResponse(leader(0, 3), Errors.FENCED_LEADER_EPOCH))
    assert isinstance(node.state, Unattached)
    assert (node.state.epoch, node.state.leader_id) == (3, -1)


@pytest.mark.parametrize("error", [Errors.UNKNOWN_LEADER_EPOCH, Errors.NOT_LEADER_OR_FOLLOWER])
def test_what_teaches_nothing_is_repeated_after_a_pause(error):
    node = Harness()
    to = node.sent[-1].destination.id
    node.answer(FetchResponse(LeaderAndEpoch(-1, 0), error))
    assert all(each.destination.id != to for each in node.sent)
    node.wait(19)
    assert to not in {each.destination.id for each in node.sent}
