"""Checks JSON values against the JSON Schemas that they are produced with, in bounded time.

Schemas are of strangers: nothing is fetched, patterns may backtrack BACKTRACKS_MAX times, and a value is
refused where the schema would be evaluated too often for its size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urljoin

from bowstring.clients.errors import MissingPackageError
from bowstring.clients.registry.schema_sources import UnusableSchemaError

Validate = Callable[[Any, int], None]

BACKTRACKS_MAX = 10_000
PATTERN_BYTES_MAX = 1 << 20
"""Of a compiled pattern."""
PARTS_MAX = 200_000
"""Of a schema, with those that it refers to."""
EVALUATIONS_MAX = 20_000_000
"""For one value: half a second."""
REASON_CHARACTERS_MAX = 300
_BASE = "json-schema:///"
_PATTERN_COST = 20
_IN_PLACE = ("allOf", "anyOf", "oneOf")
_IN_PLACE_ONE = ("not", "if", "then", "else")
_ONE_OF_CHILDREN = (
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "additionalItems"),
    *("unevaluatedItems", "contains", "items"),
)


def json_validator(document: Any, others: Mapping[str, Any]) -> Validate:
    """Returns a function of a value and its size as text, which raises ValueError if the value does not fit.

    Args:
        document: the schema; of draft 7 unless it says so, as for Confluent's registry.
        others: the schemas that it refers to, by the names that it does so with.

    Raises:
        UnusableSchemaError: the schema cannot be used.
        MissingPackageError: jsonschema-rs is not installed.
    """
    try:
        import jsonschema_rs
    except ModuleNotFoundError as error:
        raise MissingPackageError("jsonschema-rs", "rest") from error
    names_draft = isinstance(document, dict) and isinstance(document.get("$schema"), str)
    own = document.get("$id") if isinstance(document, dict) else None
    base = own if isinstance(own, str) else _BASE
    try:
        registry = jsonschema_rs.Registry(
            [(urljoin(base, name), each) for name, each in others.items()] + [(urljoin(base, ""), document)],
            draft=None if names_draft else jsonschema_rs.Draft7,
        )
        make = jsonschema_rs.validator_for if names_draft else jsonschema_rs.Draft7Validator
        validator = make(
            document,
            registry=registry,
            base_uri=base,
            offline=True,
            validate_formats=False,
            pattern_options=jsonschema_rs.FancyRegexOptions(
                backtrack_limit=BACKTRACKS_MAX, size_limit=PATTERN_BYTES_MAX, dfa_size_limit=PATTERN_BYTES_MAX
            ),
        )
        cost = _Evaluations().of(document, registry.resolver(base))
    except (ValueError, RecursionError, jsonschema_rs.ReferencingError) as error:
        reason = getattr(error, "message", None) or str(error)
        raise UnusableSchemaError(
            f"the JSON Schema cannot be used to check values: {_shortened(reason)}"
        ) from None

    def validate(data: Any, size: int) -> None:
        if cost * (size // 2) > EVALUATIONS_MAX:
            raise ValueError("the schema takes too long to check a value of this size")
        try:
            validator.validate(data)
        except jsonschema_rs.ValidationError as error:
            place = "/".join(["", *map(str, error.instance_path)])
            raise ValueError(f"{_shortened(error.message)} (at {place or '/'})") from None

    return validate


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= REASON_CHARACTERS_MAX else f"{text[:REASON_CHARACTERS_MAX]}…"


class _Evaluations:
    """Counts how often parts of a schema are evaluated at most, for each part of a value.

    Recursion counts once: the validator evaluates no part twice for the same part of a value by recursion.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}
        self._parts = 0

    def of(self, schema: Any, resolver: Any) -> int:
        """Returns the number for a schema; raises ValueError if that has too many parts."""
        if not isinstance(schema, dict):
            return 1
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise ValueError(f"it has more than {PARTS_MAX} parts")
        own = schema.get("$id")
        if isinstance(own, str) and not own.startswith("#") and urljoin(resolver.base_uri, own) != own:
            resolver = self._inside(own, resolver)
        count = 1 + sum(
            self._of_reference(schema[name], resolver)
            for name in ("$ref", "$dynamicRef", "$recursiveRef")
            if isinstance(schema.get(name), str)
        )
        for name in _IN_PLACE:
            count += sum(self.of(each, resolver) for each in _list(schema.get(name)))
        count += sum(self.of(schema[name], resolver) for name in _IN_PLACE_ONE if name in schema)
        for name in ("dependentSchemas", "dependencies"):
            count += sum(self.of(each, resolver) for each in _values(schema.get(name)))
        for name in ("enum", "required"):
            count += len(_list(schema.get(name)))
        count += _PATTERN_COST * ("pattern" in schema)
        return count + self._of_children(schema, resolver)

    def _of_children(self, schema: Mapping[str, Any], resolver: Any) -> int:
        """Returns the number for one part of what is inside a value."""
        properties = (self.of(each, resolver) for each in _values(schema.get("properties")))
        patterns = [self.of(each, resolver) for each in _values(schema.get("patternProperties"))]
        places = [*_list(schema.get("prefixItems")), *_list(schema.get("items"))]
        count = max(properties, default=0) + sum(patterns) + _PATTERN_COST * len(patterns)
        count += max((self.of(each, resolver) for each in places), default=0)
        return count + sum(self.of(schema[name], resolver) for name in _ONE_OF_CHILDREN if name in schema)

    def _of_reference(self, reference: str, resolver: Any) -> int:
        key = (resolver.base_uri, reference)
        if key not in self._known:
            self._known[key] = 1  # within itself
            try:
                found = resolver.lookup(reference)
            except Exception:  # of a dynamic reference: the validator has found out
                return 1
            self._known[key] = self.of(found.contents, found.resolver)
        return self._known[key]

    def _inside(self, own: str, resolver: Any) -> Any:
        try:
            return resolver.lookup(own).resolver
        except Exception:  # an id in an unknown keyword: no schema
            return resolver


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _values(value: Any) -> list[Any]:
    return [*value.values()] if isinstance(value, dict) else []
