"""Writes a sentence for what a rule of access control means."""

from __future__ import annotations

from bowstring.clients.admin.acls import AclBinding
from bowstring.protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    ResourcePatternType,
)

# Operations that each resource has, as Kafka's AclCommand checks them; ALL goes with any.
SUPPORTED: dict[AclResourceType, frozenset[AclOperation]] = {
    AclResourceType.TOPIC: frozenset(
        {
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.CREATE,
            AclOperation.DESCRIBE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        }
    ),
    AclResourceType.GROUP: frozenset(
        {
            AclOperation.READ,
            AclOperation.DESCRIBE,
            AclOperation.DELETE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        }
    ),
    AclResourceType.CLUSTER: frozenset(
        {
            AclOperation.CREATE,
            AclOperation.CLUSTER_ACTION,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
            AclOperation.IDEMPOTENT_WRITE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
        }
    ),
    AclResourceType.TRANSACTIONAL_ID: frozenset(
        {AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT}
    ),
    AclResourceType.DELEGATION_TOKEN: frozenset({AclOperation.DESCRIBE}),
    AclResourceType.USER: frozenset({AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS}),
}

# A rule that allows one of these allows the operation, too; one that denies them does not deny it.
IMPLIED: dict[AclOperation, frozenset[AclOperation]] = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}

_NOUNS = {
    AclResourceType.TOPIC: "topic",
    AclResourceType.GROUP: "group",
    AclResourceType.TRANSACTIONAL_ID: "transactional id",
    AclResourceType.DELEGATION_TOKEN: "delegation token",
    AclResourceType.USER: "user",
}


def operation_word(operation: AclOperation) -> str:
    """Returns the name of an operation as options take it, such as `describe-configs`."""
    return operation.name.lower().replace("_", "-")


def resource_text(kind: AclResourceType, name: str) -> str:
    """Returns one resource, such as `topic orders` or `the cluster`."""
    if kind is AclResourceType.CLUSTER:
        return "the cluster"
    return f"{_NOUNS[kind]} {name}"


def sentence(rule: AclBinding) -> str:
    """Returns what a rule means, such as `User:alice may read (and describe) topic orders`."""
    allows = rule.permission_type is AclPermissionType.ALLOW
    who, may = rule.principal, "may" if allows else "may not"
    if who == "User:*":
        who, may = ("everyone" if allows else "no one"), "may"
    where = "" if rule.host == WILDCARD else f" from {rule.host}"
    return f"{who} {may} {_does(rule, allows)} {_resources(rule, 'every' if allows else 'any')}{where}"


def action_text(operation: AclOperation, kind: AclResourceType, name: str) -> str:
    """Returns an operation on a resource, such as `read topic orders`."""
    return f"{_verb(operation, kind)} {resource_text(kind, name)}"


def _resources(rule: AclBinding, each: str) -> str:
    kind = rule.resource_type
    if kind is AclResourceType.CLUSTER:
        is_there = rule.name in (CLUSTER_NAME, WILDCARD)
        return "the cluster" if is_there else f"cluster {rule.name}, which does not exist"
    if rule.resource_pattern_type is ResourcePatternType.PREFIXED:
        return f"{each} {_NOUNS[kind]} whose name begins with {rule.name}"
    if rule.name == WILDCARD:
        return f"{each} {_NOUNS[kind]}"
    return f"{_NOUNS[kind]} {rule.name}"


def _does(rule: AclBinding, allows: bool) -> str:
    operation, kind = rule.operation, rule.resource_type
    if operation is AclOperation.ALL:
        return "do everything with" if allows else "do anything with"
    implied = sorted(each for each, by in IMPLIED.items() if operation in by and each in SUPPORTED[kind])
    more = "".join(f" (and {_verb(each, kind)})" for each in implied) if allows else ""
    return _verb(operation, kind) + more


def _verb(operation: AclOperation, kind: AclResourceType) -> str:
    if operation is AclOperation.CREATE and kind is AclResourceType.CLUSTER:
        return "create topics in"
    return _VERBS.get(operation, operation.name.lower())


_VERBS = {
    AclOperation.CLUSTER_ACTION: "act as a broker in",
    AclOperation.DESCRIBE_CONFIGS: "describe configs of",
    AclOperation.ALTER_CONFIGS: "alter configs of",
    AclOperation.IDEMPOTENT_WRITE: "write idempotently to",
    AclOperation.CREATE_TOKENS: "create tokens of",
    AclOperation.DESCRIBE_TOKENS: "describe tokens of",
    AclOperation.TWO_PHASE_COMMIT: "commit in two phases with",
}
