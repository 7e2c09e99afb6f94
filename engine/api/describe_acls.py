"""Handles DescribeAcls: lists access control entries that match a filter."""

from typing import TYPE_CHECKING

from bowstring.engine.api.acl_requests import check_is_on, filter_of
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer


async def handle(
    request: "Request", *, metadata: "Metadata", authorizer: "Authorizer", time_slices: "TimeSlices"
) -> DescribeAclsResponse:
    """Returns the rules that match, by resource.

    Behaviour: the answer has the rules that this node follows. A pattern type of MATCH finds those that
    apply to the name, also prefixes and `*`. Without an authorizer it is SECURITY_DISABLED; a field that
    Kafka does not know is INVALID_REQUEST.

    Versions: 1 has prefixed patterns; 2 changes only the encoding; 3 has the resource type USER (KIP-373).
    """
    check_is_on(authorizer)
    body: DescribeAclsRequest = request.body
    wanted = filter_of(body)
    if wanted.unknown is not None:
        raise KafkaError(Errors.INVALID_REQUEST, f"Unknown {wanted.unknown}.")
    found: dict[tuple[int, int, str], DescribeAclsResource] = {}
    async for acl in time_slices.each(list(metadata.image.acls.entries.values())):
        if not wanted.matches(acl):
            continue
        resource = found.get(acl[:3])
        if resource is None:
            resource = found[acl[:3]] = DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                acls=[],
            )
        resource.acls.append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
        )
    return DescribeAclsResponse(resources=list(found.values()))
