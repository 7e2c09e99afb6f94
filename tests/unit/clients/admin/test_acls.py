"""Rules of access control and their filters, and passwords of SCRAM users, without a broker."""

import pytest

from bowstring.clients.admin.acls import AclBinding, AclBindingFilter
from bowstring.clients.admin.delegation_tokens import DelegationToken
from bowstring.clients.admin.scram_users import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from bowstring.clients.errors import ConfigError
from bowstring.protocol.acls import AclOperation, AclPermissionType, AclResourceType, ResourcePatternType


def test_names_stand_for_members():
    rule = AclBinding("transactional-id", "t", "prefixed", "User:alice", "*", "IDEMPOTENT_WRITE", "deny")
    assert rule == AclBinding(
        AclResourceType.TRANSACTIONAL_ID,
        "t",
        ResourcePatternType.PREFIXED,
        "User:alice",
        "*",
        AclOperation.IDEMPOTENT_WRITE,
        AclPermissionType.DENY,
    )
    assert AclBindingFilter(resource_pattern_type="match").resource_pattern_type is ResourcePatternType.MATCH


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"resource_type": "planet"}, "AclResourceType is one of TOPIC, GROUP, .*, not 'planet'"),
        ({"operation": AclOperation.ANY}, "not 'ANY'"),
        ({"resource_pattern_type": "match"}, "one of LITERAL, PREFIXED, not 'match'"),
        ({"permission_type": 9}, "one of DENY, ALLOW, not 9"),
        ({"principal": ""}, "principal of an AclBinding may not be empty"),
    ],
)
def test_what_is_no_rule(changes, error):
    good = {
        "resource_type": "topic",
        "name": "t",
        "resource_pattern_type": "literal",
        "principal": "User:alice",
        "host": "*",
        "operation": "read",
        "permission_type": "allow",
    }
    AclBinding(**good)
    with pytest.raises(ConfigError, match=error):
        AclBinding(**(good | changes))


def test_secrets_are_not_shown():
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512)
    assert "hunter2" not in repr(UserScramCredentialUpsertion("alice", info, "hunter2", b"hunter2"))
    assert "hunter2" not in repr(DelegationToken("id", "User:a", "User:a", 1, 2, 3, (), b"hunter2"))


@pytest.mark.parametrize(("password", "iterations"), [("", 4096), ("x", 4095), ("x", 16385)])
def test_passwords_that_brokers_would_refuse(password, iterations):
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, iterations)
    with pytest.raises(ConfigError):
        UserScramCredentialUpsertion("alice", info, password)
