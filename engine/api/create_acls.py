"""Handles CreateAcls: adds access control entries."""

from typing import TYPE_CHECKING

from bowstring.engine.api.acl_requests import check_is_on
from bowstring.engine.controller.acls import create_acls
from bowstring.engine.metadata.acls_image import Acl
from bowstring.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from bowstring.engine.controller.service import QuorumController
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer


async def handle(
    request: "Request",
    *,
    controller: "QuorumController",
    authorizer: "Authorizer",
    time_slices: "TimeSlices",
) -> CreateAclsResponse:
    """Adds the rules that are valid, in one commit; a rule that is there already stays, and is no error.

    Behaviour: all nodes follow the rules once they are committed. Without an authorizer every rule gets
    SECURITY_DISABLED.

    Versions: 1 has prefixed patterns; 2 changes only the encoding; 3 has the resource type USER (KIP-373).
    """
    check_is_on(authorizer)
    body: CreateAclsRequest = request.body
    wanted = [
        Acl(
            each.resource_type,
            each.resource_pattern_type,
            each.resource_name,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        async for each in time_slices.each(body.creations)
    ]
    errors = await controller.run(
        lambda state, now_ms: create_acls(
            state.image.acls,
            wanted,
            metadata_version=state.metadata_version,
            new_uuid=state.new_uuid,
        )
    )
    return CreateAclsResponse(
        results=[
            AclCreationResult()
            if error is None
            else AclCreationResult(error_code=error.code, error_message=error.detail)
            for error in errors
        ]
    )
