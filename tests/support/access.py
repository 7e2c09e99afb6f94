"""Nodes with access control."""

from bowstring.protocol.acls import AclOperation, AclPermissionType, AclResourceType, ResourcePatternType
from bowstring.protocol.messages import create_acls as ca
from bowstring.protocol.messages import delete_acls as da
from bowstring.protocol.messages import describe_acls as de

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SECURED = {"authorizer_class_name": STANDARD, "super_users": "User:admin;User:ANONYMOUS"}
"""Configs of a broker whose anonymous clients may do everything."""


def rule(
    name="t",
    principal="User:alice",
    operation=AclOperation.READ,
    *,
    resource=AclResourceType.TOPIC,
    pattern=ResourcePatternType.LITERAL,
    host="*",
    permission=AclPermissionType.ALLOW,
):
    return ca.AclCreation(
        resource_type=int(resource),
        resource_name=name,
        resource_pattern_type=int(pattern),
        principal=principal,
        host=host,
        operation=int(operation),
        permission_type=int(permission),
    )


def created(served, *rules, version=3):
    return served.ask(ca.CreateAclsRequest(creations=list(rules)), version).results


def deleted(served, *filters, version=3):
    return served.ask(da.DeleteAclsRequest(filters=list(filters)), version).filter_results


def described(served, version=3, **fields):
    """Returns the answer to DescribeAcls; without fields, of all rules."""
    return served.ask(de.DescribeAclsRequest(**ANY | fields), version)


def wanted(**fields):
    """Returns a filter of DeleteAcls; without fields, of all rules."""
    return da.DeleteAclsFilter(**ANY | fields)


ANY = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
