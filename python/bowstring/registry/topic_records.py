"""Keys and values of the registry's topic, in the JSON that Confluent's registry writes and reads.

| key type | key: members | magic | value |
|---|---|---|---|
| SCHEMA | subject, version | 1 | subject, version, id, schema … ; null deletes permanently |
| CONFIG | subject; none is global | 0 | compatibilityLevel, alias … ; null deletes |
| MODE | subject; none is global | 0 | mode; null deletes |
| DELETE_SUBJECT | subject | 0 | version: all up to it are soft-deleted |
| CLEAR_SUBJECT | subject or context | 0 | soft-deleted versions are forgotten |
| CONTEXT | tenant, context | 0 | tenant, context; null deletes |
| NOOP | | 0 | null, or what this registry has to remember beyond Confluent's records |

Source: SchemaRegistrySerializer and the key and value classes of Confluent's Schema Registry 8. Their readers
skip a NOOP record without a look at its value.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from bowstring.protocol.whole_numbers import INT_MAX
from bowstring.registry.qualified_subject import normalized
from bowstring.registry.schema_metadata import metadata_from, rule_set_from
from bowstring.registry.schema_record import SchemaRecord, SchemaReference

SCHEMA = "SCHEMA"
CONFIG = "CONFIG"
MODE = "MODE"
DELETE_SUBJECT = "DELETE_SUBJECT"
CLEAR_SUBJECT = "CLEAR_SUBJECT"
CONTEXT = "CONTEXT"
NOOP = "NOOP"

TENANT = "default"
# In the order of Confluent's records.
CONFIG_MEMBERS = (
    *("alias", "aliasForDeks", "normalize", "validateFields", "validateNewSchemas", "validateRules"),
    *("compatibilityLevel", "compatibilityPolicy", "compatibilityGroup"),
    *("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet"),
)
ENCODED_PROPERTY = (
    "__enc__"  # Confluent's registry encrypted the sensitive properties; the hash is of the plain ones
)

_ESCAPE = re.compile(r"\\(?:u00[01][0-9a-f]|.)")
_DECODER = json.JSONDecoder()
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_quoted = json.JSONEncoder(ensure_ascii=False).encode


class TopicKey(NamedTuple):
    """The key of a record.

    Attributes:
        kind: One of the key types above.
        name: Subject or context; None for global settings, and for NOOP.
        version: Of a schema; 0 elsewhere.
    """

    kind: str
    name: str | None = None
    version: int = 0


def decode_key(key: bytes) -> TopicKey:
    """Reads a key in any order of members.

    Raises:
        ValueError: it is no key of the topic, or of a type that this registry does not use.
    """
    members = _object(key, "key")
    kind = members.get("keytype")
    if kind == SCHEMA:
        if members.get("magic") not in (0, 1):
            raise ValueError(
                f"the magic of a schema's key is {members.get('magic')!r}: 0 and 1 are understood"
            )
        return TopicKey(SCHEMA, _subject(members), _number(members, "version"))
    if kind in (CONFIG, MODE, CLEAR_SUBJECT):
        subject = members.get("subject")
        return TopicKey(kind, None if subject is None else _subject(members))
    if kind == DELETE_SUBJECT:
        return TopicKey(kind, _subject(members))
    if kind == CONTEXT:
        return TopicKey(kind, _text(members, "context"))
    if kind == NOOP:
        return TopicKey(NOOP)
    raise ValueError(f"the key type is {kind!r}")


def encode_key(key: TopicKey) -> bytes:
    """Writes a key with its members in Confluent's order."""
    kind, name, version = key
    if kind == SCHEMA and name:  # written out: every record of a topic that is loaded comes here
        subject = _as_jackson(_quoted(name))
        return f'{{"keytype":"SCHEMA","subject":{subject},"version":{version},"magic":1}}'.encode()
    members: dict[str, object] = {"keytype": kind}
    if kind == CONTEXT:
        members |= {"tenant": TENANT, "context": name}
    elif name:  # Confluent's writer leaves an empty subject out
        members["subject"] = name
    if kind == SCHEMA:
        return _dumped(members | {"version": version, "magic": 1})
    return _dumped(members | {"magic": 0})


def decode_schema(value: bytes, timestamp_ms: int | None = None) -> SchemaRecord:
    """Reads the value of a SCHEMA record.

    Raises:
        ValueError: a member is missing or has a wrong type.
    """
    members = _object(value, "value")
    references = members.get("references")
    metadata = members.get("metadata")
    rule_set = members.get("ruleSet")
    md5 = members.get("md5")
    return SchemaRecord(
        _subject(members),
        _number(members, "version"),
        _number(members, "id"),
        "AVRO" if members.get("schemaType") is None else _text(members, "schemaType"),
        _text(members, "schema"),
        references=references_from(_with_names(references)) if references else (),
        metadata=None if metadata is None else metadata_from(metadata),
        rule_set=None if rule_set is None else rule_set_from(rule_set),
        deleted=members.get("deleted") is True,
        timestamp_ms=timestamp_ms,
        md5=None if md5 is None else _md5(md5),
    )


def encode_schema(record: SchemaRecord) -> bytes:
    """Writes the value of a SCHEMA record."""
    members: dict[str, object] = {"subject": record.subject, "version": record.version, "id": record.id}
    if ENCODED_PROPERTY in (record.metadata or {}).get("properties", {}):
        members["md5"] = base64.b64encode(record.md5).decode()
    members["schemaType"] = record.kind
    if record.references:
        members["references"] = [
            {name: member for name, member in reference._asdict().items() if member != ""}
            for reference in record.references
        ]
    if record.metadata is not None:
        members["metadata"] = record.metadata
    if record.rule_set is not None:
        members["ruleSet"] = record.rule_set
    members["schema"] = record.text
    members["deleted"] = record.deleted
    return _dumped({name: member for name, member in members.items() if member != ""})


def references_from(value: object) -> tuple[SchemaReference, ...]:
    """Reads `references` of a record or request.

    Raises:
        ValueError: it is no list of objects with a name, a subject and a version.
    """
    if not isinstance(value, list):
        raise ValueError("references must be a list.")
    found = []
    for item in value:
        if not isinstance(item, dict):
            raise ValueError("a reference must be an object with name, subject and version.")
        version = item.get("version")
        if isinstance(version, bool) or not isinstance(version, int) or not -1 <= version <= INT_MAX:
            raise ValueError("a reference's version must be a whole number up to 2^31-1.")
        found.append(SchemaReference(_text(item, "name"), _text(item, "subject"), version))
    return tuple(found)


def _with_names(references: object) -> object:
    """References with the empty members that Confluent's writer leaves out."""
    if not isinstance(references, list):
        return references
    return [{"name": "", "subject": "", **item} if isinstance(item, dict) else item for item in references]


def decode_config(value: bytes) -> dict[str, Any]:
    """Reads the value of a CONFIG record: the members that are set, in normal form.

    Raises:
        ValueError: a member has a wrong type.
    """
    return config_from(_object(value, "value"))


def config_from(members: Mapping[str, object]) -> dict[str, Any]:
    """The members of a config that are set, in normal form and Confluent's order.

    Raises:
        ValueError: a member has a wrong type.
    """
    config: dict[str, Any] = {}
    for name in CONFIG_MEMBERS:
        member = members.get(name)
        if member is None:
            continue
        if name.endswith("Metadata"):
            member = metadata_from(member)
        elif name.endswith("RuleSet"):
            member = rule_set_from(member)
        elif name == "normalize" or name.startswith("validate"):
            if not isinstance(member, bool):
                raise ValueError(f"{name} must be true or false.")
        elif not isinstance(member, str):
            raise ValueError(f"{name} must be a text.")
        config[name] = member
    return config


def encode_config(subject: str | None, config: Mapping[str, object]) -> bytes:
    """Writes the value of a CONFIG record."""
    return _dumped(
        _with_subject(subject)
        | {name: member for name in CONFIG_MEMBERS if (member := config.get(name)) not in (None, "")}
    )


def decode_mode(value: bytes) -> str:
    """Reads the value of a MODE record. Raises ValueError."""
    return _text(_object(value, "value"), "mode")


def encode_mode(subject: str | None, mode: str) -> bytes:
    """Writes the value of a MODE record."""
    return _dumped(_with_subject(subject) | {"mode": mode})


def decode_delete_subject(value: bytes) -> int:
    """The version up to which a subject is soft-deleted. Raises ValueError."""
    return _number(_object(value, "value"), "version")


def encode_delete_subject(subject: str, version: int) -> bytes:
    """Writes the value of a DELETE_SUBJECT record."""
    return _dumped(_with_subject(subject) | {"version": version})


def encode_clear_subject(subject: str | None) -> bytes:
    """Writes the value of a CLEAR_SUBJECT record."""
    return _dumped(_with_subject(subject))


def encode_context(context: str) -> bytes:
    """Writes the value of a CONTEXT record."""
    return _dumped({"tenant": TENANT, "context": context})


def decode_max_ids(value: bytes) -> dict[str, int]:
    """The highest id ever given in each context, of a NOOP record; empty if it says nothing of them."""
    try:
        found = _object(value, "value").get("maxIds")
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        context: highest
        for context, highest in found.items()
        if isinstance(highest, int) and not isinstance(highest, bool) and 0 < highest <= INT_MAX
    }


def encode_max_ids(max_ids: Mapping[str, int]) -> bytes:
    """Writes the value of a NOOP record."""
    return _dumped({"maxIds": dict(sorted(max_ids.items()))})


def _object(data: bytes, name: str) -> dict[str, Any]:
    try:
        found = _DECODER.decode(data.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the {name} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"the {name} is no JSON object")
    return found


def _dumped(members: Mapping[str, object]) -> bytes:
    return _as_jackson(_ENCODER.encode(members)).encode()


def _as_jackson(text: str) -> str:
    """JSON with the upper-case digits of Jackson's escapes, so that keys are the same bytes."""
    if "\\u00" not in text:
        return text
    return _ESCAPE.sub(lambda match: match[0][:4] + match[0][4:].upper(), text)


def _with_subject(subject: str | None) -> dict[str, object]:
    return {"subject": subject} if subject else {}


def _text(members: Mapping[str, object], name: str) -> str:
    member = members.get(name)
    if not isinstance(member, str):
        raise ValueError(f"{name} must be a text.")
    return member


def _subject(members: Mapping[str, object]) -> str:
    """The subject of a schema; the empty one is not written."""
    return "" if members.get("subject") is None else normalized(_text(members, "subject"))


def _number(members: Mapping[str, object], name: str) -> int:
    member = members.get(name)
    if isinstance(member, bool) or not isinstance(member, int) or not 0 <= member <= INT_MAX:
        raise ValueError(f"{name} must be a whole number from 0 to 2^31-1.")
    return member


def _md5(value: object) -> bytes:
    digest = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    if len(digest) != 16:
        raise ValueError("md5 must be 16 bytes in Base64.")
    return digest
