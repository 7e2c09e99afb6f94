"""Starts, cancels and lists reassignments of partitions (KIP-455, KIP-860)."""

from bowstring.engine.controller.decision import Decision, check_not_too_many
from bowstring.engine.controller.leader_choice import Election
from bowstring.engine.controller.partition_change import PartitionChange, Rules
from bowstring.engine.controller.reassignment import first_step, is_under_way, reverted, target_size
from bowstring.engine.controller.state import ControllerState
from bowstring.engine.metadata.image import PartitionImage, TopicImage
from bowstring.engine.metadata.topic_changes import check_replicas
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from bowstring.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from bowstring.protocol.schema import MetadataRecord


def alter_reassignments(
    state: ControllerState, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Starts reassignments, or cancels them where no replicas are named. Each partition succeeds or fails
    alone.

    Raises:
        KafkaError: POLICY_VIOLATION: too many topics or partitions.
    """
    check_not_too_many(max(len(request.topics), sum(len(topic.partitions) for topic in request.topics)))
    rules = Rules.of(state)
    records: list[MetadataRecord] = []
    answer = AlterPartitionReassignmentsResponse(
        error_message=None, allow_replication_factor_change=request.allow_replication_factor_change
    )
    for topic in request.topics:
        results = ReassignableTopicResponse(name=topic.name)
        answer.responses.append(results)
        for each in topic.partitions:
            result = ReassignablePartitionResponse(partition_index=each.partition_index, error_message=None)
            results.partitions.append(result)
            try:
                record = _alter(
                    state, rules, topic.name, each, may_resize=request.allow_replication_factor_change
                )
            except KafkaError as error:
                result.error_code = error.code
                result.error_message = error.detail or error.error.message
                continue
            if record is not None:
                records.append(record)
    return Decision(records, answer)


def _alter(
    state: ControllerState, rules: Rules, name: str, asked: ReassignablePartition, *, may_resize: bool
) -> MetadataRecord | None:
    topic = state.image.topics.get(name)
    if topic is None:
        raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    index = asked.partition_index
    if not 0 <= index < len(topic.partitions):
        raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    partition = topic.partitions[index]
    change = PartitionChange((topic.id, index), partition, rules, state.min_in_sync(name))
    if asked.replicas is None:
        _cancel(state, name, index, partition, change)
    else:
        _start(state, partition, list(asked.replicas), change, may_resize=may_resize)
    return change.build()


def _cancel(
    state: ControllerState, name: str, index: int, partition: PartitionImage, change: PartitionChange
) -> None:
    if not is_under_way(partition):
        raise KafkaError(Errors.NO_REASSIGNMENT_IN_PROGRESS)
    replicas, in_sync, unclean = reverted(partition)
    may_be_unclean = state.allows_unclean_election(name)
    if unclean and not may_be_unclean:
        raise KafkaError(
            Errors.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {name}:{index} because it would require an unclean "
            "leader election.",
        )
    if may_be_unclean:
        change.election = Election.UNCLEAN
    change.replicas, change.in_sync = replicas, in_sync
    change.adding = change.removing = ()


def _start(
    state: ControllerState,
    partition: PartitionImage,
    replicas: list[int],
    change: PartitionChange,
    *,
    may_resize: bool,
) -> None:
    check_replicas(state.image, replicas)
    size = target_size(partition)
    if not may_resize and len(replicas) != size:
        raise KafkaError(
            Errors.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {size} to {len(replicas)}",
        )
    # A reassignment under way is replaced: what it was adding and the new one does not want is removed.
    change.replicas, change.adding, change.removing = first_step(partition, replicas)


def list_reassignments(
    state: ControllerState, request: ListPartitionReassignmentsRequest
) -> Decision[ListPartitionReassignmentsResponse]:
    """Lists the reassignments under way of the named partitions, or of all."""
    image = state.image
    wanted: dict[str, list[int]] = {}
    if request.topics is None:
        for topic_id, index in state.index.reassigning:
            wanted.setdefault(image.topics_by_id[topic_id].name, []).append(index)
    else:
        for each in request.topics:
            wanted.setdefault(each.name, []).extend(each.partition_indexes)
    answer = ListPartitionReassignmentsResponse(error_message=None)
    for name, indexes in wanted.items():
        topic = image.topics.get(name)
        found = [] if topic is None else _ongoing(topic, indexes)
        if found:
            answer.topics.append(OngoingTopicReassignment(name=name, partitions=found))
    return Decision([], answer)


def _ongoing(topic: TopicImage, indexes: list[int]) -> list[OngoingPartitionReassignment]:
    return [
        OngoingPartitionReassignment(
            partition_index=index,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding),
            removing_replicas=list(partition.removing),
        )
        for index in indexes
        if 0 <= index < len(topic.partitions) and is_under_way(partition := topic.partitions[index])
    ]
