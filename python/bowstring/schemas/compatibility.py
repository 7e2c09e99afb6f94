"""Checks a schema against older ones by a compatibility level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bowstring.schemas.difference import Difference
from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.parsed_schema import ParsedSchema


@dataclass(frozen=True, slots=True)
class CompatibilityLevel:
    """One level.

    Attributes:
        name: as in requests.
        reads_old: readers with the new schema must read what was written with older ones.
        read_by_old: readers with older schemas must read what is written with the new one.
        transitive: older schemas are all of them, not only the newest.
    """

    name: str
    reads_old: bool
    read_by_old: bool
    transitive: bool


LEVELS = {
    level.name: level
    for level in (
        CompatibilityLevel("NONE", reads_old=False, read_by_old=False, transitive=False),
        CompatibilityLevel("BACKWARD", reads_old=True, read_by_old=False, transitive=False),
        CompatibilityLevel("BACKWARD_TRANSITIVE", reads_old=True, read_by_old=False, transitive=True),
        CompatibilityLevel("FORWARD", reads_old=False, read_by_old=True, transitive=False),
        CompatibilityLevel("FORWARD_TRANSITIVE", reads_old=False, read_by_old=True, transitive=True),
        CompatibilityLevel("FULL", reads_old=True, read_by_old=True, transitive=False),
        CompatibilityLevel("FULL_TRANSITIVE", reads_old=True, read_by_old=True, transitive=True),
    )
}
# Of a longer schema, `explained` shows the beginning.
EXPLAINED_CHARACTERS_MAX = 10 << 10


def check(
    level: str, schema: ParsedSchema, previous: Sequence[ParsedSchema], *, is_lenient: bool = False
) -> list[Difference]:
    """What a schema changes that its compatibility level forbids; empty: nothing.

    Stops at the first older schema that it does not fit, as Confluent's registry does.

    Args:
        level: one of LEVELS.
        schema: the new schema.
        previous: the older ones, newest first.
        is_lenient: `compatibilityPolicy` LENIENT, which only JSON schemas regard.

    Raises:
        KeyError: there is no such level.
    """
    rule = LEVELS[level]
    if not (rule.reads_old or rule.read_by_old):
        return []
    for position, older in enumerate(previous if rule.transitive else previous[:1]):
        if found := _against(rule, schema, older, position, is_lenient):
            return found
    return []


def _against(
    rule: CompatibilityLevel, schema: ParsedSchema, older: ParsedSchema, position: int, is_lenient: bool
) -> list[Difference]:
    if schema.kind != older.kind:
        text = f"a schema of type {schema.kind} cannot follow one of type {older.kind}"
        return [Difference("SCHEMA_TYPE_CHANGED", "/", text, previous=position)]
    found = []
    if rule.read_by_old:
        found += [each.between("old", "new", position) for each in _compared(older, schema, is_lenient)]
    if rule.reads_old:
        found += [each.between("new", "old", position) for each in _compared(schema, older, is_lenient)]
    return found


def _compared(reader: ParsedSchema, writer: ParsedSchema, is_lenient: bool) -> list[Difference]:
    """The differences; schemas that cannot be compared are not compatible."""
    try:
        return reader.differences(writer, is_lenient)
    except InvalidSchemaError as error:
        return [Difference("NOT_COMPARABLE", "/", str(error))]
    except RecursionError:
        return [Difference("NOT_COMPARABLE", "/", "the schemas are nested too deeply to be compared")]


def explained(
    differences: Sequence[Difference], previous: Sequence[ParsedSchema], versions: Sequence[int] = ()
) -> list[str]:
    """Lines for `?verbose=true`: each difference, then the version and the text of the older schema.

    Args:
        differences: of `check`.
        previous: as given to `check`.
        versions: the version of each of these, if known.
    """
    lines = [each.message() for each in differences]
    if not differences or (position := differences[0].previous) < 0:
        return lines
    if position < len(versions):
        lines.append(f"{{oldSchemaVersion: {versions[position]}}}")
    text = previous[position].canonical
    if len(text) <= EXPLAINED_CHARACTERS_MAX:
        lines.append(f"{{oldSchema: '{text}'}}")
    else:
        lines.append(f"{{oldSchema: <truncated> '{text[:EXPLAINED_CHARACTERS_MAX]}...'}}")
    return lines
