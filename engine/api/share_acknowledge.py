"""Handles ShareAcknowledge: a member of a share group says what became of records (KIP-932)."""

from typing import TYPE_CHECKING

from bowstring.engine.api.denials import denials_of_topics
from bowstring.engine.api.share_acknowledgements import (
    RENEW_VERSION,
    Acknowledgements,
    Leaders,
    Outcome,
    member_of,
)
from bowstring.engine.share.sessions import FINAL_EPOCH, INITIAL_EPOCH
from bowstring.protocol.acls import AclOperation
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.api.share_acknowledgements import PartitionKey
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer
    from bowstring.engine.share.leader.share_partitions import SharePartitions


async def handle(
    request: "Request",
    *,
    metadata: "Metadata",
    time_slices: "TimeSlices",
    share_partitions: "SharePartitions",
    authorizer: "Authorizer",
) -> ShareAcknowledgeResponse:
    """Answers when the acknowledgements are stored.

    Behaviour: the epoch must be that of the member's session, which ShareFetch has opened; -1 closes the
    session and gives back what the member still holds. All acknowledgements of a partition take effect, or
    none.

    Versions: 2 renews locks and says how long they last (KIP-1222).
    """
    body: ShareAcknowledgeRequest = request.body
    try:
        member = member_of(metadata, body)
        if body.share_session_epoch == INITIAL_EPOCH:
            raise KafkaError(Errors.INVALID_SHARE_SESSION_EPOCH)
        if body.share_session_epoch == FINAL_EPOCH:
            session = share_partitions.sessions.get(member)
        else:
            session = share_partitions.sessions.advance(member, body.share_session_epoch)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code)
    renews = request.version >= RENEW_VERSION and body.is_renew_ack
    denies = denials_of_topics(authorizer, request, AclOperation.READ)
    acknowledgements = Acknowledgements(
        metadata, share_partitions, time_slices, member, renews=renews, denies=denies
    )
    await acknowledgements.begin(body.topics)
    outcomes = await acknowledgements.outcomes()
    if body.share_session_epoch == FINAL_EPOCH and share_partitions.sessions.close(session):
        await share_partitions.release(session)
    return _answer(metadata, request, outcomes, share_partitions.settings(member.group_id).lock_ms)


def _answer(
    metadata: "Metadata", request: "Request", outcomes: "dict[PartitionKey, Outcome]", lock_ms: int
) -> ShareAcknowledgeResponse:
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    leaders = Leaders(metadata, request, LeaderIdAndEpoch, NodeEndpoint)
    for (topic_id, index), outcome in outcomes.items():
        partition = PartitionData(
            partition_index=index, error_code=outcome.error_code, error_message=outcome.reason
        )
        leaders.name(partition, topic_id)
        if topic_id not in topics:
            topics[topic_id] = ShareAcknowledgeTopicResponse(topic_id=topic_id)
        topics[topic_id].partitions.append(partition)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_ms,
        responses=list(topics.values()),
        node_endpoints=leaders.endpoints,
    )
