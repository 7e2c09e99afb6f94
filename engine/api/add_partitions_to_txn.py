"""Handles AddPartitionsToTxn: adds partitions to transactions, or verifies that they are in one."""

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Final

from bowstring.engine.api.denials import NONE_DENIED, denied_among
from bowstring.engine.metadata.names import is_internal
from bowstring.engine.transactions.partitions import Producer
from bowstring.engine.transactions.transaction import EPOCH_BUMP, TopicPartition
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer
    from bowstring.engine.transactions.service import TransactionCoordinatorService

_FENCED_VERSION: Final = 2
_BATCH_VERSION: Final = 4


async def handle(
    request: "Request",
    *,
    metadata: "Metadata",
    time_slices: "TimeSlices",
    transactions: "TransactionCoordinatorService",
    authorizer: "Authorizer",
) -> AddPartitionsToTxnResponse:
    """Adds all partitions of a transaction or none.

    Behaviour: if one partition does not exist, or is of a topic to which the client may not write, the others
    get OPERATION_NOT_ATTEMPTED. Brokers may add every partition. A transaction that is
    only verified gets TRANSACTION_ABORTABLE for partitions that are not in it.

    Versions: 2 PRODUCER_FENCED; 4 several transactions, also to verify, from brokers (KIP-890); 5
    TRANSACTION_ABORTABLE.
    """
    body: AddPartitionsToTxnRequest = request.body
    if request.version >= _BATCH_VERSION:
        results = []
        # together they wait as long as one would
        until_s = transactions.retry_until_s()
        async for each in time_slices.each(body.transactions):
            errors = await _handle_one(
                each,
                request.version,
                until_s,
                metadata=metadata,
                time_slices=time_slices,
                transactions=transactions,
            )
            found = await _results(time_slices, errors)
            results.append(
                AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=found)
            )
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    one = AddPartitionsToTxnTransaction(
        transactional_id=body.v3_and_below_transactional_id,
        producer_id=body.v3_and_below_producer_id,
        producer_epoch=body.v3_and_below_producer_epoch,
        topics=body.v3_and_below_topics,
    )
    written = (topic.name for topic in one.topics if not is_internal(topic.name))
    operation, kind = AclOperation.WRITE, AclResourceType.TOPIC
    denied = await denied_among(authorizer, request, operation, kind, written, time_slices=time_slices)
    if authorizer.is_on:  # as in Kafka, nobody is allowed to write to these
        denied |= {topic.name for topic in one.topics if is_internal(topic.name)}
    errors = await _handle_one(
        one,
        request.version,
        transactions.retry_until_s(),
        denied=denied,
        metadata=metadata,
        time_slices=time_slices,
        transactions=transactions,
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _results(time_slices, errors))


async def _handle_one(
    transaction: AddPartitionsToTxnTransaction,
    version: int,
    until_s: float,
    *,
    denied: Set[str] = NONE_DENIED,
    metadata: "Metadata",
    time_slices: "TimeSlices",
    transactions: "TransactionCoordinatorService",
) -> dict[TopicPartition, Error]:
    partitions: dict[TopicPartition, None] = {}  # in the order of the request
    unknown: set[TopicPartition] = set()
    async for topic in time_slices.each(transaction.topics):
        image = metadata.image.topics.get(topic.name)
        count = 0 if image is None else len(image.partitions)
        async for index in time_slices.each(topic.partitions):
            partitions[topic.name, index] = None
            if not 0 <= index < count:
                unknown.add((topic.name, index))
    if not transaction.transactional_id:
        return dict.fromkeys(partitions, Errors.INVALID_REQUEST)
    if unknown or denied:
        return {each: _unusable(each, unknown, denied) for each in partitions}
    producer = Producer(transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
    wanted = frozenset(partitions)
    try:
        if transaction.verify_only:
            return await transactions.verify_partitions(producer, wanted)
        bumps = EPOCH_BUMP if version >= _BATCH_VERSION else 0
        error = await transactions.add_partitions(producer, wanted, bumps, until_s)
    except KafkaError as refused:
        error = refused.error
    if error is Errors.PRODUCER_FENCED and version < _FENCED_VERSION:
        error = Errors.INVALID_PRODUCER_EPOCH
    return dict.fromkeys(partitions, error)


def _unusable(partition: TopicPartition, unknown: Set[TopicPartition], denied: Set[str]) -> Error:
    """Returns the error of a partition if not all of the transaction can be added."""
    if partition[0] in denied:
        return Errors.TOPIC_AUTHORIZATION_FAILED
    return Errors.UNKNOWN_TOPIC_OR_PARTITION if partition in unknown else Errors.OPERATION_NOT_ATTEMPTED


async def _results(
    time_slices: "TimeSlices", errors: Mapping[TopicPartition, Error]
) -> list[AddPartitionsToTxnTopicResult]:
    by_topic: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    async for (name, index), error in time_slices.each(errors.items()):
        by_topic.setdefault(name, []).append(
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error.code)
        )
    results = []
    async for name, found in time_slices.each(by_topic.items()):
        results.append(AddPartitionsToTxnTopicResult(name=name, results_by_partition=found))
    return results
