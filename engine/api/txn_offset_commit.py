"""Handles TxnOffsetCommit: stores offsets of a group that count once a transaction commits."""

from collections.abc import Set
from typing import TYPE_CHECKING, Final

from bowstring.engine.api.denials import denied_among, names_of
from bowstring.engine.groups.offsets.transactional import commit_error
from bowstring.engine.metadata.names import GROUPS_TOPIC
from bowstring.engine.transactions.partitions import Producer
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.metadata.image import ClusterImage, Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer
    from bowstring.engine.transactions.service import TransactionCoordinatorService

_LOADING_VERSION: Final = 2
_ABORTABLE_VERSION: Final = 4
_ADDING_VERSION: Final = 5
_TOPIC_ID_VERSION: Final = 6
_NOT_VERIFIED: Final = -1


async def handle(
    request: "Request",
    *,
    configs: "BrokerConfigs",
    metadata: "Metadata",
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    transactions: "TransactionCoordinatorService",
    authorizer: "Authorizer",
) -> TxnOffsetCommitResponse:
    """Commits for the partitions that exist, after the transaction's coordinator has confirmed that the
    group's partition is in it. Topics that the client may not read are refused.

    Versions: 2 leader epochs; 3 the member (KIP-447); 4 TRANSACTION_ABORTABLE; 5 adds the group's partition
    to the transaction (KIP-890); 6 topic ids instead of names, GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH
    (KIP-1319).
    """
    body: TxnOffsetCommitRequest = request.body
    refused: list[TxnOffsetCommitResponseTopic] = []
    topics = []
    names = names_of(metadata.image, body.topics, by_id=request.version >= _TOPIC_ID_VERSION)
    denied = await denied_among(
        authorizer, request, AclOperation.READ, AclResourceType.TOPIC, names, time_slices=time_slices
    )
    async for topic in time_slices.each(body.topics):
        known = _known(metadata.image, topic, request.version, refused, denied)
        if known.partitions:
            topics.append(known)
    body.topics = topics
    answer = (
        await _commit(configs, groups, transactions, request) if body.topics else TxnOffsetCommitResponse()
    )
    answer.topics = await _merged(time_slices, refused, answer.topics)
    if request.version < _LOADING_VERSION:
        async for answered in time_slices.each(answer.topics):
            for part in answered.partitions:
                if part.error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS.code:
                    part.error_code = Errors.COORDINATOR_NOT_AVAILABLE.code
    return answer


async def _commit(
    configs: "BrokerConfigs",
    groups: "GroupCoordinatorService",
    transactions: "TransactionCoordinatorService",
    request: "Request",
) -> TxnOffsetCommitResponse:
    body: TxnOffsetCommitRequest = request.body
    topic_ids = {topic.name: topic.topic_id for topic in body.topics}
    try:
        token, error = await _verified(configs, groups, transactions, request)
        if error:
            return commit_error(body, error)
        answer: TxnOffsetCommitResponse = await groups.ask(
            body.group_id,
            lambda shard, answer, now_ms: shard.commit_transactional_offsets(
                body, topic_ids, answer, now_ms, verification=token, version=request.version
            ),
        )
    except KafkaError as refusal:
        return commit_error(body, refusal.error)
    return answer


async def _verified(
    configs: "BrokerConfigs",
    groups: "GroupCoordinatorService",
    transactions: "TransactionCoordinatorService",
    request: "Request",
) -> tuple[int, Error]:
    """Returns the token with which the offsets may be appended, and why not."""
    body: TxnOffsetCommitRequest = request.body
    adds = request.version >= _ADDING_VERSION
    if not body.group_id:
        return 0, Errors.INVALID_GROUP_ID
    if not adds and not configs.value("transaction.partition.verification.enable"):
        return _NOT_VERIFIED, Errors.NONE
    token = groups.begin_verification(body.group_id, body.producer_id, body.producer_epoch, adds=adds)
    if not token:
        return 0, Errors.NONE
    partition = (GROUPS_TOPIC, groups.partition_of(body.group_id))
    producer = Producer(body.transactional_id, body.producer_id, body.producer_epoch)
    errors = await transactions.verifier.verify(producer, [partition], adds=adds)
    return token, _client_error(errors[partition], request.version)


def _client_error(error: Error, version: int) -> Error:
    """Returns the error that a client of this version retries, or takes as it is meant."""
    if error is Errors.NETWORK_EXCEPTION:
        return Errors.COORDINATOR_LOAD_IN_PROGRESS
    if error is Errors.CONCURRENT_TRANSACTIONS and version < _ADDING_VERSION:
        return Errors.COORDINATOR_LOAD_IN_PROGRESS
    if error is Errors.PRODUCER_FENCED:
        return Errors.INVALID_PRODUCER_EPOCH
    if error is Errors.TRANSACTION_ABORTABLE and version < _ABORTABLE_VERSION:
        return Errors.INVALID_TXN_STATE
    return error


def _known(
    image: "ClusterImage",
    topic: TxnOffsetCommitRequestTopic,
    version: int,
    refused: list[TxnOffsetCommitResponseTopic],
    denied: Set[str],
) -> TxnOffsetCommitRequestTopic:
    """Returns the topic with name, id and its existing partitions; adds the others to `refused`."""
    by_id = version >= _TOPIC_ID_VERSION
    found = image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)
    name, topic_id = (topic.name, topic.topic_id) if found is None else (found.name, found.id)
    error = Errors.UNKNOWN_TOPIC_ID if by_id and found is None else Errors.UNKNOWN_TOPIC_OR_PARTITION
    count = 0 if found is None else len(found.partitions)
    if name in denied:
        name, topic_id, count = topic.name, topic.topic_id, 0
        error = Errors.TOPIC_AUTHORIZATION_FAILED
    partitions = list(topic.partitions)
    unknown = [part for part in partitions if not 0 <= part.partition_index < count]
    if unknown:
        refused.append(
            TxnOffsetCommitResponseTopic(
                name=name,
                topic_id=topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=part.partition_index, error_code=error.code
                    )
                    for part in unknown
                ],
            )
        )
    return TxnOffsetCommitRequestTopic(
        name=name,
        topic_id=topic_id,
        partitions=[part for part in partitions if 0 <= part.partition_index < count],
    )


async def _merged(
    time_slices: "TimeSlices",
    refused: list[TxnOffsetCommitResponseTopic],
    answered: list[TxnOffsetCommitResponseTopic],
) -> list[TxnOffsetCommitResponseTopic]:
    """Returns one entry for each topic; refused partitions come first."""
    topics: dict[tuple[str, bytes], TxnOffsetCommitResponseTopic] = {}
    async for topic in time_slices.each(refused):
        topics[topic.name, topic.topic_id] = topic
    for topic in answered:
        known = topics.setdefault((topic.name, topic.topic_id), topic)
        if known is not topic:
            known.partitions = [*known.partitions, *topic.partitions]
    return list(topics.values())
