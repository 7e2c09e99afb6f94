"""Handles ShareFetch: a member of a share group acquires records, and acknowledges earlier ones (KIP-932)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from bowstring.engine.api.denials import denials_of_topics
from bowstring.engine.api.share_acknowledgements import (
    RENEW_VERSION,
    Acknowledgements,
    Leaders,
    Outcome,
    PartitionKey,
    member_of,
)
from bowstring.engine.share.leader.share_fetch import Fetched, ShareFetch, ShareFetchOptions, rotated
from bowstring.engine.share.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    SESSION_PARTITIONS_MAX,
    SessionKey,
    SessionPartition,
    ShareSession,
    next_epoch,
)
from bowstring.protocol.acls import AclOperation
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer
    from bowstring.engine.share.leader.share_partitions import SharePartitions

_RECORD_LIMIT: Final = 1
_RELEASE: Final = 2


async def handle(
    request: "Request",
    *,
    configs: "BrokerConfigs",
    metadata: "Metadata",
    time_slices: "TimeSlices",
    share_partitions: "SharePartitions",
    authorizer: "Authorizer",
) -> ShareFetchResponse:
    """Answers when there are enough records, or when the time is over, and the acknowledgements are stored.

    Behaviour: epoch 0 opens a session, which has the member's partitions and ends with the connection; -1
    closes it and gives back what the member holds. Later requests name only what changes in the session.
    Partitions without news are left out of later answers. A request that renews locks fetches nothing.

    Versions: 2 adds the mode that cuts batches at the most records (KIP-1206), and renewals (KIP-1222).
    """
    body: ShareFetchRequest = request.body
    renews = request.version >= RENEW_VERSION and body.is_renew_ack
    try:
        member = member_of(metadata, body)
        if renews and (body.max_bytes or body.min_bytes or body.max_records or body.max_wait_ms):
            raise KafkaError(Errors.INVALID_REQUEST)
        has_acknowledgements = await _has_acknowledgements(time_slices, body)
        session = await _session(
            metadata,
            time_slices,
            share_partitions,
            request,
            member,
            has_acknowledgements=has_acknowledgements,
        )
    except KafkaError as error:
        return await _refused(share_partitions, request, error)
    denies = denials_of_topics(authorizer, request, AclOperation.READ)
    acknowledgements = Acknowledgements(
        metadata, share_partitions, time_slices, member, renews=renews, denies=denies
    )
    if has_acknowledgements:
        await acknowledgements.begin(body.topics)
    fetched: dict[SessionPartition, Fetched] = {}
    closes = body.share_session_epoch == FINAL_EPOCH
    if not closes and not renews:
        known, failed = await _known(metadata, time_slices, session, denies)
        came = await _fetch(share_partitions, request, member, known, configs.value("fetch.max.bytes"))
        denies = denials_of_topics(authorizer, request, AclOperation.READ)  # it may have waited
        fetched = came | _withdrawn(metadata, share_partitions, member, came, denies) | failed
    outcomes = await acknowledgements.outcomes()
    if closes and share_partitions.sessions.close(session):
        await share_partitions.release(session)
    lock_ms = share_partitions.settings(member.group_id).lock_ms
    if body.share_session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
        if session.epoch != next_epoch(body.share_session_epoch):
            # Another connection has used the session meanwhile. The member does not get these records.
            _give_back(share_partitions, member, fetched)
            return ShareFetchResponse(
                error_code=Errors.INVALID_SHARE_SESSION_EPOCH.code, acquisition_lock_timeout_ms=lock_ms
            )
        fetched = _with_news(session, fetched)
    return await _answer(request, fetched, outcomes, lock_ms, metadata=metadata, time_slices=time_slices)


async def _refused(
    share_partitions: "SharePartitions", request: "Request", error: KafkaError
) -> ShareFetchResponse:
    if error.error is Errors.SHARE_SESSION_LIMIT_REACHED:
        # Or the member would retry at once.
        await _pause(share_partitions, request.connection_id, max(0, request.body.max_wait_ms) / 1000)
    return ShareFetchResponse(error_code=error.code)


async def _pause(share_partitions: "SharePartitions", connection_id: int, seconds: float) -> None:
    """Waits, at most until the connection ends."""
    ended = asyncio.Event()
    with share_partitions.connected(connection_id, ended.set), suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await ended.wait()


async def _has_acknowledgements(time_slices: "TimeSlices", body: ShareFetchRequest) -> bool:
    async for topic in time_slices.each(body.topics):
        async for partition in time_slices.each(topic.partitions):
            if partition.acknowledgement_batches:
                return True
    return False


async def _session(
    metadata: "Metadata",
    time_slices: "TimeSlices",
    share_partitions: "SharePartitions",
    request: "Request",
    member: SessionKey,
    *,
    has_acknowledgements: bool,
) -> ShareSession:
    """Opens or finds the session.

    Raises:
        KafkaError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED;
            INVALID_REQUEST for acknowledgements without a session.
    """
    body: ShareFetchRequest = request.body
    sessions = share_partitions.sessions
    epoch = body.share_session_epoch
    if epoch == FINAL_EPOCH:
        return sessions.get(member)
    if epoch == INITIAL_EPOCH and has_acknowledgements:
        raise KafkaError(Errors.INVALID_REQUEST)
    if epoch == INITIAL_EPOCH:
        named: list[SessionPartition] = []
        async for each in _named(metadata, time_slices, body):
            if len(named) == SESSION_PARTITIONS_MAX:
                raise KafkaError(Errors.SHARE_SESSION_LIMIT_REACHED)
            named.append(each)
        return sessions.open(member, request.connection_id, named)
    session = sessions.advance(member, epoch)
    async for each in _named(metadata, time_slices, body):
        sessions.add(session, each)
    async for topic in time_slices.each(body.forgotten_topics_data):
        async for index in time_slices.each(topic.partitions):
            sessions.forget(session, (topic.topic_id, index))
    return session


async def _named(
    metadata: "Metadata", time_slices: "TimeSlices", body: ShareFetchRequest
) -> AsyncIterator[SessionPartition]:
    topics = metadata.image.topics_by_id
    async for topic in time_slices.each(body.topics):
        found = topics.get(topic.topic_id)
        name = None if found is None else found.name
        async for partition in time_slices.each(topic.partitions):
            yield SessionPartition(topic.topic_id, partition.partition_index, name)


def _unusable(
    metadata: "Metadata", partition: SessionPartition, denies: Callable[[str], bool]
) -> Error | None:
    topic = metadata.image.topics_by_id.get(partition.topic_id)
    if topic is None and partition.topic is None:
        # Until this broker learns of it; in Kafka as long as the session lasts.
        return Errors.UNKNOWN_TOPIC_ID
    if denies(partition.topic or ("" if topic is None else topic.name)):
        return Errors.TOPIC_AUTHORIZATION_FAILED
    if topic is None or not 0 <= partition.partition < len(topic.partitions):
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    return None


async def _known(
    metadata: "Metadata",
    time_slices: "TimeSlices",
    session: ShareSession,
    denies: Callable[[str], bool],
) -> tuple[list[SessionPartition], dict[SessionPartition, Fetched]]:
    """Returns the partitions of a session that exist and that the member may read, and the answers for the
    others.
    """
    known: list[SessionPartition] = []
    failed: dict[SessionPartition, Fetched] = {}
    async for partition in time_slices.each(list(session)):
        error = _unusable(metadata, partition, denies)
        if error is None:
            known.append(partition)
        else:
            failed[partition] = Fetched(error)
    return known, failed


async def _fetch(
    share_partitions: "SharePartitions",
    request: "Request",
    member: SessionKey,
    known: list[SessionPartition],
    most_bytes: int,
) -> dict[SessionPartition, Fetched]:
    body: ShareFetchRequest = request.body
    max_bytes = min(body.max_bytes, most_bytes)
    options = ShareFetchOptions(
        max_wait_ms=body.max_wait_ms,
        min_bytes=min(body.min_bytes, max_bytes),
        max_bytes=max_bytes,
        max_records=body.max_records,
        batch_size=body.batch_size,
        record_limit=body.share_acquire_mode == _RECORD_LIMIT,
    )
    wanted = rotated(known, body.share_session_epoch)
    fetch = ShareFetch(share_partitions, member, share_partitions.settings(member.group_id), wanted, options)
    with share_partitions.connected(request.connection_id, fetch.give_up):
        return await fetch.run()


def _withdrawn(
    metadata: "Metadata",
    share_partitions: "SharePartitions",
    member: SessionKey,
    came: dict[SessionPartition, Fetched],
    denies: Callable[[str], bool],
) -> dict[SessionPartition, Fetched]:
    """Gives back what the member may no longer read. Returns the answers in its place."""
    refused = Errors.TOPIC_AUTHORIZATION_FAILED
    lost = {each: found for each, found in came.items() if _unusable(metadata, each, denies) is refused}
    _give_back(share_partitions, member, lost)
    return {each: Fetched(refused) for each in lost}


def _with_news(
    session: ShareSession, fetched: dict[SessionPartition, Fetched]
) -> dict[SessionPartition, Fetched]:
    return {
        partition: found
        for partition, found in fetched.items()
        if session.must_answer(
            partition.topic_id,
            partition.partition,
            has_records=bool(found.records),
            failed=found.error is not Errors.NONE,
        )
    }


def _give_back(
    share_partitions: "SharePartitions", member: SessionKey, fetched: dict[SessionPartition, Fetched]
) -> None:
    """Releases records that no answer names; otherwise no member could get them before their locks end."""
    for wanted, found in fetched.items():
        partition = share_partitions.find(member.group_id, wanted.topic_id, wanted.partition)
        if partition is None or not found.acquired:
            continue
        released = [
            AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[_RELEASE])
            for first, last, _ in found.acquired
        ]
        partition.acknowledge(share_partitions.member_number(member), released)


async def _answer(
    request: "Request",
    fetched: dict[SessionPartition, Fetched],
    outcomes: dict[PartitionKey, Outcome],
    lock_ms: int,
    *,
    metadata: "Metadata",
    time_slices: "TimeSlices",
) -> ShareFetchResponse:
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    leaders = Leaders(metadata, request, LeaderIdAndEpoch, NodeEndpoint)

    def add(topic_id: bytes, partition: PartitionData) -> None:
        outcome = outcomes.pop((topic_id, partition.partition_index), None)
        if outcome is not None:
            partition.acknowledge_error_code = outcome.error_code
            partition.acknowledge_error_message = outcome.reason
        leaders.name(partition, topic_id)
        if topic_id not in topics:
            topics[topic_id] = ShareFetchableTopicResponse(topic_id=topic_id)
        topics[topic_id].partitions.append(partition)

    async for (topic_id, index, _), found in time_slices.each(list(fetched.items())):
        acquired = [
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=deliveries)
            for first, last, deliveries in found.acquired
        ]
        add(
            topic_id,
            PartitionData(
                partition_index=index,
                error_code=found.error.code,
                records=found.records,
                acquired_records=acquired,
            ),
        )
    async for topic_id, index in time_slices.each(list(outcomes)):
        add(topic_id, PartitionData(partition_index=index, records=b""))
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=lock_ms, responses=list(topics.values()), node_endpoints=leaders.endpoints
    )
