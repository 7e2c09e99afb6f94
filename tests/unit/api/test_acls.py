"""CreateAcls, DeleteAcls and DescribeAcls over the wire."""

import pytest

from bowstring.protocol.acls import AclOperation, AclPermissionType, AclResourceType, ResourcePatternType
from bowstring.protocol.errors import Errors
from tests.support.access import SECURED, STANDARD, created, deleted, described, rule, wanted

RULES = (
    rule("t"),
    rule("team-", operation=AclOperation.ALL, pattern=ResourcePatternType.PREFIXED, host="10.0.0.0/8"),
    rule("*", "User:*", permission=AclPermissionType.DENY, resource=AclResourceType.GROUP),
    rule("kafka-cluster", "User:ops", AclOperation.ALTER, resource=AclResourceType.CLUSTER),
    rule("bob", "User:ops", AclOperation.CREATE_TOKENS, resource=AclResourceType.USER),
)


@pytest.fixture
def secured(serve):
    return serve(**SECURED)


def names(answer):
    return sorted((each.resource_name, len(each.acls)) for each in answer.resources)


def test_rules_come_back_also_after_a_restart(secured):
    assert {each.error_code for each in created(secured, *RULES, RULES[0])} == {0}
    assert {each.error_code for each in created(secured, RULES[0])} == {0}
    expected = sorted((each.resource_name, 1) for each in RULES)
    assert names(described(secured)) == expected
    secured.restart()
    assert names(described(secured)) == expected
    (resource,) = described(
        secured, resource_type_filter=int(AclResourceType.TOPIC), pattern_type_filter=4
    ).resources
    (found,) = resource.acls
    assert (found.principal, found.host, found.operation, found.permission_type) == (
        "User:alice",
        "10.0.0.0/8",
        2,
        3,
    )


def test_rules_are_removed_by_filters(secured):
    created(secured, *RULES)
    matching, nothing, unknown = deleted(
        secured,
        wanted(principal_filter="User:ops"),
        wanted(principal_filter="User:nobody"),
        wanted(operation=99),
    )
    assert sorted(each.resource_name for each in matching.matching_acls) == ["bob", "kafka-cluster"]
    assert (nothing.error_code, nothing.matching_acls) == (0, [])
    assert (unknown.error_code, unknown.error_message) == (
        Errors.INVALID_REQUEST.code,
        "Unknown entryFilter.",
    )
    assert names(described(secured)) == [("*", 1), ("t", 1), ("team-", 1)]


def test_filters(secured):
    created(secured, *RULES)
    match, topic = int(ResourcePatternType.MATCH), int(AclResourceType.TOPIC)

    def found(**fields):
        return [name for name, _ in names(described(secured, **fields))]

    assert found(resource_name_filter="team-a", pattern_type_filter=match) == ["*", "team-"]
    assert found(resource_name_filter="team-a", pattern_type_filter=match, resource_type_filter=topic) == [
        "team-"
    ]
    assert found(resource_name_filter="team-") == ["team-"]
    assert found(resource_name_filter="*", pattern_type_filter=3) == ["*"]
    assert found(host_filter="10.0.0.0/8") == ["team-"]
    assert found(operation=int(AclOperation.ALTER)) == ["kafka-cluster"]
    assert found(permission_type=int(AclPermissionType.DENY)) == ["*"]
    refused = described(secured, pattern_type_filter=9)
    assert refused.error_code == Errors.INVALID_REQUEST.code


@pytest.mark.parametrize(
    ("refused", "detail"),
    [
        (rule(""), "empty resource name"),
        (rule("c", resource=AclResourceType.CLUSTER), "kafka-cluster"),
        (rule(resource=1), "Invalid resourceType ANY"),
        (rule(resource=99), "Invalid resourceType UNKNOWN"),
        (rule(pattern=ResourcePatternType.MATCH), "Invalid patternType MATCH"),
        (rule(pattern=ResourcePatternType.ANY), "Invalid patternType ANY"),
        (rule(operation=AclOperation.ANY), "Invalid operation ANY"),
        (rule(operation=99), "Invalid operation UNKNOWN"),
        (rule(permission=1), "Invalid permissionType ANY"),
        (rule(principal="alice"), "Could not parse principal"),
        (rule(host=""), "Host pattern"),
        (rule(host="10.0.0.0/33"), "Invalid CIDR notation"),
        (rule(host="10.0.0.0/255.0.0.0"), "Invalid CIDR notation"),
    ],
)
def test_a_rule_that_kafka_refuses_is_refused_and_others_are_added(secured, refused, detail):
    good, bad = created(secured, RULES[0], refused)
    assert good.error_code == 0
    assert bad.error_code == Errors.INVALID_REQUEST.code
    assert detail in bad.error_message
    assert names(described(secured)) == [("t", 1)]


def test_without_an_authorizer_security_is_disabled(served):
    (result,) = created(served, RULES[0])
    assert Errors.of(result.error_code) is Errors.SECURITY_DISABLED
    (result,) = deleted(served, wanted())
    assert Errors.of(result.error_code) is Errors.SECURITY_DISABLED
    answer = described(served)
    assert Errors.of(answer.error_code) is Errors.SECURITY_DISABLED
    assert "authorizer.class.name" in answer.error_message


def test_who_may_not_alter_the_cluster_changes_no_rules(serve):
    served = serve(authorizer_class_name=STANDARD, super_users="User:admin")
    (result,) = created(served, RULES[0])
    assert Errors.of(result.error_code) is Errors.CLUSTER_AUTHORIZATION_FAILED
    (result,) = deleted(served, wanted())
    assert Errors.of(result.error_code) is Errors.CLUSTER_AUTHORIZATION_FAILED
    assert Errors.of(described(served).error_code) is Errors.CLUSTER_AUTHORIZATION_FAILED
