"""Parses .proto text: proto2, proto3 and editions.

It accepts what Square's Wire accepts, which is Confluent's parser: their registry reads what is stored here.
Beyond that it reads `edition`, and a comment before more text on a line. protoc would not do: it returns a
descriptor, in which order, spelling of types and custom options of the text are lost, and it needs a process.
"""

from __future__ import annotations

import re
from sys import intern

from bowstring.schemas.protobuf.elements import (
    TAG_MAX,
    Enum,
    EnumConstant,
    Extend,
    Extensions,
    Field,
    Group,
    Message,
    OneOf,
    Option,
    ProtoFile,
    Range,
    Reserved,
    Rpc,
    Service,
)
from bowstring.schemas.protobuf.option_reader import OptionReader
from bowstring.schemas.protobuf.proto_reader import SPACE, WORD_MAX, ProtoReader, integer_of, shorten

# Of messages in messages; protobuf's own libraries take 32 at most.
DEPTH_MAX = 64
PACKAGE_PARTS_MAX = 64
EDITIONS = ("2023", "2024")

# A field up to its options, or whole without them, in one step.
_PLAIN_FIELD = re.compile(
    rf"{SPACE}(?:(required|optional|repeated)[ \t\r\n]++)?([A-Za-z_.][A-Za-z0-9_.]*+)[ \t\r\n]++"
    r"([A-Za-z_][A-Za-z0-9_]*+)[ \t]*+=[ \t]*+([0-9]{1,9})[ \t]*+([;\[])"
)
_NOT_TYPES = frozenset(
    (
        *("option", "reserved", "message", "enum", "extend", "oneof", "extensions", "group", "map"),
        *("required", "optional", "repeated", "package", "import", "syntax", "edition", "service", "rpc"),
    )
)
_PLAIN_CONSTANT = re.compile(rf"{SPACE}([A-Za-z_][A-Za-z0-9_]*+)[ \t]*+=[ \t]*+([0-9]{{1,9}})[ \t]*+;")


def parse_proto(text: str, counted: int = 0) -> ProtoFile:
    """Parses a .proto text.

    Args:
        text: the text.
        counted: parts of other files that are kept with it; see `PARTS_MAX`.

    Raises:
        InvalidSchemaError: it is not one; says at which line and column.
    """
    return ProtoParser(text, counted).file()


class ProtoParser:
    """Parses one text.

    Args:
        text, counted: see `parse_proto`.
    """

    __slots__ = ("_counted", "_depth", "_has_bare_fields", "_options", "_reader", "_result", "_scope_length")

    def __init__(self, text: str, counted: int):
        self._counted = counted
        self._reader = ProtoReader(text.removeprefix("\ufeff"), counted)
        self._options = OptionReader(self._reader)
        self._result = ProtoFile()
        self._depth = 0
        # Of the package and the messages around: every type inside has their names in its full name.
        self._scope_length = 0
        # Whether fields may go without a label.
        self._has_bare_fields = False

    def file(self) -> ProtoFile:
        """Returns the file."""
        reader, result = self._reader, self._result
        while not reader.is_exhausted():
            self._reader.count()
            if reader.take_if(";"):
                continue
            start = reader.position
            match reader.word():
                case "syntax" | "edition" as word:
                    self._syntax(word, start)
                case "package":
                    result.package = self._package()
                case "import":
                    self._import()
                case "option":
                    result.options.append(self._option())
                case "message":
                    result.types.append(self._message())
                case "enum":
                    result.types.append(self._enum())
                case "service":
                    result.services.append(self._service())
                case "extend":
                    result.extends.append(self._extend())
                case "reserved":
                    self._reserved()
                case other:
                    raise reader.error(f"unexpected {shorten(other)}", start)
        result.parts = reader.counted - self._counted
        return result

    def _syntax(self, word: str, start: int) -> None:
        reader, result = self._reader, self._result
        if result.syntax or result.edition:
            raise reader.error(f"{word} stands a second time", start)
        if reader.counted - self._counted > 1:
            raise reader.error(f"{word} must be the first statement", start)
        reader.require("=")
        value = reader.quoted()
        known = ("proto2", "proto3") if word == "syntax" else EDITIONS
        if value not in known:
            raise reader.error(f'{word} is "{shorten(value)}"; it must be {" or ".join(known)}', start)
        reader.require(";")
        if word == "syntax":
            result.syntax = value
        else:
            result.edition = value
        self._has_bare_fields = value != "proto2"

    def _package(self) -> str:
        package = self._reader.name()
        if package.count(".") >= PACKAGE_PARTS_MAX:
            raise self._reader.error(f"the package has more than {PACKAGE_PARTS_MAX} parts")
        self._reader.require(";")
        self._scope_length += len(package)
        return package

    def _import(self) -> None:
        reader, result = self._reader, self._result
        target, start = result.imports, reader.position
        if reader.peek() not in "\"'":
            match reader.word():
                case "public":
                    target = result.public_imports
                case "weak":
                    target = result.weak_imports
                case _:
                    raise reader.error("import must be followed by a quoted path, public or weak", start)
        target.append(_clean_path(reader.quoted()))
        reader.require(";")

    def _option(self) -> Option:
        option = self._options.option("=")
        self._reader.require(";")
        return option

    def _message(self) -> Message:
        reader = self._reader
        result = Message(reader.name())
        self._depth += 1
        self._scope_length += len(result.name) + 1
        if self._depth > DEPTH_MAX:
            raise reader.error(f"messages are nested more than {DEPTH_MAX} deep")
        if self._scope_length > WORD_MAX:
            raise reader.error(f"the full name of the message has more than {WORD_MAX} characters")
        reader.require("{")
        while True:
            self._plain_fields(result.fields)
            if reader.take_if("}"):
                break
            self._member(result)
        self._depth -= 1
        self._scope_length -= len(result.name) + 1
        return result

    def _plain_fields(self, fields: list[Field]) -> None:
        """Reads the fields that are written as usual."""
        reader = self._reader
        while (found := _PLAIN_FIELD.match(reader.text, reader.position)) is not None:
            label, kind, name, tag, end = found.groups()
            if kind in _NOT_TYPES or not (label or self._has_bare_fields) or len(kind) + len(name) > WORD_MAX:
                break
            if label == "required" and self._result.syntax == "proto3":
                break
            reader.count()
            if end == ";":
                reader.position = found.end()
                fields.append(Field(label or "", intern(kind), name, int(tag)))
            else:
                reader.position = found.end() - 1
                fields.append(self._with_options(label or "", kind, name, int(tag)))

    def _member(self, message: Message) -> None:
        """Reads one statement of a message."""
        reader = self._reader
        reader.count()
        if reader.take_if(";"):
            return
        start = reader.position
        match reader.word():
            case "option":
                message.options.append(self._option())
            case "reserved":
                message.reserveds.append(self._reserved())
            case "message":
                message.types.append(self._message())
            case "enum":
                message.types.append(self._enum())
            case "extend":
                message.extends.append(self._extend())
            case "oneof":
                message.oneofs.append(self._oneof())
            case "extensions":
                message.extensions.append(self._extensions())
            case word:
                found = self._field(word, start)
                if isinstance(found, Group):
                    message.groups.append(found)
                else:
                    message.fields.append(found)

    def _field(self, word: str, start: int) -> Field | Group:
        """Reads a field, of which the first word is read."""
        reader = self._reader
        if word in ("required", "optional", "repeated"):
            if word == "required" and self._result.syntax == "proto3":
                raise reader.error("proto3 has no required fields; remove required", start)
            label, kind = word, self._type(reader.word())
            if kind.startswith("map<"):
                raise reader.error(f"a map has no label; remove {word}", start)
        else:
            if not self._has_bare_fields and not (word == "map" and reader.peek() == "<"):
                raise reader.error(
                    f"unexpected {shorten(word)}: a field of proto2 needs required, optional or repeated",
                    start,
                )
            label, kind = "", self._type(word)
        if kind == "group":
            return self._group(label)
        return self._field_rest(label, kind)

    def _type(self, word: str) -> str:
        """Reads a type, of which the first word is read."""
        reader = self._reader
        if word == "map":
            reader.require("<")
            key = self._type_name(reader.word())
            reader.require(",")
            value = self._type_name(reader.word())
            reader.require(">")
            return f"map<{key}, {value}>"
        return self._type_name(word)

    def _type_name(self, word: str) -> str:
        reader = self._reader
        # A name may have spaces before its dots.
        while reader.peek() == ".":
            reader.position += 1
            word += f".{reader.word()}"
            if len(word) > WORD_MAX:
                raise reader.error(f"the type {shorten(word)} is too long")
        return word

    def _field_rest(self, label: str, kind: str) -> Field:
        reader = self._reader
        name = reader.name(leading_digit=False)
        reader.require("=")
        return self._with_options(label, kind, name, reader.integer())

    def _with_options(self, label: str, kind: str, name: str, tag: int) -> Field:
        """Reads a field from behind its number."""
        options = self._options.options()
        default = self._take_value(options, "default")
        json_name = self._take_value(options, "json_name")
        self._reader.require(";")
        return Field(label, intern(kind), name, tag, default, json_name, options or ())

    def _take_value(self, options: list[Option], name: str) -> str | None:
        """Removes what is written as an option and is none, and returns its value."""
        if not options:
            return None
        found = None
        for option in [each for each in options if each.name == name]:
            if not isinstance(option.value, str):
                raise self._reader.error(f"{name} must be one value")
            found = option.value
            options.remove(option)
        return found

    def _group(self, label: str) -> Group:
        reader = self._reader
        name = reader.word()
        reader.require("=")
        result = Group(label, name, reader.integer(), [])
        reader.require("{")
        while not reader.take_if("}"):
            self._reader.count()
            start = reader.position
            found = self._field(reader.word(), start)
            if isinstance(found, Group):
                raise reader.error("a group inside a group is unsupported; use a message", start)
            result.fields.append(found)
        return result

    def _oneof(self) -> OneOf:
        reader = self._reader
        result = OneOf(reader.name())
        reader.require("{")
        while not reader.take_if("}"):
            self._reader.count()
            match self._type(reader.word()):
                case "group":
                    result.groups.append(self._group(""))
                case "option":
                    result.options.append(self._option())
                case kind:
                    result.fields.append(self._field_rest("", kind))
        return result

    def _extend(self) -> Extend:
        reader = self._reader
        result = Extend(reader.name(), [])
        reader.require("{")
        while not reader.take_if("}"):
            self._reader.count()
            if reader.take_if(";"):
                continue
            start = reader.position
            match reader.word():
                case "option":
                    self._option()
                case "reserved":
                    self._reserved()
                case word:
                    found = self._field(word, start)
                    if isinstance(found, Field):
                        result.fields.append(found)
        return result

    def _reserved(self) -> Reserved:
        reader = self._reader
        values: list[int | Range | str] = []
        while True:
            reader.count()
            values.append(reader.quoted() if reader.peek() in "\"'" else self._range(",;"))
            if reader.take_if(";"):
                return Reserved(values)
            reader.require(",")

    def _extensions(self) -> Extensions:
        reader = self._reader
        values: list[int | Range] = []
        while True:
            reader.count()
            values.append(self._range(",;["))
            if reader.peek() == "[":
                options = self._options.options()
                reader.require(";")
                return Extensions(values, options)
            if reader.take_if(";"):
                return Extensions(values)
            reader.require(",")

    def _range(self, ends: str) -> int | Range:
        """Reads a number, or two with `to` between them."""
        reader = self._reader
        first = reader.integer()
        if reader.peek() in ends:
            return first
        start = reader.position
        if reader.word() != "to":
            raise reader.error("expected `to` between the ends of a range", start)
        last = reader.word()
        if last == "max":
            return (first, TAG_MAX)
        try:
            return (first, integer_of(last))
        except ValueError:
            raise reader.error(f"expected an integer or max but found {shorten(last)}") from None

    def _enum(self) -> Enum:
        reader = self._reader
        result = Enum(reader.name())
        reader.require("{")
        while True:
            self._plain_constants(result)
            if reader.take_if("}"):
                return result
            self._reader.count()
            if reader.take_if(";"):
                continue
            match reader.word(leading_digit=False):
                case "option":
                    result.options.append(self._option())
                case "reserved":
                    result.reserveds.append(self._reserved())
                case name:
                    reader.require("=")
                    tag = reader.integer()
                    options = self._options.options()
                    reader.require(";")
                    result.constants.append(EnumConstant(name, tag, options or ()))

    def _plain_constants(self, enum: Enum) -> None:
        reader = self._reader
        while (found := _PLAIN_CONSTANT.match(reader.text, reader.position)) is not None:
            name, tag = found.groups()
            if name in ("option", "reserved") or len(name) > WORD_MAX:
                return
            self._reader.count()
            enum.constants.append(EnumConstant(name, int(tag)))
            reader.position = found.end()

    def _service(self) -> Service:
        reader = self._reader
        result = Service(reader.name())
        reader.require("{")
        while not reader.take_if("}"):
            self._reader.count()
            if reader.take_if(";"):
                continue
            start = reader.position
            match reader.word():
                case "option":
                    result.options.append(self._option())
                case "rpc":
                    result.rpcs.append(self._rpc())
                case "reserved":
                    self._reserved()
                case other:
                    raise reader.error(f"unexpected {shorten(other)} in a service", start)
        return result

    def _rpc(self) -> Rpc:
        reader = self._reader
        name = reader.name()
        request, request_streaming = self._rpc_type()
        start = reader.position
        if reader.word() != "returns":
            raise reader.error("expected returns", start)
        response, response_streaming = self._rpc_type()
        result = Rpc(name, request, response, request_streaming, response_streaming)
        if not reader.take_if("{"):
            reader.require(";")
            return result
        while not reader.take_if("}"):
            self._reader.count()
            if reader.take_if(";"):
                continue
            start = reader.position
            match reader.word():
                case "option":
                    result.options.append(self._option())
                case other:
                    raise reader.error(f"unexpected {shorten(other)} in an rpc", start)
        return result

    def _rpc_type(self) -> tuple[str, bool]:
        reader = self._reader
        reader.require("(")
        word = reader.word()
        streaming = word == "stream"
        kind = self._type(reader.word() if streaming else word)
        reader.require(")")
        return kind, streaming


def _clean_path(path: str) -> str:
    """Returns a path of an import as Wire's library of paths writes it: without empty parts and `.`."""
    unix = path.replace("\\", "/")
    root = "/" if unix.startswith("/") else ""
    parts = [part for part in unix.split("/") if part not in ("", ".")]
    return root + "/".join(parts) or "."
