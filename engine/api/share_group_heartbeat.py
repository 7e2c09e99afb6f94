"""Handles ShareGroupHeartbeat: members join share groups, follow assignments, and leave (KIP-932)."""

from typing import TYPE_CHECKING, Final

from bowstring.engine.api.denials import denied_among
from bowstring.engine.api.request_context import request_context
from bowstring.engine.groups.modern.group import LEAVE_EPOCH
from bowstring.engine.groups.share.heartbeat import JOIN_EPOCH
from bowstring.engine.groups.share.membership import refusal
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.features import SHARE_VERSION
from bowstring.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer

MEMBER_ID_MAX: Final = 36
"""Characters of a member id: those of a UUID."""


def supports_share_groups(metadata: "Metadata") -> bool:
    """Whether share groups are enabled in the cluster."""
    return metadata.image.features.get(SHARE_VERSION, 0) > 0


async def handle(
    request: "Request",
    *,
    metadata: "Metadata",
    groups: "GroupCoordinatorService",
    authorizer: "Authorizer",
    time_slices: "TimeSlices",
) -> ShareGroupHeartbeatResponse:
    """Answers when all that the answer says is committed.

    Versions: 1 only; 0 was that of the early access.
    """
    body: ShareGroupHeartbeatRequest = request.body
    if not supports_share_groups(metadata):
        return refusal(Errors.UNSUPPORTED_VERSION)
    if not _is_member_id(body.member_id):
        return refusal(Errors.INVALID_REQUEST, "Invalid member id in the request.")
    names = body.subscribed_topic_names or ()
    operation, kind = AclOperation.DESCRIBE, AclResourceType.TOPIC
    if await denied_among(authorizer, request, operation, kind, names, time_slices=time_slices):
        return refusal(Errors.TOPIC_AUTHORIZATION_FAILED)
    try:
        _check(body)
        context = request_context(request)
        answer: ShareGroupHeartbeatResponse = await groups.ask(
            body.group_id,
            lambda shard, token, now_ms: shard.share_group_heartbeat(body, context, token, now_ms),
        )
    except KafkaError as error:
        return refusal(error.error, error.detail)
    return answer


def _is_member_id(text: str) -> bool:
    return 0 < len(text) <= MEMBER_ID_MAX


def _check(body: ShareGroupHeartbeatRequest) -> None:
    """Checks what does not depend on the group.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    for field, value in (
        ("MemberId", body.member_id),
        ("GroupId", body.group_id),
        ("RackId", body.rack_id),
    ):
        if value is not None and not value.strip():
            raise KafkaError(Errors.INVALID_REQUEST, f"{field} can't be empty.")
    if body.member_epoch == JOIN_EPOCH and not body.subscribed_topic_names:
        raise KafkaError(Errors.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    if body.member_epoch < LEAVE_EPOCH:
        raise KafkaError(Errors.INVALID_REQUEST, "MemberEpoch is invalid.")
