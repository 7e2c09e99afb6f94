"""Elects leaders by request (KIP-460), and in turn: preferred ones, and unclean ones where allowed."""

from typing import Final

from bowstring.engine.controller.decision import Decision, check_not_too_many
from bowstring.engine.controller.leader_choice import Election
from bowstring.engine.controller.partition_change import PartitionChange, Rules
from bowstring.engine.controller.partition_index import NO_LEADER, PartitionKey
from bowstring.engine.controller.state import ControllerState
from bowstring.engine.metadata.image import TopicImage
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from bowstring.protocol.schema import MetadataRecord

_TYPES: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}
_MAX_AT_ONCE: Final = 1000
"""Most elections of one timed decision, as in Kafka."""


def elect_leaders(state: ControllerState, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """Elects leaders of the named partitions, or of all. Of all, those that have the wanted leader are not
    answered.

    Raises:
        KafkaError: INVALID_REQUEST: unknown type of election. POLICY_VIOLATION: too many partitions.
    """
    election = _TYPES.get(request.election_type)
    if election is None:
        raise KafkaError(Errors.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    rules = Rules.of(state)
    records: list[MetadataRecord] = []
    answer = ElectLeadersResponse()
    if request.topic_partitions is None:
        wanted = [(topic.name, list(range(len(topic.partitions)))) for topic in state.image.topics.values()]
    else:
        wanted = [(each.topic, list(each.partitions)) for each in request.topic_partitions]
    for name, partitions in wanted:
        results = ReplicaElectionResult(topic=name)
        answer.replica_election_results.append(results)
        for index in partitions:
            error, detail, record = _elect(state, rules, name, index, election)
            if record is not None:
                records.append(record)
                check_not_too_many(len(records))
            if request.topic_partitions is None and error is Errors.ELECTION_NOT_NEEDED:
                continue
            results.partition_result.append(
                PartitionResult(partition_id=index, error_code=error.code, error_message=detail)
            )
    return Decision(records, answer, atomic=False)


def _elect(
    state: ControllerState,
    rules: Rules,
    name: str,
    index: int,
    election: Election,
) -> tuple[Error, str | None, MetadataRecord | None]:
    topic = state.image.topics.get(name)
    if topic is None:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}", None
    if not 0 <= index < len(topic.partitions):
        return Errors.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}", None
    partition = topic.partitions[index]
    preferred = election is Election.PREFERRED
    if partition.leader == partition.replicas[0] if preferred else partition.leader != NO_LEADER:
        return Errors.ELECTION_NOT_NEEDED, Errors.ELECTION_NOT_NEEDED.message, None
    record = _change(state, rules, topic, index, election)
    if record is None:
        error = Errors.PREFERRED_LEADER_NOT_AVAILABLE if preferred else Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE
        return error, error.message, None
    return Errors.NONE, None, record


def _change(
    state: ControllerState, rules: Rules, topic: TopicImage, index: int, election: Election
) -> MetadataRecord | None:
    change = PartitionChange((topic.id, index), topic.partitions[index], rules, state.min_in_sync(topic.name))
    change.election = election
    return change.build()


def _elect_keys(
    state: ControllerState, keys: list[PartitionKey], election: Election
) -> Decision[bool] | None:
    rules = Rules.of(state)
    records: list[MetadataRecord] = []
    for topic_id, index in keys:
        if len(records) == _MAX_AT_ONCE:
            break
        record = _change(state, rules, state.image.topics_by_id[topic_id], index, election)
        if record is not None:
            records.append(record)
    return Decision(records, len(records) == _MAX_AT_ONCE, atomic=False) if records else None


def balance(state: ControllerState) -> Decision[bool] | None:
    """Gives partitions back to their preferred leaders where these are in sync; None when there is nothing to
    do. The answer is whether there may be more to do.
    """
    return _elect_keys(state, list(state.index.imbalanced), Election.PREFERRED)


def elect_unclean(state: ControllerState) -> Decision[bool] | None:
    """Elects leaders for partitions without one whose topics allow unclean elections; as `balance`."""
    allowed = {topic.id for topic in state.image.topics.values() if state.allows_unclean_election(topic.name)}
    keys = [key for key in state.index.led(NO_LEADER) if key[0] in allowed]
    return _elect_keys(state, keys, Election.UNCLEAN)
