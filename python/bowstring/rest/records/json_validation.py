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
from bowstring.rest.records.schema_cost import SchemaCost

Validate = Callable[[Any, int], None]

BACKTRACKS_MAX = 10_000
PATTERN_BYTES_MAX = 1 << 20
"""Of a compiled pattern."""
EVALUATIONS_MAX = 20_000_000
"""For one value: half a second."""
WITHIN_MAX = 5_000
"""Evaluations within one another: the validator recurses."""
REASON_COST_MAX = 1_000_000
"""Evaluations, each with a copy of a part of the value: beyond it is only said that a value does not fit."""
REASON_CHARACTERS_MAX = 300
_BASE = "json-schema:///"
_TOO_LONG = "the schema takes too long to check a value of this size"


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
        cost = SchemaCost(document, registry.resolver(base))
    except (ValueError, RecursionError, jsonschema_rs.ReferencingError) as error:
        reason = getattr(error, "message", None) or str(error)
        raise UnusableSchemaError(
            f"the JSON Schema cannot be used to check values: {_shortened(reason)}"
        ) from None

    def validate(data: Any, size: int) -> None:
        depth = 0 if cost.is_bounded else _depth(data)
        try:
            evaluations, within, all_evaluations = cost.of(depth)
        except (ValueError, RecursionError):
            raise ValueError(_TOO_LONG) from None
        if evaluations * (size // 2) > EVALUATIONS_MAX or within > WITHIN_MAX:
            raise ValueError(_TOO_LONG)
        if validator.is_valid(data):
            return
        if all_evaluations * size * max(within, _depth(data)) > REASON_COST_MAX:
            raise ValueError("the value does not fit the schema")
        try:
            validator.validate(data)
        except jsonschema_rs.ValidationError as error:
            place = "/".join(["", *map(str, error.instance_path)])
            raise ValueError(f"{_shortened(error.message)} (at {place or '/'})") from None

    return validate


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= REASON_CHARACTERS_MAX else f"{text[:REASON_CHARACTERS_MAX]}…"


def _depth(data: Any) -> int:
    """Returns how many arrays and objects are within one another."""
    level, depth = [data], 0
    while level := [
        inner
        for each in level
        if type(each) in (dict, list)
        for inner in (each.values() if type(each) is dict else each)
    ]:
        depth += 1
    return depth
