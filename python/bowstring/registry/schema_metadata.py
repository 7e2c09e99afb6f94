"""Metadata and rule sets of schemas: their normal form, how they merge, and what they add to a schema's hash.

Both are plain dictionaries as in JSON, with sorted tags, properties and params, and without empty members, so
that equal ones are equal dictionaries. Source: Confluent's entities Metadata, RuleSet and Rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

Metadata: TypeAlias = dict[str, Any]
RuleSet: TypeAlias = dict[str, Any]
Rule: TypeAlias = dict[str, Any]

VERSION_PROPERTY = "confluent:version"
RULE_LISTS = ("migrationRules", "domainRules", "encodingRules")
RULE_KINDS = ("TRANSFORM", "CONDITION")
MIGRATION_MODES = ("UPGRADE", "DOWNGRADE", "UPDOWN")
DATA_MODES = ("WRITE", "READ", "WRITEREAD")

_NAME_MAX = 256


def metadata_from(value: object) -> Metadata | None:
    """The normal form of `value`, a part of a request or record; None for null.

    Raises:
        ValueError: a member has a wrong type.
    """
    if value is None:
        return None
    members = _mapping(value, "metadata")
    tags = {
        path: names
        for path, given in sorted(_mapping(members.get("tags") or {}, "metadata.tags").items())
        if (names := _texts(given, "metadata.tags")) is not None
    }
    properties = _text_mapping(members.get("properties"), "metadata.properties")
    sensitive = _texts(members.get("sensitive"), "metadata.sensitive")
    normal: Metadata = {}
    if tags:
        normal["tags"] = tags
    if properties:
        normal["properties"] = properties
    if sensitive:
        normal["sensitive"] = sensitive
    return normal


def rule_set_from(value: object) -> RuleSet | None:
    """The normal form of `value`; None for null.

    Raises:
        ValueError: a member has a wrong type.
    """
    if value is None:
        return None
    members = _mapping(value, "ruleSet")
    normal: RuleSet = {}
    for phase in RULE_LISTS:
        rules = members.get(phase)
        if rules is not None and not isinstance(rules, list):
            raise ValueError(f"ruleSet.{phase} must be a list of rules.")
        if rules:
            normal[phase] = [_rule_from(rule) for rule in rules]
    if (place := members.get("enableAt")) is not None:
        normal["enableAt"] = _text(place, "ruleSet.enableAt")
    return normal


def _rule_from(value: object) -> Rule:
    """A rule with its members in Confluent's order, without empty ones."""
    given = dict(_mapping(value, "a rule"))
    if given.get("kind") is None:
        given["kind"] = RULE_KINDS[0]
    if given.get("mode") is None:
        given["mode"] = "WRITEREAD"
    if given["kind"] not in RULE_KINDS or given["mode"] not in MIGRATION_MODES + DATA_MODES:
        modes = ", ".join(MIGRATION_MODES + DATA_MODES)
        raise ValueError(f"A rule's kind is one of {', '.join(RULE_KINDS)}, and its mode one of {modes}.")
    disabled = given.get("disabled") or False
    if not isinstance(disabled, bool):
        raise ValueError("A rule's disabled must be true or false.")
    normal: Rule = {}
    for name in ("name", "doc", "kind", "mode", "type", "tags", "params", "expr", "onSuccess", "onFailure"):
        member = given.get(name)
        what = f"a rule's {name}"
        if name == "tags":
            member = _texts(member, what)
        elif name == "params":
            member = _text_mapping(member, what)
        elif member is not None:
            member = _text(member, what)
        if member:
            normal[name] = member
    normal["disabled"] = disabled
    return normal


def rule_set_fault(rule_set: RuleSet | None) -> str | None:
    """What is wrong with the rules' names, types, modes and actions; None if nothing is."""
    if rule_set is None:
        return None
    names: set[str] = set()
    for phase in RULE_LISTS:
        modes = MIGRATION_MODES if phase == "migrationRules" else DATA_MODES
        for rule in rule_set.get(phase, ()):
            fault = _rule_fault(rule)
            if fault is None and rule["name"] in names:
                fault = "has the name of another rule"
            if fault is None and rule["mode"] not in modes:
                fault = f"is one of {phase}, whose modes are {', '.join(modes)}"
            if fault is not None:
                return f"Rule '{rule.get('name', '')}' {fault}."
            names.add(rule["name"])
    return None


def _rule_fault(rule: Rule) -> str | None:
    name = rule.get("name")
    if not name:
        return "has no name"
    if len(name) > _NAME_MAX:
        return f"has a name of more than {_NAME_MAX} characters"
    if not (name[0].isalpha() or name[0] == "_") or not all(ch.isalnum() or ch in "_-" for ch in name):
        return "has a name that is not a letter or underscore, followed by letters, digits, '_' and '-'"
    if rule.get("type") is None:
        return "has no type"
    if rule["mode"] not in ("WRITEREAD", "UPDOWN"):
        for action in ("onSuccess", "onFailure"):
            if "," in rule.get(action, ""):
                return f"has two actions in {action}, which only the modes WRITEREAD and UPDOWN may have"
    return None


def has_rule_type(rule_set: RuleSet | None, kind: str) -> bool:
    """Whether a rule of any list has this type."""
    return rule_set is not None and any(
        rule.get("type") == kind for phase in RULE_LISTS for rule in rule_set.get(phase, ())
    )


def merged_metadata(old: Metadata | None, new: Metadata | None) -> Metadata | None:
    """`new` over `old`: a member of `new` replaces the one with its name, sensitive names add up."""
    if old is None or new is None:
        return new if old is None else old
    return metadata_from(
        {
            "tags": {**old.get("tags", {}), **new.get("tags", {})},
            "properties": {**old.get("properties", {}), **new.get("properties", {})},
            "sensitive": [*old.get("sensitive", ()), *new.get("sensitive", ())],
        }
    )


def merged_rule_sets(old: RuleSet | None, new: RuleSet | None) -> RuleSet | None:
    """`new` over `old`: a rule of `new` replaces the one with its name in the same list."""
    if old is None or new is None:
        return new if old is None else old
    merged: RuleSet = {}
    for phase in RULE_LISTS:
        added = new.get(phase, [])
        names = {rule.get("name") for rule in added}
        if rules := [rule for rule in old.get(phase, ()) if rule.get("name") not in names] + added:
            merged[phase] = rules
    if (place := new.get("enableAt", old.get("enableAt"))) is not None:
        merged["enableAt"] = place
    return merged


def with_version(metadata: Metadata | None, version: int) -> Metadata:
    """`metadata` with the property `confluent:version`."""
    found = dict(metadata or {})
    properties = {**found.pop("properties", {}), VERSION_PROPERTY: str(version)}
    return metadata_from({**found, "properties": properties}) or {}


def without_version(metadata: Metadata | None) -> Metadata | None:
    """`metadata` without the property `confluent:version`."""
    if metadata is None:
        return None
    properties = {k: v for k, v in metadata.get("properties", {}).items() if k != VERSION_PROPERTY}
    return metadata_from({**metadata, "properties": properties})


def version_of(metadata: Metadata | None) -> str | None:
    """The property `confluent:version`."""
    found: str | None = (metadata or {}).get("properties", {}).get(VERSION_PROPERTY)
    return found


def hash_metadata(metadata: Metadata, update: Callable[[bytes], object]) -> None:
    """Feeds a hash, as `updateHash` of Confluent's Metadata."""
    for path, names in metadata.get("tags", {}).items():
        _hash_texts((path, *names), update)
    for name, value in metadata.get("properties", {}).items():
        _hash_texts((name, value), update)
    _hash_texts(metadata.get("sensitive", ()), update)


def hash_rule_set(rule_set: RuleSet, update: Callable[[bytes], object]) -> None:
    """Feeds a hash, as `updateHash` of Confluent's RuleSet."""
    for phase in RULE_LISTS:
        for rule in rule_set.get(phase, ()):
            _hash_texts((rule[k] for k in ("name", "doc", "kind", "mode", "type") if k in rule), update)
            _hash_texts(rule.get("tags", ()), update)
            for name, value in rule.get("params", {}).items():
                _hash_texts((name, value), update)
            _hash_texts((rule[k] for k in ("expr", "onSuccess", "onFailure") if k in rule), update)
            if rule["disabled"]:
                update(b"\x01")
    if (place := rule_set.get("enableAt")) is not None:
        update(place.encode())


def _hash_texts(texts: Iterable[str], update: Callable[[bytes], object]) -> None:
    for text in texts:
        update(text.encode())


def _mapping(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object.")
    return value


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text.")
    return value


def _texts(value: object, name: str) -> list[str] | None:
    """The distinct texts of a list, sorted; None for null."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list of texts.")
    return sorted({_text(text, name) for text in value})


def _text_mapping(value: object, name: str) -> dict[str, str]:
    """The texts of an object, sorted by name; members that are null are left out."""
    members = _mapping(value if value is not None else {}, name)
    return {key: _text(text, name) for key, text in sorted(members.items()) if text is not None}
