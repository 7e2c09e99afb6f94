"""Handles DescribeQuorum: how far each replica is, as the leader has it (KIP-595, KIP-836)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bowstring.engine.raft.core import RaftCore
from bowstring.engine.raft.leader import LeaderState, ReplicaState
from bowstring.protocol.errors import Errors

if TYPE_CHECKING:
    from bowstring.engine.raft.messages import DescribeQuorumRequest, ReplicaProgress


def handle_describe_quorum_request(
    core: RaftCore, token: object, request: DescribeQuorumRequest, now_ms: int
) -> None:
    """Describes the quorum; only its leader can."""
    from bowstring.engine.raft.messages import DescribeQuorumResponse

    leader = core.quorum.state
    leader_and_epoch = core.quorum.leader_and_epoch
    if isinstance(leader, LeaderState):
        response = DescribeQuorumResponse(
            leader_and_epoch,
            high_watermark=-1 if leader.high_watermark is None else leader.high_watermark,
            voters=tuple(_progress(core, each, now_ms) for each in leader.voter_states()),
            observers=tuple(_progress(core, each, now_ms) for each in leader.observer_states(now_ms)),
        )
    else:
        response = DescribeQuorumResponse(leader_and_epoch, Errors.NOT_LEADER_OR_FOLLOWER)
    core.respond(token, response)


def _progress(core: RaftCore, state: ReplicaState, now_ms: int) -> ReplicaProgress:
    from bowstring.engine.raft.messages import ReplicaProgress

    endpoints = core.control.voters.endpoints(state.key.id)
    if state.key.id == core.local.key.id:
        return ReplicaProgress(state.key, core.log.end_offset, now_ms, now_ms, endpoints)
    return ReplicaProgress(
        state.key,
        -1 if state.end_offset is None else state.end_offset,
        -1 if state.last_fetch_ms is None else state.last_fetch_ms,
        -1 if state.last_caught_up_ms is None else state.last_caught_up_ms,
        endpoints,
    )
