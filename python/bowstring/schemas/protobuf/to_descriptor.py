"""Turns the elements of a .proto file into a FileDescriptorProto.

As in Confluent's registry, it has the standard options and Confluent's, no other custom ones, and names of
types as the text has them. Beyond theirs it keeps groups and editions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bowstring.protocol.whole_numbers import whole_number
from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.protobuf import descriptor_classes, proto_reader
from bowstring.schemas.protobuf.elements import (
    Enum,
    Extend,
    Extensions,
    Field,
    Group,
    Message,
    Option,
    OptionValue,
    ProtoFile,
    Service,
    Word,
    map_types,
)
from bowstring.schemas.protobuf.option_merging import as_map
from bowstring.schemas.protobuf.type_index import TypeIndex

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

_TYPES = {
    **{"double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8},
    **{"string": 9, "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18},
}
_GROUP, _MESSAGE, _ENUM = 10, 11, 14
_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_EDITIONS = {"2023": 1000, "2024": 1001}
_ESCAPES = {
    ord(plain): escaped
    for plain, escaped in zip("\n\r\t\"'\\", (r"\n", r"\r", r"\t", r"\"", r"\'", r"\\"), strict=True)
}


def serialized_file(file: ProtoFile, index: TypeIndex, imported: Container[str]) -> bytes:
    """Returns a serialized FileDescriptorProto with the name `default`.

    Args:
        file: the schema.
        index: the types that it can name.
        imported: names of the files that are known; other imports are left out.

    Raises:
        MissingPackageError: protobuf is not installed.
    """
    target = descriptor_classes.file_class()(name="default")
    add_file(target, file, index, imported)
    found: bytes = target.SerializeToString(deterministic=True)
    return found


def add_file(
    target: Any, file: ProtoFile, index: TypeIndex | None = None, imported: Container[str] | None = None
) -> None:
    """Adds what a file declares to a FileDescriptorProto."""
    _FileWriter(target, file, index or TypeIndex(file)).write(imported)


class _FileWriter:
    def __init__(self, target: Any, file: ProtoFile, index: TypeIndex):
        self._target = target
        self._file = file
        self._index = index

    def write(self, imported: Container[str] | None) -> None:
        target, file = self._target, self._file
        if file.edition:
            target.syntax, target.edition = "editions", _EDITIONS[file.edition]
        elif file.syntax:
            target.syntax = file.syntax
        if file.package is not None:
            target.package = file.package
        for path in [*file.imports, *file.public_imports]:
            if (imported is None or path in imported) and path not in target.dependency:
                target.dependency.append(path)
        for path in file.public_imports:
            if path in target.dependency:
                target.public_dependency.append([*target.dependency].index(path))
        scope = file.package or ""
        for each in file.types:
            if isinstance(each, Message):
                self._message(target.message_type.add(), each, scope)
            else:
                self._enum(target.enum_type.add(), each)
        for service in file.services:
            self._service(target.service.add(), service)
        self._extends(target.extension, file.extends, scope)
        set_options(target, file.options, "confluent.file_meta")
        if not file.syntax and not file.edition and _has_features(target):
            # The text of a descriptor of an edition, which it does not name.
            target.syntax, target.edition = "editions", _EDITIONS["2023"]

    def _message(self, target: Any, message: Message, around: str) -> None:
        scope = f"{around}.{message.name}" if around else message.name
        target.name = message.name
        for each in message.types:
            if isinstance(each, Message):
                self._message(target.nested_type.add(), each, scope)
            else:
                self._enum(target.enum_type.add(), each)
        for oneof in message.oneofs:
            declared = target.oneof_decl.add(name=oneof.name)
            set_options(declared, oneof.options)
            position = len(target.oneof_decl) - 1
            for field in oneof.fields:
                self._field(target.field, field, scope, label="optional").oneof_index = position
            for group in oneof.groups:
                self._group(target, group, scope).oneof_index = position
        for field in message.fields:
            self._message_field(target, field, scope)
        for group in message.groups:
            self._group(target, group, scope)
        for reserved in message.reserveds:
            _reserve(target, reserved.values, after_last=1)
        for extensions in message.extensions:
            _extension_ranges(target, extensions)
        self._extends(target.extension, message.extends, scope)
        set_options(target, message.options, "confluent.message_meta")

    def _message_field(self, target: Any, field: Field, scope: str) -> None:
        pair = map_types(field.type)
        if pair is not None:
            entry = target.nested_type.add(name=map_entry_name(field.name))
            entry.options.map_entry = True
            for position, (name, kind) in enumerate(zip(("key", "value"), pair, strict=True)):
                self._field(entry.field, Field("optional", kind, name, position + 1), scope)
            self._field(target.field, field, scope, label="repeated", kind=entry.name)
        elif field.label == "optional" and self._file.syntax == "proto3":
            target.oneof_decl.add(name=f"_{field.name}")
            declared = self._field(target.field, field, scope)
            declared.proto3_optional = True
            declared.oneof_index = len(target.oneof_decl) - 1
        else:
            self._field(target.field, field, scope)

    def _field(self, fields: Any, field: Field, scope: str, *, label: str = "", kind: str = "") -> Any:
        """Adds a field; label and type are its own if they are not given."""
        target = fields.add(name=field.name, number=field.tag)
        if label := label or field.label:
            target.label = _LABELS[label]
        if not kind and field.type in _TYPES:
            target.type = _TYPES[field.type]
        else:
            target.type_name = kind or field.type
            found = None if kind else self._index.find_type(field.type, scope)
            if kind or found is not None:
                is_enum = found is not None and isinstance(found.declared, Enum)
                target.type = _ENUM if is_enum else _MESSAGE
        if field.default is not None:
            target.default_value = _c_escaped(field.default) if field.type == "bytes" else field.default
        if field.json_name is not None:
            target.json_name = field.json_name
        set_options(target, field.options, "confluent.field_meta")
        return target

    def _group(self, target: Any, group: Group, scope: str) -> Any:
        nested = target.nested_type.add(name=group.name)
        for field in group.fields:
            self._message_field(nested, field, f"{scope}.{group.name}")
        declared = target.field.add(
            name=group.name.lower(), number=group.tag, type=_GROUP, type_name=group.name
        )
        declared.label = _LABELS[group.label or "optional"]
        return declared

    def _extends(self, fields: Any, extends: Sequence[Extend], scope: str) -> None:
        for each in extends:
            for field in each.fields:
                self._field(fields, field, scope).extendee = each.name

    def _enum(self, target: Any, enum: Enum) -> None:
        target.name = enum.name
        for constant in enum.constants:
            value = target.value.add(name=constant.name, number=constant.tag)
            set_options(value, constant.options, "confluent.enum_value_meta")
        for reserved in enum.reserveds:
            _reserve(target, reserved.values, after_last=0)
        set_options(target, enum.options, "confluent.enum_meta")

    def _service(self, target: Any, service: Service) -> None:
        target.name = service.name
        for rpc in service.rpcs:
            method = target.method.add(name=rpc.name, input_type=rpc.request, output_type=rpc.response)
            method.client_streaming, method.server_streaming = rpc.request_streaming, rpc.response_streaming
            set_options(method, rpc.options)
        set_options(target, service.options)


def map_entry_name(field: str) -> str:
    """Returns the name that protoc gives to the message of a map: MyMapEntry of my_map."""
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"


def _reserve(target: Any, values: Sequence[object], *, after_last: int) -> None:
    """Adds reserved numbers and names; ranges of messages end behind the last number, of enums with it."""
    for value in values:
        if isinstance(value, str):
            target.reserved_name.append(value)
        elif isinstance(value, int):
            target.reserved_range.add(start=value, end=value + after_last)
        elif isinstance(value, tuple):
            target.reserved_range.add(start=value[0], end=value[1] + after_last)


def _has_features(target: Any) -> bool:
    """Whether a descriptor has options that only editions have."""
    pending = [target]
    while pending:
        for field, value in pending.pop().ListFields():
            if field.name == "features":
                return True
            if field.message_type is not None:
                pending.extend(value if descriptor_classes.is_repeated(field) else (value,))
    return False


def _extension_ranges(target: Any, extensions: Extensions) -> None:
    if len(extensions.values) * len(extensions.options) > proto_reader.PARTS_MAX:
        raise InvalidSchemaError(f"{target.name}: too many options stand with too many ranges of extensions")
    for value in extensions.values:
        first, last = (value, value) if isinstance(value, int) else value
        set_options(target.extension_range.add(start=first, end=last + 1), extensions.options)


def _c_escaped(text: str) -> str:
    """Returns the default of bytes with C's escapes, as a descriptor has it."""
    return "".join(
        _ESCAPES.get(ord(each)) or (each if " " <= each <= "~" else f"\\{ord(each) & 0xFF:03o}")
        for each in text
    )


def set_options(target: Any, options: Sequence[Option], meta: str = "") -> None:
    """Sets the standard options of a part of a descriptor, and Confluent's metadata; leaves out others, and
    values of other types.

    Args:
        target: a descriptor that has the field `options`.
        options: of the text.
        meta: the name of Confluent's option, confluent.field_meta for example; "" if there is none.
    """
    for option in options:
        if not option.parenthesized:
            _set_standard(target, option)
        elif (
            meta and option.name.removeprefix(".") == meta and isinstance(value := as_map(option).value, dict)
        ):
            descriptor_classes.set_metadata(target.options, meta, value)


def _set_standard(target: Any, option: Option) -> None:
    name, _, rest = option.name.partition(".")
    kind = type(target.options)
    field = kind.DESCRIPTOR.fields_by_name.get(name)
    if field is None or name == "uninterpreted_option":
        return
    option = as_map(Option(name, "option", Option(rest, option.kind, option.value)) if rest else option)
    value = option.value
    if field.message_type is None:
        plain = _plain(field, value)
        if plain is None:
            return
        if descriptor_classes.is_repeated(field):
            getattr(target.options, name).append(plain)
        else:
            setattr(target.options, name, plain)
    elif isinstance(value, dict):
        whole = getattr(target.options, name)
        inner = whole.add() if descriptor_classes.is_repeated(field) else whole
        inner.SetInParent()
        for key, each in value.items():
            inner_field = inner.DESCRIPTOR.fields_by_name.get(key)
            if inner_field is not None and (plain := _plain(inner_field, each)) is not None:
                setattr(inner, key, plain)


def _plain(field: Any, value: OptionValue) -> Any:
    """Returns the value of a scalar or an enum for a field of a descriptor; None if it is of another type."""
    text = value.text if isinstance(value, Word) else value
    if not isinstance(text, str) or field.message_type is not None:
        return None
    if field.enum_type is not None:
        known = field.enum_type.values_by_name.get(text) or field.enum_type.values_by_name.get(
            f"EDITION_{text}"
        )
        return None if known is None else known.number
    if field.cpp_type == field.CPPTYPE_BOOL:
        return text == "true"
    if field.cpp_type == field.CPPTYPE_STRING:
        return text
    return whole_number(text)
