"""Handles DeleteAcls: removes access control entries that match filters."""

from typing import TYPE_CHECKING

from bowstring.engine.api.acl_requests import check_is_on, filter_of
from bowstring.engine.controller.acls import delete_acls
from bowstring.engine.metadata.acls_image import Acl
from bowstring.protocol.errors import KafkaError
from bowstring.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.controller.service import QuorumController
    from bowstring.engine.requests.request import Request
    from bowstring.engine.security.authorizer import Authorizer


async def handle(
    request: "Request", *, controller: "QuorumController", authorizer: "Authorizer"
) -> DeleteAclsResponse:
    """Removes the rules that match any of the filters, in one commit; returns those of each filter.

    Behaviour: all nodes follow once it is committed. Without an authorizer every filter gets
    SECURITY_DISABLED.

    Versions: 1 has prefixed patterns; 2 changes only the encoding; 3 has the resource type USER (KIP-373).
    """
    check_is_on(authorizer)
    body: DeleteAclsRequest = request.body
    filters = [filter_of(each) for each in body.filters]
    results = await controller.run(lambda state, now_ms: delete_acls(state.image.acls, filters))
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=each.code, error_message=each.detail)
            if isinstance(each, KafkaError)
            else DeleteAclsFilterResult(error_message=None, matching_acls=[_removed(acl) for acl in each])
            for each in results
        ]
    )


def _removed(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
