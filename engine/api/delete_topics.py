"""Handles DeleteTopics: deletes topics by name or by id."""

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Final, NamedTuple

from bowstring.engine.api.denials import NONE_DENIED, allows_on_cluster, denied_among, hides
from bowstring.engine.api.mutation_quota import mutation_quota
from bowstring.engine.controller.decision import RECORDS_MAX, TOO_MANY
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.requests.time_slices import streamed
from bowstring.protocol import ZERO_UUID
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from bowstring.protocol.records.cluster_metadata.topics import RemoveTopicRecord

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.controller.mutation_quotas import MutationQuotas
    from bowstring.engine.controller.service import QuorumController
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer

Named = tuple[str | None, bytes]

_STRICT_VERSION: Final = 5
_NEITHER: Final = KafkaError(Errors.INVALID_REQUEST, "Neither topic name nor id were specified.")
_BOTH: Final = KafkaError(Errors.INVALID_REQUEST, "You may not specify both topic name and topic id.")
_TWICE: Final = KafkaError(Errors.INVALID_REQUEST, "The request names this topic more than once.")
_BY_ID_TOO: Final = KafkaError(Errors.INVALID_REQUEST, "The request also names this topic by its id.")
_UNKNOWN_ID: Final = KafkaError(Errors.UNKNOWN_TOPIC_ID)
_UNKNOWN_NAME: Final = KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION)
_DENIED: Final = KafkaError(Errors.TOPIC_AUTHORIZATION_FAILED)


async def handle(
    request: "Request",
    *,
    configs: "BrokerConfigs",
    controller: "QuorumController",
    mutation_quotas: "MutationQuotas",
    time_slices: "TimeSlices",
    authorizer: "Authorizer",
) -> DeleteTopicsResponse:
    """Deletes topics. Each topic succeeds or fails alone; one commit covers all.

    Behaviour: clients no longer find the topic when the answer is sent. Its directories are renamed at once
    and unlinked after file.delete.delay.ms. A topic named twice, by name or id, is not deleted and is
    answered once. A client without permission gets TOPIC_AUTHORIZATION_FAILED, and nothing about a
    topic that it may not describe. NOT_CONTROLLER, REQUEST_TIMED_OUT and quotas as from CreateTopics.

    Versions: 5 adds error messages, and refuses topics beyond a quota (KIP-599); 6 topic ids (KIP-516). With
    delete.topic.enable=false the error is INVALID_REQUEST before version 3 and TOPIC_DELETION_DISABLED since.
    """
    body: DeleteTopicsRequest = request.body
    if not configs.value("delete.topic.enable"):
        error = KafkaError(Errors.INVALID_REQUEST if request.version < 3 else Errors.TOPIC_DELETION_DISABLED)
        return DeleteTopicsResponse(
            responses=streamed(_result(name, topic_id, error) for name, topic_id in _named(body))
        )
    counts = await time_slices.different(_named(body))
    quota = mutation_quota(mutation_quotas, request, strict_since=_STRICT_VERSION)
    async with controller.changing() as change:
        image = change.image
        rights = await _rights(authorizer, request, image, counts, time_slices=time_slices)
        meant, by_id_too = await _meant(time_slices, image, counts, rights)
        records = []
        results: dict[Named, DeletableTopicResult] = {}
        async for each, topic in time_slices.each(meant.items()):
            if isinstance(topic, bytes):
                try:
                    quota.count(len(image.topics_by_id[topic].partitions))
                except KafkaError as error:
                    results[each] = _result(image.topics_by_id[topic].name, topic, error)
                    continue
                records.append(RemoveTopicRecord(topic_id=topic))
                results[each] = _result(image.topics_by_id[topic].name, topic, None)
        if len(records) > RECORDS_MAX:
            for result in results.values():
                result.error_code, result.error_message = Errors.POLICY_VIOLATION.code, TOO_MANY
        else:
            await change.commit(records)
    return DeleteTopicsResponse(
        throttle_time_ms=quota.throttle_ms,
        responses=streamed(
            results[each]
            if isinstance(topic, bytes)
            else _result(rights.shown(image, each), by_id_too.get(each, each[1]), topic)
            for each, topic in meant.items()
        ),
    )


def _named(body: DeleteTopicsRequest) -> Iterator[Named]:
    for name in body.topic_names:
        yield name, ZERO_UUID
    for topic in body.topics:
        yield topic.name, topic.topic_id


class _Rights(NamedTuple):
    """The names of topics that the client may not delete, and not describe."""

    undeletable: Set[str]
    hidden: Set[str]

    def check(self, image: ClusterImage, name: str | None, topic_id: bytes) -> KafkaError | None:
        """Returns the refusal of a topic that is named one way."""
        if name is None:
            found = image.topics_by_id.get(topic_id)
            return _DENIED if found is not None and found.name in self.undeletable else None
        is_refused = name in self.hidden or (name in self.undeletable and name in image.topics)
        return _DENIED if is_refused else None

    def shown(self, image: ClusterImage, named: Named) -> str | None:
        """Returns the name for an answer with an error: that of the request, or of a topic that the client
        may describe but not delete.
        """
        found = image.topics_by_id.get(named[1]) if named[0] is None else None
        if found is not None and found.name in self.undeletable and found.name not in self.hidden:
            return found.name
        return named[0]


async def _rights(
    authorizer: "Authorizer",
    request: "Request",
    image: ClusterImage,
    counts: dict[Named, int],
    *,
    time_slices: "TimeSlices",
) -> _Rights:
    if allows_on_cluster(authorizer, request, AclOperation.DELETE):
        return _Rights(NONE_DENIED, NONE_DENIED)
    once = (each for each, count in counts.items() if count == 1)
    named = [name for each in once if (name := _name_of(image, *each)) is not None]
    kind = AclResourceType.TOPIC
    undeletable = await denied_among(
        authorizer, request, AclOperation.DELETE, kind, named, time_slices=time_slices
    )
    hidden = {
        name
        async for name in time_slices.each(named)
        if hides(authorizer, request, AclOperation.DESCRIBE, kind, name)
    }
    return _Rights(undeletable, hidden)


def _name_of(image: ClusterImage, name: str | None, topic_id: bytes) -> str | None:
    if name is not None:
        return name
    found = image.topics_by_id.get(topic_id)
    return None if found is None else found.name


async def _meant(
    time_slices: "TimeSlices", image: ClusterImage, counts: dict[Named, int], rights: _Rights
) -> tuple[dict[Named, bytes | KafkaError], dict[Named, bytes]]:
    """Returns for each name or id the id of the topic to delete, or the error, and the ids of topics that are
    named both ways.
    """
    # Check ids first: Kafka refuses the name of a topic whose id is also given, and both entries with it.
    found: dict[Named, bytes | KafkaError] = {}
    by: dict[bytes, list[Named]] = {}
    by_id_too: dict[Named, bytes] = {}
    for ids in (True, False):
        async for each in time_slices.each(counts):
            if (each[0] is None) != ids:
                continue
            topic = _find(image, *each)
            is_named_once = counts[each] == 1 and topic not in (_NEITHER, _BOTH)
            if is_named_once and (refused := rights.check(image, *each)) is not None:
                topic = refused
            if isinstance(topic, bytes):
                by.setdefault(topic, []).append(each)
            if counts[each] > 1 and (each[0] is None) != (each[1] == ZERO_UUID):
                topic = _TWICE
            found[each] = topic
    for topic_id, ways in by.items():
        if len(ways) > 1:
            for each in ways:
                if isinstance(found[each], bytes) and each[0] is None:
                    del found[each]
                elif isinstance(found[each], bytes):
                    found[each] = _BY_ID_TOO
                    by_id_too[each] = topic_id
    return found, by_id_too


def _find(image: ClusterImage, name: str | None, topic_id: bytes) -> bytes | KafkaError:
    """Returns the id of the named topic."""
    if name is None and topic_id == ZERO_UUID:
        return _NEITHER
    if name is not None and topic_id != ZERO_UUID:
        return _BOTH
    topic = image.topics_by_id.get(topic_id) if name is None else image.topics.get(name)
    if topic is None:
        return _UNKNOWN_ID if name is None else _UNKNOWN_NAME
    return topic.id


def _result(name: str | None, topic_id: bytes, error: KafkaError | None) -> DeletableTopicResult:
    if error is None:
        return DeletableTopicResult(name=name, topic_id=topic_id)
    return DeletableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=error.code,
        error_message=error.detail or error.error.message,
    )
