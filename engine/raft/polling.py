"""Acts on timers: the due actions of each state, and the time of the next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bowstring.engine.raft import elections, fetching, snapshot_fetching, voter_changes
from bowstring.engine.raft.core import RaftCore
from bowstring.engine.raft.keys import ReplicaKey
from bowstring.engine.raft.leader import LeaderState
from bowstring.engine.raft.states import NEVER, Candidate, Follower, Prospective, Resigned, Unattached
from bowstring.engine.raft.voters import Node, node_at

if TYPE_CHECKING:
    from bowstring.engine.raft.messages import Request


def poll(core: RaftCore, now_ms: int) -> float:
    """Does the due work; returns when to come again. Ends when the state no longer changes."""
    while True:
        state = core.quorum.state
        due_ms = _POLL[type(state)](core, state, now_ms)
        if core.quorum.state is state:
            assert due_ms > now_ms, f"{state} is not done at {now_ms}, and has nothing to do"
            return due_ms


# ---------------------------------------------------------------- a leader


def _poll_leader(core: RaftCore, leader: LeaderState, now_ms: int) -> float:
    if leader.is_only_voter:
        leader.follow_alone(now_ms)
    is_due = leader.check_quorum_at_ms <= now_ms
    if is_due or leader.resign_requested or core.stop_at_ms is not None:
        core.to_resigned(now_ms)
        return now_ms
    voter_changes.expire(core, leader, now_ms)
    fetching.expire_delayed(core, leader, now_ms)
    # Records of the epoch wait until the leadership is durable: after a crash, the replica would not have it,
    # and could be elected and write other records at the same offsets.
    if _drain_at_ms(core, leader) <= now_ms and not fetching.append_collected(core, leader):
        core.to_resigned(now_ms)  # the records have offsets that others must not get; another may write them
        return now_ms
    if leader.begin_quorum_epoch_at_ms <= now_ms and not leader.is_only_voter:
        for key in leader.silent_voters(now_ms):
            _send_to_voter(core, key, elections.begin_quorum_epoch_request, now_ms)
        leader.begin_quorum_epoch_at_ms = now_ms + core.config.begin_quorum_epoch_interval_ms
    return _next_of_leader(core, leader)


def _drain_at_ms(core: RaftCore, leader: LeaderState) -> float:
    """Returns when collected records are to be written. The only voter collects none: there is no Fetch that
    a larger batch would spare, and those that come during a sync share the next one.
    """
    at_ms = leader.accumulator.drain_at_ms
    if at_ms is None or not core.is_persisted:
        return NEVER
    return 0 if leader.is_only_voter else at_ms


def _next_of_leader(core: RaftCore, leader: LeaderState) -> float:
    due = [
        NEVER if leader.is_only_voter else leader.begin_quorum_epoch_at_ms,
        leader.check_quorum_at_ms,
        _drain_at_ms(core, leader),
        NEVER if leader.change is None else leader.change.deadline_ms,
        *(each.deadline_ms for each in leader.delayed),
    ]
    return min(due)


def _poll_resigned(core: RaftCore, state: Resigned, now_ms: int) -> float:
    for id in sorted(state.unacknowledged):
        _send_to_voter(
            core, ReplicaKey(id), lambda core, key: elections.end_quorum_epoch_request(core, state), now_ms
        )
    if core.stop_at_ms is not None:
        if core.stop_at_ms <= now_ms:
            state.unacknowledged.clear()  # they will notice
        return min(_in_future(core.stop_at_ms, now_ms), core.requests.next_ready_at_ms(now_ms))
    if state.election_deadline_ms <= now_ms:
        # The next epoch, because every replica that has seen this one has its leader.
        core.to_unattached(state.epoch + 1, now_ms)
    return min(state.election_deadline_ms, core.requests.next_ready_at_ms(now_ms))


# ---------------------------------------------------------------- nominees


def _poll_candidate(core: RaftCore, state: Candidate, now_ms: int) -> float:
    if core.stop_at_ms is not None:
        return NEVER
    if state.election_deadline_ms <= now_ms:
        elections.become_prospective(core, now_ms)
        return now_ms
    return _send_votes(core, state, now_ms)


def _poll_prospective(core: RaftCore, state: Prospective, now_ms: int) -> float:
    if core.stop_at_ms is not None:
        return NEVER
    if state.election_deadline_ms <= now_ms:
        elections.give_up(core, now_ms)
        return now_ms
    return _send_votes(core, state, now_ms)


def _send_votes(core: RaftCore, state: Candidate | Prospective, now_ms: int) -> float:
    if state.votes.is_rejected:
        return state.election_deadline_ms
    for key in state.votes.unrecorded:
        _send_to_voter(core, key, elections.vote_request, now_ms)
    return min(state.election_deadline_ms, core.requests.next_ready_at_ms(now_ms))


def _send_to_voter(
    core: RaftCore, key: ReplicaKey, request: Callable[[RaftCore, ReplicaKey], Request], now_ms: int
) -> None:
    node = node_at(key.id, core.control.voters.endpoints(key.id), core.listener)
    if node is not None and core.requests.is_ready(node.id, now_ms):
        core.send(node, request(core, key), now_ms)


# ---------------------------------------------------------------- without the leadership


def _poll_unattached(core: RaftCore, state: Unattached, now_ms: int) -> float:
    if not core.is_log_durable:
        return NEVER  # the end of the sync polls again
    if core.may_stand and core.stop_at_ms is None:
        if state.election_deadline_ms == NEVER:
            # It became a voter with a snapshot.
            state.election_deadline_ms = now_ms + 2 * core.config.election_timeout_ms
        if state.election_deadline_ms <= now_ms:
            elections.become_prospective(core, now_ms)
            return now_ms
        return min(_fetch_from_any(core, now_ms), state.election_deadline_ms)
    return _fetch_from_any(core, now_ms)


def _poll_follower(core: RaftCore, state: Follower, now_ms: int) -> float:
    if core.stop_at_ms is not None or not core.is_log_durable:
        return NEVER  # a stopping replica fetches nothing; else the end of the sync polls again
    if core.may_stand and state.fetch_deadline_ms <= now_ms:
        elections.become_prospective(core, now_ms)
        return now_ms
    if core.quorum.is_voter:
        _update_voter(core, state, now_ms)
        due_ms = _fetch(core, state, now_ms)
        return min(due_ms, state.fetch_deadline_ms, _in_future(state.update_voter_at_ms, now_ms))
    if core.may_stand:
        return min(_fetch(core, state, now_ms), state.fetch_deadline_ms)
    if _joins(core):
        _join(core, state, now_ms)
        return min(_fetch(core, state, now_ms), _in_future(state.update_voter_at_ms, now_ms))
    return _fetch(core, state, now_ms)


def _in_future(at_ms: float, now_ms: int) -> float:
    """An overdue action waits for a request to end, whose end polls again."""
    return at_ms if at_ms > now_ms else NEVER


def _update_voter(core: RaftCore, state: Follower, now_ms: int) -> None:
    if state.update_voter_at_ms > now_ms:
        return
    if core.control.can_reconfigure:
        is_needed = core.control.voters.needs_update(core.local)
    else:
        is_needed = not state.has_told_directory  # for a kraft.version that has voters in the log
    if is_needed and not _send_to_leader(core, state, voter_changes.update_voter_request(core), now_ms):
        return
    state.update_voter_at_ms = now_ms + core.config.update_voter_interval_ms


def _joins(core: RaftCore) -> bool:
    return core.config.auto_join and core.can_become_voter and core.control.can_reconfigure


def _join(core: RaftCore, state: Follower, now_ms: int) -> None:
    if state.update_voter_at_ms > now_ms:
        return
    old = core.control.voters.get(core.local.key.id)
    request: Request
    if old is None:
        request = voter_changes.add_voter_request(core)
    else:
        request = voter_changes.remove_voter_request(core, old.key)
    if _send_to_leader(core, state, request, now_ms):
        state.update_voter_at_ms = now_ms + core.config.update_voter_interval_ms


def _leader_node(core: RaftCore, state: Follower) -> Node | None:
    return node_at(state.leader_id, state.leader_endpoints, core.listener)


def _send_to_leader(core: RaftCore, state: Follower, request: Request, now_ms: int) -> bool:
    node = _leader_node(core, state)
    if node is None or not core.requests.is_ready(node.id, now_ms):
        return False
    core.send(node, request, now_ms)
    return True


def _fetch(core: RaftCore, state: Follower, now_ms: int) -> float:
    """Fetches from the leader; while it does not answer, from others, which may have another leader."""
    id = state.leader_id
    if core.requests.has_timed_out(id, now_ms):
        core.requests.reset(id)
        return _fetch_from_any(core, now_ms)
    if core.requests.is_backing_off(id, now_ms):
        return _fetch_from_any(core, now_ms)
    if not core.requests.in_flight(now_ms):
        snapshot = state.fetching_snapshot
        request: Request
        if snapshot is None:
            request = fetching.fetch_request(core)
        else:
            request = snapshot_fetching.fetch_snapshot_request(core, snapshot)
        if not _send_to_leader(core, state, request, now_ms):
            return _fetch_from_any(core, now_ms)
    return core.requests.next_ready_at_ms(now_ms)


def _fetch_from_any(core: RaftCore, now_ms: int) -> float:
    node = core.requests.ready_bootstrap_server(now_ms)
    if node is not None:
        core.send(node, fetching.fetch_request(core), now_ms)
    return core.requests.next_ready_at_ms(now_ms)


_POLL: dict[type, Callable[[RaftCore, Any, int], float]] = {
    LeaderState: _poll_leader,
    Resigned: _poll_resigned,
    Candidate: _poll_candidate,
    Prospective: _poll_prospective,
    Unattached: _poll_unattached,
    Follower: _poll_follower,
}
