"""Adds, removes and updates voters: one change at a time, each by a record of the new voters (KIP-853).

A change begins only after a record of the leader's epoch is committed and when the latest voters are
committed, so that each majority of the old voters has a member in each majority of the new ones, whichever of
them a later leader has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bowstring.engine.raft.core import RaftCore
from bowstring.engine.raft.keys import NO_DIRECTORY, ReplicaKey
from bowstring.engine.raft.leader import ADD, REMOVE, UPDATE, LeaderState, VoterChange
from bowstring.engine.raft.states import Follower
from bowstring.engine.raft.voters import Voter, VoterSet, node_at
from bowstring.protocol.errors import Error, Errors

if TYPE_CHECKING:
    from bowstring.engine.raft.messages import (
        AddVoterRequest,
        AddVoterResponse,
        ApiVersionsResponse,
        RemoveVoterRequest,
        RemoveVoterResponse,
        UpdateVoterRequest,
        UpdateVoterResponse,
    )

# ---------------------------------------------------------------- requests to the leader


def handle_add_voter_request(core: RaftCore, token: object, request: AddVoterRequest, now_ms: int) -> None:
    """Adds an observer that has caught up, after requesting its supported versions."""
    voter = Voter(request.voter, request.endpoints)
    error, message = _request_error(core, request.cluster_id, voter.key)
    if not error and node_at(voter.key.id, voter.endpoints, core.listener) is None:
        error, message = Errors.INVALID_REQUEST, f"The voter has no listener {core.listener}."
    if not error:
        error, message = change_error(core)
    if not error and core.control.voters.get(voter.key.id) is not None:
        error, message = Errors.DUPLICATE_VOTER, f"Node {voter.key.id} is one of the voters."
    if not error:
        change = VoterChange(ADD, token, voter, now_ms + core.config.request_timeout_ms)
        change.ack_when_committed = request.ack_when_committed
        error, message = _ask_versions(core, change, now_ms)
    if error:
        core.respond(token, core.change_response(ADD, error, message))


def handle_remove_voter_request(
    core: RaftCore, token: object, request: RemoveVoterRequest, now_ms: int
) -> None:
    """Removes a voter, also the leader itself, which then leads until the change is committed."""
    error, message = _request_error(core, request.cluster_id, request.voter)
    if not error:
        error, message = change_error(core)
    if error:
        return core.respond(token, core.change_response(REMOVE, error, message))
    voters = core.control.voters.without_voter(request.voter)
    old = core.control.voters.get(request.voter.id)
    if voters is None or old is None:
        message = f"{request.voter} is not one of the voters, or the only one."
        return core.respond(token, core.change_response(REMOVE, Errors.VOTER_NOT_FOUND, message))
    change = VoterChange(REMOVE, token, old, now_ms + core.config.request_timeout_ms)
    _append(core, change, voters, now_ms)


def handle_update_voter_request(
    core: RaftCore, token: object, request: UpdateVoterRequest, now_ms: int
) -> None:
    """Changes the endpoints and the supported versions of a voter, after it answered at the new endpoint.
    Those of configured voters are only remembered, for a later kraft.version.
    """
    voter = Voter(request.voter, request.endpoints, request.versions)
    error, message = _request_error(core, request.cluster_id, voter.key)
    if not error:
        error = core.leader_error(request.leader_epoch)
    lowest, highest = request.versions
    if not error and not 0 <= lowest <= highest:
        error = Errors.INVALID_REQUEST
    if not error and node_at(voter.key.id, voter.endpoints, core.listener) is None:
        error = Errors.INVALID_REQUEST
    if not error:
        error, message = change_error(core) if core.control.can_reconfigure else _busy_error(core)
    if not error and not core.control.voters.is_voter(voter.key):
        error = Errors.VOTER_NOT_FOUND
    if not error:
        change = VoterChange(UPDATE, token, voter, now_ms + core.config.request_timeout_ms)
        error, message = _ask_versions(core, change, now_ms)
    if error:
        core.respond(token, core.change_response(UPDATE, error, message))


Refusal = tuple[Error, str | None]


def _request_error(core: RaftCore, cluster_id: str | None, key: ReplicaKey) -> Refusal:
    if not core.has_cluster_id(cluster_id):
        return Errors.INCONSISTENT_CLUSTER_ID, f"The cluster id is {core.cluster_id}."
    if key.id < 0 or key.directory_id == NO_DIRECTORY:
        return Errors.INVALID_REQUEST, "The voter needs a node id and a directory id."
    return core.leader_error(core.quorum.epoch), None


def change_error(core: RaftCore) -> Refusal:
    """Returns why the leader cannot begin a change now, or NONE."""
    leader = core.quorum.state
    assert isinstance(leader, LeaderState)
    if not core.control.can_reconfigure:
        return Errors.UNSUPPORTED_VERSION, f"kraft.version is {core.control.kraft_version}."
    if leader.change is not None:
        return _busy_error(core)
    if leader.high_watermark is None:
        return Errors.REQUEST_TIMED_OUT, "The leader has not committed a record of its epoch yet."
    offset = core.control.voters_offset
    if offset is None or offset >= leader.high_watermark:
        return Errors.REQUEST_TIMED_OUT, "The latest change of the voters is not committed yet."
    return Errors.NONE, None


def _busy_error(core: RaftCore) -> Refusal:
    leader = core.quorum.state
    assert isinstance(leader, LeaderState)
    if leader.change is not None:
        return Errors.REQUEST_TIMED_OUT, "Another change of the voters is in progress."
    return Errors.NONE, None


# ---------------------------------------------------------------- kraft.version


def upgrade_refusal(core: RaftCore, version: int) -> str | None:
    """Returns why kraft.version cannot change to this one now; None when it can."""
    leader, present = core.quorum.state, core.control.kraft_version
    if not isinstance(leader, LeaderState):
        return "This node does not lead the quorum."
    if version == present:
        return None
    if version < present:
        return f"kraft.version is {present} and cannot be lowered: the voters are in the log."
    if leader.high_watermark is None or leader.change is not None:
        return "The leader is still busy with its first record or with the voters; try again."
    refusals = (_voter_refusal(leader.told.get(id), id, version) for id in core.control.voters.ids)
    return next((each for each in refusals if each is not None), None)


def _voter_refusal(told: Voter | None, id: int, version: int) -> str | None:
    if told is None:
        return f"Voter {id} has not told its directory yet; start it, and try again in some seconds."
    if version not in told.versions:
        return f"Voter {id} supports kraft.version {told.versions.lowest} to {told.versions.highest}."
    return None


def upgrade(core: RaftCore, version: int, now_ms: int) -> int | None:
    """Puts the configured voters, with their directories, into the log; returns the last offset, None when
    there is nothing to change. `upgrade_refusal` has found no reason against it.
    """
    leader = core.quorum.state
    assert isinstance(leader, LeaderState)
    if version == core.control.kraft_version:
        return None
    voters = VoterSet(leader.told[id] for id in core.control.voters.ids)
    return leader.append_kraft_version(version, voters, now_ms)


# ---------------------------------------------------------------- the steps of a change


def _ask_versions(core: RaftCore, change: VoterChange, now_ms: int) -> Refusal:
    from bowstring.engine.raft.messages import ApiVersionsRequest

    leader = core.quorum.state
    node = node_at(change.voter.key.id, change.voter.endpoints, core.listener)
    assert isinstance(leader, LeaderState) and node is not None
    if node.id == core.local.key.id or not core.requests.is_ready(node.id, now_ms):
        return Errors.REQUEST_TIMED_OUT, f"Node {node.id} is not ready for requests."
    core.send(node, ApiVersionsRequest(), now_ms)
    change.asked = node.id
    leader.change = change
    return Errors.NONE, None


def handle_api_versions_response(
    core: RaftCore, source: int, response: ApiVersionsResponse, now_ms: int
) -> bool:
    """Continues the change that waited for this node's versions."""
    leader = core.quorum.state
    if not isinstance(leader, LeaderState) or leader.change is None or leader.change.asked != source:
        return True
    change = leader.change
    if response.error:
        core.end_change(leader, Errors.REQUEST_TIMED_OUT, f"Node {source}: {response.error.name}.")
        return False
    versions = response.versions
    if versions is None or core.control.kraft_version not in versions:
        core.end_change(leader, Errors.INVALID_REQUEST, f"Node {source} supports kraft.version {versions}.")
    elif change.kind == UPDATE and versions != change.voter.versions:
        core.end_change(leader, Errors.INVALID_REQUEST)
    elif change.kind == UPDATE and not core.control.can_reconfigure:
        leader.told[change.voter.key.id] = change.voter
        leader.heard_from(change.voter.key, now_ms)
        core.end_change(leader, Errors.NONE)
    elif change.kind == ADD and not leader.is_caught_up(change.voter.key, now_ms):
        core.end_change(leader, Errors.REQUEST_TIMED_OUT, f"{change.voter.key} has not caught up.")
    else:
        voter = Voter(change.voter.key, change.voter.endpoints, versions)
        before = core.control.voters
        voters = before.with_voter(voter) if change.kind == ADD else before.with_update(voter)
        if voters is None:
            core.end_change(leader, Errors.VOTER_NOT_FOUND)
        else:
            _append(core, change, voters, now_ms)
    return True


def _append(core: RaftCore, change: VoterChange, voters: VoterSet, now_ms: int) -> None:
    leader = core.quorum.state
    assert isinstance(leader, LeaderState)
    change.asked = None
    change.last_offset = leader.append_voters(voters, now_ms)
    leader.change = change
    if change.kind == UPDATE:
        leader.heard_from(change.voter.key, now_ms)
    if change.kind == UPDATE or not change.ack_when_committed:
        core.answer_change(change, Errors.NONE)


def high_watermark_rose(core: RaftCore, leader: LeaderState) -> None:
    """Ends a change that is committed. A leader that is no longer a voter resigns then, not before: the
    others may not have the record yet that elects one of them.
    """
    assert leader.high_watermark is not None
    change = leader.change
    if change is not None and change.last_offset is not None and change.last_offset < leader.high_watermark:
        core.end_change(leader, Errors.NONE)
    offset = core.control.voters_offset
    if not core.quorum.is_voter and offset is not None and offset < leader.high_watermark:
        leader.resign_requested = True


def expire(core: RaftCore, leader: LeaderState, now_ms: int) -> None:
    """Answers a change that takes too long. Its record may be committed later."""
    if leader.change is not None and leader.change.deadline_ms <= now_ms:
        core.end_change(leader, Errors.REQUEST_TIMED_OUT, "The change was not committed in time.")


# ---------------------------------------------------------------- requests of a follower


def add_voter_request(core: RaftCore) -> AddVoterRequest:
    """Returns an observer's request to be a voter (KIP-853, controller.quorum.auto.join.enable)."""
    from bowstring.engine.raft.messages import AddVoterRequest

    timeout_ms = core.config.request_timeout_ms
    local = core.local
    return AddVoterRequest(core.cluster_id, local.key, local.endpoints, timeout_ms, ack_when_committed=False)


def remove_voter_request(core: RaftCore, old: ReplicaKey) -> RemoveVoterRequest:
    """Returns an observer's request to remove what its node was before it got a new disk."""
    from bowstring.engine.raft.messages import RemoveVoterRequest

    return RemoveVoterRequest(core.cluster_id, old)


def update_voter_request(core: RaftCore) -> UpdateVoterRequest:
    """Returns a voter's request to update its entry."""
    from bowstring.engine.raft.messages import UpdateVoterRequest

    local = core.local
    return UpdateVoterRequest(core.cluster_id, core.quorum.epoch, local.key, local.endpoints, local.versions)


def handle_update_voter_response(
    core: RaftCore, source: int, response: UpdateVoterResponse, now_ms: int
) -> bool:
    """Notes that the leader answered."""
    handled = core.handle_leader_of_response(response.error, response.leader, now_ms)
    if handled is not None:
        return handled
    state = core.quorum.state
    if isinstance(state, Follower) and response.error in (Errors.NONE, Errors.UNSUPPORTED_VERSION):
        state.fetch_deadline_ms = now_ms + core.config.fetch_timeout_ms
        state.has_fetched = True
        state.has_told_directory = True
        return True
    return False


def handle_change_response(
    core: RaftCore, source: int, response: AddVoterResponse | RemoveVoterResponse, now_ms: int
) -> bool:
    """Whether to continue at once; the next attempt comes with the interval."""
    fine = (Errors.NONE, Errors.REQUEST_TIMED_OUT, Errors.DUPLICATE_VOTER, Errors.VOTER_NOT_FOUND)
    return response.error in fine


def handle_no_answer(core: RaftCore, source: int, error: Error) -> None:
    """Ends a change whose voter cannot be reached."""
    leader = core.quorum.state
    if isinstance(leader, LeaderState) and leader.change is not None and leader.change.asked == source:
        core.end_change(leader, Errors.REQUEST_TIMED_OUT, f"Node {source}: {error.name}.")
