"""Builds and reads the requests of transactions (KIP-98, KIP-360, KIP-447, KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from bowstring.clients.group.protocol import by_topic
from bowstring.clients.records import GroupMetadata, OffsetAndMetadata, TopicPartition
from bowstring.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from bowstring.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from bowstring.protocol.messages.end_txn import EndTxnRequest
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest
from bowstring.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

# The level of the feature transaction.version from which brokers speak KIP-890's protocol.
VERSION_2 = 2
# From these versions on InitProducerId takes the id before (KIP-360), TxnOffsetCommit the member (KIP-447).
KNOWN_PRODUCER_VERSION = 3
MEMBER_VERSION = 3

Identity = tuple[int, int]


def init_producer(
    transactional_id: str, timeout_ms: int, identity: Identity
) -> Callable[[int], InitProducerIdRequest]:
    """Returns a request for an identity, or for the one after `identity`."""

    def build(version: int) -> InitProducerIdRequest:
        producer_id, epoch = identity if version >= KNOWN_PRODUCER_VERSION else (-1, -1)
        return InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )

    return build


def add_partitions(
    transactional_id: str, identity: Identity, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """Returns a request that adds partitions; clients use its versions up to 3."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity[0],
        v3_and_below_producer_epoch=identity[1],
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=numbers)
            for name, numbers in by_topic(partitions).items()
        ],
    )


def added_partitions(response: AddPartitionsToTxnResponse) -> dict[TopicPartition, int]:
    """Returns the error code by partition."""
    return {
        TopicPartition(topic.name, part.partition_index): part.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for part in topic.results_by_partition
    }


def add_offsets(transactional_id: str, identity: Identity, group: str) -> AddOffsetsToTxnRequest:
    """Returns a request that adds the offsets of a group."""
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity[0],
        producer_epoch=identity[1],
        group_id=group,
    )


def offset_commit(
    transactional_id: str,
    identity: Identity,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    group: GroupMetadata,
) -> Callable[[int], TxnOffsetCommitRequest]:
    """Returns a request that commits offsets with the transaction."""
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, partition), each in offsets.items():
        topics.setdefault(topic, []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=each.offset,
                committed_leader_epoch=each.leader_epoch,
                committed_metadata=each.metadata,
            )
        )

    def build(version: int) -> TxnOffsetCommitRequest:
        known = version >= MEMBER_VERSION
        return TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group.group_id,
            producer_id=identity[0],
            producer_epoch=identity[1],
            generation_id_or_member_epoch=group.generation_id if known else -1,
            member_id=group.member_id if known else "",
            group_instance_id=group.group_instance_id if known else None,
            topics=[
                TxnOffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()
            ],
        )

    return build


def end_transaction(transactional_id: str, identity: Identity, committed: bool) -> EndTxnRequest:
    """Returns a request that commits or aborts."""
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity[0],
        producer_epoch=identity[1],
        committed=committed,
    )
