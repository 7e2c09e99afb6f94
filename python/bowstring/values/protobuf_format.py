"""Implements Protobuf values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bowstring._native.base.object_decoder import ObjectDecoder
from bowstring._native.values.column_objects import ColumnObjects
from bowstring._native.values.protobuf_decode import ProtobufDecoder
from bowstring._native.values.protobuf_encode import ProtobufEncoder
from bowstring.values.errors import ValueEncodeError
from bowstring.values.format import Framing, OnError, ValueFormat
from bowstring.values.object_plan import object_plan
from bowstring.values.protobuf_schema import MessageShape, ProtobufSchema, descriptor_of, message_indexes


class Protobuf(ValueFormat):
    """Values that are Protobuf messages.

    Messages become structs, repeated fields lists, maps maps, and enums their names (a number without a name
    becomes its digits). google.protobuf.Timestamp and Duration become timestamps and durations in
    microseconds, and wrapper types the type that they wrap. As in Protobuf, a missing field is null if it has
    presence, otherwise zero; at most one field of a oneof is not null. Unknown fields are skipped.

    Args:
        message: a generated class, its descriptor, or (FileDescriptorSet, full name), the set as bytes or the
            path of a file that `protoc --include_imports -o` wrote.
        framing: "confluent" for values that begin with a zero byte, a schema's id and the message's indexes.
            The indexes must be those of `message`; the id is ignored.
        schema_id: written by `encode` when framing is "confluent".
        on_error: "column", "raise", or a DeadLetter.

    Raises:
        MissingPackageError: protobuf is not installed.
        ValueSchemaError: the message does not exist, or contains itself.

    Examples:
        >>> import bowstring, pyarrow as pa
        >>> from google.protobuf.wrappers_pb2 import StringValue
        >>> bowstring.Protobuf(StringValue).decode(pa.array([b"\\n\\x02hi"]))[0].to_pylist()
        [{'value': 'hi'}]
    """

    def __init__(
        self,
        message: ProtobufSchema,
        *,
        framing: Framing = None,
        schema_id: int = 0,
        on_error: OnError = "column",
    ):
        super().__init__(on_error, framing, schema_id)
        descriptor = descriptor_of(message)
        shape = MessageShape(descriptor)
        self._name = descriptor.full_name
        self._indexes: tuple[int, ...] = message_indexes(descriptor)
        self.schema = pa.schema(list(shape.type))
        self._columns = shape.description()
        self._plan = shape.plan()
        self._encode_plan = shape.encode_plan()

    @property
    def message_name(self) -> str:
        """The message's full name."""
        return str(self._name)

    @property
    def message_indexes(self) -> tuple[int, ...]:
        """The message's index in its file, or that of the enclosing message followed by its own there."""
        return self._indexes

    def __repr__(self) -> str:
        return f"Protobuf({self._name})"

    def encode_value(self, value: Any) -> bytes | None:
        """Encodes one value, as `Producer.send` does.

        Args:
            value: as for the other formats, or a message of the format's generated class.

        Raises:
            ValueEncodeError: the value does not fit the message. The text names the field.
        """
        descriptor = getattr(value, "DESCRIPTOR", None)
        if descriptor is None or not hasattr(value, "SerializeToString"):
            return super().encode_value(value)
        if descriptor.full_name != self._name:
            raise ValueEncodeError(
                f"the value is a message {descriptor.full_name}, it must be a {self._name}"
            )
        return self._first_bytes() + bytes(value.SerializeToString())

    def object_decoder(self) -> ObjectDecoder:
        """Returns a new decoder to objects, for one thread."""
        return ColumnObjects(self._make_decoder(), object_plan(self.type))

    def _make_decoder(self) -> ProtobufDecoder:
        return ProtobufDecoder(self._columns, self.framing is not None, self._plan, self._indexes)

    def _make_encoder(self, start: bytes) -> ProtobufEncoder:
        return ProtobufEncoder(start, self._encode_plan)
