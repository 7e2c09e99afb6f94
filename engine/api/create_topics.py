"""Handles CreateTopics: creates topics."""

from collections.abc import Mapping, Set
from functools import partial
from typing import TYPE_CHECKING, Final

from bowstring.engine.api.denials import NONE_DENIED, allows_on_cluster, denied_among, hides
from bowstring.engine.api.mutation_quota import mutation_quota
from bowstring.engine.configs import TOPIC_CONFIGS, BrokerConfigs, ConfigSource, shown
from bowstring.engine.controller.decision import check_not_too_many
from bowstring.engine.metadata.names import METADATA_TOPIC, unified
from bowstring.engine.metadata.topic_changes import MAX_PARTITIONS_PER_REQUEST, NewTopic, create_topic
from bowstring.protocol import random_uuid
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from bowstring.protocol.records.cluster_metadata.topics import PartitionRecord
from bowstring.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.controller.mutation_quotas import MutationQuotas
    from bowstring.engine.controller.service import QuorumController
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer


_CONFIGS_VERSION: Final = 5
_STRICT_VERSION: Final = 6
_APPENDED_AT_ONCE: Final = 500  # records, for a slice of the thread's time


async def handle(
    request: "Request",
    *,
    configs: "BrokerConfigs",
    controller: "QuorumController",
    mutation_quotas: "MutationQuotas",
    time_slices: "TimeSlices",
    authorizer: "Authorizer",
) -> CreateTopicsResponse:
    """Creates topics. Each topic succeeds or fails alone; the answer waits until all are committed.

    Behaviour: a topic exists and has leaders when the answer is sent. validate_only checks everything and
    changes nothing. The answer has the configs of a topic only if the client may describe them. A node that
    is not the active controller answers NOT_CONTROLLER for each topic; REQUEST_TIMED_OUT when its turn did
    not come within request.timeout.ms. A client whose controller_mutation_rate is exceeded waits.

    Versions: 4 lets the counts be -1 for the broker's defaults (KIP-464); 5 returns the counts and the
    configs in force (KIP-525); 7 the topic id. Since 6, topics beyond a quota are refused with
    THROTTLING_QUOTA_EXCEEDED (KIP-599).
    """
    body: CreateTopicsRequest = request.body
    counts = await time_slices.different(topic.name for topic in body.topics)
    quota = mutation_quota(mutation_quotas, request, strict_since=_STRICT_VERSION)
    denied = await _uncreatable(authorizer, request, counts, time_slices)
    of_configs = (authorizer, request, AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC)
    success = partial(_success, _ConfigsInForce(configs, is_asked=request.version >= _CONFIGS_VERSION))
    results: dict[str, CreatableTopicResult] = {}
    async with controller.changing() as change:
        image = change.image
        records: list[MetadataRecord] = []
        partitions = 0
        unified_names: dict[str, str] = {}
        async for topic in time_slices.each(body.topics):
            if topic.name in results:
                continue
            try:
                _check_in_request(topic.name, counts[topic.name], unified_names, denied)
                topic_id = random_uuid()
                made = create_topic(image, configs, _wanted(topic), topic_id, controller.random)
                made_partitions = sum(isinstance(record, PartitionRecord) for record in made)
                partitions += made_partitions
                _check_partitions(partitions)
                quota.count(made_partitions)
            except KafkaError as error:
                results[topic.name] = _refused(topic.name, error)
                continue
            records += made
            unified_names[unified(topic.name)] = topic.name
            result = _without_configs if hides(*of_configs, topic.name) else success
            results[topic.name] = result(topic, topic_id, made)
            if len(records) >= _APPENDED_AT_ONCE and not body.validate_only:
                change.append(records)
                records = []
        if not body.validate_only:
            await change.commit(records)
    return CreateTopicsResponse(throttle_time_ms=quota.throttle_ms, topics=list(results.values()))


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    message = error.detail or error.error.message
    return CreatableTopicResult(name=name, error_code=error.code, error_message=message)


def _check_partitions(count: int) -> None:
    if count > MAX_PARTITIONS_PER_REQUEST:
        raise KafkaError(Errors.POLICY_VIOLATION, "Excessively large number of partitions per request.")


async def _uncreatable(
    authorizer: "Authorizer", request: "Request", counts: Mapping[str, int], time_slices: "TimeSlices"
) -> Set[str]:
    """Returns the names of topics that the client may not create."""
    if allows_on_cluster(authorizer, request, AclOperation.CREATE):
        return NONE_DENIED
    names = (name for name, count in counts.items() if count == 1 and name != METADATA_TOPIC)
    operation, kind = AclOperation.CREATE, AclResourceType.TOPIC
    return await denied_among(authorizer, request, operation, kind, names, time_slices=time_slices)


def _check_in_request(name: str, count: int, unified_names: dict[str, str], denied: Set[str]) -> None:
    if count > 1:
        raise KafkaError(Errors.INVALID_REQUEST, "Duplicate topic name.")
    if name == METADATA_TOPIC:
        raise KafkaError(
            Errors.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        )
    if name in denied:
        raise KafkaError(Errors.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    other = unified_names.get(unified(name))
    if other is not None:
        raise KafkaError(
            Errors.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
        )


def _wanted(topic: CreatableTopic) -> NewTopic:
    check_not_too_many(len(topic.assignments))
    check_not_too_many(len(topic.configs))
    assignments: dict[int, list[int]] = {}
    for assignment in topic.assignments:
        if assignment.partition_index in assignments:
            raise KafkaError(
                Errors.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {assignment.partition_index}",
            )
        assignments[assignment.partition_index] = list(assignment.broker_ids)
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        assignments,
        {config.name: config.value for config in topic.configs},
    )


class _ConfigsInForce:
    """The configs of new topics for an answer. Topics without configs of their own share one list.

    Args:
        is_asked: Whether the version of the answer has them.
    """

    def __init__(self, configs: BrokerConfigs, *, is_asked: bool) -> None:
        self._configs = configs
        self._is_asked = is_asked
        self._defaults: list[CreatableTopicConfigs] | None = None

    def of(self, topic: CreatableTopic) -> list[CreatableTopicConfigs]:
        """Returns the configs of a topic."""
        if not self._is_asked:
            return []
        if topic.configs:
            return _configs_in_force(self._configs, {config.name: config.value for config in topic.configs})
        if self._defaults is None:
            self._defaults = _configs_in_force(self._configs, {})
        return self._defaults


def _success(
    configs: _ConfigsInForce, topic: CreatableTopic, topic_id: bytes, made: list[MetadataRecord]
) -> CreatableTopicResult:
    partitions = [record for record in made if isinstance(record, PartitionRecord)]
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=configs.of(topic),
    )


def _without_configs(
    topic: CreatableTopic, topic_id: bytes, _made: list[MetadataRecord]
) -> CreatableTopicResult:
    """Returns the answer for a client that may not describe the configs of a topic that it has created."""
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        topic_config_error_code=Errors.TOPIC_AUTHORIZATION_FAILED.code,
    )


def _configs_in_force(
    configs: BrokerConfigs, overrides: dict[str, str | None]
) -> list[CreatableTopicConfigs]:
    entries = []
    for name in sorted(TOPIC_CONFIGS):
        key = TOPIC_CONFIGS[name]
        if (key.internal or key.is_own) and name not in overrides:
            continue
        origins = configs.topic_origins(name)
        source = origins[0].source if origins else ConfigSource.DEFAULT_CONFIG
        if name in overrides:
            value, source = overrides[name], ConfigSource.TOPIC_CONFIG
        else:
            value = configs.topic_default(name)
        entries.append(
            CreatableTopicConfigs(
                name=name,
                value=shown(key, value),
                config_source=source.value,
            )
        )
    return entries
