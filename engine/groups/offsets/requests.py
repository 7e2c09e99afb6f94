"""Handles OffsetCommit, OffsetFetch and OffsetDelete of one group. Topics have names here; the API layer
translates topic ids and refuses topics that do not exist.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

from bowstring._native.protocol.commit_requests import CommitRequest
from bowstring._native.protocol.fetched_offsets import OffsetQuery
from bowstring.engine.coordinators.effects import Record
from bowstring.engine.groups import records
from bowstring.engine.groups.append_errors import append_error_of_group
from bowstring.engine.groups.classic.group import ClassicGroup
from bowstring.engine.groups.classic.rebalance import restart_session
from bowstring.engine.groups.group import Group
from bowstring.engine.groups.offsets.collected import CollectedOffsets
from bowstring.engine.groups.offsets.store import NO_EXPIRY, CommittedOffset, OffsetKey, TopicOffsets
from bowstring.engine.groups.state import KeptAlive, RequestContext, ShardState
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from bowstring.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from bowstring.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

GROUP_ID_NOT_FOUND_VERSION = 9
NO_RETENTION_TIME = -1
NO_OFFSET = -1
_LATEST_MS: Final = (1 << 63) - 1
"""The latest time that a record can hold."""
_NO_SESSION: Final = KeptAlive(0, None)


# ---- OffsetCommit


def commit(
    state: ShardState, request: OffsetCommitRequest, context: RequestContext, token: object, now_ms: int
) -> None:
    """Writes the offsets; a member's commit counts as a heartbeat."""
    error = _check_commit(state, request, context, now_ms)
    if error:
        return state.respond(token, commit_error(request, error))
    expire_ms = NO_EXPIRY
    if request.retention_time_ms != NO_RETENTION_TIME:
        expire_ms = min(now_ms + request.retention_time_ms, _LATEST_MS)
    collected = CollectedOffsets(request.group_id, now_ms, expire_ms, state.config.offset_metadata_max_bytes)
    response = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=collected.add(
                    topic.name, topic.topic_id, topic.partitions, OffsetCommitResponsePartition
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
        written=partial(_apply_commit, state, offsets),
        finished=lambda error, now_ms: state.respond(
            token, commit_error(request, append_error_of_group(error)) if error else response
        ),
    )


def _check_commit(
    state: ShardState, request: OffsetCommitRequest, context: RequestContext, now_ms: int
) -> Error:
    group = state.groups.get(request.group_id)
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation >= 0:
            late = context.api_version >= GROUP_ID_NOT_FOUND_VERSION
            return Errors.GROUP_ID_NOT_FOUND if late else Errors.ILLEGAL_GENERATION
        # a consumer with manually assigned partitions, or an admin client: the group only holds offsets
        group = state.groups[request.group_id] = ClassicGroup(request.group_id, now_ms)
    error = group.check_offset_commit(
        request.member_id, request.group_instance_id, generation, api_version=context.api_version
    )
    check = None if error else group.partition_check(request.member_id, generation)
    if check is not None:
        error = first_error(
            check(topic.name, topic.topic_id, part.partition_index)
            for topic in request.topics
            for part in topic.partitions
        )
    if not error and isinstance(group, ClassicGroup) and not group.is_empty:
        restart_session(state, group, group.members[request.member_id])
    return error


def may_commit(state: ShardState, request: CommitRequest) -> KeptAlive | None:
    """Returns the session that a commit restarts (0: none), when it has no error, all of it can be written,
    and its group exists; otherwise None.
    """
    group = state.groups.get(request.group_id)
    if group is None:
        return None
    member_id, generation = request.member_id, request.generation
    if (
        group.check_offset_commit(member_id, request.instance_id, generation, api_version=request.version)
        or group.partition_check(member_id, generation) is not None
        or any(topic.longest > state.config.offset_metadata_max_bytes for topic in request.topics)
    ):
        return None
    if isinstance(group, ClassicGroup) and not group.is_empty:
        return KeptAlive(group.members[member_id].session_timeout_ms, None)
    return _NO_SESSION


def first_error(errors: Iterable[Error]) -> Error:
    """Returns the first error, or NONE."""
    return next((error for error in errors if error), Errors.NONE)


def _apply_commit(
    state: ShardState, offsets: list[tuple[OffsetKey, CommittedOffset]], base_offset: int
) -> None:
    for index, (key, offset) in enumerate(offsets):
        state.offsets.put(*key, offset._replace(record_offset=base_offset + index))


def commit_error(request: OffsetCommitRequest, error: Error) -> OffsetCommitResponse:
    """Returns a response with the same error for every partition of the request."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=error.code)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


# ---- OffsetFetch


def fetch(
    state: ShardState, request: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    """Returns the group's offsets for the requested topics, or for all; -1 for partitions without one.

    With `require_stable`, a partition with an offset in an open transaction is answered with
    UNSTABLE_OFFSET_COMMIT.
    """
    group = state.groups.get(request.group_id)
    error = Errors.GROUP_ID_NOT_FOUND
    if group is not None:
        error = group.check_offset_fetch(request.member_id, request.member_epoch)
    if error and error is not Errors.GROUP_ID_NOT_FOUND:
        return OffsetFetchResponseGroup(group_id=request.group_id, error_code=error.code)
    found = {} if error else state.offsets.of_group(request.group_id)
    wanted = request.topics
    if wanted is None:
        wanted = [
            OffsetFetchRequestTopics(name=name, partition_indexes=list(partitions))
            for name, partitions in found.items()
        ]
    topics = []
    for topic in wanted:
        partitions = found.get(topic.name, {})
        answers = []
        for index in topic.partition_indexes:
            offset = partitions.get(index)
            if require_stable and state.offsets.is_unstable(request.group_id, topic.name, index):
                answers.append(_no_offset(index, Errors.UNSTABLE_OFFSET_COMMIT.code))
            elif offset is None or not offset.is_of_topic(topic.topic_id):
                answers.append(_no_offset(index, 0))
            else:
                answers.append(
                    OffsetFetchResponsePartitions(
                        partition_index=index,
                        committed_offset=offset.offset,
                        committed_leader_epoch=offset.leader_epoch,
                        metadata=offset.metadata,
                    )
                )
        topics.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=answers))
    return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)


def stable_offsets(state: ShardState, query: OffsetQuery) -> TopicOffsets | None:
    """Returns the group's offsets, by topic and partition. None: the answer has an error, also for one of its
    partitions. Do not modify.
    """
    group = state.groups.get(query.group_id)
    if group is None:
        return {}
    error = group.check_offset_fetch(query.member_id, query.member_epoch)
    if error or (query.require_stable and state.offsets.has_open_transactions(query.group_id)):
        return None
    return state.offsets.of_group(query.group_id)


def _no_offset(index: int, error_code: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=-1,
        metadata="",
        error_code=error_code,
    )


# ---- OffsetDelete (KIP-496)


def delete(state: ShardState, request: OffsetDeleteRequest, token: object) -> None:
    """Deletes offsets of topics to which no member of the group subscribes."""
    group = state.groups.get(request.group_id)
    error = _check_delete(group, request)
    if error or group is None:
        return state.respond(token, OffsetDeleteResponse(error_code=error.code))
    doomed: list[OffsetKey] = []
    topics = []
    for topic in request.topics:
        subscribed = group.is_subscribed_to(topic.name)
        code = Errors.GROUP_SUBSCRIBED_TO_TOPIC.code if subscribed else 0
        answers = []
        for part in topic.partitions:
            key = (request.group_id, topic.name, part.partition_index)
            answers.append(
                OffsetDeleteResponsePartition(partition_index=part.partition_index, error_code=code)
            )
            held = state.offsets.get(*key) is not None or state.offsets.is_unstable(*key)
            if held and not subscribed:
                doomed.append(key)
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
    response = OffsetDeleteResponse(topics=topics)
    if not doomed:
        return state.respond(token, response)
    tombstones: list[Record] = [records.offset_tombstone(*key) for key in doomed]
    return state.append(
        tombstones,
        written=partial(_apply_delete, state, doomed),
        finished=lambda error, now_ms: state.respond(
            token, OffsetDeleteResponse(error_code=append_error_of_group(error).code) if error else response
        ),
    )


def _check_delete(group: Group | None, request: OffsetDeleteRequest) -> Error:
    if not request.group_id:
        return Errors.INVALID_GROUP_ID
    return Errors.GROUP_ID_NOT_FOUND if group is None else group.check_offset_delete()


def _apply_delete(state: ShardState, doomed: list[OffsetKey], base_offset: int) -> None:
    for key in doomed:
        state.offsets.remove(*key)
