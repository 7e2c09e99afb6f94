"""What loaders of all drafts share: checks of types, documents, references, a list of what is left to load.

Nothing here recurses: a chain of references may be as long as it likes.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bowstring.protocol.whole_numbers import whole_number
from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.json_schema.drafts import Draft
from bowstring.schemas.json_schema.json_text import read_json, write_json
from bowstring.schemas.json_schema.nodes import Node, NodeKind, Number
from bowstring.schemas.json_schema.patterns import fault_of_pattern
from bowstring.schemas.json_schema.uris import pointer_tokens, resolve, token_readings

# Schemas, values of enums, steps of JSON pointers, patterns: a second or two.
MOST_STEPS = 200_000
LONGEST_URI = 4096

_INT_LIMIT = 1 << 31
_STEPS_OF_PATTERN = 100  # a millisecond at worst
_NOTHING = object()
_UNPRINTABLE = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]")
# Path from the root of a document, the last step first.
Path = tuple["Path", str] | None


@dataclass(slots=True, frozen=True)
class Document:
    """One JSON document with schemas: the registered one, a reference or a meta-schema."""

    root: Any
    uri: str
    draft: Draft
    name: str = ""


@dataclass(slots=True, frozen=True)
class Place:
    """Where in a document a schema is, and the URI that its references are relative to."""

    document: Document
    base: str
    path: Path = None

    def inside(self, *steps: str | int) -> Place:
        """Returns the place of a child."""
        path = self.path
        for step in steps:
            path = (path, str(step))
        return Place(self.document, self.base, path)

    def __str__(self) -> str:
        steps = []
        path = self.path
        while path is not None:
            path, step = path
            steps.append(step.replace("~", "~0").replace("/", "~1"))
        shown = "#" + "".join(f"/{step}" for step in reversed(steps))
        shown = shown if len(shown) <= 300 else f"{shown[:140]}…{shown[-140:]}"
        return f"{self.document.name}{shown}"


class SchemaLoader(ABC):
    """Loads one schema with what it refers to into nodes."""

    def __init__(self) -> None:
        self._pending: list[tuple[Node, Any, Place]] = []
        self._steps = 0
        self._targets: dict[str, Node] = {}
        self._sound_patterns: set[str] = set()

    def load(self, place: Place) -> Node:
        """Returns the node of the schema at `place`.

        Raises:
            InvalidSchemaError: A keyword's value has the wrong type, or a reference leads nowhere.
        """
        root = self._child(place.document.root, place)
        while self._pending:
            self._fill(*self._pending.pop())
        return root

    @abstractmethod
    def _fill_object(self, node: Node, raw: dict[str, Any], place: Place) -> None:
        """Fills in `node`, whose schema is the object `raw`."""

    @abstractmethod
    def _key(self, reference: str, place: Place) -> str:
        """Returns what is the same for references to the same schema."""

    @abstractmethod
    def _find(self, reference: str, place: Place) -> tuple[Any, Place]:
        """Returns the JSON and the place of what `reference` leads to from `place`."""

    def _fill(self, node: Node, raw: Any, place: Place) -> None:
        if isinstance(raw, bool):
            node.kind = NodeKind.TRUE if raw else NodeKind.FALSE
        elif isinstance(raw, dict):
            self._fill_object(node, raw, place)
        else:
            raise fault(place, "must be a schema: an object or a boolean", raw)

    def _child(self, raw: Any, place: Place) -> Node:
        """Returns the node of a schema inside another, filled in later."""
        self._spend(1)
        node = Node()
        self._pending.append((node, raw, place))
        return node

    def _spend(self, steps: int) -> None:
        self._need_room(steps)
        self._steps += steps

    def _need_room(self, steps: int) -> None:
        if self._steps + steps > MOST_STEPS:
            raise InvalidSchemaError("the schema has too many parts: split it up by references")

    def _children(self, schemas: Any, place: Place) -> dict[str, Node]:
        if not isinstance(schemas, dict):
            raise fault(place, "must be an object", schemas)
        self._need_room(len(schemas))
        return {name: self._child(raw, place.inside(name)) for name, raw in schemas.items()}

    def _list(self, schemas: Any, place: Place) -> list[Node]:
        if not isinstance(schemas, list):
            raise fault(place, "must be an array", schemas)
        self._need_room(len(schemas))
        nodes = [self._child(raw, place.inside(index)) for index, raw in enumerate(schemas)]
        for node, raw in zip(nodes, schemas, strict=True):
            node.origin = raw
        return nodes

    def _patterns(self, schemas: Any, place: Place) -> dict[str, Node]:
        nodes = self._children(schemas, place)
        for pattern in nodes:
            self._check_pattern(pattern, place)
        return nodes

    def _check_pattern(self, pattern: str, place: Place) -> None:
        if pattern in self._sound_patterns:
            return
        self._spend(_STEPS_OF_PATTERN + len(pattern) // 64)
        cause = fault_of_pattern(pattern)
        if cause is not None:
            raise fault(place, f"has an invalid regular expression: {shortened(cause)}")
        self._sound_patterns.add(pattern)

    def _pattern_at(self, raw: dict[str, Any], key: str, place: Place) -> str | None:
        """Returns a regular expression; None if there is no `key`."""
        pattern = text_at(raw, key, place)
        if pattern is not None:
            self._check_pattern(pattern, place.inside(key))
        return pattern

    def _values_at(self, raw: dict[str, Any], key: str, place: Place) -> dict[str, None]:
        """Returns the values of an enum as JSON, in their order."""
        values = raw[key]
        if not isinstance(values, list):
            raise fault(place.inside(key), "must be an array", values)
        self._spend(len(values))
        return {write_json(value, is_sorted=True): None for value in values}

    def _target(self, reference: Any, place: Place) -> Node:
        """Returns the node that `reference` leads to; there is one for each target."""
        if not isinstance(reference, str):
            raise fault(place.inside("$ref"), "must be a string", reference)
        if len(reference) > LONGEST_URI or len(place.base) > LONGEST_URI:
            raise fault(place.inside("$ref"), f"must not be longer than {LONGEST_URI} characters")
        try:
            return self._known_target(reference, place)
        except ValueError as error:
            if isinstance(error, InvalidSchemaError):
                raise
            raise fault(place.inside("$ref"), f"is no URI: {shortened(reference)}") from None

    def _known_target(self, reference: str, place: Place) -> Node:
        key = self._key(reference, place)
        if key not in self._targets:
            self._targets[key] = self._child(*self._find(reference, place))
        return self._targets[key]

    def _scope(self, raw: Any, place: Place) -> Place:
        """Returns `place` with the base that `raw` sets by its id."""
        keyword = place.document.draft.id_keyword
        name = raw.get(keyword) if isinstance(raw, dict) else None
        if not isinstance(name, str):
            return place
        try:
            return Place(place.document, resolve(place.base, name), place.path)
        except ValueError:
            raise fault(place.inside(keyword), f"is no URI: {shortened(name)}") from None

    def _walk(self, document: Document, skipped: frozenset[str]) -> Iterator[tuple[dict[str, Any], Place]]:
        """Yields all objects of a document with their places, whose base is not that of their own id yet."""
        pending: list[tuple[Any, Place]] = [(document.root, Place(document, document.uri))]
        while pending:
            raw, place = pending.pop()
            if isinstance(raw, dict):
                yield raw, place
                place = self._scope(raw, place)
                pending.extend(
                    (value, place.inside(name)) for name, value in raw.items() if name not in skipped
                )
            elif isinstance(raw, list):
                pending.extend((value, place.inside(index)) for index, value in enumerate(raw))

    def _at_pointer(self, fragment: str, root: Any, place: Place, source: Place) -> tuple[Any, Place]:
        """Returns what a fragment such as "#/$defs/a" leads to from `root`; `source` has the reference."""
        raw = root
        tokens = pointer_tokens(fragment)
        self._spend(len(tokens))
        for token in tokens:
            place = self._scope(raw, place)
            raw, step = self._step(raw, token, fragment, source)
            place = place.inside(step)
        return raw, place

    @staticmethod
    def _step(raw: Any, token: str, fragment: str, source: Place) -> tuple[Any, str]:
        for step in token_readings(token):
            if isinstance(raw, dict) and step in raw:
                return raw[step], step
            index = whole_number(step)
            if isinstance(raw, list) and index is not None and index < len(raw):
                return raw[index], step
        raise fault(source.inside("$ref"), f"leads nowhere: {shortened(fragment)}")


def with_bridged_definitions(root: Any) -> Any:
    """Returns `root` with all of `definitions` in `$defs`, too: both forms of references find them."""
    if not isinstance(root, dict):
        return root
    old = root.get("definitions")
    new = root.get("$defs", {})
    if not isinstance(old, dict) or not old or not isinstance(new, dict):
        return root
    return {**root, "$defs": {**old, **new}}


def read_references(references: Mapping[str, str]) -> dict[str, Any]:
    """Returns the JSON of each reference by its name.

    Raises:
        InvalidSchemaError: One is no JSON; names it.
    """
    documents = {}
    for name, text in references.items():
        try:
            documents[name] = with_bridged_definitions(read_json(text))
        except InvalidSchemaError as error:
            raise InvalidSchemaError(f"reference {shortened(name)!r}: {error}") from None
    return documents


def fault(place: Place, rule: str, value: Any = _NOTHING) -> InvalidSchemaError:
    """Returns the error that names `place`, its rule and the type of what is there instead."""
    instead = "" if value is _NOTHING else f", not {_type_name(value)}"
    text = f"{place} {rule}{instead}"
    return InvalidSchemaError(_UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def shortened(text: str) -> str:
    """Returns the start of `text`."""
    return text if len(text) <= 100 else text[:100] + "…"


def text_at(raw: dict[str, Any], key: str, place: Place) -> str | None:
    """Returns a string; None if there is no `key`."""
    if key not in raw:
        return None
    value = raw[key]
    if not isinstance(value, str):
        raise fault(place.inside(key), "must be a string", value)
    return value


def boolean_at(raw: dict[str, Any], key: str, place: Place) -> bool | None:
    """Returns a boolean; None if there is no `key`."""
    if key not in raw:
        return None
    value = raw[key]
    if not isinstance(value, bool):
        raise fault(place.inside(key), "must be a boolean", value)
    return value


def integer_at(raw: dict[str, Any], key: str, place: Place) -> int | None:
    """Returns an integer of 32 bits; None if there is no `key`."""
    if key not in raw:
        return None
    value = raw[key]
    if not isinstance(value, int) or isinstance(value, bool):
        raise fault(place.inside(key), "must be an integer", value)
    if not -_INT_LIMIT <= value < _INT_LIMIT:
        raise fault(place.inside(key), "must be an integer of 32 bits")
    return value


def number_at(raw: dict[str, Any], key: str, place: Place) -> Number | None:
    """Returns a number; None if there is no `key`."""
    if key not in raw:
        return None
    value = raw[key]
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        raise fault(place.inside(key), "must be a number", value)
    return value


def texts_at(raw: dict[str, Any], key: str, place: Place) -> list[str]:
    """Returns a list of strings; an empty one if there is no `key`."""
    values = raw.get(key, [])
    if not isinstance(values, list):
        raise fault(place.inside(key), "must be an array", values)
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise fault(place.inside(key, index), "must be a string", value)
    return values


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    names = {str: "a string", int: "an integer", Decimal: "a number", list: "an array", dict: "an object"}
    return names.get(type(value), "null")
