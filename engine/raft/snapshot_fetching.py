"""Copies a snapshot by FetchSnapshot, piece by piece, to a follower that the log cannot help (KIP-630)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bowstring.engine.raft import effects
from bowstring.engine.raft.core import RaftCore
from bowstring.engine.raft.fetching import fetched, follow_high_watermark
from bowstring.engine.raft.keys import BOOTSTRAP_SNAPSHOT, OffsetAndEpoch
from bowstring.engine.raft.leader import LeaderState
from bowstring.engine.raft.states import Follower, SnapshotFetch
from bowstring.protocol.errors import Error, Errors

if TYPE_CHECKING:
    from bowstring.engine.raft.messages import FetchSnapshotRequest, FetchSnapshotResponse

# ---------------------------------------------------------------- the leader


def handle_fetch_snapshot_request(
    core: RaftCore, token: object, request: FetchSnapshotRequest, now_ms: int
) -> None:
    """Answers with the bytes from a position on."""
    from bowstring.engine.raft.messages import ErrorResponse, FetchSnapshotResponse

    if not core.has_cluster_id(request.cluster_id):
        return core.respond(token, ErrorResponse(Errors.INCONSISTENT_CLUSTER_ID))
    leader_and_epoch = core.quorum.leader_and_epoch
    size_bytes = core.log.snapshot_size(request.snapshot_id)
    error = _snapshot_error(core, request, size_bytes)
    if error:
        return core.respond(token, FetchSnapshotResponse(leader_and_epoch, error))
    assert size_bytes is not None
    leader = core.quorum.state
    assert isinstance(leader, LeaderState)
    leader.heard_from(request.replica, now_ms)
    data = core.log.read_snapshot(request.snapshot_id, request.position, request.max_bytes)
    core.respond(
        token,
        FetchSnapshotResponse(
            *(leader_and_epoch, Errors.NONE, request.snapshot_id, size_bytes, request.position, data)
        ),
    )


def _snapshot_error(core: RaftCore, request: FetchSnapshotRequest, size_bytes: int | None) -> Error:
    error = core.leader_error(request.leader_epoch)
    if error:
        return error
    # The first leader copies the content of the bootstrap snapshot to the log, where followers find it.
    if size_bytes is None or request.snapshot_id == BOOTSTRAP_SNAPSHOT:
        return Errors.SNAPSHOT_NOT_FOUND
    return Errors.NONE if 0 <= request.position < size_bytes else Errors.POSITION_OUT_OF_RANGE


# ---------------------------------------------------------------- the follower


def fetch_snapshot_request(core: RaftCore, fetch: SnapshotFetch) -> FetchSnapshotRequest:
    """Returns the request for the next piece."""
    from bowstring.engine.raft.messages import FetchSnapshotRequest

    return FetchSnapshotRequest(
        *(core.cluster_id, core.local.key, core.quorum.epoch, fetch.id, fetch.position),
        core.config.fetch_snapshot_max_bytes,
    )


def handle_fetch_snapshot_response(
    core: RaftCore, source: int, response: FetchSnapshotResponse, now_ms: int
) -> bool:
    """Adds a piece, and has the snapshot installed after the last one; returns whether to continue at once.

    After an error, the follower sends a Fetch again, whose answer may name another snapshot.
    """
    handled = core.handle_leader_of_response(response.error, response.leader, now_ms)
    if handled is not None:
        return handled
    state = core.quorum.state
    if not isinstance(state, Follower) or state.fetching_snapshot is None:
        return True
    fetch = state.fetching_snapshot
    if response.error or response.snapshot_id != fetch.id or response.position != fetch.position:
        state.fetching_snapshot = None
        # Only a leader that no longer has the snapshot is alive and well.
        if response.error is not Errors.SNAPSHOT_NOT_FOUND:
            return False
    else:
        fetch.position = core.log.append_snapshot(fetch.id, response.data)
        if fetch.position == response.size_bytes:
            state.fetching_snapshot = None
            core.installing = fetch.id
            core.emit(effects.InstallSnapshot(fetch.id))
        elif fetch.position > response.size_bytes or not response.data:
            state.fetching_snapshot = None
            return False
    fetched(core, state, now_ms)
    return True


def snapshot_installed(core: RaftCore, id: OffsetAndEpoch) -> None:
    """Continues after the snapshot: what it covers is committed."""
    assert core.installing == id and core.end == id, (core.installing, core.end, id)
    core.installing = None
    core.control.load(core.log)
    state = core.quorum.state
    if isinstance(state, Follower):
        follow_high_watermark(core, state, id.offset)
    else:
        core.advance_high_watermark(id.offset)
