"""Lets leaders change the ISR of their partitions (KIP-497, KIP-841, KIP-903)."""

from typing import Final

from bowstring.engine.controller.decision import Decision
from bowstring.engine.controller.leader_choice import Election
from bowstring.engine.controller.partition_change import (
    RECOVERED,
    RECOVERING,
    PartitionChange,
    Rules,
)
from bowstring.engine.controller.state import ControllerState
from bowstring.engine.metadata.directory_ids import holds_online
from bowstring.engine.metadata.image import PartitionImage, TopicImage, changed_partition
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from bowstring.protocol.schema import MetadataRecord

_EPOCHS_SINCE: Final = 3
_ANY_EPOCH: Final = -1

_Isr = list[tuple[int, int]]


def alter_partition(
    state: ControllerState, request: AlterPartitionRequest, version: int
) -> Decision[AlterPartitionResponse]:
    """Changes ISRs at their leaders' request. Each partition succeeds or fails alone.

    Raises:
        KafkaError: STALE_BROKER_EPOCH.
    """
    state.broker(request.broker_id, request.broker_epoch)
    rules = Rules.of(state)
    records: list[MetadataRecord] = []
    answer = AlterPartitionResponse()
    for asked in request.topics:
        topic = state.image.topics_by_id.get(asked.topic_id)
        results = AlterPartitionResponseTopicData(topic_id=asked.topic_id)
        answer.topics.append(results)
        for each in asked.partitions:
            result = AlterPartitionResponsePartitionData(partition_index=each.partition_index)
            results.partitions.append(result)
            if topic is None:
                result.error_code = Errors.UNKNOWN_TOPIC_ID.code
            else:
                isr = _isr(each, version)
                change = _Change(state, rules, topic, request.broker_id, each)
                result.error_code = change.run(isr, records, result).code
    return Decision(records, answer, atomic=False)


def _isr(asked: AlterPartitionRequestPartitionData, version: int) -> _Isr:
    if version < _EPOCHS_SINCE:
        return [(each, _ANY_EPOCH) for each in asked.new_isr]
    return [(each.broker_id, each.broker_epoch) for each in asked.new_isr_with_epochs]


class _Change:
    """The change of one partition."""

    def __init__(
        self,
        state: ControllerState,
        rules: Rules,
        topic: TopicImage,
        broker: int,
        asked: AlterPartitionRequestPartitionData,
    ) -> None:
        self._state = state
        self._rules = rules
        self._topic = topic
        self._broker = broker
        self._asked = asked

    def run(
        self, isr: _Isr, records: list[MetadataRecord], result: AlterPartitionResponsePartitionData
    ) -> Error:
        """Adds the record and fills the result, or returns the error."""
        index, asked = self._asked.partition_index, self._asked
        if not 0 <= index < len(self._topic.partitions):
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        partition = self._topic.partitions[index]
        error = self._check_epochs(partition) or self._check_isr(partition, isr)
        if error is not None:
            return error
        name, state = self._topic.name, self._state
        change = PartitionChange((self._topic.id, index), partition, self._rules, state.min_in_sync(name))
        if state.allows_unclean_election(name):
            change.election = Election.UNCLEAN
        change.in_sync = tuple(broker for broker, _ in isr)
        change.recovery_state = asked.leader_recovery_state
        record = change.build()
        if record is not None:
            records.append(record)
            partition = changed_partition(partition, record)
            if partition.leader != self._broker:
                # The ISR completes a reassignment that removes the leader. The answer must show that.
                return Errors.NEW_LEADER_ELECTED
        result.leader_id = partition.leader
        result.isr = list(partition.in_sync)
        result.leader_recovery_state = partition.leader_recovery_state
        result.leader_epoch = partition.leader_epoch
        result.partition_epoch = partition.partition_epoch
        return Errors.NONE

    def _check_epochs(self, partition: PartitionImage) -> Error | None:
        asked = self._asked
        if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
            # The leader has more than this controller, which has probably been replaced.
            return Errors.NOT_CONTROLLER
        if asked.leader_epoch < partition.leader_epoch:
            return Errors.FENCED_LEADER_EPOCH
        if self._broker != partition.leader:
            return Errors.INVALID_REQUEST
        if asked.partition_epoch < partition.partition_epoch:
            return Errors.INVALID_UPDATE_VERSION
        return None

    def _check_isr(self, partition: PartitionImage, isr: _Isr) -> Error | None:
        brokers = [broker for broker, _ in isr]
        state = self._asked.leader_recovery_state
        if (
            len(set(brokers)) != len(brokers)
            or not set(brokers) <= set(partition.replicas)
            or partition.leader not in brokers
            or state not in (RECOVERED, RECOVERING)
            or (state == RECOVERING and len(brokers) > 1)
            or (state == RECOVERING and partition.leader_recovery_state == RECOVERED)
        ):
            return Errors.INVALID_REQUEST
        if not all(self._is_eligible(partition, broker, epoch) for broker, epoch in isr):
            return Errors.INELIGIBLE_REPLICA
        return None

    def _is_eligible(self, partition: PartitionImage, broker: int, epoch: int) -> bool:
        found = self._state.image.brokers.get(broker)
        return (
            found is not None
            and found.is_active
            and epoch in (_ANY_EPOCH, found.epoch)
            # A replica without its directory does not count: it may seem caught up until records come.
            and (broker in partition.in_sync or holds_online(found, partition))
        )
