"""Parses the JSON of Avro schemas to types, by the rules of Apache Avro for Java 1.12."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import setitem
from typing import Any, TypeAlias

from bowstring.schemas.avro.avro_type import (
    DEPTH_MAX,
    PRIMITIVE_TYPES,
    PRIMITIVES,
    UNRESOLVED,
    AvroField,
    AvroName,
    AvroType,
)
from bowstring.schemas.avro.default_check import DefaultCheck
from bowstring.schemas.avro.json_text import read_json, write_json
from bowstring.schemas.avro.logical_type import INT_MAX, logical_type
from bowstring.schemas.avro.type_equality import are_equal
from bowstring.schemas.errors import InvalidSchemaError

# The full name of a record, and the name of a field.
Place: TypeAlias = tuple[str, ...]

# Java's longest array: the size of a fixed.
FIXED_BYTES_MAX = INT_MAX - 8
_OF_TYPES = frozenset(
    {"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"}
)
_OF_ENUMS = _OF_TYPES | {"default"}
_OF_FIELDS = frozenset({"default", "doc", "name", "order", "type", "aliases"})
# What a field without anything unusual has.
_USUAL_IN_FIELDS = frozenset({"name", "type", "default"})
_COLLECTIONS = {"array": "items", "map": "values"}
_ORDERS = ("ascending", "descending", "ignore")
# How much of a value an error shows.
_SHOWN_CHARACTERS = 80


class TypeParser:
    """Parses texts one after the other; each may use the names that those before it define.

    Args:
        is_new: whether names must be ASCII and defaults must fit, as in schemas about to be registered.
    """

    def __init__(self, *, is_new: bool) -> None:
        self._is_new = is_new
        self._is_valid_name: Callable[[str], bool] = _is_strict_name
        self._known: dict[str, AvroType] = {}
        self._place: Place = ()
        self._with_defaults: list[tuple[Place, AvroField]] = []
        # Names that were used before their definitions, and how to put the type there.
        self._unresolved: list[tuple[Place, str, Callable[[AvroType], None]]] = []
        self._unions: list[tuple[Place, AvroType]] = []

    def parse(self, text: str, *, is_reference: bool = False) -> AvroType:
        """The type that a text defines.

        Args:
            text: JSON.
            is_reference: whether it is what a stored schema refers to, whose names may be of any kind.

        Raises:
            InvalidSchemaError: with the place and the cause.
        """
        self._place, self._with_defaults, self._unresolved, self._unions = (), [], [], []
        if not self._is_new:
            self._is_valid_name = _is_any_name if is_reference else _is_letters_name
        document = read_json(text)
        root = self._type(document, None, 0)
        if root.kind == UNRESOLVED:
            raise self._undefined(root.full_name)
        for place, name, put in self._unresolved:
            self._place = place
            if name not in self._known:
                raise self._undefined(name)
            put(self._known[name])
        for place, union in self._unions:
            self._place = place
            self._check_branches(union)
        if self._is_new:
            self._check_defaults(DefaultCheck(len(text)))
        # What was defined before, equally, is what other types refer to.
        return root if root.name is None else self._known[root.full_name]

    def _undefined(self, name: str) -> InvalidSchemaError:
        return self._error(f"{_shown(name)} is defined neither in the schema nor in its references")

    def _check_defaults(self, check: DefaultCheck) -> None:
        for place, each in self._with_defaults:
            self._place = place
            if not check.fits(each.type, each.default):
                raise self._error(
                    f"the default {_shown(each.default)} does not fit the type {each.type.full_name}"
                )

    def _error(self, cause: str) -> InvalidSchemaError:
        words = ("record", "field")[: len(self._place)]
        place = ", ".join(f"{word} {name}" for word, name in zip(words, self._place, strict=True))
        return InvalidSchemaError((f"{place}: {cause}" if place else cause).replace("\n", " "))

    def _later(self, found: AvroType, put: Callable[[AvroType], None]) -> None:
        """Remembers a place where a type without a definition yet stands."""
        self._unresolved.append((self._place, found.full_name, put))

    def _type(self, node: Any, space: str | None, depth: int) -> AvroType:
        if depth > DEPTH_MAX:
            raise self._error(f"types are nested more than {DEPTH_MAX} levels deep; name some of them")
        if isinstance(node, dict):
            return self._object(node, space, depth)
        if isinstance(node, str):
            return self._found(node, space)
        if isinstance(node, list):
            return self._union(node, space, depth)
        raise self._error(f"{_shown(node)} is no type; a type is a string, an object or an array")

    def _object(self, node: dict[str, Any], space: str | None, depth: int) -> AvroType:
        kind = node.get("type")
        if not isinstance(kind, str):
            raise self._error(f'"type" of {_shown(node)} must be a string')
        if kind in PRIMITIVES:
            if len(node) == 1:
                return PRIMITIVE_TYPES[kind]
            primitive = AvroType(kind)
            self._add_properties(primitive, node, _OF_TYPES)
            return primitive
        if kind in _COLLECTIONS:
            return self._collection(kind, node, space, depth)
        if kind in ("record", "error"):
            return self._record(node, space, depth, is_error=kind == "error")
        if kind in ("enum", "fixed"):
            return self._enum(node, space) if kind == "enum" else self._fixed(node, space)
        return self._found(kind, space)

    def _found(self, name: str, space: str | None) -> AvroType:
        if name in PRIMITIVES:
            return PRIMITIVE_TYPES[name]
        full = f"{space}.{name}" if space is not None and "." not in name else name
        known = self._known.get(full) or self._known.get(name)
        return known or AvroType(UNRESOLVED, AvroName(full, None))

    def _collection(self, kind: str, node: dict[str, Any], space: str | None, depth: int) -> AvroType:
        of = _COLLECTIONS[kind]
        if of not in node:
            raise self._error(f'{_shown(node)} has no "{of}"')
        collection = AvroType(kind)
        collection.items = self._type(node[of], space, depth + 1)
        if collection.items.kind == UNRESOLVED:
            self._later(collection.items, partial(setattr, collection, "items"))
        self._add_properties(collection, node, _OF_TYPES)
        return collection

    def _union(self, node: list[Any], space: str | None, depth: int) -> AvroType:
        union = AvroType("union")
        union.branches = [self._type(each, space, depth + 1) for each in node]
        for position, branch in enumerate(union.branches):
            if branch.kind == UNRESOLVED:
                self._later(branch, partial(setitem, union.branches, position))
        self._unions.append((self._place, union))
        return union

    def _check_branches(self, union: AvroType) -> None:
        names = set()
        for branch in union.branches:
            if branch.kind == "union":
                raise self._error("a union contains a union")
            if branch.full_name in names:
                raise self._error(f"a union contains {branch.full_name} twice")
            names.add(branch.full_name)

    def _record(self, node: dict[str, Any], space: str | None, depth: int, *, is_error: bool) -> AvroType:
        name, fields = self._name(node, space), node.get("fields")
        record = AvroType("record", name)
        record.doc, record.is_error, record.fields = _text(node, "doc"), is_error, {}
        full, outer = name.full, self._place
        if not isinstance(fields, list):
            raise self._error(f'record {full} has no array "fields"')
        for each in fields:
            self._place = (full,)
            field_name = self._field_name(each)
            self._place = (full, field_name)
            if field_name in record.fields:
                raise self._error("the name is used twice")
            record.fields[field_name] = self._field(field_name, each, name.space, depth)
        self._place = outer
        return self._defined(record, node, _OF_TYPES)

    def _field_name(self, node: Any) -> str:
        name = _text(node, "name") if isinstance(node, dict) else None
        if name is None:
            raise self._error(f'field {_shown(node)} has no "name"')
        return self._checked(name)

    def _field(self, name: str, node: dict[str, Any], space: str | None, depth: int) -> AvroField:
        if "type" not in node:
            raise self._error('there is no "type"')
        place = self._place
        field = AvroField(name, self._type(node["type"], space, depth + 1))
        self._place = place
        if field.type.kind == UNRESOLVED:
            self._later(field.type, partial(setattr, field, "type"))
        if "default" in node:
            field.has_default, field.default = True, node["default"]
            if field.type.kind in ("float", "double") and isinstance(field.default, str):
                field.default = self._number(field.default)
            self._with_defaults.append((place, field))
        if not _USUAL_IN_FIELDS.issuperset(node):
            self._add_to_field(field, node)
        return field

    def _add_to_field(self, field: AvroField, node: dict[str, Any]) -> None:
        field.doc, field.aliases = _text(node, "doc"), self._aliases(node)
        field.properties = {key: value for key, value in node.items() if key not in _OF_FIELDS}
        if "order" in node:
            order = node["order"].lower() if isinstance(node["order"], str) else None
            if order not in _ORDERS:
                raise self._error(f'"order" is {_shown(node["order"])}; use {", ".join(_ORDERS)}')
            field.order = order

    def _number(self, text: str) -> float:
        try:
            return float(text.replace("_", "x"))
        except ValueError:
            raise self._error(f"the default {_shown(text)} is no number") from None

    def _enum(self, node: dict[str, Any], space: str | None) -> AvroType:
        name, symbols = self._name(node, space), node.get("symbols")
        if not isinstance(symbols, list):
            raise self._error(f'enum {name.full} has no array "symbols"')
        seen = set()
        for symbol in symbols:
            if not isinstance(symbol, str):
                raise self._error(f"symbol {_shown(symbol)} of enum {name.full} is no string")
            if self._checked(symbol) in seen:
                raise self._error(f"enum {name.full} has the symbol {symbol} twice")
            seen.add(symbol)
        default = _text(node, "default")
        if default is not None and default not in seen:
            raise self._error(f"the default {_shown(default)} is no symbol of enum {name.full}")
        enum = AvroType("enum", name)
        enum.symbols, enum.default_symbol = tuple(symbols), default
        return self._defined(enum, node, _OF_ENUMS)

    def _fixed(self, node: dict[str, Any], space: str | None) -> AvroType:
        name, size = self._name(node, space), node.get("size")
        if type(size) is not int or not 0 <= size <= FIXED_BYTES_MAX:
            raise self._error(f'"size" of fixed {name.full} is {_shown(size)}; it must be a number of bytes')
        fixed = AvroType("fixed", name)
        fixed.size = size
        return self._defined(fixed, node, _OF_TYPES)

    def _name(self, node: dict[str, Any], space: str | None) -> AvroName:
        name, own = _text(node, "name"), _text(node, "namespace")
        if name is None:
            raise self._error(f'{node["type"]} {_shown(node)} has no "name"')
        found = self._qualified(name, space if own is None else own)
        self._checked(found.simple)
        if found.full in PRIMITIVES:
            raise self._error(f"{found.full} is the name of a primitive type")
        return found

    def _qualified(self, name: str, space: str | None) -> AvroName:
        before, dot, simple = name.rpartition(".")
        return AvroName(simple, (before if dot else space) or None)

    def _checked(self, name: str) -> str:
        """A name that follows the rules."""
        if not self._is_valid_name(name):
            rule = "a name begins with a letter or _, and goes on with letters, digits and _"
            raise self._error(f"{_shown(name)} is no name; {rule}")
        return name

    def _aliases(self, node: dict[str, Any]) -> tuple[str, ...]:
        aliases = node.get("aliases")
        if aliases is None and "aliases" not in node:
            return ()
        if not isinstance(aliases, list) or not all(isinstance(each, str) for each in aliases):
            raise self._error(f'"aliases" is {_shown(aliases)}; it must be an array of strings')
        return tuple(dict.fromkeys(aliases))

    def _defined(self, named: AvroType, node: dict[str, Any], reserved: frozenset[str]) -> AvroType:
        """Completes a named type and makes its name known."""
        assert named.name is not None
        self._add_properties(named, node, reserved)
        named.doc = _text(node, "doc")
        space = named.name.space
        if aliases := self._aliases(node):
            named.aliases = tuple(dict.fromkeys(self._qualified(alias, space) for alias in aliases))
        if self._is_new:
            parts = [] if space is None else space.split(".")
            for part in (*parts, *(alias.simple for alias in named.aliases)):
                self._checked(part)
        before = self._known.setdefault(named.full_name, named)
        if before is not named and not are_equal(before, named):
            raise self._error(f"{named.full_name} is defined twice, and differently")
        return named

    def _add_properties(self, schema: AvroType, node: dict[str, Any], reserved: frozenset[str]) -> None:
        if reserved.issuperset(node):
            return
        schema.properties = {key: value for key, value in node.items() if key not in reserved}
        schema.logical = logical_type(schema)
        if schema.logical and schema.kind in ("record", "array", "map"):
            # Java copies these types when it resolves names, and begins with the logical type.
            schema.properties = {"logicalType": schema.logical} | schema.properties


def _is_strict_name(name: str) -> bool:
    return name.isascii() and name.isidentifier()


def _is_letters_name(name: str) -> bool:
    return name.replace("_", "a").isalnum() and (name[0] == "_" or name[0].isalpha())


def _is_any_name(_: str) -> bool:
    return True


def _text(node: dict[str, Any], key: str) -> str | None:
    value = node.get(key)
    return value if isinstance(value, str) else None


def _shown(value: Any) -> str:
    """A value for an error: one line, not long."""
    text = write_json(value[:_SHOWN_CHARACTERS] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
