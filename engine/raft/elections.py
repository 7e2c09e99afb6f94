"""Handles Vote, BeginQuorumEpoch and EndQuorumEpoch (KIP-595; pre-vote: KIP-996)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bowstring.engine.raft.core import RaftCore
from bowstring.engine.raft.keys import ReplicaKey
from bowstring.engine.raft.states import Candidate, Follower, Prospective, Resigned
from bowstring.protocol.errors import Error, Errors

if TYPE_CHECKING:
    from bowstring.engine.raft.messages import (
        BeginQuorumEpochRequest,
        BeginQuorumEpochResponse,
        EndQuorumEpochRequest,
        EndQuorumEpochResponse,
        LeaderAndEpoch,
        VoteRequest,
        VoteResponse,
    )

_EARLY_STEPS: Final = 10
"""This many voters that find their leader gone take turns within an election timeout."""

# ---------------------------------------------------------------- becoming a nominee and a leader


def become_prospective(core: RaftCore, now_ms: int) -> None:
    """Begins to request pre-votes. A single voter skips that."""
    assert core.is_log_durable
    core.quorum.to_prospective(now_ms)
    core.requests.reset_all()
    go_forward(core, now_ms)


def become_candidate(core: RaftCore, now_ms: int) -> None:
    """Begins an epoch."""
    core.quorum.to_candidate(now_ms)
    core.requests.reset_all()
    go_forward(core, now_ms)


def go_forward(core: RaftCore, now_ms: int) -> None:
    """Goes on to the next state if a majority granted its vote."""
    state = core.quorum.state
    if isinstance(state, Prospective) and state.votes.is_granted:
        become_candidate(core, now_ms)
    elif isinstance(state, Candidate) and state.votes.is_granted:
        leader = core.quorum.to_leader(core.end.offset, now_ms)
        leader.append_start_of_epoch(core.control, now_ms)
        core.requests.reset_all()


def become_only_voter(core: RaftCore, now_ms: int) -> None:
    """Leads at once: a single voter need not wait for others."""
    if isinstance(core.quorum.state, Candidate):
        go_forward(core, now_ms)
    else:
        become_prospective(core, now_ms)


def give_up(core: RaftCore, now_ms: int) -> None:
    """Ends a prospective's attempt: it continues as before, with its leader or without one."""
    state = core.quorum.state
    assert isinstance(state, Prospective), state
    core.vain_attempts += 1
    if state.leader_endpoints and state.leader_id != core.local.key.id:
        core.to_follower(state.epoch, state.leader_id, state.leader_endpoints, now_ms)
    else:
        core.to_unattached(state.epoch, now_ms, state.leader_id)


def handle_no_answer(core: RaftCore, source: int, now_ms: int, *, refused: bool) -> None:
    """Stops relying on a leader that closed the connection.

    A voter need not wait for the fetch timeout after its leader's process has ended: it requests pre-votes
    early. That is safe: a pre-vote changes nothing, and no voter in contact with the leader grants it.
    """
    state = core.quorum.state
    if not isinstance(state, Follower) or source != state.leader_id:
        return
    state.has_fetched = False
    if refused and core.quorum.is_voter:
        state.fetch_deadline_ms = min(state.fetch_deadline_ms, now_ms + early_backoff_ms(core, source))


def early_backoff_ms(core: RaftCore, leader_id: int) -> int:
    """Returns how long a voter waits that finds its leader's process gone: the voters in the order of their
    ids, so that they do not split the votes, and longer after each attempt in vain.
    """
    step_ms = max(1, core.config.election_timeout_ms // _EARLY_STEPS)
    place = sorted({*core.control.voters.ids} - {leader_id}).index(core.local.key.id)
    attempts = min(core.vain_attempts, _EARLY_STEPS)
    again_ms = (step_ms << attempts) - step_ms // 2 if attempts else 0  # between the others' turns
    return min(place * step_ms + again_ms, core.config.fetch_timeout_ms)


# ---------------------------------------------------------------- Vote


def vote_request(core: RaftCore, voter: ReplicaKey) -> VoteRequest:
    """Returns the request to a voter."""
    from bowstring.engine.raft.messages import VoteRequest

    return VoteRequest(
        *(core.cluster_id, voter, core.local.key, core.quorum.epoch, core.end),
        pre_vote=isinstance(core.quorum.state, Prospective),
    )


def handle_vote_request(core: RaftCore, token: object, request: VoteRequest, now_ms: int) -> None:
    """Grants a vote or not. Adopts a higher epoch in any case, also from a pre-vote, whose sender is
    in it.

    The candidate need not be one of this replica's voters: the record that made it a voter may be missing.
    """
    from bowstring.engine.raft.messages import ErrorResponse, VoteResponse

    if not core.has_cluster_id(request.cluster_id):
        return core.respond(token, ErrorResponse(Errors.INCONSISTENT_CLUSTER_ID))
    error = _vote_error(core, request)
    granted = False
    if not error:
        if request.epoch > core.quorum.epoch:
            core.to_unattached(request.epoch, now_ms)
        if request.voter is not None and not core.local.key.is_meant_by(request.voter):
            error = Errors.INVALID_VOTER_KEY
        else:
            granted = grant_vote(core, request, now_ms)
    core.respond(token, VoteResponse(core.quorum.leader_and_epoch, error, granted))


def grant_vote(core: RaftCore, request: VoteRequest, now_ms: int) -> bool:
    """Decides about a request in the present epoch; a vote is remembered, a pre-vote is not."""
    state = core.quorum.state
    up_to_date = request.end.is_up_to_date_with(core.end)
    granted = state.can_grant_vote(request.candidate, up_to_date=up_to_date, pre_vote=request.pre_vote)
    if granted and not request.pre_vote and state.voted is None:
        core.quorum.add_vote(request.candidate, now_ms)
    return granted


def _vote_error(core: RaftCore, request: VoteRequest) -> Error:
    end, epoch = request.end, request.epoch
    # A candidate's log ends in an older epoch than the one that it began.
    illegal = end.epoch > epoch if request.pre_vote else end.epoch >= epoch
    if illegal or end.offset < 0 or end.epoch < 0 or request.candidate.id < 0:
        return Errors.INVALID_REQUEST
    if request.candidate.id == core.local.key.id:
        return Errors.INVALID_REQUEST
    return Errors.FENCED_LEADER_EPOCH if epoch < core.quorum.epoch else Errors.NONE


def handle_vote_response(core: RaftCore, source: int, response: VoteResponse, now_ms: int) -> bool:
    """Counts a vote; returns whether the voter can get another request at once."""
    handled = core.handle_leader_of_response(response.error, response.leader, now_ms)
    if handled is not None or response.error:
        return bool(handled)
    state = core.quorum.state
    if isinstance(state, Prospective | Candidate):
        state.votes.record(source, granted=response.vote_granted)
        go_forward(core, now_ms)
        # A candidate that has lost waits for its deadline, so that others can win.
        if core.quorum.state is state and isinstance(state, Prospective) and state.votes.is_rejected:
            give_up(core, now_ms)
    return True


def handle_no_pre_vote(core: RaftCore, now_ms: int) -> None:
    """Begins an epoch without a pre-vote, because a voter does not support pre-votes."""
    if isinstance(core.quorum.state, Prospective):
        become_candidate(core, now_ms)


# ---------------------------------------------------------------- BeginQuorumEpoch


def begin_quorum_epoch_request(core: RaftCore, voter: ReplicaKey) -> BeginQuorumEpochRequest:
    """Returns the request to a voter."""
    from bowstring.engine.raft.messages import BeginQuorumEpochRequest

    return BeginQuorumEpochRequest(core.cluster_id, voter, core.quorum.leader_and_epoch)


def handle_begin_quorum_epoch_request(
    core: RaftCore, token: object, request: BeginQuorumEpochRequest, now_ms: int
) -> None:
    """Follows the leader that announces itself."""
    from bowstring.engine.raft.messages import BeginQuorumEpochResponse, ErrorResponse

    if not core.has_cluster_id(request.cluster_id):
        return core.respond(token, ErrorResponse(Errors.INCONSISTENT_CLUSTER_ID))
    error = _announcement_error(core, request.leader)
    if not error:
        core.maybe_transition(request.leader, now_ms)
        core.learn_endpoints(request.leader)
        if request.voter is not None and not core.local.key.is_meant_by(request.voter):
            error = Errors.INVALID_VOTER_KEY
    core.respond(token, BeginQuorumEpochResponse(core.quorum.leader_and_epoch, error))


def handle_begin_quorum_epoch_response(
    core: RaftCore, source: int, response: BeginQuorumEpochResponse, now_ms: int
) -> bool:
    """Adopts a later epoch; the voter's fetches show that it has its leader."""
    handled = core.handle_leader_of_response(response.error, response.leader, now_ms)
    return not response.error if handled is None else handled


def _announcement_error(core: RaftCore, leader: LeaderAndEpoch) -> Error:
    if leader.epoch < core.quorum.epoch:
        return Errors.FENCED_LEADER_EPOCH
    return Errors.INVALID_REQUEST if leader.leader_id in (-1, core.local.key.id) else Errors.NONE


# ---------------------------------------------------------------- EndQuorumEpoch


def end_quorum_epoch_request(core: RaftCore, state: Resigned) -> EndQuorumEpochRequest:
    """Returns the request to all voters."""
    from bowstring.engine.raft.messages import EndQuorumEpochRequest

    return EndQuorumEpochRequest(core.cluster_id, core.quorum.leader_and_epoch, state.preferred_successors)


def handle_end_quorum_epoch_request(
    core: RaftCore, token: object, request: EndQuorumEpochRequest, now_ms: int
) -> None:
    """Stops waiting for the leader that resigns: the preferred successor at once, the others later."""
    from bowstring.engine.raft.messages import EndQuorumEpochResponse, ErrorResponse

    if not core.has_cluster_id(request.cluster_id):
        return core.respond(token, ErrorResponse(Errors.INCONSISTENT_CLUSTER_ID))
    error = _announcement_error(core, request.leader)
    if not error:
        core.maybe_transition(request.leader, now_ms)
        state = core.quorum.state
        if isinstance(state, Follower) and state.leader_id == request.leader.leader_id:
            state.fetch_deadline_ms = now_ms + successor_backoff_ms(core, request.preferred_candidates)
            state.has_fetched = False  # the successor gets this voter's pre-vote at once
    core.respond(token, EndQuorumEpochResponse(core.quorum.leader_and_epoch, error))


def successor_backoff_ms(core: RaftCore, candidates: tuple[ReplicaKey, ...]) -> int:
    """Returns how long a successor waits: the first not at all, each later one twice as long as the one
    before.
    """
    most_ms = core.config.election_backoff_max_ms
    place = next((at for at, key in enumerate(candidates) if core.local.key.is_meant_by(key)), None)
    if place is None:
        return most_ms
    if place == 0:
        return 0
    shortest_ms = most_ms >> (len(candidates) - 1)
    return min(most_ms, shortest_ms << (place - 1))


def handle_end_quorum_epoch_response(
    core: RaftCore, source: int, response: EndQuorumEpochResponse, now_ms: int
) -> bool:
    """Notes that a voter has received the resignation."""
    handled = core.handle_leader_of_response(response.error, response.leader, now_ms)
    if handled is not None or response.error:
        return bool(handled)
    if isinstance(core.quorum.state, Resigned):
        core.quorum.state.unacknowledged.discard(source)
    return True
