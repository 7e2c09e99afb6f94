"""Replicates by Fetch: followers fetch from their log's end on, which shows the leader what they have
(KIP-595).

The leader compares the offset and the epoch before it with its own log. Where they differ, it names the end
of the last epoch that both may have, and the follower cuts its log there; if the leader has only a snapshot
of what the follower lacks, it names the snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bowstring._native.record.decode import batch_headers
from bowstring._native.record.types import BatchHeader, CorruptBatch
from bowstring.engine.raft import voter_changes
from bowstring.engine.raft.core import RaftCore
from bowstring.engine.raft.fetch_validation import Validity, validate_fetch
from bowstring.engine.raft.keys import OffsetAndEpoch
from bowstring.engine.raft.leader import DelayedFetch, LeaderState
from bowstring.engine.raft.log import RaftLog
from bowstring.engine.raft.states import Follower, SnapshotFetch
from bowstring.protocol.errors import Error, Errors

if TYPE_CHECKING:
    from bowstring.engine.raft.messages import FetchRequest, FetchResponse

# ---------------------------------------------------------------- the leader


def handle_fetch_request(core: RaftCore, token: object, request: FetchRequest, now_ms: int) -> None:
    """Answers at once, or when there is something to report: records, or a higher high watermark."""
    from bowstring.engine.raft.messages import ErrorResponse

    if not core.has_cluster_id(request.cluster_id):
        return core.respond(token, ErrorResponse(Errors.INCONSISTENT_CLUSTER_ID))
    error = _fetch_error(core, request)
    if error:
        return core.respond(token, refusal(core, error))
    leader = core.quorum.state
    assert isinstance(leader, LeaderState)
    response = fetch_response(core, leader, request)
    is_valid = response.diverging is None and response.snapshot_id is None
    if is_valid:
        end = core.log.end_offset
        if leader.follower_fetched(request.replica, request.end.offset, end, now_ms):
            high_watermark_rose(core, leader, now_ms)
            response = response._replace(high_watermark=_known(leader.high_watermark))
    can_wait = is_valid and not response.records and request.max_wait_ms > 0
    if can_wait and request.high_watermark >= response.high_watermark:
        deadline_ms = now_ms + request.max_wait_ms
        leader.delayed.append(DelayedFetch(token, request, response.high_watermark, deadline_ms))
    else:
        core.respond(token, response)


def _fetch_error(core: RaftCore, request: FetchRequest) -> Error:
    end = request.end
    if end.offset < 0 or not 0 <= end.epoch <= request.leader_epoch or request.max_wait_ms < 0:
        return Errors.INVALID_REQUEST
    error = core.leader_error(request.leader_epoch)
    if not error and request.replica.id == core.local.key.id:
        return Errors.INVALID_REQUEST
    return error


def fetch_response(core: RaftCore, leader: LeaderState, request: FetchRequest) -> FetchResponse:
    """Returns what a follower lacks."""
    from bowstring.engine.raft.messages import FetchResponse

    validation = validate_fetch(core.log, *request.end)
    has_more = validation.kind == Validity.VALID and request.end.offset < core.log.end_offset
    return FetchResponse(
        core.quorum.leader_and_epoch,
        high_watermark=_known(leader.high_watermark),
        log_start_offset=core.log.start_offset,
        diverging=validation.at if validation.kind == Validity.DIVERGING else None,
        snapshot_id=validation.at if validation.kind == Validity.SNAPSHOT else None,
        records=core.log.read(request.end.offset, request.max_bytes) if has_more else b"",
    )


def refusal(core: RaftCore, error: Error) -> FetchResponse:
    """Returns the answer of a replica that does not lead the request's epoch."""
    from bowstring.engine.raft.messages import FetchResponse

    return FetchResponse(core.quorum.leader_and_epoch, error)


def _known(high_watermark: int | None) -> int:
    return -1 if high_watermark is None else high_watermark


def complete_delayed(core: RaftCore, leader: LeaderState) -> None:
    """Answers the waiting fetches for which there are records now."""
    waiting, leader.delayed = leader.delayed, []
    for each in waiting:
        response = fetch_response(core, leader, each.request)
        if response.records or response.high_watermark > each.high_watermark:
            core.respond(each.token, response)
        else:
            leader.delayed.append(each)


def expire_delayed(core: RaftCore, leader: LeaderState, now_ms: int) -> None:
    """Answers the fetches that have waited long enough."""
    due = [each for each in leader.delayed if each.deadline_ms <= now_ms]
    if due:
        leader.delayed = [each for each in leader.delayed if each.deadline_ms > now_ms]
        for each in due:
            core.respond(each.token, fetch_response(core, leader, each.request))


def append_collected(core: RaftCore, leader: LeaderState) -> bool:
    """Writes the records that were collected, and requests a sync; returns whether they could be written."""
    if not core.append(leader.accumulator.drain()):
        return False
    core.flush()
    complete_delayed(core, leader)
    return True


def leader_log_flushed(core: RaftCore, leader: LeaderState, durable_end_offset: int, now_ms: int) -> None:
    """Counts the leader's own durable records."""
    if leader.update_local_end(durable_end_offset):
        high_watermark_rose(core, leader, now_ms)


def high_watermark_rose(core: RaftCore, leader: LeaderState, now_ms: int) -> None:
    """Reports the new high watermark to the shell, and answers what waits for it."""
    assert leader.high_watermark is not None
    core.advance_high_watermark(leader.high_watermark)
    voter_changes.high_watermark_rose(core, leader)
    complete_delayed(core, leader)


# ---------------------------------------------------------------- the follower


def fetch_request(core: RaftCore) -> FetchRequest:
    """Returns the request to the leader, or to a node that may have its address."""
    from bowstring.engine.raft.messages import FetchRequest

    assert core.is_log_durable, "a fetch says that the replica has what is below its offset"
    high_watermark = core.quorum.state.high_watermark
    return FetchRequest(
        *(core.cluster_id, core.local.key, core.quorum.epoch, core.end, _known(high_watermark)),
        *(core.config.fetch_max_wait_ms, core.config.fetch_max_bytes),
    )


def handle_fetch_response(core: RaftCore, source: int, response: FetchResponse, now_ms: int) -> bool:
    """Appends, truncates or begins to fetch a snapshot; returns whether to continue at once."""
    handled = core.handle_leader_of_response(response.error, response.leader, now_ms)
    if handled is not None or response.error:
        return bool(handled)
    state = core.quorum.state
    if not isinstance(state, Follower):
        return True
    core.learn_endpoints(response.leader)
    if response.diverging is not None:
        core.truncate_to(truncation_offset(core.log, response.diverging))
    elif response.snapshot_id is not None:
        if not _is_fetchable(core, response.snapshot_id):
            return False
        core.log.begin_snapshot(response.snapshot_id)
        state.fetching_snapshot = SnapshotFetch(response.snapshot_id)
    else:
        if response.records and not append_fetched(core, response.records):
            return False
        follow_high_watermark(core, state, response.high_watermark)
    fetched(core, state, now_ms)
    return True


def truncation_offset(log: RaftLog, diverging: OffsetAndEpoch) -> int:
    """Returns where a follower truncates to: the end of the leader's epoch, or of its own last epoch up to
    that, whichever is smaller.
    """
    own = log.end_offset_for_epoch(diverging.epoch)
    if own.epoch != diverging.epoch:
        return own.offset
    return min(own.offset, diverging.offset)


def _is_fetchable(core: RaftCore, id: OffsetAndEpoch) -> bool:
    return id.epoch >= 0 and id.offset > core.log.start_offset


def fetched(core: RaftCore, state: Follower, now_ms: int) -> None:
    """Waits for the leader again."""
    core.vain_attempts = 0
    state.fetch_deadline_ms = now_ms + core.config.fetch_timeout_ms
    state.has_fetched = True


def append_fetched(core: RaftCore, records: bytes) -> bool:
    """Appends what the leader sent, if it is whole and continues the log; returns whether it did."""
    try:
        headers = batch_headers(records)
    except CorruptBatch as error:
        core.note(f"the records of the leader are refused: {error}")
        return False
    if not headers:
        core.note("the records of the leader are refused: not one batch is whole")
        return False
    wrong = _first_wrong(core, headers)
    if wrong is not None:
        core.note(f"the records of the leader are refused: {wrong}, after {core.end}")
        return False
    # The last batch of an answer may be cut off by its limit.
    if not core.append([records[: headers[-1].position + headers[-1].size_bytes]], headers):
        return False
    if core.can_become_voter or core.quorum.is_voter:
        core.flush()
    return True


def _first_wrong(core: RaftCore, headers: list[BatchHeader]) -> BatchHeader | None:
    offset, epoch = core.end
    for header in headers:
        in_place = header.base_offset == offset and epoch <= header.leader_epoch <= core.quorum.epoch
        if not in_place or header.crc_ok is False:
            return header
        offset, epoch = header.last_offset + 1, header.leader_epoch
    return None


def follow_high_watermark(core: RaftCore, state: Follower, high_watermark: int) -> None:
    """Adopts the leader's high watermark, as far as the log reaches."""
    reached = min(high_watermark, core.log.end_offset)
    if reached > (state.high_watermark or 0):
        state.high_watermark = reached
        core.advance_high_watermark(reached)
