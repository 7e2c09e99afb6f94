"""What applies where a request or a config says nothing."""

from __future__ import annotations

from dataclasses import dataclass

from bowstring.protocol.whole_numbers import INT_MAX


@dataclass(frozen=True)
class RegistryDefaults:
    """Settings of the program; the defaults are Confluent's.

    Attributes:
        compatibility: Level of subjects without a config.
        mode_mutability: Whether requests may change modes.
        validate_fields: Whether field names are checked against reserved ones.
        schema_limit: How many schemas, and schemas that refer to one, a page has at most.
        page_limit: How many of anything else.
        schema_max_bytes: The longest schema in UTF-8.
        references_max: How many schemas one may need, counted through all references.
    """

    compatibility: str = "BACKWARD"
    mode_mutability: bool = True
    validate_fields: bool = False
    schema_limit: int = 1000
    page_limit: int = INT_MAX
    schema_max_bytes: int = 50 << 20
    references_max: int = 1000
