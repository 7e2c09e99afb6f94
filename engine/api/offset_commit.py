"""Handles OffsetCommit: stores the offsets up to which a group has consumed.

Versions: 2-4 a retention time; 6 leader epochs; 7 static members; 9 member epochs and GROUP_ID_NOT_FOUND; 10
topic ids instead of names.
"""

from collections.abc import Callable, Iterator, Set
from itertools import islice
from typing import TYPE_CHECKING, Final

from bowstring._native.protocol.commit_requests import decode_commit, encode_commit_answer
from bowstring.engine.api.denials import denied_among, names_of
from bowstring.engine.api.partition_answers import Answers
from bowstring.engine.api.request_context import request_context
from bowstring.engine.groups.append_errors import append_error_of_group
from bowstring.engine.groups.offsets.requests import commit_error
from bowstring.engine.requests.time_slices import is_large, streamed
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.ids import ZERO_UUID
from bowstring.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.metadata.image import ClusterImage, Metadata
    from bowstring.engine.requests.request import Received, Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer

# Looking up members of an enumeration takes longer than a decision.
_READ: Final = AclOperation.READ
_GROUP: Final = AclResourceType.GROUP
_TOPIC: Final = AclResourceType.TOPIC
_TOPIC_ID_VERSION = 10
_AT_ONCE = 500
# Minimum size of the record of one committed offset, beyond group, topic and metadata.
_RECORD_MIN_BYTES = 40
_TOO_MUCH = append_error_of_group(Errors.MESSAGE_TOO_LARGE)


def gather(
    message: "Received",
    reply: Callable[[bytes], None],
    *,
    metadata: "Metadata",
    groups: "GroupCoordinatorService",
    authorizer: "Authorizer",
) -> bool:
    """Takes a commit that has no error and only writes offsets, the usual case; False: call `handle`."""
    request = decode_commit(message.api_version, message.body)
    if request is None:
        return False
    image, by_id = metadata.image, message.api_version >= _TOPIC_ID_VERSION
    for topic in request.topics:
        found = image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)
        if found is None or not 0 <= topic.highest < len(found.partitions):
            return False
        topic.name, topic.topic_id = found.name, found.id
    if authorizer.is_on:
        asked = [(_READ, _GROUP, request.group_id)]
        asked += [(_READ, _TOPIC, topic.name) for topic in request.topics]
        if not authorizer.permits(message, asked):
            return False
    correlation_id = message.correlation_id
    is_taken = groups.gather_commit(
        request, lambda error: reply(encode_commit_answer(request, correlation_id, error.code))
    )
    if is_taken and authorizer.is_on:
        authorizer.note_permitted(message, asked)
    return is_taken


def write(*, groups: "GroupCoordinatorService") -> None:
    """Writes the commits that were gathered, and answers them when they are committed."""
    groups.write_gathered()


async def handle(
    request: "Request",
    *,
    metadata: "Metadata",
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    authorizer: "Authorizer",
) -> OffsetCommitResponse:
    """Commits for the partitions that exist; other partitions get their own errors, and those of topics that
    the client may not read TOPIC_AUTHORIZATION_FAILED, whether they exist or not.
    """
    body: OffsetCommitRequest = request.body
    names = names_of(metadata.image, body.topics, by_id=request.version >= _TOPIC_ID_VERSION)
    denied = await denied_among(
        authorizer, request, AclOperation.READ, AclResourceType.TOPIC, names, time_slices=time_slices
    )
    if is_large(body.topics) or any(len(topic.partitions) > _AT_ONCE for topic in body.topics):
        return await _commit_in_portions(metadata, time_slices, groups, request, denied)
    refused: list[OffsetCommitResponseTopic] = []
    body.topics = [
        known
        for topic in body.topics
        if (known := _known(metadata.image, topic, request.version, refused, denied)).partitions
    ]
    answer = await _commit(groups, request, body.topics) if body.topics else OffsetCommitResponse()
    answer.topics = _merged(refused, answer.topics)
    return answer


# ---- very many partitions


async def _commit_in_portions(
    metadata: "Metadata",
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    request: "Request",
    denied: Set[str],
) -> OffsetCommitResponse:
    """Commits some hundred partitions at a time, each portion in one append. As with a single append, refuses
    all partitions if together they exceed the most that one append may hold.
    """
    body: OffsetCommitRequest = request.body
    answers = Answers()
    # As in Kafka, refused partitions come first.
    size_bytes = 0
    async for topic in time_slices.each(body.topics):
        name, topic_id, count, error = _found(metadata.image, topic, request.version, denied)
        async for part in time_slices.each(topic.partitions):
            if not 0 <= part.partition_index < count:
                refused_id = topic_id if count or request.version >= _TOPIC_ID_VERSION else ZERO_UUID
                answers.add(name, refused_id, part.partition_index, error.code)
            else:
                size_bytes += _RECORD_MIN_BYTES + len(body.group_id) + len(name)
                size_bytes += len(part.committed_metadata or "")
    too_much = size_bytes > groups.max_batch_bytes
    portion: list[OffsetCommitRequestTopic] = []
    room = _AT_ONCE
    async for topic in time_slices.each(body.topics):
        name, topic_id, count, _ = _found(metadata.image, topic, request.version, denied)
        known = (part for part in topic.partitions if 0 <= part.partition_index < count)
        while partitions := list(islice(known, room)):
            portion.append(OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=partitions))
            room -= len(partitions)
            if room == 0:
                await _commit_portion(time_slices, groups, request, portion, answers, too_much=too_much)
                portion, room = [], _AT_ONCE
    await _commit_portion(time_slices, groups, request, portion, answers, too_much=too_much)
    return OffsetCommitResponse(topics=streamed(answers.topics(_answer)))


def _answer(name: str, topic_id: bytes, partitions: Iterator[tuple[int, int]]) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=name,
        topic_id=topic_id,
        partitions=streamed(
            OffsetCommitResponsePartition(partition_index=index, error_code=code)
            for index, code in partitions
        ),
    )


async def _commit_portion(
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    request: "Request",
    portion: list[OffsetCommitRequestTopic],
    answers: Answers,
    *,
    too_much: bool,
) -> None:
    if too_much:
        answer = commit_error(OffsetCommitRequest(topics=portion), _TOO_MUCH)
    elif portion:
        answer = await _commit(groups, request, portion)
    else:
        return
    for topic in answer.topics:
        for part in topic.partitions:
            answers.add(topic.name, topic.topic_id, part.partition_index, part.error_code)
    if time_slices.over():
        await time_slices.rest()


async def _commit(
    groups: "GroupCoordinatorService", request: "Request", topics: list[OffsetCommitRequestTopic]
) -> OffsetCommitResponse:
    whole: OffsetCommitRequest = request.body
    body = OffsetCommitRequest(
        group_id=whole.group_id,
        generation_id_or_member_epoch=whole.generation_id_or_member_epoch,
        member_id=whole.member_id,
        group_instance_id=whole.group_instance_id,
        retention_time_ms=whole.retention_time_ms,
        topics=topics,
    )
    context = request_context(request)
    try:
        answer: OffsetCommitResponse = await groups.ask(
            body.group_id, lambda shard, token, now_ms: shard.commit_offsets(body, context, token, now_ms)
        )
    except KafkaError as error:
        return commit_error(body, error.error)
    return answer


def _found(
    image: "ClusterImage", topic: OffsetCommitRequestTopic, version: int, denied: Set[str]
) -> tuple[str, bytes, int, Error]:
    """Returns name, id and number of partitions of a topic (0: it does not exist, or is denied), and the
    error of all other partitions.
    """
    if version >= _TOPIC_ID_VERSION:
        found = image.topics_by_id.get(topic.topic_id)
        error = Errors.UNKNOWN_TOPIC_ID if found is None else Errors.UNKNOWN_TOPIC_OR_PARTITION
    else:
        found = image.topics.get(topic.name)
        error = Errors.UNKNOWN_TOPIC_OR_PARTITION
    if (topic.name if found is None else found.name) in denied:
        return topic.name, topic.topic_id, 0, Errors.TOPIC_AUTHORIZATION_FAILED
    if found is None:
        return topic.name, topic.topic_id, 0, error
    return found.name, found.id, len(found.partitions), error


# ---- as many as clients commit


def _known(
    image: "ClusterImage",
    topic: OffsetCommitRequestTopic,
    version: int,
    refused: list[OffsetCommitResponseTopic],
    denied: Set[str],
) -> OffsetCommitRequestTopic:
    """Returns the topic with name and id and its existing partitions; adds the others to `refused`."""
    name, topic_id, count, error = _found(image, topic, version, denied)
    unknown = [part for part in topic.partitions if not 0 <= part.partition_index < count]
    if unknown:
        refused.append(
            OffsetCommitResponseTopic(
                name=name,
                topic_id=topic_id if count or version >= _TOPIC_ID_VERSION else ZERO_UUID,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=error.code)
                    for part in unknown
                ],
            )
        )
    known = [part for part in topic.partitions if 0 <= part.partition_index < count]
    return OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=known)


def _merged(
    refused: list[OffsetCommitResponseTopic], answered: list[OffsetCommitResponseTopic]
) -> list[OffsetCommitResponseTopic]:
    """Merges answers so that each topic appears once; as in Kafka, refused partitions come first."""
    topics = {(topic.name, topic.topic_id): topic for topic in refused}
    for topic in answered:
        known = topics.setdefault((topic.name, topic.topic_id), topic)
        if known is not topic:
            known.partitions += topic.partitions
    return list(topics.values())
