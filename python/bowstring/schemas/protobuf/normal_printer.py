"""Writes a .proto file in its normal form: one text for all that mean the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.protobuf.elements import (
    SCALARS,
    Enum,
    Extend,
    Extensions,
    Field,
    Group,
    Message,
    OneOf,
    Option,
    OptionValue,
    ProtoFile,
    Range,
    Reserved,
    map_types,
)
from bowstring.schemas.protobuf.number_text import normal_number
from bowstring.schemas.protobuf.option_merging import OptionMerging, as_map
from bowstring.schemas.protobuf.proto_printer import ProtoPrinter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bowstring.schemas.protobuf.type_index import TypeIndex

# Of names and options that the normal form repeats.
WRITTEN_MAX = 20 << 20


class NormalPrinter(ProtoPrinter):
    """Writes as Confluent's registry does with `normalize=true`: sorted, types by their full names, maps as
    maps, options of one name merged.

    Messages and enums keep their order, which the indexes in front of records count.

    Args:
        index: the types that the file can name.
    """

    def __init__(self, index: TypeIndex):
        super().__init__()
        self._index = index
        self._merging = OptionMerging(index)
        self._written = 0

    def _count(self, written: str) -> str:
        """Returns what is written longer or more often than in the text, and bounds it."""
        self._written += len(written)
        if self._written > WRITTEN_MAX:
            raise InvalidSchemaError(
                "the normal form is too long: full names of types, and options that stand with each range of "
                f"extensions, take more than {WRITTEN_MAX >> 20} Mi characters"
            )
        return written

    def _writes_syntax(self, file: ProtoFile) -> bool:
        return file.syntax == "proto3"

    def _in_order(self, paths: list[str]) -> list[str]:
        return sorted(set(paths))

    def _options_of(self, options: Sequence[Option], scope: str) -> Sequence[Option]:
        if not options:
            return options
        named: dict[str, list[Option]] = {}
        for each in options:
            option = each
            if each.parenthesized and (found := self._index.find_extension(each.name, scope)) is not None:
                option = as_map(Option(found[0], each.kind, each.value, parenthesized=True))
            named.setdefault(option.name, []).append(option)
        return [each for name in sorted(named) for each in self._merging.merged(name, named[name], scope)]

    def _types_of(self, types: list[Message | Enum], scope: str) -> list[Message | Enum]:
        kept = []
        for each in types:
            found = self._index.find_type(each.name, scope) if isinstance(each, Message) else None
            if found is None or not found.is_map_entry:
                kept.append(each)
        return kept

    def _type_of(self, written: str, scope: str) -> str:
        found = self._index.find_type(written, scope)
        if found is None:
            raise unknown_type(written, scope)
        return f".{found.full_name}"

    def _field_of(self, field: Field, scope: str) -> tuple[str, str]:
        written = field.type
        if written in SCALARS:
            return field.label, written
        pair = map_types(written)
        if pair is None:
            found = self._index.find_type(written, scope)
            if found is None:
                raise unknown_type(written, f"{scope}.{field.name}")
            if not found.is_map_entry:
                return field.label, self._count(f".{found.full_name}")
            written = found.map_type()
            pair = map_types(written)
            assert pair is not None
        key, value = pair
        inner = self._index.find_type(value, scope)
        return "", written if inner is None else self._count(f"map<{key}, .{inner.full_name}>")

    def _fields_of(self, fields: list[Field]) -> list[Field]:
        return sorted(fields, key=lambda field: field.tag)

    def _groups_of(self, groups: list[Group]) -> list[Group]:
        return sorted(groups, key=lambda group: group.tag)

    def _oneofs_of(self, oneofs: list[OneOf]) -> list[OneOf]:
        return sorted(
            (each for each in oneofs if each.fields),
            key=lambda oneof: min(field.tag for field in oneof.fields),
        )

    def _extends_of(self, extends: list[Extend], scope: str) -> list[Extend]:
        named: dict[str, list[Field]] = {}
        for each in extends:
            if each.fields:
                named.setdefault(self._type_of(each.name, scope), []).extend(each.fields)
        return [Extend(name, fields) for name, fields in named.items()]

    def _reserveds_of(self, reserveds: list[Reserved]) -> list[Reserved]:
        single = [Reserved([value]) for each in reserveds for value in each.values]
        return sorted(single, key=lambda each: _reserved_order(each.values[0]))

    def _extensions_of(self, extensions: list[Extensions]) -> list[Extensions]:
        single = [Extensions([value], each.options) for each in extensions for value in each.values]
        return sorted(single, key=lambda each: _first(each.values[0]))

    def _extension_range(self, extensions: Extensions, scope: str, level: int) -> str:
        return self._count(super()._extension_range(extensions, scope, level))

    def _enum_of(self, enum: Enum) -> Enum:
        constants = sorted(enum.constants, key=lambda constant: (constant.tag, constant.name))
        return Enum(enum.name, constants, enum.reserveds, enum.options)

    def _range_of(self, value: int | Range) -> int | Range:
        return value[0] if isinstance(value, tuple) and value[0] == value[1] else value

    def _number_of(self, text: str) -> str:
        return normal_number(text)

    def _map_of(self, value: dict[str, OptionValue], scope: str) -> dict[str, OptionValue]:
        found: dict[str, OptionValue] = {}
        for key, each in value.items():
            if each == []:
                continue
            extension = self._index.find_extension(key[1:-1], scope) if key.startswith("[") else None
            found.setdefault(key if extension is None else f"[{extension[0]}]", each)
        return dict(sorted(found.items()))

    def _list_of(self, value: list[OptionValue]) -> OptionValue:
        return value[0] if len(value) == 1 else value


def unknown_type(name: str, place: str) -> InvalidSchemaError:
    """Returns the error of a type that nothing declares."""
    return InvalidSchemaError(
        f"{place}: the type {name} is declared neither here nor in a reference; correct the name, or add the "
        "file that declares it to the references"
    )


def _first(value: int | Range) -> int:
    return value if isinstance(value, int) else value[0]


def _reserved_order(value: int | Range | str) -> tuple[int, str]:
    """Numbers first; ranges and numbers that begin alike by their text, as in Confluent's registry."""
    if isinstance(value, str):
        return (1 << 31) - 1, value
    return _first(value), str(value) if isinstance(value, int) else f"{value[0]}..{value[1]}"
