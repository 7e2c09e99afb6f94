"""What the requests for access control entries have in common."""

from typing import TYPE_CHECKING

from bowstring.engine.metadata.acl_filters import AclFilter
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.delete_acls import DeleteAclsFilter
from bowstring.protocol.messages.describe_acls import DescribeAclsRequest

if TYPE_CHECKING:
    from bowstring.engine.security.authorizer import Authorizer


def check_is_on(authorizer: "Authorizer") -> None:
    """Refuses requests for rules on a node that has no authorizer.

    Raises:
        KafkaError: SECURITY_DISABLED.
    """
    if not authorizer.is_on:
        raise KafkaError(
            Errors.SECURITY_DISABLED,
            "No Authorizer is configured: set authorizer.class.name on all brokers and controllers.",
        )


def filter_of(given: DeleteAclsFilter | DescribeAclsRequest) -> AclFilter:
    """Returns a filter as the request has it."""
    return AclFilter(
        given.resource_type_filter,
        given.pattern_type_filter,
        given.resource_name_filter,
        given.principal_filter,
        given.host_filter,
        given.operation,
        given.permission_type,
    )
