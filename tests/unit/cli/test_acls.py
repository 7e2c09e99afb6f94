"""What rules of access control mean, which of them decides, and what commands refuse before they connect."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring._native.access.acl_table import AclTable
from bowstring.clients.admin.acls import AclBinding
from bowstring.operations.acl_decision import Action, Settings, decide
from bowstring.operations.acl_words import sentence
from bowstring.protocol.acls import AclOperation, AclPermissionType, AclResourceType, ResourcePatternType

HIDDEN = Settings(None, None)
STRICT = Settings(frozenset({"User:root"}), False)


def rule(text):
    """`allow User:alice read topic orders* 10.0.0.1`: a trailing * of a name is a prefix; the host is optional."""
    permission, principal, operation, kind, name, *host = text.split()
    prefixed = name.endswith("*") and name != "*"
    pattern = "prefixed" if prefixed else "literal"
    name = name.rstrip("*") if prefixed else name
    return AclBinding(kind, name, pattern, principal, *(host or ["*"]), operation, permission)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("allow User:alice read topic orders", "User:alice may read (and describe) topic orders"),
        ("allow User:* create cluster kafka-cluster", "everyone may create topics in the cluster"),
        (
            "deny User:* delete topic audit* 10.0.0.1",
            "no one may delete any topic whose name begins with audit from 10.0.0.1",
        ),
        ("deny User:bob all group *", "User:bob may not do anything with any group"),
        ("allow User:bob all group g", "User:bob may do everything with group g"),
        (
            "allow User:bob alter-configs topic t",
            "User:bob may alter configs of (and describe configs of) topic t",
        ),
        ("allow User:bob write transactional-id t", "User:bob may write (and describe) transactional id t"),
        (
            "allow User:bob alter cluster kafka",
            "User:bob may alter (and describe) cluster kafka, which does not exist",
        ),
    ],
)
def test_a_rule_in_words(text, meaning):
    assert sentence(rule(text)) == meaning


@pytest.mark.parametrize(
    ("rules", "operation", "host", "allowed", "reason"),
    [
        ([], "READ", None, False, "no rule is for topic orders"),
        (["allow User:alice read topic orders"], "READ", None, True, "a rule decides"),
        (["allow User:alice read topic orders"], "DESCRIBE", None, True, "a rule decides"),
        (["allow User:alice read topic orders"], "DESCRIBE_CONFIGS", None, False, "none allows it"),
        (["allow User:alice read topic ord*"], "READ", None, True, "begins with ord"),
        (["allow User:alice read topic orders-*"], "READ", None, False, "no rule is for topic"),
        (["allow User:* all topic *"], "ALTER_CONFIGS", None, True, "everyone"),
        (["allow User:* all topic *", "deny User:alice read topic o*"], "READ", None, False, "may not read"),
        (["allow User:* all topic *", "deny User:alice read topic o*"], "DESCRIBE", None, True, "everyone"),
        (["allow User:alice read topic orders 10.0.0.1"], "READ", None, False, "none allows it"),
        (["allow User:alice read topic orders 10.0.0.1"], "READ", "10.0.0.1", True, "from 10.0.0.1"),
        (["allow User:alice read topic orders 10.0.0.0/8"], "READ", "10.9.0.1", True, "from 10.0.0.0/8"),
        (["allow User:alice read topic orders 10.0.0.0/8"], "READ", "11.9.0.1", False, "none allows it"),
        (["allow User:alice read topic orders 10.0.0.0/8"], "READ", "::1", False, "none allows it"),
        (["allow User:alice read topic orders 10.0.0.0/8"], "READ", None, False, "none allows it"),
        (["allow User:bob read topic orders"], "READ", None, False, "none allows it"),
        (["allow Group:alice read topic orders"], "READ", None, False, "none allows it"),
        (["allow User:alice read group orders"], "READ", None, False, "no rule is for topic"),
    ],
)
def test_which_rule_decides(rules, operation, host, allowed, reason):
    action = Action("User:alice", AclOperation[operation], AclResourceType.TOPIC, "orders", host)
    decision = decide(action, map(rule, rules), STRICT)
    assert decision.allowed is allowed and reason in decision.reason


RULES = st.builds(
    AclBinding,
    st.sampled_from([AclResourceType.TOPIC, AclResourceType.GROUP]),
    st.sampled_from(["*", "a", "ab", "abc"]),
    st.sampled_from([ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED]),
    st.sampled_from(["User:*", "User:alice", "User:bob"]),
    st.sampled_from(["*", "10.0.0.1", "10.0.0.0/8", "::1"]),
    st.sampled_from([each for each in AclOperation if each >= AclOperation.ALL]),
    st.sampled_from([AclPermissionType.DENY, AclPermissionType.ALLOW]),
)
ACTIONS = st.builds(
    Action,
    st.sampled_from(["User:alice", "User:root"]),
    st.sampled_from([each for each in AclOperation if each > AclOperation.ALL]),
    st.sampled_from([AclResourceType.TOPIC, AclResourceType.GROUP]),
    st.sampled_from(["a", "ab", "abcd", "x"]),
    st.sampled_from(["10.0.0.1", "10.9.9.9", "::1", "192.168.0.1"]),
)


@given(st.sets(RULES, max_size=6), st.lists(ACTIONS, min_size=1, max_size=4), st.booleans())
def test_the_command_decides_as_brokers_do(rules, actions, allows_without_rules):
    table = AclTable()
    table.allows_without_rules, table.is_loaded = allows_without_rules, True
    table.set_super_users([b"User:root"])
    for each in rules:
        names = (each.name.encode(), each.principal.encode(), each.host.encode())
        kinds = (int(each.resource_type), int(each.resource_pattern_type))
        table.add((*kinds, *names, int(each.operation), int(each.permission_type)))
    settings = Settings(frozenset({"User:root"}), allows_without_rules)
    for action in actions:
        principal, operation, kind, name, host = action
        native = table.allows(principal.encode(), host.encode(), int(operation), int(kind), name.encode())
        assert decide(action, rules, settings).allowed is native


def test_settings_of_brokers_decide():
    action = Action("User:root", AclOperation.READ, AclResourceType.TOPIC, "orders", None)
    denies = [rule("deny User:root all topic orders")]
    assert decide(action, denies, STRICT).allowed is True
    assert decide(action, denies, HIDDEN).allowed is False
    assert decide(action, [], HIDDEN).allowed is None
    assert decide(action, [], Settings(frozenset(), True)).allowed is True


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("acls add --topic t", "give --allow or --deny"),
        ("acls add --allow a", "give a resource"),
        ("acls add --allow a --topic t --operation raed", "'raed' is not an operation: all, read"),
        ("acls add --allow a --cluster --operation read", "the cluster has no operation read: alter,"),
        ("acls add --allow a --cluster --prefixed", "do not go together"),
        ("acls add --allow a --group g --producer", "--producer has no operations for a group"),
        ("acls add --allow a --topic t --producer --operation read", "give --operation, or --producer"),
        ("acls remove --operation read", "say which rules"),
        ("acls explain a read orders", "'orders' is not a resource: topic:NAME"),
        ("users add a", "there is no password"),
        ("users add a --password-stdin", "the password from standard input is empty"),
        ("users add a --password-stdin --password-file f", "give one of --password-file"),
        ("users add a --mechanism PLAIN --password-stdin", "--mechanism is one of SCRAM-SHA-256"),
        ("quotas set producer_byte_rate=1", "say whose quota"),
        ("quotas set producer_byte_rate=x --user a", "the value is not a number"),
        ("quotas set request_percentage=inf --user a", "limits nothing; delete the quota instead"),
        ("quotas set request_percentage=nan --user a", "limits nothing"),
        ("quotas set producer_byte_rate=1 --user a --ip ::1", "--ip stands alone"),
        ("quotas delete --user a --user-defaults", "give one of --user"),
    ],
)
def test_what_commands_refuse(offline, monkeypatch, command, error):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    refused = offline(*command.split())
    assert refused.code == 2 and error in refused.err.replace("\n", " "), refused.err
