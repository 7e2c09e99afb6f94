"""Handles AddPartitionsToTxn: adds partitions to transactions, or verifies that they are in one."""

from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Final

from bowstring.engine.errors import Error, Errors, KafkaError
from bowstring.engine.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from bowstring.engine.transactions.partitions import Producer
from bowstring.engine.transactions.transaction import EPOCH_BUMP, TopicPartition

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices
    from bowstring.engine.requests.request import Request

_FENCED_VERSION: Final = 2
_BATCH_VERSION: Final = 4


async def handle(broker: "BrokerServices", request: "Request") -> AddPartitionsToTxnResponse:
    """Adds all partitions of a transaction or none.

    Behaviour: if one partition does not exist, the others get OPERATION_NOT_ATTEMPTED. A transaction that is
    only verified gets TRANSACTION_ABORTABLE for partitions that are not in it.

    Versions: 2 PRODUCER_FENCED; 4 several transactions, also to verify, from brokers (KIP-890); 5
    TRANSACTION_ABORTABLE.
    """
    body: AddPartitionsToTxnRequest = request.body
    if request.version >= _BATCH_VERSION:
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=each.transactional_id,
                    topic_results=_results(await _handle_one(broker, each, request.version)),
                )
                for each in list(body.transactions)
            ]
        )
    one = AddPartitionsToTxnTransaction(
        transactional_id=body.v3_and_below_transactional_id,
        producer_id=body.v3_and_below_producer_id,
        producer_epoch=body.v3_and_below_producer_epoch,
        topics=body.v3_and_below_topics,
    )
    errors = await _handle_one(broker, one, request.version)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(errors))


async def _handle_one(
    broker: "BrokerServices", transaction: AddPartitionsToTxnTransaction, version: int
) -> dict[TopicPartition, Error]:
    partitions = {(topic.name, index) for topic in transaction.topics for index in topic.partitions}
    if not transaction.transactional_id:
        return dict.fromkeys(partitions, Errors.INVALID_REQUEST)
    topics = broker.metadata.image.topics
    unknown = {
        each
        for each in partitions
        if each[0] not in topics or not 0 <= each[1] < len(topics[each[0]].partitions)
    }
    if unknown:
        return {
            each: Errors.UNKNOWN_TOPIC_OR_PARTITION if each in unknown else Errors.OPERATION_NOT_ATTEMPTED
            for each in partitions
        }
    producer = Producer(transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
    wanted = frozenset(partitions)
    try:
        if transaction.verify_only:
            return await broker.transactions.verify_partitions(producer, wanted)
        bumps = EPOCH_BUMP if version >= _BATCH_VERSION else 0
        error = await broker.transactions.add_partitions(producer, wanted, bumps)
    except KafkaError as refused:
        error = refused.error
    if error is Errors.PRODUCER_FENCED and version < _FENCED_VERSION:
        error = Errors.INVALID_PRODUCER_EPOCH
    return dict.fromkeys(partitions, error)


def _results(errors: Mapping[TopicPartition, Error]) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error.code)
                for (_, index), error in each
            ],
        )
        for name, each in groupby(
            sorted(errors.items(), key=lambda item: item[0]), key=lambda item: item[0][0]
        )
    ]
