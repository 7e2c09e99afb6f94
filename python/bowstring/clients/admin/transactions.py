"""Implements Admin's methods for transactions (KIP-664)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from bowstring.clients.admin.calls import AdminCalls
from bowstring.clients.admin.results import (
    ClusterDescription,
    PartitionProducer,
    TransactionDescription,
    TransactionListing,
)
from bowstring.clients.errors import ClientError, broker_error
from bowstring.clients.group.protocol import by_topic
from bowstring.clients.records import Node, TopicInfo, TopicPartition
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from bowstring.protocol.messages.describe_transactions import DescribeTransactionsRequest
from bowstring.protocol.messages.list_transactions import ListTransactionsRequest
from bowstring.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

# Of a broker: transaction.max.timeout.ms. An older transaction without an owner hangs.
MAX_TIMEOUT_MS = 900_000
STATE_TOPIC = "__transaction_state"
_OPEN = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})


class AdminTransactions(AdminCalls):
    """Mixed into Admin."""

    if TYPE_CHECKING:

        def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[Node, list[TopicPartition]]: ...

        def describe_cluster(self) -> ClusterDescription: ...  # noqa: D102

        def topics(self, *, internal: bool = False) -> dict[str, TopicInfo]: ...  # noqa: D102

    def list_transactions(
        self, states: Iterable[str] = (), producer_ids: Iterable[int] = ()
    ) -> list[TransactionListing]:
        """Returns the transactional ids of every broker, by name.

        Args:
            states: states by Kafka's names, such as "Ongoing"; empty for all.
            producer_ids: producer ids; empty for all.
        """
        found = {}
        request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=list(producer_ids))
        for broker in self.describe_cluster().brokers:
            response = self._call(lambda node=broker: node, ListTransactionsRequest, request)  # type: ignore[misc]
            if response.error_code:
                raise broker_error(response.error_code, f"listing the transactions of {broker}")
            if response.unknown_state_filters:
                unknown = ", ".join(response.unknown_state_filters)
                raise broker_error(
                    Errors.INVALID_REQUEST.code, "listing transactions", f"no such state: {unknown}"
                )
            for each in response.transaction_states:
                found[each.transactional_id] = TransactionListing(
                    each.transactional_id, each.producer_id, each.transaction_state, broker
                )
        return [found[name] for name in sorted(found)]

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """Returns state, producer and partitions of a transactional id.

        Args:
            transactional_id: the producers' setting of that name.

        Raises:
            BrokerError: there is no such id, or its coordinator is away.
        """
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        code = Errors.COORDINATOR_NOT_AVAILABLE.code
        for broker in self.describe_cluster().brokers:
            response = self._call(lambda node=broker: node, DescribeTransactionsRequest, request)  # type: ignore[misc]
            (found,) = response.transaction_states
            if found.error_code == 0:
                return _description(found, broker)
            if found.error_code != Errors.NOT_COORDINATOR.code:
                code = found.error_code
        if code == Errors.COORDINATOR_NOT_AVAILABLE.code and STATE_TOPIC not in self.topics(internal=True):
            code = Errors.TRANSACTIONAL_ID_NOT_FOUND.code  # no producer has had a transactional id yet
        raise broker_error(code, f"describing transactional id {transactional_id!r}")

    def describe_transactions(
        self, listings: Iterable[TransactionListing]
    ) -> dict[str, TransactionDescription | ClientError]:
        """Returns state, producer and partitions of transactional ids, with one request for each coordinator.

        An id that could not be described has the error instead.

        Args:
            listings: as `list_transactions` returns them.
        """
        by_broker: dict[Node, list[str]] = {}
        for each in listings:
            by_broker.setdefault(each.coordinator, []).append(each.transactional_id)
        found: dict[str, TransactionDescription | ClientError] = {}
        for broker, ids in by_broker.items():
            request = DescribeTransactionsRequest(transactional_ids=ids)
            try:
                response = self._call(lambda node=broker: node, DescribeTransactionsRequest, request)  # type: ignore[misc]
            except ClientError as error:
                found |= dict.fromkeys(ids, error)
                continue
            for answer in response.transaction_states:
                name = answer.transactional_id
                if answer.error_code:
                    found[name] = broker_error(answer.error_code, f"describing transactional id {name!r}")
                else:
                    found[name] = _description(answer, broker)
        return found

    def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[PartitionProducer]]:
        """Returns the producers that partitions remember.

        Args:
            partitions: topics and partition numbers.
        """
        found = {}
        for leader, led in self._by_leader(partitions).items():
            request = DescribeProducersRequest(
                topics=[
                    TopicRequest(name=name, partition_indexes=numbers)
                    for name, numbers in by_topic(led).items()
                ]
            )
            response = self._call(lambda node=leader: node, DescribeProducersRequest, request)  # type: ignore[misc]
            for topic in response.topics:
                for part in topic.partitions:
                    partition = TopicPartition(topic.name, part.partition_index)
                    if part.error_code:
                        raise broker_error(
                            part.error_code, f"describing producers of {partition}", part.error_message
                        )
                    found[partition] = [
                        PartitionProducer(
                            partition,
                            each.producer_id,
                            each.producer_epoch,
                            each.coordinator_epoch,
                            each.last_timestamp,
                            None if each.current_txn_start_offset < 0 else each.current_txn_start_offset,
                        )
                        for each in part.active_producers
                    ]
        return found

    def find_hanging_transactions(
        self, partitions: Iterable[TopicPartition], *, min_age_ms: int = MAX_TIMEOUT_MS
    ) -> list[PartitionProducer]:
        """Returns open transactions of partitions that no coordinator will end. Readers of committed records
        wait for them until they are aborted.

        Args:
            partitions: topics and partition numbers.
            min_age_ms: time since the last record of the transaction; younger ones are left out.
        """
        before_ms = time.time_ns() // 1_000_000 - min_age_ms
        old = [
            each
            for producers in self.describe_producers(partitions).values()
            for each in producers
            if each.transaction_start_offset is not None and each.last_timestamp_ms <= before_ms
        ]
        if not old:
            return []
        owners = {
            each.producer_id: each.transactional_id
            for each in self.list_transactions(producer_ids={each.producer_id for each in old})
        }
        return [each for each in old if not self._is_owned(each, owners.get(each.producer_id))]

    def _is_owned(self, producer: PartitionProducer, transactional_id: str | None) -> bool:
        if transactional_id is None:
            return False
        owner = self.describe_transaction(transactional_id)
        return (
            owner.producer_id == producer.producer_id
            and owner.state in _OPEN
            and producer.partition in owner.partitions
        )

    def abort_transaction(self, producer: PartitionProducer) -> None:
        """Aborts the open transaction of a producer in one partition, against its coordinator's will.

        Args:
            producer: from `find_hanging_transactions`.

        Raises:
            BrokerError: the leader of the partition refuses.
        """
        partition = producer.partition
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
            coordinator_epoch=max(0, producer.coordinator_epoch),
        )
        (leader,) = self._by_leader([partition])
        response = self._call(
            lambda: leader, WriteTxnMarkersRequest, WriteTxnMarkersRequest(markers=[marker])
        )
        code = response.markers[0].topics[0].partitions[0].error_code
        if code:
            raise broker_error(code, f"aborting a transaction in {partition}")


def _description(answer: Any, coordinator: Node) -> TransactionDescription:
    return TransactionDescription(
        answer.transactional_id,
        answer.transaction_state,
        coordinator,
        answer.producer_id,
        answer.producer_epoch,
        answer.transaction_timeout_ms,
        answer.transaction_start_time_ms,
        sorted(TopicPartition(each.topic, index) for each in answer.topics for index in each.partitions),
    )
