"""Handles TxnOffsetCommit: stores offsets that count once their transaction commits, and the markers that
end it.
"""

from functools import partial
from typing import Final

from bowstring.engine.coordinators.effects import TransactionalProducer
from bowstring.engine.groups import records
from bowstring.engine.groups.append_errors import append_error_of_group
from bowstring.engine.groups.classic.group import ClassicGroup
from bowstring.engine.groups.offsets.collected import CollectedOffsets
from bowstring.engine.groups.offsets.requests import first_error
from bowstring.engine.groups.offsets.store import NO_EXPIRY, CommittedOffset, OffsetKey
from bowstring.engine.groups.state import ShardState
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

# From this version on an unknown group and a stale member epoch have errors of their own (KIP-1319).
_NAMED_ERRORS_VERSION: Final = 6


def commit_error(request: TxnOffsetCommitRequest, error: Error) -> TxnOffsetCommitResponse:
    """Returns a response with the same error for every partition of the request."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=part.partition_index, error_code=error.code
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def commit(
    state: ShardState,
    request: TxnOffsetCommitRequest,
    topic_ids: dict[str, bytes],
    token: object,
    now_ms: int,
    *,
    verification: int,
    version: int,
) -> None:
    """Writes the offsets as part of the producer's transaction; answers with a TxnOffsetCommitResponse.

    Args:
        topic_ids: Of the topics in the request, which all exist.
        verification: What `PartitionLog.verify` returned before the coordinator confirmed the transaction.
        version: Of the request.
    """
    error = _check(state, request, topic_ids, now_ms)
    if version < _NAMED_ERRORS_VERSION and error in (Errors.STALE_MEMBER_EPOCH, Errors.GROUP_ID_NOT_FOUND):
        error = Errors.ILLEGAL_GENERATION
    if error:
        return state.respond(token, commit_error(request, error))
    collected = CollectedOffsets(request.group_id, now_ms, NO_EXPIRY, state.config.offset_metadata_max_bytes)
    response = TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic_ids[topic.name],
                partitions=collected.add(
                    topic.name, topic_ids[topic.name], topic.partitions, TxnOffsetCommitResponsePartition
                ),
            )
            for topic in request.topics
        ]
    )
    offsets: list[tuple[OffsetKey, CommittedOffset]] = collected.offsets
    if not offsets:
        return state.respond(token, response)
    return state.append(
        [records.offset_commit(*key, offset) for key, offset in offsets],
        written=partial(_apply, state, request.producer_id, offsets),
        finished=lambda error, now_ms: state.respond(
            token, commit_error(request, append_error_of_group(error)) if error else response
        ),
        producer=TransactionalProducer(request.producer_id, request.producer_epoch, verification),
    )


def _check(
    state: ShardState, request: TxnOffsetCommitRequest, topic_ids: dict[str, bytes], now_ms: int
) -> Error:
    if not request.group_id:
        return Errors.INVALID_GROUP_ID
    group = state.groups.get(request.group_id)
    if group is None:
        if request.generation_id_or_member_epoch >= 0:
            return Errors.GROUP_ID_NOT_FOUND
        group = state.groups[request.group_id] = ClassicGroup(request.group_id, now_ms)
    generation = request.generation_id_or_member_epoch
    error = group.check_offset_commit(
        request.member_id, request.group_instance_id, generation, transactional=True
    )
    check = None if error else group.partition_check(request.member_id, generation)
    if check is not None:
        error = first_error(
            check(topic.name, topic_ids[topic.name], part.partition_index)
            for topic in request.topics
            for part in topic.partitions
        )
    return error


def _apply(
    state: ShardState, producer_id: int, offsets: list[tuple[OffsetKey, CommittedOffset]], base_offset: int
) -> None:
    for index, (key, offset) in enumerate(offsets):
        state.offsets.put_pending(producer_id, key, offset._replace(record_offset=base_offset + index))


def end_transaction(
    state: ShardState, batch: bytes, producer_id: int, token: object, *, commit: bool, version: int
) -> None:
    """Writes the marker of a transaction, and commits or drops its offsets; answers with an Error."""
    state.append_marker(
        batch,
        version,
        written=lambda base_offset: state.offsets.end_transaction(producer_id, commit=commit),
        finished=lambda error, now_ms: state.respond(token, error),
    )
