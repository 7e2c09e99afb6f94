"""The native rules of access control against an obvious model of Kafka's StandardAuthorizer."""

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bowstring._native.access.acl_table import AclTable
from bowstring.engine.security.authorizer import host_of
from bowstring.protocol.acls import AclOperation as Op
from bowstring.protocol.acls import AclPermissionType, AclResourceType, ResourcePatternType

ALL = 2
DENY, ALLOW = AclPermissionType.DENY, AclPermissionType.ALLOW
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
IMPLY = {Op.DESCRIBE: {Op.READ, Op.WRITE, Op.DELETE, Op.ALTER}, Op.DESCRIBE_CONFIGS: {Op.ALTER_CONFIGS}}


def host_fits(host, address):
    if host == "*":
        return True
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(host, strict=False)
    except ValueError:
        return False


def fits_subject(rule, principal, address):
    return rule[3] in (principal, "User:*") and host_fits(rule[4], address)


def fits_name(rule, name):
    return rule[2] in (name, "*") if rule[1] == LITERAL else name.startswith(rule[2])


class Model:
    """One list of rules, searched from end to end."""

    def __init__(self, supers=(), open_without_rules=False):
        self.rules = []
        self.supers = set(supers)
        self.open_without_rules = open_without_rules

    def allows(self, principal, address, operation, resource_type, name):
        if principal in self.supers:
            return True
        about = [rule for rule in self.rules if rule[0] == resource_type and fits_name(rule, name)]
        mine = [rule for rule in about if fits_subject(rule, principal, address)]
        if any(rule[6] == DENY and rule[5] in (operation, ALL) for rule in mine):
            return False
        enough = {operation, ALL} | IMPLY.get(operation, set())
        if any(rule[6] == ALLOW and rule[5] in enough for rule in mine):
            return True
        return not about and self.open_without_rules

    def allows_some(self, principal, address, operation, resource_type):
        if self.allows(principal, address, operation, resource_type, "hardcode"):
            return True
        mine = [
            rule
            for rule in self.rules
            if rule[0] == resource_type
            and fits_subject(rule, principal, address)
            and rule[5] in (operation, ALL)
        ]
        denied = {(rule[1], rule[2]) for rule in mine if rule[6] == DENY}
        allowed = {(rule[1], rule[2]) for rule in mine if rule[6] == ALLOW}
        if (LITERAL, "*") in denied or (LITERAL, "*") in allowed:
            return (LITERAL, "*") not in denied
        return any(
            not (pattern == LITERAL and (LITERAL, name) in denied)
            and not any((PREFIXED, name[:n]) in denied for n in range(1, len(name) + 1))
            for pattern, name in allowed
        )


def native(rule):
    resource_type, pattern, name, principal, host, operation, permission = rule
    return (
        int(resource_type),
        int(pattern),
        name.encode(),
        principal.encode(),
        host.encode(),
        int(operation),
        int(permission),
    )


ADDRESSES = ["127.0.0.1", "10.1.2.3", "10.1.200.3", "::1", "2001:db8::7", ""]
HOSTS = [
    "*",
    "127.0.0.1",
    "10.1.2.3",
    "10.1.0.0/16",
    "10.1.2.0/23",
    "::1",
    "2001:db8::/32",
    "no.host",
    "0.0.0.0/0",
]
NAMES = ["a", "ab", "abc", "abd", "b", "*", "*x", "ä", "äb"]
PRINCIPALS = ["User:alice", "User:bob", "User:*", "Group:alice", "User:"]
OPERATIONS = [ALL, *Op]
RULES = st.tuples(
    st.sampled_from([TOPIC, TOPIC, GROUP]),
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from(NAMES),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from([ALL, Op.READ, Op.WRITE, Op.DESCRIBE, Op.ALTER_CONFIGS, Op.DESCRIBE_CONFIGS, Op.DELETE]),
    st.sampled_from([ALLOW, ALLOW, DENY]),
)
QUESTIONS = st.tuples(
    st.sampled_from(PRINCIPALS),
    st.sampled_from(ADDRESSES),
    st.sampled_from([Op.READ, Op.WRITE, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.CREATE]),
    st.sampled_from([TOPIC, GROUP]),
    st.sampled_from([*NAMES, "abcd", "hardcode", "zz"]),
)


def ask(table, model, question):
    principal, address, operation, resource_type, name = question
    one = table.allows(principal.encode(), address.encode(), operation, resource_type, name.encode())
    assert one == model.allows(*question), question
    some = table.allows_some(principal.encode(), address.encode(), operation, resource_type)
    assert some == model.allows_some(principal, address, operation, resource_type), question


@settings(max_examples=300, deadline=None)
@given(
    rules=st.lists(RULES, max_size=8),
    principal=st.sampled_from(PRINCIPALS),
    peer=st.sampled_from(
        ["127.0.0.1:9", "[::1]:9", "::1:9", "[2001:db8::7]:9", "10.1.2.3", "", "x" * 70 + ":1"]
    ),
    asked=st.lists(
        st.tuples(
            st.sampled_from([Op.READ, Op.DESCRIBE]), st.sampled_from([TOPIC, GROUP]), st.sampled_from(NAMES)
        ),
        max_size=4,
    ),
)
def test_several_are_allowed_if_each_is(rules, principal, peer, asked):
    table = AclTable()
    table.is_loaded = table.allows_without_rules = True
    for rule in rules:
        table.add(native(rule))
    who = principal.encode(), host_of(peer).encode()
    each = [table.allows(*who, operation, kind, name.encode()) for operation, kind, name in asked]
    assert table.allows_all(principal, peer, asked) == all(each)


@settings(max_examples=300, deadline=None)
@given(
    rules=st.lists(RULES, max_size=12),
    removed=st.lists(st.integers(0, 11), max_size=6),
    questions=st.lists(QUESTIONS, min_size=1, max_size=12),
    supers=st.sampled_from([[], ["User:bob"]]),
    is_open=st.booleans(),
)
def test_decisions_are_those_of_the_model(rules, removed, questions, supers, is_open):
    table, model = AclTable(), Model(supers, is_open)
    table.set_super_users([b"User:alice"])
    table.set_super_users([name.encode() for name in supers])
    table.allows_without_rules = is_open
    table.is_loaded = True
    for rule in rules:
        table.add(native(rule))
        model.rules.append(rule)
    for question in questions:
        ask(table, model, question)
    for index in removed:
        if index < len(model.rules):
            table.remove(native(model.rules.pop(index)))
    assert len(table) == len(model.rules)
    for question in questions:
        ask(table, model, question)


def test_until_the_rules_are_loaded_only_super_users_may_do_anything():
    table = AclTable()
    table.set_super_users([b"User:admin"])
    table.allows_without_rules = True
    table.add(native((TOPIC, LITERAL, "t", "User:*", "*", ALL, ALLOW)))
    assert table.allows(b"User:admin", b"::1", Op.READ, TOPIC, b"t")
    assert not table.allows(b"User:bob", b"::1", Op.READ, TOPIC, b"t")
    assert not table.allows_some(b"User:bob", b"::1", Op.READ, TOPIC)
    table.is_loaded = True
    assert table.allows(b"User:bob", b"::1", Op.READ, TOPIC, b"t")


@pytest.mark.parametrize(
    "host", ["10.0.0.0/33", "10.0.0.0/x", "10.0.0.0/", "/8", "x" * 300, "", "fe80::1%eth0/8"]
)
def test_a_malformed_host_fits_nobody(host):
    table = AclTable()
    table.is_loaded = True
    table.add(native((TOPIC, LITERAL, "t", "User:*", host, ALL, ALLOW)))
    assert not table.allows(b"User:bob", b"10.0.0.1", Op.READ, TOPIC, b"t")


def test_addresses_count_in_each_of_their_forms():
    """Java writes IPv6 addresses without `::`, so rules of Kafka do, too."""
    table = AclTable()
    table.is_loaded = True
    table.add(native((TOPIC, LITERAL, "t", "User:*", "0:0:0:0:0:0:0:1", ALL, ALLOW)))
    assert table.allows(b"User:bob", b"::1", Op.READ, TOPIC, b"t")


def test_types_of_a_later_kafka_have_no_effect():
    table = AclTable()
    table.is_loaded = True
    table.add(native((99, PREFIXED, "t", "User:*", "*", ALL, ALLOW)))
    assert not table.allows(b"User:bob", b"::1", Op.READ, 99, b"t")
    table.remove(native((99, PREFIXED, "t", "User:*", "*", ALL, ALLOW)))


def test_ten_thousand_rules_are_small_and_removable():
    rules = [
        native(
            (
                TOPIC,
                PREFIXED if n % 5 == 0 else LITERAL,
                f"team-{n % 997}-topic-{n}",
                f"User:u{n % 331}",
                "*",
                ALL,
                ALLOW,
            )
        )
        for n in range(10_000)
    ]
    table = AclTable()
    for rule in rules:
        table.add(rule)
    assert len(table) == 10_000
    assert table.memory_bytes() < 2 << 20
    for rule in rules:
        table.remove(rule)
    assert len(table) == 0
    assert table.memory_bytes() < 300 << 10
