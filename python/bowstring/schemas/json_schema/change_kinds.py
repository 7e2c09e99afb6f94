"""The kinds of changes between two JSON schemas: which of them readers bear, and what each says.

Names and rules are those of Confluent's registry, so that both come to one verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Borne(Enum):
    """Under which `compatibilityPolicy` a change is compatible."""

    ALWAYS = "STRICT and LENIENT"
    LENIENT = "LENIENT"
    NEVER = "no policy"


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """One kind of change.

    Attributes:
        name: Confluent's name.
        borne: When it is compatible.
        description: One sentence; `{reader}` and `{writer}` stand for the two schemas.
    """

    name: str
    borne: Borne
    description: str


def _limit(keyword: str, name: str, is_upper: bool) -> tuple[ChangeKind, ...]:
    wider, narrower = ("INCREASED", "DECREASED") if is_upper else ("DECREASED", "INCREASED")
    greater, smaller = "{reader} schema has a greater", "{reader} schema has a smaller"
    wide, narrow = (greater, smaller) if is_upper else (smaller, greater)
    return (
        ChangeKind(f"{name}_ADDED", Borne.NEVER, f"only the {{reader}} schema has {keyword}"),
        ChangeKind(f"{name}_REMOVED", Borne.ALWAYS, f"only the {{writer}} schema has {keyword}"),
        ChangeKind(f"{name}_{wider}", Borne.ALWAYS, f"the {wide} {keyword} than the {{writer}}"),
        ChangeKind(f"{name}_{narrower}", Borne.NEVER, f"the {narrow} {keyword} than the {{writer}}"),
    )


def _rest(keyword: str, name: str, lenient: Borne) -> tuple[ChangeKind, ...]:
    """Returns the changes of what else may be in an object or array."""
    return (
        ChangeKind(f"{name}_ADDED", Borne.ALWAYS, f"only the {{reader}} schema allows {keyword}"),
        ChangeKind(f"{name}_REMOVED", lenient, f"only the {{writer}} schema allows {keyword}"),
        ChangeKind(
            f"{name}_EXTENDED",
            Borne.ALWAYS,
            f"only the {{writer}} schema limits {keyword}",
        ),
        ChangeKind(f"{name}_NARROWED", lenient, f"only the {{reader}} schema limits {keyword}"),
    )


def _content(noun: str, lenient: Borne) -> tuple[ChangeKind, ...]:
    """Returns the changes of one property or item, by what else the other schema allows."""
    name = noun.upper()
    added = f"the {noun} is only in the {{reader}} schema"
    removed = f"the {noun} is only in the {{writer}} schema"
    partial = "_BY_PARTIALLY_OPEN_CONTENT_MODEL"
    return (
        ChangeKind(
            f"{name}_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
            Borne.ALWAYS,
            f"{added}, which allows any value for it, as the {{writer}} schema does",
        ),
        ChangeKind(
            f"{name}_REMOVED_FROM_OPEN_CONTENT_MODEL",
            Borne.ALWAYS,
            f"{removed}; the {{reader}} allows any other",
        ),
        ChangeKind(
            f"{name}_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
            Borne.ALWAYS,
            f"{removed}, which allows no value for it",
        ),
        ChangeKind(
            f"{name}_REMOVED_FROM_CLOSED_CONTENT_MODEL",
            lenient,
            f"{removed}; the {{reader}} allows no other",
        ),
        ChangeKind(
            f"{name}_REMOVED_IS_COVERED{partial}",
            Borne.ALWAYS,
            f"{removed}; what the {{reader}} allows for others covers it",
        ),
        ChangeKind(
            f"{name}_REMOVED_NOT_COVERED{partial}",
            lenient,
            f"{removed}; what the {{reader}} allows for others does not cover it",
        ),
        ChangeKind(
            f"{name}_ADDED_IS_COVERED{partial}",
            Borne.ALWAYS,
            f"{added}; it covers what the {{writer}} allows for others",
        ),
        ChangeKind(
            f"{name}_ADDED_NOT_COVERED{partial}",
            lenient,
            f"{added}; it does not cover what the {{writer}} allows for others",
        ),
    )


_TABLE = (
    ChangeKind("ID_CHANGED", Borne.ALWAYS, "the schemas have different ids"),
    ChangeKind("TITLE_CHANGED", Borne.ALWAYS, "the schemas have different titles"),
    ChangeKind("DESCRIPTION_CHANGED", Borne.ALWAYS, "the schemas have different descriptions"),
    ChangeKind("DEFAULT_CHANGED", Borne.ALWAYS, "the schemas have different defaults"),
    ChangeKind("SCHEMA_ADDED", Borne.NEVER, "only the {reader} schema says what may be here"),
    ChangeKind("SCHEMA_REMOVED", Borne.ALWAYS, "only the {writer} schema says what may be here"),
    ChangeKind("TYPE_EXTENDED", Borne.ALWAYS, "only the {writer} schema wants integers"),
    ChangeKind("TYPE_NARROWED", Borne.NEVER, "only the {reader} schema wants integers"),
    ChangeKind("TYPE_CHANGED", Borne.NEVER, "the schemas are about different types of values"),
    *_limit("maxLength", "MAX_LENGTH", is_upper=True),
    *_limit("minLength", "MIN_LENGTH", is_upper=False),
    ChangeKind("PATTERN_ADDED", Borne.NEVER, "only the {reader} schema has a pattern"),
    ChangeKind("PATTERN_REMOVED", Borne.ALWAYS, "only the {writer} schema has a pattern"),
    ChangeKind("PATTERN_CHANGED", Borne.NEVER, "the schemas have different patterns"),
    *_limit("maximum", "MAXIMUM", is_upper=True),
    *_limit("minimum", "MINIMUM", is_upper=False),
    *_limit("exclusiveMaximum", "EXCLUSIVE_MAXIMUM", is_upper=True),
    *_limit("exclusiveMinimum", "EXCLUSIVE_MINIMUM", is_upper=False),
    ChangeKind("MULTIPLE_OF_ADDED", Borne.NEVER, "only the {reader} schema has multipleOf"),
    ChangeKind("MULTIPLE_OF_REMOVED", Borne.ALWAYS, "only the {writer} schema has multipleOf"),
    ChangeKind(
        "MULTIPLE_OF_EXPANDED",
        Borne.NEVER,
        "the {reader} schema's multipleOf is a multiple of the other",
    ),
    ChangeKind(
        "MULTIPLE_OF_REDUCED",
        Borne.ALWAYS,
        "the {writer} schema's multipleOf is a multiple of the other",
    ),
    ChangeKind("MULTIPLE_OF_CHANGED", Borne.NEVER, "neither multipleOf is a multiple of the other"),
    ChangeKind("REQUIRED_ATTRIBUTE_ADDED", Borne.NEVER, "only the {reader} schema requires the property"),
    ChangeKind(
        "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED",
        Borne.ALWAYS,
        "only the {reader} schema requires the property, and has a default for it",
    ),
    ChangeKind("REQUIRED_ATTRIBUTE_REMOVED", Borne.ALWAYS, "only the {writer} schema requires the property"),
    *_limit("maxProperties", "MAX_PROPERTIES", is_upper=True),
    *_limit("minProperties", "MIN_PROPERTIES", is_upper=False),
    *_rest("additional properties", "ADDITIONAL_PROPERTIES", Borne.LENIENT),
    *_rest("unevaluated properties", "UNEVALUATED_PROPERTIES", Borne.LENIENT),
    ChangeKind("DEPENDENCY_ARRAY_ADDED", Borne.NEVER, "only the {reader} schema has the dependency"),
    ChangeKind("DEPENDENCY_ARRAY_REMOVED", Borne.ALWAYS, "only the {writer} schema has the dependency"),
    ChangeKind("DEPENDENCY_ARRAY_EXTENDED", Borne.NEVER, "the {reader} schema's dependency has more names"),
    ChangeKind("DEPENDENCY_ARRAY_NARROWED", Borne.ALWAYS, "the {writer} schema's dependency has more names"),
    ChangeKind("DEPENDENCY_ARRAY_CHANGED", Borne.NEVER, "the dependencies have different names"),
    ChangeKind("DEPENDENCY_SCHEMA_ADDED", Borne.NEVER, "only the {reader} schema has the dependent schema"),
    ChangeKind(
        "DEPENDENCY_SCHEMA_REMOVED", Borne.ALWAYS, "only the {writer} schema has the dependent schema"
    ),
    ChangeKind(
        "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        Borne.NEVER,
        "only the {reader} schema has and requires the property; the {writer} allows any value",
    ),
    ChangeKind(
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
        Borne.LENIENT,
        "only the {reader} schema has and requires the property, with a default; the {writer} allows all",
    ),
    ChangeKind(
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        Borne.LENIENT,
        "only the {reader} schema has the property; the {writer} allows any value",
    ),
    ChangeKind(
        "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        Borne.NEVER,
        "only the {reader} schema has and requires the property; the {writer} limits others",
    ),
    ChangeKind(
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL",
        Borne.ALWAYS,
        "only the {reader} schema has and requires the property, with a default; the {writer} limits others",
    ),
    ChangeKind(
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        Borne.ALWAYS,
        "only the {reader} schema has the property; the {writer} limits others",
    ),
    *_content("property", Borne.LENIENT),
    *_limit("maxItems", "MAX_ITEMS", is_upper=True),
    *_limit("minItems", "MIN_ITEMS", is_upper=False),
    *_limit("maxContains", "MAX_CONTAINS", is_upper=True),
    *_limit("minContains", "MIN_CONTAINS", is_upper=False),
    ChangeKind("UNIQUE_ITEMS_ADDED", Borne.NEVER, "only the {reader} schema wants unique items"),
    ChangeKind("UNIQUE_ITEMS_REMOVED", Borne.ALWAYS, "only the {writer} schema wants unique items"),
    *_rest("additional items", "ADDITIONAL_ITEMS", Borne.NEVER),
    *_rest("unevaluated items", "UNEVALUATED_ITEMS", Borne.NEVER),
    ChangeKind(
        "ITEM_ADDED_TO_OPEN_CONTENT_MODEL",
        Borne.NEVER,
        "the item is only in the {reader} schema; the {writer} allows any value for it",
    ),
    ChangeKind(
        "ITEM_ADDED_TO_CLOSED_CONTENT_MODEL",
        Borne.ALWAYS,
        "the item is only in the {reader} schema; the {writer} allows no other",
    ),
    *_content("item", Borne.NEVER),
    ChangeKind("ENUM_ARRAY_EXTENDED", Borne.ALWAYS, "the {reader} schema's enum has more values"),
    ChangeKind("ENUM_ARRAY_NARROWED", Borne.NEVER, "the {writer} schema's enum has more values"),
    ChangeKind("ENUM_ARRAY_CHANGED", Borne.NEVER, "the schemas allow different values"),
    ChangeKind("COMBINED_TYPE_EXTENDED", Borne.ALWAYS, "the {reader} schema combines in a wider way"),
    ChangeKind("COMBINED_TYPE_CHANGED", Borne.NEVER, "the schemas combine by different keywords"),
    ChangeKind("PRODUCT_TYPE_EXTENDED", Borne.NEVER, "the {reader} schema's allOf has more schemas"),
    ChangeKind("PRODUCT_TYPE_NARROWED", Borne.ALWAYS, "the {writer} schema's allOf has more schemas"),
    ChangeKind("SUM_TYPE_EXTENDED", Borne.ALWAYS, "the {reader} schema has more alternatives"),
    ChangeKind("SUM_TYPE_NARROWED", Borne.NEVER, "the {writer} schema has more alternatives"),
    ChangeKind(
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
        Borne.NEVER,
        "some schema of the shorter list fits none of the other that is still free",
    ),
    ChangeKind("NOT_TYPE_EXTENDED", Borne.NEVER, "the {reader} schema's not refuses more values"),
    ChangeKind("NOT_TYPE_NARROWED", Borne.ALWAYS, "the {writer} schema's not refuses as many values"),
)

CHANGE_KINDS = {kind.name: kind for kind in _TABLE}
BORNE_BY_STRICT = frozenset(name for name, kind in CHANGE_KINDS.items() if kind.borne is Borne.ALWAYS)
BORNE_BY_LENIENT = frozenset(name for name, kind in CHANGE_KINDS.items() if kind.borne is not Borne.NEVER)
