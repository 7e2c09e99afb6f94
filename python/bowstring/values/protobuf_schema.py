"""Maps Protobuf messages to Arrow types, and plans their decoding and encoding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from bowstring.clients.errors import MissingPackageError
from bowstring.values.decoder_arrays import STORE_LIST, STORE_NOTHING, describe
from bowstring.values.errors import ValueSchemaError
from bowstring.values.json_schema import COLUMNS_MAX

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor  # type: ignore[import-untyped]
    from google.protobuf.message import Message  # type: ignore[import-untyped]

    from bowstring._native.values.column import Description
    from bowstring._native.values.protobuf_decode import FieldPlan
    from bowstring._native.values.protobuf_encode import FieldEncodePlan

ProtobufSchema: TypeAlias = "type[Message] | Descriptor | tuple[str | Path | bytes, str]"

# In the order of protobuf_decode.Kind; FieldDescriptor.TYPE_* to (kind, wire type, Arrow type).
_VARINT, _ZIGZAG, _FIXED, _BOOLEAN, _STRING, _BYTES, _ENUM, _MESSAGE, _WRAPPER, _TIMESTAMP = range(10)
_TYPES: dict[int, tuple[int, int, pa.DataType]] = {
    1: (_FIXED, 1, pa.float64()),
    2: (_FIXED, 5, pa.float32()),
    3: (_VARINT, 0, pa.int64()),
    4: (_VARINT, 0, pa.uint64()),
    5: (_VARINT, 0, pa.int32()),
    6: (_FIXED, 1, pa.uint64()),
    7: (_FIXED, 5, pa.uint32()),
    8: (_BOOLEAN, 0, pa.bool_()),
    9: (_STRING, 2, pa.string()),
    10: (_MESSAGE, 3, pa.null()),
    11: (_MESSAGE, 2, pa.null()),
    12: (_BYTES, 2, pa.binary()),
    13: (_VARINT, 0, pa.uint32()),
    14: (_ENUM, 0, pa.string()),
    15: (_FIXED, 5, pa.int32()),
    16: (_FIXED, 1, pa.int64()),
    17: (_ZIGZAG, 0, pa.int32()),
    18: (_ZIGZAG, 0, pa.int64()),
}
_REPEATED = 3
_WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_MOMENTS = {
    "google.protobuf.Timestamp": pa.timestamp("us", "UTC"),
    "google.protobuf.Duration": pa.duration("us"),
}


def descriptor_of(schema: ProtobufSchema) -> Descriptor:
    """Returns the descriptor of a generated class, of a descriptor itself, or of a name in a
    FileDescriptorSet (bytes or a path).

    Raises:
        MissingPackageError: protobuf is not installed.
        ValueSchemaError: the message does not exist.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool  # type: ignore[import-untyped]
        from google.protobuf.message import DecodeError
    except ModuleNotFoundError as error:
        raise MissingPackageError("protobuf", "protobuf") from error
    if not isinstance(schema, tuple):
        found: Descriptor = getattr(schema, "DESCRIPTOR", schema)
        if not hasattr(found, "fields_by_number"):
            raise ValueSchemaError(f"not a Protobuf message: {schema!r}")
        return found
    source, name = schema
    try:
        raw = source if isinstance(source, bytes) else Path(source).read_bytes()
        files = descriptor_pb2.FileDescriptorSet.FromString(raw)
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        return pool.FindMessageTypeByName(name)
    except KeyError:
        raise ValueSchemaError(f"the FileDescriptorSet has no message {name}") from None
    except (OSError, DecodeError, TypeError) as error:
        raise ValueSchemaError(f"the FileDescriptorSet cannot be read: {error}") from None


def message_indexes(message: Descriptor) -> tuple[int, ...]:
    """Returns the message's index in its file, or that of the enclosing message followed by its own index
    there.
    """
    around = message.containing_type
    if around is None:
        return ([*message.file.message_types_by_name].index(message.name),)
    return (*message_indexes(around), [each.name for each in around.nested_types].index(message.name))


def _count(message: Descriptor, known: dict[str, int]) -> int:
    """Returns how many fields a message has, with those of its messages."""
    if message.full_name not in known:
        known[message.full_name] = 0  # one that contains itself is refused anyway
        inner = [field.message_type for field in message.fields if field.message_type is not None]
        known[message.full_name] = len(message.fields) + sum(_count(each, known) for each in inner)
    return known[message.full_name]


class FieldShape:
    """A field of a message: its encoding, and its column."""

    def __init__(self, field: FieldDescriptor, path: str, around: tuple[str, ...]):
        self.field = field
        self.path = path
        # protobuf 6 adds is_repeated and removes label.
        self.repeated: bool = field.is_repeated if hasattr(field, "is_repeated") else field.label == _REPEATED
        self.kind, self.wire, self.item = _TYPES[field.type]
        self.message: MessageShape | None = None
        self.is_map = False
        if self.kind != _MESSAGE:
            return
        inner = field.message_type
        self.is_map = bool(inner.GetOptions().map_entry)
        if inner.full_name in _MOMENTS:
            self.kind, self.item = _TIMESTAMP, _MOMENTS[inner.full_name]
            return
        self.message = MessageShape(inner, path, around)
        if inner.full_name in _WRAPPERS:
            self.kind, self.item = _WRAPPER, self.message.fields[0].item
        else:
            self.item = self.message.type

    @property
    def type(self) -> pa.DataType:
        """The Arrow type."""
        if self.is_map:
            assert self.message is not None
            key, value = self.message.fields
            return pa.map_(key.type, value.type)
        return pa.list_(self.item) if self.repeated else self.item

    @property
    def names(self) -> list[tuple[int, bytes]]:
        """Numbers and names of an enum; the first one is the default."""
        if self.kind != _ENUM:
            return []
        return [(each.number, each.name.encode()) for each in self.field.enum_type.values]

    @property
    def implicit(self) -> bool:
        """Whether a missing value is zero and not null."""
        return not self.field.has_presence and not self.repeated

    def description(self, zeroed: bool = False) -> Description:
        """The columns, see value_column.Columns."""
        if self.is_map:
            assert self.message is not None
            key, value = self.message.fields
            return STORE_LIST, 0, True, None, [key.description(True), value.description(True)]
        if self.repeated:
            return STORE_LIST, 0, True, None, [self._item_description(False)]
        return self._item_description(zeroed or self.implicit)

    def _item_description(self, zeroed: bool) -> Description:
        if self.kind == _MESSAGE:
            assert self.message is not None
            return self.message.description()
        return describe(self.item, zeroed, self.names[0][1] if self.names and zeroed else None)

    def plan(self, siblings: list[int]) -> FieldPlan:
        """The plan of protobuf_decode, see ProtobufDecoder."""
        special = self.field.enum_type.is_closed if self.kind == _ENUM else self.item == pa.duration("us")
        inner = None if self.message is None else self.message.plan()
        read = (self.field.number, self.kind, self.wire, self.repeated, self.is_map, self.path)
        return (*read, special, self.names, siblings, inner)

    def encode_plan(self) -> FieldEncodePlan:
        """The plan of protobuf_encode, see ProtobufEncoder."""
        wire = (self.field.number, self.kind, self.wire, self.repeated, self.is_map, self.field.is_packed)
        inner = None if self.message is None else self.message.encode_plan()
        return (*wire, self.implicit, self.item == pa.duration("us"), self.path, self.names, inner)


class MessageShape:
    """A message: its fields in the order of their declaration."""

    def __init__(self, message: Descriptor, path: str = "", around: tuple[str, ...] = ()):
        if message.full_name in around:
            raise ValueSchemaError(
                f"the message {message.full_name} contains itself ({path}), which columns cannot represent"
            )
        if not around and _count(message, {}) > COLUMNS_MAX:
            raise ValueSchemaError(
                f"the message {message.full_name} contains more than {COLUMNS_MAX} fields with those of its "
                "messages, which columns cannot represent"
            )
        around = (*around, message.full_name)
        self.fields = [
            FieldShape(field, f"{path}.{field.name}" if path else field.name, around)
            for field in message.fields
        ]

    @property
    def type(self) -> pa.StructType:
        """The Arrow type."""
        return pa.struct([(each.field.name, each.type) for each in self.fields])

    def description(self) -> Description:
        """The columns, see value_column.Columns."""
        return STORE_NOTHING, 0, False, None, [each.description() for each in self.fields]

    def plan(self) -> list[Any]:
        """The plan of protobuf_decode, see ProtobufDecoder."""
        plans = []
        for each in self.fields:
            choice = each.field.containing_oneof
            siblings = [
                i
                for i, other in enumerate(self.fields)
                if choice is not None and other is not each and other.field.containing_oneof == choice
            ]
            plans.append(each.plan(siblings))
        return plans

    def encode_plan(self) -> list[FieldEncodePlan]:
        """The plan of protobuf_encode, see ProtobufEncoder."""
        return [each.encode_plan() for each in self.fields]
