"""Decides as a broker does whether rules allow an operation, and by which rule.

Rule for rule what Kafka's StandardAuthorizer does: super users may do everything; a rule that denies wins; a
rule that allows is needed; without any rule for the resource, `allow.everyone.if.no.acl.found` decides.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import NamedTuple

from bowstring.clients.admin.acls import AclBinding
from bowstring.operations.acl_words import IMPLIED, resource_text, sentence
from bowstring.protocol.acls import (
    WILDCARD,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    ResourcePatternType,
)

EVERYONE = "User:*"


class Action(NamedTuple):
    """Who does what to which resource. `host` is None for an address that no rule names."""

    principal: str
    operation: AclOperation
    resource_type: AclResourceType
    name: str
    host: str | None


class Settings(NamedTuple):
    """Configs of brokers that decide, too. None: the broker does not show it."""

    super_users: frozenset[str] | None
    allows_without_rules: bool | None


class Decision(NamedTuple):
    """Whether an operation is allowed, and why.

    Attributes:
        allowed: None if it depends on a config that the broker does not show.
        reason: what decided, in a sentence.
        rule: the rule that decided; None without one.
        rules: rules for the resource, whoever they are for.
    """

    allowed: bool | None
    reason: str
    rule: AclBinding | None
    rules: list[AclBinding]


def decide(action: Action, rules: Iterable[AclBinding], settings: Settings) -> Decision:
    """Returns what a broker does with an action.

    Args:
        action: who wants to do what.
        rules: at least all rules for the resource; others are ignored.
        settings: configs of the brokers.
    """
    of_resource = [each for each in rules if is_for(each, action.resource_type, action.name)]
    resource = resource_text(action.resource_type, action.name)
    if settings.super_users is not None and action.principal in settings.super_users:
        return Decision(True, f"{action.principal} is one of super.users", None, of_resource)
    matching = [each for each in of_resource if applies(each, action)]
    for kind in (AclPermissionType.DENY, AclPermissionType.ALLOW):
        rule = next((each for each in matching if each.permission_type is kind), None)
        if rule is not None:
            allows = kind is AclPermissionType.ALLOW
            return Decision(allows, f"a rule decides: {sentence(rule)}", rule, of_resource)
    if of_resource:
        return Decision(False, f"rules for {resource} exist, but none allows it", None, of_resource)
    default = settings.allows_without_rules
    if default is None:
        reason = f"no rule is for {resource}; allow.everyone.if.no.acl.found decides, which the broker hides"
    else:
        value = str(default).lower()
        reason = f"no rule is for {resource}, and allow.everyone.if.no.acl.found is {value}"
    return Decision(default, reason, None, of_resource)


def is_for(rule: AclBinding, kind: AclResourceType, name: str) -> bool:
    """Returns whether a rule is for a resource."""
    if rule.resource_type is not kind:
        return False
    if rule.resource_pattern_type is ResourcePatternType.PREFIXED:
        return name.startswith(rule.name)
    return rule.name in (name, WILDCARD)


def applies(rule: AclBinding, action: Action) -> bool:
    """Returns whether a rule for the resource is for the principal, host and operation, too."""
    if rule.principal not in (action.principal, EVERYONE) or not _is_from(rule.host, action.host):
        return False
    if rule.operation in (action.operation, AclOperation.ALL):
        return True
    implied_by = IMPLIED.get(action.operation, frozenset())
    return rule.permission_type is AclPermissionType.ALLOW and rule.operation in implied_by


def _is_from(hosts: str, host: str | None) -> bool:
    """Returns whether a rule's host is an address: the same, a network around it (KIP-1276), or any."""
    if hosts == WILDCARD or host is None:
        return hosts == WILDCARD
    try:
        address = ipaddress.ip_address(host)
        if "/" not in hosts:
            return ipaddress.ip_address(hosts) == address
        return address in ipaddress.ip_network(hosts, strict=False)
    except ValueError:
        return hosts == host
