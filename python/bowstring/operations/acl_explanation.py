"""Explains whether a cluster's rules allow an operation; parses how people write operations and resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bowstring.clients.admin.acls import AclBindingFilter
from bowstring.clients.errors import BrokerError, ConfigError
from bowstring.operations.acl_decision import Action, Decision, Settings, decide
from bowstring.operations.acl_words import SUPPORTED, operation_word
from bowstring.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType, ResourcePatternType
from bowstring.protocol.errors import Errors

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

# How people name resources.
PREFIXES = {each.name.lower().replace("_", "-"): each for each in SUPPORTED} | {
    "token": AclResourceType.DELEGATION_TOKEN
}


def principal_of(name: str) -> str:
    """Returns the principal that `alice` or `User:alice` stands for."""
    return name if ":" in name else f"User:{name}"


def parse_operation(text: str) -> AclOperation:
    """Returns the operation that `describe-configs`, `DESCRIBE_CONFIGS` or `DescribeConfigs` stands for.

    Raises:
        ConfigError: it is none.
    """
    found = AclOperation.__members__.get(text.strip().replace("-", "_").upper())
    # Kafka's tools write DescribeConfigs.
    squeezed = {each.name.replace("_", ""): each for each in AclOperation}
    found = found or squeezed.get(text.strip().upper())
    if found is None or found in (AclOperation.UNKNOWN, AclOperation.ANY):
        names = ", ".join(operation_word(each) for each in AclOperation if each >= AclOperation.ALL)
        raise ConfigError(f"{text!r} is not an operation: {names}")
    return found


def parse_resource(text: str) -> tuple[AclResourceType, str]:
    """Returns type and name of a resource such as `topic:orders` or `cluster`.

    Raises:
        ConfigError: it is none.
    """
    if text in ("cluster", f"cluster:{CLUSTER_NAME}"):
        return AclResourceType.CLUSTER, CLUSTER_NAME
    prefix, colon, name = text.partition(":")
    kind = PREFIXES.get(prefix)
    if not colon or not name or kind is None or kind is AclResourceType.CLUSTER:
        raise ConfigError(
            f"{text!r} is not a resource: topic:NAME, group:NAME, transactional-id:NAME, token:ID, user:NAME "
            "or cluster"
        )
    return kind, principal_of(name) if kind is AclResourceType.USER else name


def explanation(admin: Admin, action: Action) -> Decision:
    """Returns what a cluster does with an action, and by which rule.

    Raises:
        BrokerError: the user may not see rules, or configs of brokers.
    """
    chosen = AclBindingFilter(action.resource_type, action.name, ResourcePatternType.MATCH)
    try:
        rules = admin.describe_acls(chosen)
    except BrokerError as error:
        if error.code != Errors.SECURITY_DISABLED.code:
            raise
        return Decision(True, "the cluster has no authorizer (authorizer.class.name is not set)", None, [])
    settings = _settings(admin)
    decision = decide(action, rules, settings)
    if settings.super_users is None and not decision.allowed:
        reason = f"{decision.reason}; but a super user may, and the broker hides super.users"
        decision = decision._replace(reason=reason)
    return decision


def _settings(admin: Admin) -> Settings:
    """Reads the configs that decide from a broker; Kafka hides those of its authorizer."""
    names = ("super.users", "allow.everyone.if.no.acl.found")
    broker = admin.describe_cluster().brokers[0]
    found = admin.describe_configs("broker", str(broker.id), names=names)
    supers, everyone = (found.get(each) for each in names)
    users = None
    if supers is None or (supers.value is None and not supers.sensitive):
        users = frozenset[str]()
    elif supers.value is not None:
        users = frozenset(each.strip() for each in supers.value.split(";") if each.strip())
    default: bool | None = False
    if everyone is not None and everyone.value is not None:
        default = everyone.value.lower() == "true"
    elif everyone is not None and everyone.sensitive:
        default = None
    return Settings(users, default)
