"""Turns a FileDescriptorProto into the elements of a .proto file.

What comes out is what Confluent's registry makes of a descriptor: a map stays the message that stands for it,
a field of a group becomes one of a message, types have full names, and only Confluent's custom options stay.
"""

from __future__ import annotations

from typing import Any

from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.protobuf import descriptor_classes
from bowstring.schemas.protobuf.elements import (
    Enum,
    EnumConstant,
    Extend,
    Extensions,
    Field,
    Message,
    OneOf,
    Option,
    OptionKind,
    OptionValue,
    ProtoFile,
    Range,
    Reserved,
    Rpc,
    Service,
    Word,
)
from bowstring.schemas.protobuf.proto_reader import unescape

# Options in the order in which Confluent's registry writes them; the rest follows in that of their numbers.
_FILE = (
    *("java_package", "java_outer_classname", "java_multiple_files", "java_generate_equals_and_hash"),
    *("java_string_check_utf8", "optimize_for", "go_package", "cc_generic_services", "java_generic_services"),
    *("py_generic_services", "deprecated", "cc_enable_arenas", "objc_class_prefix", "csharp_namespace"),
    *(
        "swift_prefix",
        "php_class_prefix",
        "php_namespace",
        "php_metadata_namespace",
        "ruby_package",
        "features",
    ),
)
_MESSAGE = ("no_standard_descriptor_accessor", "deprecated", "map_entry", "features")
_FIELD = (
    *("ctype", "packed", "jstype", "deprecated", "debug_redact", "retention", "targets", "edition_defaults"),
    *("features", "feature_support"),
)
_ENUM = ("allow_alias", "deprecated", "features")
_ENUM_VALUE = ("deprecated", "debug_redact", "features", "feature_support")
_METHOD = ("deprecated", "idempotency_level", "features")
_SERVICE = ("deprecated", "features")
_ONEOF = ("features",)
_RANGE = ("declaration", "features", "verification")
# The fields of options that are messages, in the same order.
_INSIDE = {
    "features": (
        *("field_presence", "enum_type", "repeated_field_encoding", "utf8_validation", "message_encoding"),
        "json_format",
    ),
    "feature_support": (
        *("edition_introduced", "edition_deprecated", "deprecation_warning", "edition_removed"),
    ),
    "edition_defaults": ("edition", "value"),
    "declaration": ("number", "full_name", "type", "reserved", "repeated"),
}
_LABELS = {1: "optional", 2: "required", 3: "repeated"}
_TYPES = {
    **{1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool"},
    **{9: "string", 12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64", 17: "sint32", 18: "sint64"},
}
_BYTES = 12


def file_of(serialized: bytes) -> ProtoFile:
    """Returns the file that a serialized FileDescriptorProto describes.

    Raises:
        InvalidSchemaError: the bytes are none.
        MissingPackageError: protobuf is not installed.
    """
    descriptor = descriptor_classes.parse_file(serialized)
    is_proto3 = descriptor.syntax == "proto3"
    result = ProtoFile(
        syntax=descriptor.syntax if descriptor.syntax in ("proto2", "proto3") else "",
        package=descriptor.package or None,
        types=[
            *(_message(each, is_proto3) for each in descriptor.message_type),
            *(_enum(each) for each in descriptor.enum_type),
        ],
        services=[_service(each) for each in descriptor.service],
        extends=_extends(descriptor.extension, is_proto3),
        options=_options(descriptor.options, _FILE, "confluent.file_meta"),
    )
    public, weak = set(descriptor.public_dependency), set(descriptor.weak_dependency)
    for index, name in enumerate(descriptor.dependency):
        kind = (
            result.public_imports
            if index in public
            else result.weak_imports
            if index in weak
            else result.imports
        )
        kind.append(name)
    return result


def _message(descriptor: Any, is_proto3: bool) -> Message:
    oneofs = [OneOf(each.name, options=_options(each.options, _ONEOF)) for each in descriptor.oneof_decl]
    result = Message(
        descriptor.name,
        types=[
            *(_message(each, is_proto3) for each in descriptor.nested_type),
            *(_enum(each) for each in descriptor.enum_type),
        ],
        reserveds=[
            *(Reserved([_range(each.start, each.end - 1)]) for each in descriptor.reserved_range),
            *(Reserved([name]) for name in descriptor.reserved_name),
        ],
        extensions=[
            Extensions([_range(each.start, each.end - 1)], _options(each.options, _RANGE))
            for each in descriptor.extension_range
        ],
        extends=_extends(descriptor.extension, is_proto3),
        options=_options(descriptor.options, _MESSAGE, "confluent.message_meta"),
    )
    for each in descriptor.field:
        if each.HasField("oneof_index") and not each.proto3_optional:
            if not 0 <= each.oneof_index < len(oneofs):
                raise InvalidSchemaError(
                    f"the field {each.name} is of a oneof that {descriptor.name} does not have"
                )
            oneofs[each.oneof_index].fields.append(_field(each, is_proto3, in_oneof=True))
        else:
            result.fields.append(_field(each, is_proto3))
    result.oneofs = [each for each in oneofs if each.fields]
    return result


def _field(descriptor: Any, is_proto3: bool, in_oneof: bool = False) -> Field:
    if descriptor.proto3_optional:
        label = "optional"
    else:
        label = _LABELS[descriptor.label]
        if is_proto3 and label != "repeated":
            label = ""
    default = None
    if not is_proto3 and descriptor.HasField("default_value"):
        default = descriptor.default_value
        if descriptor.type == _BYTES:
            default = _unescaped(default)
    return Field(
        label="" if in_oneof else label,
        type=descriptor.type_name
        if descriptor.HasField("type_name")
        else _TYPES.get(descriptor.type, "group"),
        name=descriptor.name,
        tag=descriptor.number,
        default=default,
        json_name=descriptor.json_name if descriptor.HasField("json_name") else None,
        options=_options(descriptor.options, _FIELD, "confluent.field_meta"),
    )


def _unescaped(escaped: str) -> str:
    """Returns the default of bytes, which a descriptor has with C's escapes."""
    return unescape(escaped)


def _extends(descriptors: Any, is_proto3: bool) -> list[Extend]:
    found: dict[str, Extend] = {}
    for each in descriptors:
        found.setdefault(each.extendee, Extend(each.extendee, [])).fields.append(_field(each, is_proto3))
    return [*found.values()]


def _enum(descriptor: Any) -> Enum:
    return Enum(
        descriptor.name,
        constants=[
            EnumConstant(
                each.name, each.number, _options(each.options, _ENUM_VALUE, "confluent.enum_value_meta")
            )
            for each in descriptor.value
        ],
        reserveds=[
            *(Reserved([_range(each.start, each.end)]) for each in descriptor.reserved_range),
            *(Reserved([name]) for name in descriptor.reserved_name),
        ],
        options=_options(descriptor.options, _ENUM, "confluent.enum_meta"),
    )


def _range(first: int, last: int) -> int | Range:
    return first if first == last else (first, last)


def _service(descriptor: Any) -> Service:
    return Service(
        descriptor.name,
        rpcs=[
            Rpc(
                each.name,
                each.input_type,
                each.output_type,
                each.client_streaming,
                each.server_streaming,
                _options(each.options, _METHOD),
            )
            for each in descriptor.method
        ],
        options=_options(descriptor.options, _SERVICE),
    )


def _options(options: Any, names: tuple[str, ...], meta: str = "") -> list[Option]:
    """Returns the options of a name that a descriptor has, and Confluent's metadata."""
    found = []
    fields = options.DESCRIPTOR.fields_by_name
    for name in names:
        # The library may be older than the option.
        if (field := fields.get(name)) is None:
            continue
        value = getattr(options, name)
        if descriptor_classes.is_repeated(field):
            found += [_option(name, field, each) for each in value]
        elif options.HasField(name):
            found.append(_option(name, field, value))
    if meta and (metadata := descriptor_classes.metadata_of(options, meta)) is not None:
        written = _metadata(metadata)
        if written:
            found.append(Option(meta, "map", written, parenthesized=True))
    return found


def _option(name: str, field: Any, value: Any) -> Option:
    if field.message_type is None:
        kind, text = _scalar(field, value)
        return Option(name, kind, text)
    written: dict[str, OptionValue] = {}
    for each in _INSIDE[name]:
        inner = field.message_type.fields_by_name.get(each)
        if inner is not None and inner.message_type is None and value.HasField(each):
            kind, text = _scalar(inner, getattr(value, each))
            written[each] = text if kind == "string" else Word(kind, text)
    return Option(name, "map", written)


def _scalar(field: Any, value: Any) -> tuple[OptionKind, str]:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return "enum", known.name if known is not None else str(value)
    if isinstance(value, bool):
        return "boolean", "true" if value else "false"
    return ("string", value) if isinstance(value, str) else ("number", str(value))


def _metadata(metadata: Any) -> dict[str, OptionValue]:
    """Returns the value of Confluent's options, as their registry writes it."""
    written: dict[str, OptionValue] = {}
    if metadata.doc:
        written["doc"] = metadata.doc
    if params := {param.key: param.value for param in metadata.params}.items():
        # Of these two, theirs has always written the value first.
        written["params"] = [
            {"value": value, "key": key} if key in ("precision", "scale") else {"key": key, "value": value}
            for key, value in params
        ]
    if metadata.tags:
        written["tags"] = [*metadata.tags]
    rules = [
        {name: text for name in ("name", "doc", "expr", "sql") if (text := getattr(rule, name))}
        for rule in metadata.rules
    ]
    if rules := [each for each in rules if each]:
        written["rules"] = [*rules]
    return written
