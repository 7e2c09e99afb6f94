"""Writes a .proto file as text: the canonical one, the normalized one, and that without extensions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bowstring.schemas.protobuf.elements import (
    TAG_MAX,
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
    Rpc,
    Service,
    Word,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_WORD = re.compile(r"[A-Za-z0-9_.\-]+")
_ESCAPES = str.maketrans(
    {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
    | {character: f"\\{character}" for character in "\\'\""}
)
_CONFLUENT = "confluent."
# A section without lines that has its blank line all the same: the normal form leaves out what is in it.
EMPTY = [""]


class ProtoPrinter:
    """Writes a file as Confluent's registry does, byte for byte.

    What a text says in its own way stays: the order, how types are spelled, defaults. Comments go, and enums
    follow messages.

    Args:
        ignore_extensions: leave out extensions, their ranges, and custom options that are not Confluent's.
    """

    def __init__(self, *, ignore_extensions: bool = False):
        self._ignore_extensions = ignore_extensions

    def text(self, file: ProtoFile) -> str:
        """Returns the text of a file."""
        lines = []
        if file.edition:
            lines.append(f'edition = "{file.edition}";')
        elif self._writes_syntax(file):
            lines.append(f'syntax = "{file.syntax}";')
        if file.package is not None:
            lines.append(f"package {file.package};")
        imports = [
            *(f'import "{escaped(path)}";' for path in self._in_order(file.imports)),
            *(f'import public "{escaped(path)}";' for path in self._in_order(file.public_imports)),
        ]
        scope = file.package or ""
        sections = [
            imports,
            self._option_lines(file.options, scope, 0),
            self._types(file.types, scope, 0),
            self._extends(file.extends, scope, 0),
            [line for service in file.services for line in self._service(service, scope)],
        ]
        for section in sections:
            if section:
                lines += ["", *(section if section is not EMPTY else [])]
        return "".join(f"{line}\n" for line in lines)

    # What the normalized form does otherwise.

    def _writes_syntax(self, file: ProtoFile) -> bool:
        """Whether the syntax is written."""
        return bool(file.syntax)

    def _in_order(self, paths: list[str]) -> list[str]:
        """Returns imports as they are written."""
        return paths

    def _options_of(self, options: Sequence[Option], scope: str) -> Sequence[Option]:
        """Returns options as they are written."""
        if not self._ignore_extensions:
            return options
        return [each for each in options if not each.parenthesized or each.name.startswith(_CONFLUENT)]

    def _types_of(self, types: list[Message | Enum], scope: str) -> list[Message | Enum]:
        """Returns the types that are written."""
        return types

    def _type_of(self, written: str, scope: str) -> str:
        """Returns the type of an rpc or the name of an extended message."""
        return written

    def _field_of(self, field: Field, scope: str) -> tuple[str, str]:
        """Returns label and type of a field."""
        return field.label, field.type

    def _fields_of(self, fields: list[Field]) -> list[Field]:
        """Returns fields in the order in which they are written."""
        return fields

    def _groups_of(self, groups: list[Group]) -> list[Group]:
        """Returns groups in the order in which they are written."""
        return groups

    def _oneofs_of(self, oneofs: list[OneOf]) -> list[OneOf]:
        """Returns the oneofs that are written, in their order."""
        return oneofs

    def _extends_of(self, extends: list[Extend], scope: str) -> list[Extend]:
        """Returns extensions as they are written."""
        return extends

    def _reserveds_of(self, reserveds: list[Reserved]) -> list[Reserved]:
        """Returns reserved numbers and names as they are written."""
        return reserveds

    def _extensions_of(self, extensions: list[Extensions]) -> list[Extensions]:
        """Returns ranges for extensions as they are written."""
        return extensions

    def _enum_of(self, enum: Enum) -> Enum:
        """Returns an enum with its values in the order in which they are written."""
        return enum

    def _range_of(self, value: int | Range) -> int | Range:
        """Returns a number or a range as it is written."""
        return value

    def _number_of(self, text: str) -> str:
        """Returns a number as it is written."""
        return text

    def _map_of(self, value: dict[str, OptionValue], scope: str) -> dict[str, OptionValue]:
        """Returns the value of an option that is a message."""
        return value

    def _list_of(self, value: list[OptionValue]) -> OptionValue:
        """Returns a list inside the value of an option."""
        return value

    # Declarations: each method returns lines, indented.

    def _types(self, types: list[Message | Enum], scope: str, level: int) -> list[str]:
        lines: list[str] = []
        types = self._types_of(types, scope)
        for each in types:
            if isinstance(each, Message):
                lines += self._message(each, f"{scope}.{each.name}" if scope else each.name, level)
        for each in types:
            if isinstance(each, Enum):
                lines += self._enum(each, f"{scope}.{each.name}" if scope else each.name, level)
        return lines

    def _message(self, message: Message, scope: str, level: int) -> list[str]:
        inner = level + 1
        sections = [
            [self._reserved(each, inner) for each in self._reserveds_of(message.reserveds)],
            self._option_lines(message.options, scope, inner),
            self._fields(message.fields, scope, inner),
            self._oneofs(message.oneofs, scope, inner),
            [line for each in self._groups_of(message.groups) for line in self._group(each, scope, inner)],
        ]
        if not self._ignore_extensions:
            extensions = self._extensions_of(message.extensions)
            sections.append([self._extension_range(each, scope, inner) for each in extensions])
            sections.append(self._extends(message.extends, scope, inner))
        sections.append(self._types(message.types, scope, inner))
        return block(f"message {message.name}", sections, level)

    def _enum(self, enum: Enum, scope: str, level: int) -> list[str]:
        written = self._enum_of(enum)
        pad = "  " * (level + 1)
        lines = [self._reserved(each, level + 1) for each in self._reserveds_of(written.reserveds)]
        lines += self._option_lines(written.options, scope, level + 1)
        for constant in written.constants:
            options = self._bracketed(self._options_of(constant.options, scope), scope, level + 1)
            lines.append(f"{pad}{constant.name} = {constant.tag}{options};")
        outer = "  " * level
        if not lines and not enum.options:
            return [f"{outer}enum {enum.name} {{}}"]
        return [f"{outer}enum {enum.name} {{", *lines, f"{outer}}}"]

    def _oneofs(self, oneofs: list[OneOf], scope: str, level: int) -> list[str]:
        lines = [line for each in self._oneofs_of(oneofs) for line in self._oneof(each, scope, level)]
        return lines or (EMPTY if oneofs else [])

    def _oneof(self, oneof: OneOf, scope: str, level: int) -> list[str]:
        sections = [
            self._option_lines(oneof.options, scope, level + 1),
            self._fields(oneof.fields, scope, level + 1),
            [line for each in self._groups_of(oneof.groups) for line in self._group(each, scope, level + 1)],
        ]
        return block(f"oneof {oneof.name}", sections, level)

    def _group(self, group: Group, scope: str, level: int) -> list[str]:
        label = f"{group.label} " if group.label else ""
        header = f"{label}group {group.name} = {group.tag}"
        return block(header, [self._fields(group.fields, scope, level + 1)], level)

    def _extends(self, extends: list[Extend], scope: str, level: int) -> list[str]:
        if self._ignore_extensions or not extends:
            return []
        lines: list[str] = []
        for each in self._extends_of(extends, scope):
            lines += block(f"extend {each.name}", [self._fields(each.fields, scope, level + 1)], level)
        return lines or EMPTY

    def _service(self, service: Service, scope: str) -> list[str]:
        rpcs = [line for each in service.rpcs for line in self._rpc(each, scope)]
        return block(f"service {service.name}", [self._option_lines(service.options, scope, 1), rpcs], 0)

    def _rpc(self, rpc: Rpc, scope: str) -> list[str]:
        request, response = self._type_of(rpc.request, scope), self._type_of(rpc.response, scope)
        header = (
            f"rpc {rpc.name} ({'stream ' if rpc.request_streaming else ''}{request}) returns "
            f"({'stream ' if rpc.response_streaming else ''}{response})"
        )
        options = self._option_lines(rpc.options, scope, 2)
        return [f"  {header} {{", *options, "  };"] if options else [f"  {header};"]

    def _fields(self, fields: list[Field], scope: str, level: int) -> list[str]:
        pad = "  " * level
        lines = []
        for field in self._fields_of(fields):
            label, kind = self._field_of(field, scope)
            options = field.options
            if field.default is not None or field.json_name is not None:
                options = [*options, *_special(field, kind)]
            written = self._bracketed(self._options_of(options, scope), scope, level) if options else ""
            space = " " if label else ""
            lines.append(f"{pad}{label}{space}{kind} {field.name} = {field.tag}{written};")
        return lines

    def _reserved(self, reserved: Reserved, level: int) -> str:
        values = [
            f'"{escaped(each)}"' if isinstance(each, str) else self._range(each) for each in reserved.values
        ]
        return f"{'  ' * level}reserved {', '.join(values)};"

    def _extension_range(self, extensions: Extensions, scope: str, level: int) -> str:
        options = self._bracketed(self._options_of(extensions.options, scope), scope, level)
        return f"{'  ' * level}extensions {', '.join(map(self._range, extensions.values))}{options};"

    def _range(self, value: int | Range) -> str:
        value = self._range_of(value)
        if isinstance(value, int):
            return str(value)
        first, last = value
        return f"{first} to {'max' if last >= TAG_MAX else last}"

    # Options: each method returns text whose further lines are indented.

    def _option_lines(self, options: Sequence[Option], scope: str, level: int) -> list[str]:
        pad = "  " * level
        return [
            f"{pad}option {self._option(each, scope, level)};" for each in self._options_of(options, scope)
        ]

    def _bracketed(self, options: Sequence[OptionValue], scope: str, level: int) -> str:
        """Returns options in brackets with a space before them; "" without any."""
        return f" {self._list(options, scope, level)}" if options else ""

    def _list(self, values: Sequence[OptionValue], scope: str, level: int) -> str:
        if len(values) == 1:
            return f"[{self._value(values[0], scope, level)}]"
        pad = "  " * level
        inner = ",".join(f"\n{pad}  {self._value(each, scope, level + 1)}" for each in values)
        return f"[{inner}\n{pad}]"

    def _option(self, option: Option, scope: str, level: int) -> str:
        name = f"({option.name})" if option.parenthesized else option.name
        value = option.value
        if isinstance(value, Option):
            return f"{name}.{self._option(value, scope, level)}"
        if isinstance(value, dict):
            return f"{name} = {self._map(value, scope, level)}"
        if isinstance(value, list):
            return f"{name} = {self._list(value, scope, level)}"
        assert isinstance(value, str)
        if option.kind == "string":
            return f'{name} = "{escaped(value)}"'
        return f"{name} = {self._number_of(value) if option.kind == 'number' else value}"

    def _map(self, value: dict[str, OptionValue], scope: str, level: int) -> str:
        pad = "  " * level
        entries = self._map_of(value, scope).items()
        inner = ",".join(f"\n{pad}  {key}: {self._value(each, scope, level + 1)}" for key, each in entries)
        return f"{{{inner}\n{pad}}}"

    def _value(self, value: OptionValue, scope: str, level: int) -> str:
        if isinstance(value, str):
            return f'"{escaped(value)}"'
        if isinstance(value, Word):
            return self._number_of(value.text) if value.kind == "number" else value.text
        if isinstance(value, Option):
            return self._option(value, scope, level)
        if isinstance(value, dict):
            return self._map(value, scope, level)
        written = self._list_of(value)
        if not isinstance(written, list):
            return self._value(written, scope, level)
        pad = "  " * level
        inner = ",".join(f"\n{pad}  {self._value(each, scope, level + 1)}" for each in written)
        return f"[{inner}\n{pad}]"


def block(header: str, sections: list[list[str]], level: int) -> list[str]:
    """Returns the lines of a declaration with braces: a blank line stands between its sections."""
    pad = "  " * level
    lines: list[str] = []
    is_open = False
    for section in sections:
        if section:
            lines += [pad] if is_open else []
            lines += section if section is not EMPTY else []
            is_open = True
    return [f"{pad}{header} {{", *lines, f"{pad}}}"] if is_open else [f"{pad}{header} {{}}"]


def escaped(text: str) -> str:
    """Returns a text as it stands between quotes."""
    return text.translate(_ESCAPES)


def _special(field: Field, kind: str) -> list[Option]:
    """Returns the default and the name in JSON, which are written as options."""
    found = []
    if field.default is not None:
        simple = kind.rpartition(".")[2]
        if simple == "string" or not _WORD.fullmatch(field.default):
            found.append(Option("default", "string", field.default))
        else:
            found.append(Option("default", "enum" if simple == "bytes" else "number", field.default))
    if field.json_name is not None:
        found.append(Option("json_name", "string", field.json_name))
    return found
