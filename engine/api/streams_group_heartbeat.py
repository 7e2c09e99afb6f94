"""Handles StreamsGroupHeartbeat: members of streams groups join, get tasks, and leave (KIP-1071).

The broker creates repartition and changelog topics that the topology needs.
"""

from collections.abc import Collection, Iterator, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Final

from bowstring.engine.api.denials import NONE_DENIED, allows_on_cluster, denied_among
from bowstring.engine.api.forwarded import ask_for_client
from bowstring.engine.api.request_context import request_context
from bowstring.engine.groups.streams.heartbeat import HeartbeatAnswer, refusal
from bowstring.engine.groups.streams.statuses import Status
from bowstring.engine.metadata.names import is_internal, topic_name_problem
from bowstring.engine.metadata.topic_changes import NewTopic
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.features import STREAMS_VERSION
from bowstring.protocol.messages import streams_group_heartbeat as messages

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.coordinators.cluster_changes import Ask, ClusterChanges
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.groups.streams.configured_topology import InternalTopic
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.quorum.service import QuorumService
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer

_TOPOLOGY_ITEMS_MAX: Final = 10_000
_TASKS_MAX: Final = 20_000
_TAGS_MAX: Final = 1_000
_NAMED_MAX: Final = 3
_DEFAULT: Final = -1
_ADVICE: Final = (
    "The cluster has streams.version 0, or group.coordinator.rebalance.protocols is without streams: set "
    "group.protocol=classic."
)


def supports_streams_groups(configs: "BrokerConfigs", metadata: "Metadata") -> bool:
    """Whether streams groups are enabled, by the cluster's level and by this broker's config."""
    return metadata.image.features.get(STREAMS_VERSION, 0) > 0 and "streams" in configs.value(
        "group.coordinator.rebalance.protocols"
    )


async def handle(
    request: "Request",
    *,
    configs: "BrokerConfigs",
    metadata: "Metadata",
    changes: "ClusterChanges",
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    authorizer: "Authorizer",
    quorum: "QuorumService",
) -> messages.StreamsGroupHeartbeatResponse:
    """Answers when all that the answer says is committed, and missing internal topics have been requested.

    Members see new topics with their next heartbeat, as in Kafka.
    """
    body: messages.StreamsGroupHeartbeatRequest = request.body
    if not supports_streams_groups(configs, metadata):
        return refusal(Errors.UNSUPPORTED_VERSION, _ADVICE).response
    asked = (authorizer, request, AclOperation.DESCRIBE)
    try:
        await _check_size(time_slices, body)
        if body.topology is not None:
            named = await _checked_topics(time_slices, body.topology)
            if await denied_among(*asked, AclResourceType.TOPIC, named, time_slices=time_slices):
                return refusal(Errors.TOPIC_AUTHORIZATION_FAILED, None).response
        context = request_context(request)
        answer: HeartbeatAnswer = await groups.ask(
            body.group_id,
            lambda shard, token, now_ms: shard.streams_group_heartbeat(body, context, token, now_ms),
        )
    except KafkaError as error:
        return refusal(error.error, error.detail).response
    if answer.missing:
        denied = await _uncreatable(authorizer, request, answer.missing, time_slices=time_slices)
        if denied:
            _add_denied_status(answer.response, denied)
        else:
            ask = partial(ask_for_client, request, quorum=quorum, configs=configs, time_slices=time_slices)
            knows_clients = authorizer.is_on or metadata.image.client_quotas.entities
            await _create(changes, answer.missing, answer.response, ask if knows_clients else None)
    return answer.response


# ---- what does not depend on the group


async def _check_size(time_slices: "TimeSlices", body: messages.StreamsGroupHeartbeatRequest) -> None:
    """Refuses more tasks and tags than any member has: the coordinator looks at all of them at once.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    count = 0
    for tasks in (body.active_tasks, body.standby_tasks, body.warmup_tasks):
        async for each in time_slices.each(tasks or ()):
            count += 1 + len(each.partitions)
            if count > _TASKS_MAX:
                raise KafkaError(Errors.INVALID_REQUEST, f"A member cannot have over {_TASKS_MAX} tasks.")
    if max(len(body.task_offsets or ()), len(body.task_end_offsets or ())) > _TASKS_MAX:
        raise KafkaError(Errors.INVALID_REQUEST, f"A member cannot have over {_TASKS_MAX} tasks.")
    if len(body.client_tags or ()) > _TAGS_MAX:
        raise KafkaError(Errors.INVALID_REQUEST, f"A member cannot have over {_TAGS_MAX} tags.")


async def _checked_topics(time_slices: "TimeSlices", topology: messages.Topology) -> Collection[str]:
    """Returns the names of the topics of a topology. Refuses topics that cannot be in one, and topologies too
    large for the group log.

    Raises:
        KafkaError: STREAMS_INVALID_TOPOLOGY.
    """
    named: dict[str, None] = {}
    items = 0
    async for subtopology in time_slices.each(topology.subtopologies):
        async for name in time_slices.each(_items(subtopology)):
            if name is not None:
                named[name] = None
            items += 1
            if items > _TOPOLOGY_ITEMS_MAX:
                raise KafkaError(
                    Errors.STREAMS_INVALID_TOPOLOGY,
                    f"A topology cannot have over {_TOPOLOGY_ITEMS_MAX} subtopologies, topics and configs.",
                )
    prohibited = [name for name in named if is_internal(name)]
    if prohibited:
        raise KafkaError(
            Errors.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited.",
        )
    invalid = [name for name in named if topic_name_problem(name) is not None]
    if invalid:
        raise KafkaError(
            Errors.STREAMS_INVALID_TOPOLOGY, f"Topic names {','.join(invalid)} are not valid topic names."
        )
    return named


def _items(subtopology: messages.Subtopology) -> Iterator[str | None]:
    """Yields all that a subtopology consists of: names of topics, and None for everything else."""
    yield None
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    yield from (None for _ in subtopology.source_topic_regex)
    for topics in (subtopology.repartition_source_topics, subtopology.state_changelog_topics):
        for topic in topics:
            yield topic.name
            yield from (None for _ in topic.topic_configs)
    for group in subtopology.copartition_groups:
        yield None
        for indexes in (group.source_topics, group.source_topic_regex, group.repartition_source_topics):
            yield from (None for _ in indexes)


# ---- internal topics


async def _uncreatable(
    authorizer: "Authorizer",
    request: "Request",
    missing: "Sequence[InternalTopic]",
    *,
    time_slices: "TimeSlices",
) -> Set[str]:
    """Returns the names of missing topics that the client may not create."""
    if allows_on_cluster(authorizer, request, AclOperation.CREATE):
        return NONE_DENIED
    names = (each.name for each in missing)
    operation, kind = AclOperation.CREATE, AclResourceType.TOPIC
    return await denied_among(authorizer, request, operation, kind, names, time_slices=time_slices)


def _add_denied_status(response: messages.StreamsGroupHeartbeatResponse, denied: Set[str]) -> None:
    """Writes into the status of the answer, as Kafka does, that no missing topic is created."""
    detail = f"Unauthorized to CREATE on topics {', '.join(sorted(denied))}."
    for status in response.status or ():
        if status.status_code == Status.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {detail}"
            return
    status = messages.Status(status_code=Status.MISSING_INTERNAL_TOPICS, status_detail=detail)
    response.status = [*(response.status or ()), status]


async def _create(
    changes: "ClusterChanges",
    missing: "Sequence[InternalTopic]",
    response: messages.StreamsGroupHeartbeatResponse,
    ask: "Ask | None",
) -> None:
    """Creates internal topics. The status of the answer says what could not be created, and why."""
    wanted = [
        NewTopic(each.name, each.partitions, each.replication_factor or _DEFAULT, None, each.configs)
        for each in missing
    ]
    try:
        failed = await changes.create_topics(wanted, ask)
    except KafkaError as error:
        failed = {topic.name: error for topic in wanted}
    if not failed:
        return
    said = [
        f"{name} ({error.detail or error.error.message})" for name, error in list(failed.items())[:_NAMED_MAX]
    ]
    more = f" and {len(failed) - _NAMED_MAX} more" if len(failed) > _NAMED_MAX else ""
    for status in response.status or ():
        if status.status_code == Status.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; Creation failed: {', '.join(said)}{more}."
