"""Finds what makes a .proto file invalid although its text can be read."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.protobuf.elements import (
    SCALARS,
    TAG_MAX,
    Enum,
    Extend,
    Field,
    Message,
    ProtoFile,
    Reserved,
    map_types,
)
from bowstring.schemas.protobuf.normal_printer import unknown_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bowstring.schemas.protobuf.type_index import TypeIndex

# protobuf keeps these field numbers for itself.
_KEPT = range(19_000, 20_000)
_MAP_KEYS = SCALARS - {"bytes", "double", "float"}


class FileValidation:
    """Checks one file.

    Args:
        file: the schema.
        index: the types that it can name.
    """

    def __init__(self, file: ProtoFile, index: TypeIndex):
        self._file = file
        self._index = index

    def check_names(self) -> None:
        """Checks that every type that the file uses is declared, and no name of a type twice.

        Raises:
            InvalidSchemaError: one is not.
        """
        file = self._file
        scope = file.package or ""
        _check_distinct("the file", (each.name for each in file.types), "type")
        _check_distinct("the file", (each.name for each in file.services), "service")
        self._check_extends(file.extends, scope)
        for message, name in self._messages():
            self._check_types(message, name)
        for service in file.services:
            for rpc in service.rpcs:
                for written in (rpc.request, rpc.response):
                    self._check_type(written, scope, f"{service.name}.{rpc.name}")

    def check_rules(self) -> None:
        """Checks the rules of protoc that a new schema must keep: numbers, names and what is reserved.

        Raises:
            InvalidSchemaError: the file breaks one.
        """
        scope = self._file.package or ""
        for enum in self._file.types:
            if isinstance(enum, Enum):
                self._check_enum(enum, f"{scope}.{enum.name}" if scope else enum.name)
        for message, name in self._messages():
            _check_distinct(name, (each.name for each in message.types), "type")
            _check_fields(message, name)
            for nested in message.types:
                if isinstance(nested, Enum):
                    self._check_enum(nested, f"{name}.{nested.name}")

    def _messages(self) -> Iterable[tuple[Message, str]]:
        """Yields each message with its full name, those inside of others, too."""
        package = self._file.package
        pending = [
            (each, f"{package}.{each.name}" if package else each.name)
            for each in self._file.types
            if isinstance(each, Message)
        ]
        for message, name in pending:
            yield message, name
            pending.extend(
                (each, f"{name}.{each.name}") for each in message.types if isinstance(each, Message)
            )

    def _check_types(self, message: Message, name: str) -> None:
        for field in message.fields:
            self._check_field_type(field, name)
        for oneof in message.oneofs:
            for field in oneof.fields:
                self._check_field_type(field, name)
        for group in [*message.groups, *(group for oneof in message.oneofs for group in oneof.groups)]:
            for field in group.fields:
                self._check_field_type(field, name)
        self._check_extends(message.extends, name)

    def _check_extends(self, extends: Sequence[Extend], scope: str) -> None:
        for extend in extends:
            if extend.fields:
                self._check_type(extend.name, scope, scope or "the file")
            for field in extend.fields:
                self._check_field_type(field, scope)

    def _check_field_type(self, field: Field, scope: str) -> None:
        if field.type in SCALARS:
            return
        place = f"{scope}.{field.name}" if scope else field.name
        pair = map_types(field.type)
        if pair is None:
            self._check_type(field.type, scope, place)
        elif pair[0] not in _MAP_KEYS:
            raise InvalidSchemaError(
                f"{place}: {pair[0]} cannot be the key of a map; use an integer, bool or string"
            )

    def _check_type(self, written: str, scope: str, place: str) -> None:
        if self._index.find_type(written, scope) is None:
            raise unknown_type(written, place)

    def _check_enum(self, enum: Enum, name: str) -> None:
        if not enum.constants:
            raise InvalidSchemaError(f"{name}: the enum has no value; add one")
        _check_distinct(name, (each.name for each in enum.constants), "value")
        if self._file.syntax == "proto3" and enum.constants[0].tag != 0:
            raise InvalidSchemaError(f"{name}: the first value of an enum of proto3 must be 0")
        allows_alias = any(each.name == "allow_alias" and each.value == "true" for each in enum.options)
        if not allows_alias:
            _check_distinct(name, (each.tag for each in enum.constants), "number")
        numbers, names = _reserved_of(enum.reserveds)
        for constant in enum.constants:
            _check_reserved(f"{name}.{constant.name}", constant.name, constant.tag, numbers, names)


def _check_fields(message: Message, name: str) -> None:
    fields: list[tuple[str, int]] = [(each.name, each.tag) for each in message.fields]
    groups = [*message.groups]
    for oneof in message.oneofs:
        fields += [(each.name, each.tag) for each in oneof.fields]
        groups += oneof.groups
    fields += [(group.name.lower(), group.tag) for group in groups]
    names = [each for each, _ in fields] + [oneof.name for oneof in message.oneofs]
    _check_distinct(name, names, "field or oneof")
    _check_distinct(name, (tag for _, tag in fields), "field number")
    numbers, reserved_names = _reserved_of(message.reserveds)
    for field, tag in fields:
        place = f"{name}.{field}"
        if not 1 <= tag <= TAG_MAX or tag in _KEPT:
            raise InvalidSchemaError(
                f"{place}: the field number {tag} is not allowed; use 1 to {TAG_MAX} without 19000 to 19999"
            )
        _check_reserved(place, field, tag, numbers, reserved_names)


def _reserved_of(reserveds: Sequence[Reserved]) -> tuple[list[tuple[int, int]], set[str]]:
    """Returns the reserved numbers as ranges with both ends, merged and in order, and the reserved names."""
    values = [value for each in reserveds for value in each.values]
    ranges = sorted(
        (each, each) if isinstance(each, int) else each for each in values if not isinstance(each, str)
    )
    merged: list[tuple[int, int]] = []
    for first, last in ranges:
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged, {each for each in values if isinstance(each, str)}


def _check_reserved(place: str, name: str, tag: int, numbers: list[tuple[int, int]], names: set[str]) -> None:
    position = bisect_right(numbers, (tag, TAG_MAX + 1)) - 1
    if position >= 0 and numbers[position][0] <= tag <= numbers[position][1]:
        raise InvalidSchemaError(f"{place}: the number {tag} is reserved; use another")
    if name in names:
        raise InvalidSchemaError(f"{place}: the name is reserved; use another")


def _check_distinct(place: str, values: Iterable[str | int], what: str) -> None:
    seen: set[str | int] = set()
    for value in values:
        if value in seen:
            raise InvalidSchemaError(f"{place}: the {what} {value} is declared twice")
        seen.add(value)
