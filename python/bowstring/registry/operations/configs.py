"""Compatibility levels and the rest of configs: global, by context and by subject."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bowstring.registry import refusals
from bowstring.registry.decision import Decision
from bowstring.registry.operations.modes import require_writable, scopes
from bowstring.registry.operations.tombstones import config_tombstones
from bowstring.registry.qualified_subject import (
    GLOBAL_CONTEXT,
    context_of,
    is_default_context,
    is_valid,
    normalized,
)
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.schema_metadata import rule_set_fault
from bowstring.registry.topic_records import CONFIG, CONFIG_MEMBERS, TopicKey, config_from, encode_config

LEVELS = (
    *("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL"),
    "FULL_TRANSITIVE",
)
POLICIES = ("STRICT", "LENIENT")
# What a subject's config takes from the global one where it says nothing.
INHERITED = (
    *("normalize", "validateFields", "validateNewSchemas", "validateRules"),
    *("compatibilityPolicy", "compatibilityGroup"),
)
# Members that fill in or replace what a schema says.
FILLING = ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet")

SCOPED_CONFIGS_MAX = 10_000
SCOPED_NAME_MAX = 200
"""Characters of a subject whose config in scope is kept: clients choose its length."""
_LEVEL = "compatibilityLevel"
_LEVEL_IN_REQUESTS = "compatibility"


def config(
    image: RegistryImage, subject: str | None = None, *, default_to_global: bool = False
) -> dict[str, Any]:
    """GET /config and /config/{subject}.

    Raises:
        RegistryError: 40408.
    """
    name = _name(subject)
    found = config_in_scope(image, name) if default_to_global else own_config(image, name)
    if found is None:
        raise refusals.subject_config_not_found(name)
    return found


def own_config(image: RegistryImage, name: str | None) -> dict[str, Any] | None:
    """The config that was set for a subject or context; for the global ones there always is one."""
    found = image.configs.get(name)
    if found is not None:
        return _with_level(image, found)
    if name is None or context_of(name) == GLOBAL_CONTEXT:
        return _with_level(image, {})
    return None


def config_in_scope(image: RegistryImage, name: str | None) -> dict[str, Any]:
    """What applies to a subject: its own config over the global one, or the one of its context, or of all.

    Nobody may change what is returned: the image keeps it until a config changes.
    """
    found = image.scoped_configs.get(name)
    if found is None:
        found = _config_in_scope(image, name)
        if len(image.scoped_configs) >= SCOPED_CONFIGS_MAX:
            image.scoped_configs.clear()
        if name is None or len(name) <= SCOPED_NAME_MAX:
            image.scoped_configs[name] = found
    return found


def _config_in_scope(image: RegistryImage, name: str | None) -> dict[str, Any]:
    own = own_config(image, name) if name is not None else None
    if own is None:
        return _scoped(image, name)
    above = own_config(image, None) or {}
    inherited = {member: above[member] for member in INHERITED if member in above}
    return _in_order({**inherited, **own})


def _scoped(image: RegistryImage, name: str | None) -> dict[str, Any]:
    for scope in scopes(name):
        if (found := image.configs.get(scope)) is not None:
            return _with_level(image, found)
    return _with_level(image, {})


def normalizes(image: RegistryImage, subject: str) -> bool:
    """Whether schemas of a subject are normalized without `?normalize=true`."""
    return config_in_scope(image, subject).get("normalize") is True


def validates_new_schemas(image: RegistryImage, subject: str) -> bool:
    """Whether rules that older schemas may break hold for new ones of a subject."""
    return config_in_scope(image, subject).get("validateNewSchemas", True) is True


def validates_fields(image: RegistryImage, config: Mapping[str, Any]) -> bool:
    """Whether a config in scope says that reserved fields are checked."""
    return config.get("validateFields", image.defaults.validate_fields) is True


def decide_set_config(image: RegistryImage, subject: str | None, body: object) -> Decision:
    """PUT /config and /config/{subject}: null clears a member, and what is not named stays.

    Raises:
        RegistryError: 400, 42203, 42205, 42208, 42210.
    """
    changes = _changes(body)
    if subject is not None and not is_default_context(subject) and not is_valid(subject, for_settings=True):
        raise refusals.invalid_subject(subject)
    name = _name(subject)
    require_writable(image, name)
    updated = {**image.configs.get(name, {}), **changes}
    updated = {member: value for member, value in _in_order(updated).items() if value not in (None, "")}
    answer = {_LEVEL_IN_REQUESTS if member == _LEVEL else member: value for member, value in updated.items()}
    return Decision(image.keyed(TopicKey(CONFIG, name), encode_config(name, updated)), answer)


def decide_delete_config(image: RegistryImage, subject: str | None) -> Decision:
    """DELETE /config and /config/{subject}: answers what was deleted.

    Raises:
        RegistryError: 40401, 42205.
    """
    name = _name(subject)
    found = own_config(image, name)
    if found is None:
        raise refusals.subject_not_found(name)
    require_writable(image, name)
    return Decision(config_tombstones(image, name), found)


def _changes(body: object) -> dict[str, Any]:
    """The members that a request names, None for null."""
    if not isinstance(body, dict):
        raise refusals.bad_request("The body must be a JSON object.")
    given = {_LEVEL if member == _LEVEL_IN_REQUESTS else member: value for member, value in body.items()}
    if _LEVEL_IN_REQUESTS not in body:
        given.pop(_LEVEL, None)
    level = given.get(_LEVEL)
    if level is not None:
        if not isinstance(level, str) or level.upper() not in LEVELS:
            raise refusals.invalid_compatibility_level(level)
        given[_LEVEL] = level.upper()
    policy = given.get("compatibilityPolicy")
    if isinstance(policy, str) and policy:
        given["compatibilityPolicy"] = policy.upper()
        if policy.upper() not in POLICIES:
            raise refusals.invalid_compatibility_policy(policy)
    try:
        changes: dict[str, Any] = {member: None for member in CONFIG_MEMBERS if member in given}
        changes |= config_from(given)
    except ValueError as error:
        raise refusals.bad_request(str(error)) from error
    for member in ("defaultRuleSet", "overrideRuleSet"):
        if (fault := rule_set_fault(changes.get(member))) is not None:
            raise refusals.invalid_rule_set(fault)
    return changes


def _name(subject: str | None) -> str | None:
    return None if subject is None or is_default_context(subject) else normalized(subject)


def _with_level(image: RegistryImage, found: Mapping[str, Any]) -> dict[str, Any]:
    return _in_order({_LEVEL: image.defaults.compatibility, **found})


def _in_order(config: Mapping[str, Any]) -> dict[str, Any]:
    return {member: config[member] for member in CONFIG_MEMBERS if member in config}
