"""Decides whether a reader's schema can read what a writer's schema wrote.

Avro specification, "Schema Resolution", with the results and paths of Apache Avro's SchemaCompatibility for
Java. Comparing does not use Python's stack, because types may refer to each other without end.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import TypeAlias

from bowstring.schemas.avro.avro_type import PRIMITIVES, AvroField, AvroType
from bowstring.schemas.avro.json_text import java_order
from bowstring.schemas.difference import READER, WRITER, Difference

# Where a type is: its parent's place and its own step.
Place: TypeAlias = "tuple[Place, str] | None"
Found: TypeAlias = list[Difference]
# What a comparison asks for on its way: a pair of types inside it.
Pair: TypeAlias = tuple[AvroType, AvroType, Place]
Comparison: TypeAlias = Generator[Pair, Found, Found]

# What each primitive type can be read from, besides itself.
PROMOTIONS = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "bytes": frozenset({"string"}),
    "string": frozenset({"bytes"}),
}
# Types, fields, branches, symbols and aliases that one check looks at, besides one for every few characters
# of text. Only schemas made for it, with thousands of types of one name in two unions, have more.
STEPS_MAX = 100_000
CHARACTERS_PER_STEP = 4
# More differences than anyone reads; types that are used often would multiply theirs.
DIFFERENCES_MAX = 200


class Kind(Enum):
    """The kinds of differences, with Java's names where Java has them; the value says what has changed."""

    NAME_MISMATCH = (
        "A record, enum or fixed has another name, and the reader's has no alias for the writer's."
    )
    FIXED_SIZE_MISMATCH = "A fixed has another size."
    MISSING_ENUM_SYMBOLS = (
        "The writer's enum has symbols that the reader's lacks; the reader's has no default."
    )
    READER_FIELD_MISSING_DEFAULT_VALUE = (
        "A field that the writer's record lacks has no default in the reader's."
    )
    TYPE_MISMATCH = "The types differ, and the writer's cannot be promoted to the reader's."
    MISSING_UNION_BRANCH = "The writer may write a type that no branch of the reader's union can read."
    AMBIGUOUS_FIELD_ALIASES = (
        "Name and aliases of a reader's field match more than one field of the writer's."
    )
    COMPARISON_TOO_LARGE = "The schemas have more pairs of types than can be compared in seconds."


def differences(reader: AvroType, writer: AvroType, length: int) -> list[Difference]:
    """What keeps data of `writer` from readers with `reader`; empty: it can all be read.

    Args:
        reader: the schema that reads.
        writer: the schema that wrote.
        length: of both texts together, characters.
    """
    found = _at_once(reader, writer, None)
    return (
        _Comparer(STEPS_MAX + length // CHARACTERS_PER_STEP).run(reader, writer) if found is None else found
    )


class _Comparer:
    """One comparison of two schemas: what each pair of types in them gave.

    Args:
        steps: how many it may take.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._done: dict[tuple[int, int], Found] = {}
        # Of each union of the reader: its branches by what they may read.
        self._branches: dict[int, dict[tuple[str, str], list[AvroType]]] = {}

    def run(self, reader: AvroType, writer: AvroType) -> Found:
        """Runs comparisons until none waits for another."""
        stack = [((id(reader), id(writer)), self._compare(reader, writer, None))]
        self._done[stack[0][0]] = []
        answer: Found | None = None
        while stack:
            key, comparison = stack[-1]
            try:
                inner = next(comparison) if answer is None else comparison.send(answer)
            except StopIteration as finished:
                stack.pop()
                answer = self._done[key] = finished.value[:DIFFERENCES_MAX]
                continue
            if self._steps < 0:
                text = f"there are too many types to compare in the {READER} and the {WRITER} schema"
                return [Difference(Kind.COMPARISON_TOO_LARGE.name, "/", text)]
            key = (id(inner[0]), id(inner[1]))
            answer = self._done.get(key)
            if answer is None:
                # Inside itself, a pair is compatible unless something else is not.
                self._done[key] = []
                stack.append((key, self._compare(*inner)))
        return answer or []

    def _compare(self, reader: AvroType, writer: AvroType, place: Place) -> Comparison:
        self._steps -= 1
        if reader.kind == "union" or writer.kind == "union":
            return (yield from self._unions(reader, writer, place))
        if reader.kind != writer.kind:
            return _type_mismatch(reader, writer, place)
        if reader.items is not None and writer.items is not None:
            here = (place, "items" if reader.kind == "array" else "values")
            found = _at_once(reader.items, writer.items, here)
            return (yield reader.items, writer.items, here) if found is None else found
        self._steps -= len(reader.aliases) + len(reader.symbols) + len(writer.symbols)
        found = _names(reader, writer, (place, "name"))
        found += _sizes(reader, writer, (place, "size"))
        found += _symbols(reader, writer, (place, "symbols"))
        return found + (yield from self._fields(reader, writer, (place, "fields")))

    def _unions(self, reader: AvroType, writer: AvroType, place: Place) -> Comparison:
        if writer.kind != "union":
            for branch in self._readers_of(reader, writer):
                self._steps -= 1
                if not (yield branch, writer, None):
                    return []
            return [_missing_branch(writer, place)]
        found: Found = []
        for position, branch in enumerate(writer.branches):
            self._steps -= 1
            here = (place, str(position))
            inner = _at_once(reader, branch, here)
            if inner is not None:
                found += inner
            elif reader.kind != "union":
                found += yield reader, branch, here
            elif (yield reader, branch, None):
                found.append(_missing_branch(branch, here))
        return found[:DIFFERENCES_MAX]

    def _readers_of(self, union: AvroType, writer: AvroType) -> list[AvroType]:
        """The branches that may read a type; of the others it is certain that they cannot."""
        index = self._branches.get(id(union))
        if index is None:
            index = self._branches[id(union)] = {}
            for branch in union.branches:
                self._steps -= 1
                for key in _readable(branch):
                    index.setdefault(key, []).append(branch)
        if writer.name is None:
            return index.get((writer.kind, ""), [])
        by_alias = index.get((writer.kind, "." + writer.name.full), [])
        return [*index.get((writer.kind, writer.name.simple), []), *by_alias]

    def _fields(self, reader: AvroType, writer: AvroType, place: Place) -> Comparison:
        found: Found = []
        for position, field in enumerate(reader.fields.values()):
            self._steps -= 1 + len(field.aliases)
            here = (place, str(position))
            matching = _matching(writer, field)
            if len(matching) > 1:
                found.append(_ambiguous(field, here))
            elif matching:
                ours, theirs = field.type, matching[0].type
                inner = _at_once(ours, theirs, (here, "type"))
                found += (yield ours, theirs, (here, "type")) if inner is None else inner
            elif not field.has_default:
                if field.type.kind == "enum" and field.type.default_symbol is not None:
                    # Java compares the enum with the whole record, which never fits.
                    found += _type_mismatch(field.type, writer, (here, "type"))
                else:
                    found.append(_missing_default(field, here))
        return found[:DIFFERENCES_MAX]


def _at_once(reader: AvroType, writer: AvroType, place: Place) -> Found | None:
    """The result where a type is primitive, or all branches of the writer's union are; `None` elsewhere."""
    if writer.kind in PRIMITIVES:
        if reader.kind == "union":
            return [] if _reads_any(reader, writer) else [_missing_branch(writer, place)]
        return [] if _reads(reader.kind, writer.kind) else _type_mismatch(reader, writer, place)
    if writer.kind != "union" or not (
        reader.kind in PRIMITIVES or all(each.kind in PRIMITIVES for each in writer.branches)
    ):
        return _type_mismatch(reader, writer, place) if reader.kind in PRIMITIVES else None
    found: Found = []
    for position, branch in enumerate(writer.branches[:DIFFERENCES_MAX]):
        if reader.kind == "union":
            found += [] if _reads_any(reader, branch) else [_missing_branch(branch, (place, str(position)))]
        elif not _reads(reader.kind, branch.kind):
            found += _type_mismatch(reader, branch, (place, str(position)))
    return found


def _reads(reader: str, writer: str) -> bool:
    """Whether a kind of type can be read from a primitive one."""
    return reader == writer or writer in PROMOTIONS.get(reader, ())


def _reads_any(reader: AvroType, writer: AvroType) -> bool:
    return any(_reads(branch.kind, writer.kind) for branch in reader.branches)


def _readable(branch: AvroType) -> list[tuple[str, str]]:
    """The kinds and names that a branch of a union may read."""
    if branch.name is None:
        return [(kind, "") for kind in (branch.kind, *PROMOTIONS.get(branch.kind, ()))]
    names = {(branch.kind, branch.name.simple)} | {(branch.kind, "." + each.full) for each in branch.aliases}
    return list(names)


def _matching(writer: AvroType, field: AvroField) -> list[AvroField]:
    return [writer.fields[name] for name in (field.name, *field.aliases) if name in writer.fields]


def _path(place: Place) -> str:
    """A JSON pointer to a place."""
    steps = []
    while place is not None:
        place, step = place
        steps.append(step.replace("~", "~0").replace("/", "~1"))
    return "/" + "/".join(reversed(steps))


def _difference(kind: Kind, place: Place, description: str, details: str) -> Difference:
    path = _path(place)
    return Difference(kind.name, path, f"{description} (path '{path}')", details)


def _names(reader: AvroType, writer: AvroType, place: Place) -> Found:
    assert reader.name is not None
    assert writer.name is not None
    if reader.name.simple == writer.name.simple or any(
        each.full == writer.name.full for each in reader.aliases
    ):
        return []
    text = f"the {reader.kind} of the {READER} schema has neither the name nor an alias of the {WRITER} one"
    return [_difference(Kind.NAME_MISMATCH, place, text, f"name: {writer.full_name}")]


def _sizes(reader: AvroType, writer: AvroType, place: Place) -> Found:
    if reader.size == writer.size:
        return []
    text = f"the fixed {reader.full_name} has different sizes in the {READER} and the {WRITER} schema"
    return [_difference(Kind.FIXED_SIZE_MISMATCH, place, text, f"sizes: {reader.size} and {writer.size}")]


def _symbols(reader: AvroType, writer: AvroType, place: Place) -> Found:
    missing = set(writer.symbols).difference(reader.symbols)
    if not missing or reader.default_symbol is not None:
        return []
    text = f"the enum {reader.full_name} of the {READER} schema lacks symbols of the {WRITER} one"
    names = f"[{', '.join(sorted(missing, key=java_order))}]"
    return [_difference(Kind.MISSING_ENUM_SYMBOLS, place, text, names)]


def _type_mismatch(reader: AvroType, writer: AvroType, place: Place) -> Found:
    text = f"the {READER} schema has another type than the {WRITER} one, which cannot be promoted to it"
    return [_difference(Kind.TYPE_MISMATCH, place, text, f"types: {reader.full_name} and {writer.full_name}")]


def _missing_branch(writer: AvroType, place: Place) -> Difference:
    text = f"no branch of a union of the {READER} schema reads what the {WRITER} one may write"
    return _difference(Kind.MISSING_UNION_BRANCH, place, text, f"type: {writer.full_name}")


def _missing_default(field: AvroField, place: Place) -> Difference:
    text = f"the field {field.name} of the {READER} schema is missing in the {WRITER} one and has no default"
    return _difference(Kind.READER_FIELD_MISSING_DEFAULT_VALUE, place, text, field.name)


def _ambiguous(field: AvroField, place: Place) -> Difference:
    text = f"the field {field.name} of the {READER} schema matches several fields of the {WRITER} one"
    return _difference(Kind.AMBIGUOUS_FIELD_ALIASES, place, text, ", ".join((field.name, *field.aliases)))
