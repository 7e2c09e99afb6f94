"""Handles OffsetDelete: deletes committed offsets of a group (KIP-496)."""

from collections.abc import Iterator, Set
from itertools import islice
from typing import TYPE_CHECKING, Final

from bowstring.engine.api.denials import denied_among, names_of
from bowstring.engine.api.partition_answers import Answers
from bowstring.engine.requests.time_slices import streamed
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Errors
from bowstring.protocol.ids import ZERO_UUID
from bowstring.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.metadata.image import ClusterImage, Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer

_AT_ONCE: Final = 500


async def handle(
    request: "Request",
    *,
    metadata: "Metadata",
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    authorizer: "Authorizer",
) -> OffsetDeleteResponse:
    """Deletes offsets of existing partitions of topics that the client may read; errors of the group come
    before those of its partitions.
    """
    body: OffsetDeleteRequest = request.body
    image = metadata.image
    names = names_of(image, body.topics, by_id=False)
    denied = await denied_among(
        authorizer, request, AclOperation.READ, AclResourceType.TOPIC, names, time_slices=time_slices
    )
    answers = Answers()
    # As in Kafka, refused partitions come first.
    async for topic in time_slices.each(body.topics):
        count = _partitions(image, topic.name, denied)
        is_denied = topic.name in denied
        error = Errors.TOPIC_AUTHORIZATION_FAILED if is_denied else Errors.UNKNOWN_TOPIC_OR_PARTITION
        async for part in time_slices.each(topic.partitions):
            if not 0 <= part.partition_index < count:
                answers.add(topic.name, ZERO_UUID, part.partition_index, error.code)
    asked = False
    portion: list[OffsetDeleteRequestTopic] = []
    room = _AT_ONCE
    async for topic in time_slices.each(body.topics):
        count = _partitions(image, topic.name, denied)
        known = (part for part in topic.partitions if 0 <= part.partition_index < count)
        while there := list(islice(known, room)):
            portion.append(OffsetDeleteRequestTopic(name=topic.name, partitions=there))
            room -= len(there)
            if room == 0:
                if code := await _delete(time_slices, groups, body.group_id, portion, answers):
                    return OffsetDeleteResponse(error_code=code)
                portion, room, asked = [], _AT_ONCE, True
    if (portion or not asked) and (
        code := await _delete(time_slices, groups, body.group_id, portion, answers)
    ):
        return OffsetDeleteResponse(error_code=code)
    return OffsetDeleteResponse(topics=streamed(answers.topics(_answer)))


def _answer(name: str, topic_id: bytes, partitions: Iterator[tuple[int, int]]) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=name,
        partitions=streamed(
            OffsetDeleteResponsePartition(partition_index=index, error_code=code)
            for index, code in partitions
        ),
    )


def _partitions(image: "ClusterImage", topic: str, denied: Set[str]) -> int:
    found = image.topics.get(topic)
    return 0 if found is None or topic in denied else len(found.partitions)


async def _delete(
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    group_id: str,
    topics: list[OffsetDeleteRequestTopic],
    answers: Answers,
) -> int:
    """Deletes offsets of some partitions in one append; returns the error code of the group."""
    body = OffsetDeleteRequest(group_id=group_id, topics=topics)
    answer: OffsetDeleteResponse = await groups.ask(
        group_id, lambda shard, token, now_ms: shard.delete_offsets(body, token)
    )
    if not answer.error_code:
        for topic in answer.topics:
            for part in topic.partitions:
                answers.add(topic.name, ZERO_UUID, part.partition_index, part.error_code)
        if time_slices.over():
            await time_slices.rest()
    return answer.error_code
