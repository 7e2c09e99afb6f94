"""Handles OffsetFetch: returns committed offsets of groups.

Versions: 2 all topics of the group, and a top-level error; 7 stable offsets only (KIP-447); 8 several groups
(KIP-709); 9 member ids and epochs; 10 topic ids instead of names.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Set
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bowstring._native.protocol.fetched_offsets import decode_offset_fetch, encode_offsets
from bowstring.engine.api.denials import NONE_DENIED, denied_among, denies, hides, names_of
from bowstring.engine.requests.time_slices import portions, streamed
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.ids import ZERO_UUID
from bowstring.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Received, Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer

# Looking up members of an enumeration takes longer than a decision.
_DESCRIBE: Final = AclOperation.DESCRIBE
_GROUP: Final = AclResourceType.GROUP
_TOPIC: Final = AclResourceType.TOPIC
_GROUP_ERROR_VERSION = 2
_BATCH_VERSION = 8
_TOPIC_ID_VERSION = 10
_NO_OFFSET = -1
_AT_ONCE = 500


def encoded(
    message: "Received", *, metadata: "Metadata", groups: "GroupCoordinatorService", authorizer: "Authorizer"
) -> bytes | None:
    """Answers for one group and few partitions that exist and the client may see, if nothing is about to
    change them, the usual case; None: call `handle`.
    """
    query = decode_offset_fetch(message.api_version, message.body)
    if query is None:
        return None
    if query.topic_ids is not None:
        by_id = metadata.image.topics_by_id
        topics = [by_id.get(topic_id) for topic_id in query.topic_ids]
        query.names = [topic.name for topic in topics if topic is not None]
        if len(query.names) < len(topics):
            return None
    if authorizer.is_on:
        asked = [(_DESCRIBE, _GROUP, query.group_id)]
        asked += [(_DESCRIBE, _TOPIC, name) for name in query.names]
        if not authorizer.permits(message, asked):
            return None
    found = groups.offsets_at_once(query)
    if found is None:
        return None
    if authorizer.is_on:
        authorizer.note_permitted(message, asked)
    return encode_offsets(query, message.correlation_id, found)


async def handle(
    request: "Request",
    *,
    metadata: "Metadata",
    groups: "GroupCoordinatorService",
    authorizer: "Authorizer",
    time_slices: "TimeSlices",
) -> OffsetFetchResponse:
    """Answers for every requested group, in order.

    Behaviour: a group that the client may not describe is refused. A topic that it may not describe gets
    TOPIC_AUTHORIZATION_FAILED, after the others; if all topics are requested, it is left out.
    """
    body: OffsetFetchRequest = request.body
    rights = _Rights(authorizer, request, metadata, time_slices)
    if request.version >= _BATCH_VERSION:
        return OffsetFetchResponse(groups=streamed(_groups(metadata, groups, request, rights)))
    topics: Any = body.topics
    group = OffsetFetchRequestGroup(group_id=body.group_id, topics=topics)
    answer = OffsetFetchResponse()
    fetched = await _fetch(metadata, groups, request, group, answer, rights=rights)
    answer.error_code = fetched.error_code
    answer.topics = streamed(_singles(fetched.topics))
    return answer


class _Rights:
    """What the client may see."""

    def __init__(
        self, authorizer: "Authorizer", request: "Request", metadata: "Metadata", time_slices: "TimeSlices"
    ) -> None:
        self._asked = (authorizer, request, AclOperation.DESCRIBE)
        self._image = metadata.image
        self._by_id = request.version >= _TOPIC_ID_VERSION
        self._time_slices = time_slices

    def denies_group(self, group_id: str) -> bool:
        """Returns whether the client may not describe a group."""
        return denies(*self._asked, AclResourceType.GROUP, group_id)

    def hides(self, topic: str) -> bool:
        """Returns whether the client may not see a topic among all."""
        return hides(*self._asked, AclResourceType.TOPIC, topic)

    async def denied_topics(self, topics: Iterable[Any]) -> Set[str]:
        """Returns the names of requested topics that the client may not describe."""
        names = names_of(self._image, topics, by_id=self._by_id)
        return await denied_among(*self._asked, AclResourceType.TOPIC, names, time_slices=self._time_slices)


async def _groups(
    metadata: "Metadata", groups: "GroupCoordinatorService", request: "Request", rights: _Rights
) -> AsyncIterator[OffsetFetchResponseGroup]:
    for group in request.body.groups:
        answer = OffsetFetchResponseGroup(group_id=group.group_id)
        fetched = await _fetch(metadata, groups, request, group, answer, rights=rights)
        answer.error_code, answer.topics = fetched.error_code, fetched.topics
        yield answer


async def _singles(topics: Any) -> AsyncIterator[OffsetFetchResponseTopic]:
    """Converts topics to the form of versions before 8."""
    async for topic in _all_of(topics):
        yield OffsetFetchResponseTopic(name=topic.name, partitions=streamed(_single(topic.partitions)))


async def _single(partitions: Any) -> AsyncIterator[OffsetFetchResponsePartition]:
    async for part in _all_of(partitions):
        yield OffsetFetchResponsePartition(
            partition_index=part.partition_index,
            committed_offset=part.committed_offset,
            committed_leader_epoch=part.committed_leader_epoch,
            metadata=part.metadata,
            error_code=part.error_code,
        )


async def _all_of(elements: Any) -> AsyncIterator[Any]:
    """Returns the elements of a list or of an asynchronous generator."""
    if hasattr(elements, "__anext__"):
        async for each in elements:
            yield each
    else:
        for each in elements:
            yield each


# ---- one group


class Fetched(NamedTuple):
    """Answer for one group; topics may still be generated, and an error may come with them."""

    error_code: int
    topics: Any


async def _fetch(
    metadata: "Metadata",
    groups: "GroupCoordinatorService",
    request: "Request",
    group: OffsetFetchRequestGroup,
    answer: Any,
    *,
    rights: _Rights,
) -> Fetched:
    """Queries the coordinator for some hundred partitions at a time; sets a late error in `answer`."""
    if rights.denies_group(group.group_id):
        return _refused(request, group.topics, Errors.GROUP_AUTHORIZATION_FAILED)
    denied: Set[str] = NONE_DENIED
    wanted: Iterator[OffsetFetchRequestTopics]
    if group.topics is None:
        try:
            held = groups.shard_of(group.group_id).offsets.of_group(group.group_id)
        except KafkaError as error:
            return _refused(request, group.topics, error.error)
        if sum(map(len, held.values())) <= _AT_ONCE:
            found = await _ask(metadata, groups, request, group, None)
            return found._replace(topics=[each for each in found.topics if not rights.hides(each.name)])
        wanted = (each for each in _everything(metadata, request, held) if not rights.hides(each.name))
    else:
        denied = await rights.denied_topics(group.topics)
        wanted = _asked_for(metadata, request, group.topics, denied)
        if _is_small(group.topics):
            known = list(wanted)
            found = await _ask(metadata, groups, request, group, known)
            if found.error_code == 0:
                found.topics.extend(_failures(metadata, request, group.topics, denied))
            return found
    failures = _failures(metadata, request, group.topics or (), denied)
    portioned = _in_portions(request, group, wanted, answer, failures, metadata=metadata, groups=groups)
    return Fetched(0, portioned)


def _is_small(topics: Any) -> bool:
    return len(topics) <= _AT_ONCE and sum(len(topic.partition_indexes) for topic in topics) <= _AT_ONCE


def _asked_for(
    metadata: "Metadata", request: "Request", topics: Any, denied: Set[str]
) -> Iterator[OffsetFetchRequestTopics]:
    """Yields the requested topics that exist and are not denied, by name."""
    for topic in topics:
        name, topic_id = topic.name, ZERO_UUID
        if request.version >= _TOPIC_ID_VERSION:
            topic_id = topic.topic_id
            found = metadata.image.topics_by_id.get(topic_id)
            if found is None:
                continue
            name = found.name
        if name not in denied:
            yield OffsetFetchRequestTopics(
                name=name, topic_id=topic_id, partition_indexes=topic.partition_indexes
            )


def _failures(
    metadata: "Metadata", request: "Request", topics: Any, denied: Set[str]
) -> Iterator[OffsetFetchResponseTopics]:
    """Yields the answers for requested topics that are unknown or denied."""
    by_id = request.version >= _TOPIC_ID_VERSION
    for topic in topics if by_id or denied else ():
        name = topic.name
        if by_id:
            found = metadata.image.topics_by_id.get(topic.topic_id)
            if found is None:
                yield _failed(topic, Errors.UNKNOWN_TOPIC_ID)
                continue
            name = found.name
        if name in denied:
            yield _failed(topic, Errors.TOPIC_AUTHORIZATION_FAILED)


def _everything(
    metadata: "Metadata", request: "Request", held: Mapping[str, Mapping[int, object]]
) -> Iterator[OffsetFetchRequestTopics]:
    """Yields all topics with offsets of the group; by id, only topics that exist."""
    image = metadata.image
    for name in list(held):
        topic = image.topics.get(name)
        if request.version >= _TOPIC_ID_VERSION and topic is None:
            continue
        topic_id = ZERO_UUID if topic is None or request.version < _TOPIC_ID_VERSION else topic.id
        yield OffsetFetchRequestTopics(
            name=name, topic_id=topic_id, partition_indexes=list(held.get(name, ()))
        )


async def _ask(
    metadata: "Metadata",
    groups: "GroupCoordinatorService",
    request: "Request",
    group: OffsetFetchRequestGroup,
    topics: list[OffsetFetchRequestTopics] | None,
) -> Fetched:
    asked = OffsetFetchRequestGroup(
        group_id=group.group_id,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
        topics=topics,
    )
    try:
        answer: OffsetFetchResponseGroup = await groups.ask(
            group.group_id,
            lambda shard, token, now_ms: shard.fetch_offsets(
                asked, token, require_stable=request.body.require_stable
            ),
        )
    except KafkaError as error:
        return _refused(request, group.topics if topics is None else topics, error.error)
    if topics is None and request.version >= _TOPIC_ID_VERSION:
        for topic in answer.topics:
            named = metadata.image.topics.get(topic.name)
            topic.topic_id = ZERO_UUID if named is None else named.id
        answer.topics = [topic for topic in answer.topics if topic.topic_id != ZERO_UUID]
    return Fetched(answer.error_code, answer.topics)


async def _in_portions(
    request: "Request",
    group: OffsetFetchRequestGroup,
    wanted: Iterator[OffsetFetchRequestTopics],
    answer: Any,
    failures: Iterator[OffsetFetchResponseTopics],
    *,
    metadata: "Metadata",
    groups: "GroupCoordinatorService",
) -> AsyncIterator[OffsetFetchResponseTopics]:
    portion: list[OffsetFetchRequestTopics] = []
    partitions = 0
    for topic in chain(wanted, (None,)):
        if topic is None or partitions + len(topic.partition_indexes) > _AT_ONCE:
            found = await _ask(metadata, groups, request, group, portion)
            for each in found.topics:
                yield each
            if found.error_code:
                answer.error_code = found.error_code
                return
            portion, partitions = [], 0
        if topic is not None and len(topic.partition_indexes) > _AT_ONCE:
            yield OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=streamed(
                    _of_topic(request, group, topic, answer, metadata=metadata, groups=groups)
                ),
            )
        elif topic is not None:
            portion.append(topic)
            partitions += max(1, len(topic.partition_indexes))
    for each in failures:
        yield each


async def _of_topic(
    request: "Request",
    group: OffsetFetchRequestGroup,
    topic: OffsetFetchRequestTopics,
    answer: Any,
    *,
    metadata: "Metadata",
    groups: "GroupCoordinatorService",
) -> AsyncIterator[OffsetFetchResponsePartitions]:
    for indexes in portions(topic.partition_indexes, _AT_ONCE):
        part = OffsetFetchRequestTopics(name=topic.name, topic_id=topic.topic_id, partition_indexes=indexes)
        found = await _ask(metadata, groups, request, group, [part])
        for each in found.topics:
            for partition in each.partitions:
                yield partition
        if found.error_code:
            answer.error_code = found.error_code
            return


def _refused(request: "Request", topics: Any, error: Error) -> Fetched:
    """Returns the error for each partition, because version 1 has no other field for it."""
    if request.version >= _GROUP_ERROR_VERSION:
        return Fetched(error.code, [])
    return Fetched(0, [_failed(topic, error) for topic in topics or ()])


def _failed(topic: Any, error: Error) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=getattr(topic, "topic_id", ZERO_UUID),  # those of versions before 8 have none
        partitions=streamed(
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=error.code
            )
            for index in topic.partition_indexes
        ),
    )
