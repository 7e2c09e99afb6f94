"""The body of a registration, a lookup or a compatibility check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bowstring.protocol.whole_numbers import INT_MAX, whole_number
from bowstring.registry import refusals
from bowstring.registry.schema_metadata import Metadata, RuleSet, metadata_from, rule_set_fault, rule_set_from
from bowstring.registry.schema_record import SchemaReference
from bowstring.registry.topic_records import references_from


@dataclass
class SchemaRequest:
    """A schema as a request gives it.

    Attributes:
        subject: Qualified.
        version: 0: the next one; -1: the next one, and its number goes into the metadata.
        schema_id: -1: the registry's choice.
        text: None or blank: that of the latest version.
        meaning: As in SchemaRecord, of a parsed request.
    """

    subject: str
    version: int = 0
    schema_id: int = -1
    kind: str = "AVRO"
    text: str | None = None
    references: tuple[SchemaReference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    meaning: bytes | None = field(default=None, compare=False)

    @property
    def is_empty(self) -> bool:
        """Whether there is no text."""
        return self.text is None or not self.text.strip()

    def copy(self) -> SchemaRequest:
        """Another request with the same members."""
        return SchemaRequest(
            self.subject,
            self.version,
            self.schema_id,
            self.kind,
            self.text,
            self.references,
            self.metadata,
            self.rule_set,
            self.meaning,
        )


def schema_request(subject: str, body: object, checks_rules: bool = False) -> SchemaRequest:
    """Reads a body.

    Raises:
        RegistryError: a member has a wrong type (400), or with `checks_rules` a rule is wrong (42210).
    """
    if not isinstance(body, dict):
        raise refusals.bad_request("The body must be a JSON object.")
    kind, text = body.get("schemaType"), body.get("schema")
    if not isinstance(kind, str | None) or not isinstance(text, str | None):
        raise refusals.bad_request("schema and schemaType must be texts.")
    try:
        request = SchemaRequest(
            subject,
            _number(body, "version", 0),
            _number(body, "id", -1),
            kind or "AVRO",
            text,
            references_from([] if body.get("references") is None else body["references"]),
            metadata_from(body.get("metadata")),
            rule_set_from(body.get("ruleSet")),
        )
    except ValueError as error:
        raise refusals.bad_request(str(error)) from error
    if text is not None and not text.isascii() and any("\ud800" <= ch <= "\udfff" for ch in text):
        raise refusals.invalid_schema("The schema has half of a surrogate pair; it must be valid Unicode.")
    if checks_rules and (fault := rule_set_fault(request.rule_set)) is not None:
        raise refusals.invalid_rule_set(fault)
    return request


def _number(body: Mapping[str, object], name: str, default: int) -> int:
    """Raises ValueError."""
    value = body.get(name)
    if isinstance(value, str):
        value = whole_number(value)
    elif value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= INT_MAX:
        raise ValueError(f"{name} must be a whole number up to 2^31-1.")
    return value
