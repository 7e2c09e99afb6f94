"""Defines the common interface of Json, Avro and Protobuf."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import pyarrow as pa

from bowstring._native.values.instance_objects import InstanceObjects
from bowstring._native.values.object_columns import ObjectEncoder, ObjectFault
from bowstring.clients.arguments import WHOLE, check_value
from bowstring.clients.errors import ConfigError
from bowstring.values.decoder_arrays import arrow_array, binary_array, decoder_input
from bowstring.values.encoder_input import encoded_array, encoder_input
from bowstring.values.errors import ValueDecodeError, ValueEncodeError, ValuesTooLargeError
from bowstring.values.framing import prefix
from bowstring.values.object_columns import object_columns

if TYPE_CHECKING:
    from bowstring._native.base.object_decoder import ObjectDecoder
    from bowstring._native.values.column import Finished, Input
    from bowstring._native.values.decoder import Decoder
    from bowstring._native.values.encoder import Encoder
    from bowstring.values.class_schema import ClassSchema
    from bowstring.values.dead_letter import DeadLetter

OnError: TypeAlias = "Literal['column', 'raise'] | DeadLetter"
Framing: TypeAlias = Literal["confluent"] | None


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"


class ValueFormat(ABC):
    """Encoding of values: `schema` describes them, `decode` and `encode` work on whole arrays.

    A value that does not decode does not stop the others: it becomes null, and `on_error` decides what else
    happens.

    Attributes:
        schema: pyarrow schema of the values. All fields are nullable, because bad values are null.
        on_error: "column" (errors are returned beside the values), "raise", or a DeadLetter.
        schema_id: the id that `encode` writes with framing "confluent"; an argument only.
        framing: "confluent" if values begin with a zero byte and a schema's id (Confluent's wire format).
    """

    schema: pa.Schema

    def __init__(self, on_error: OnError, framing: Framing, schema_id: int):
        from bowstring.values.dead_letter import DeadLetter

        if on_error not in ("column", "raise") and not isinstance(on_error, DeadLetter):
            raise ConfigError(f'on_error is {on_error!r}, it must be "column", "raise" or a DeadLetter')
        if framing not in (None, "confluent"):
            raise ConfigError(f'framing is {framing!r}, it must be "confluent" or None')
        check_value("schema_id", WHOLE, schema_id)
        self.on_error = on_error
        self.framing = framing
        self._schema_id = schema_id
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._unpicklable}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()

    # Native objects; created again after unpickling.
    _unpicklable: tuple[str, ...] = ("_lock", "_decoder", "_encoder", "_object_encoder", "_make_instance")

    @property
    def dead_letter(self) -> DeadLetter | None:
        """The DeadLetter for bad values, if any."""
        return None if isinstance(self.on_error, str) else self.on_error

    @property
    def type(self) -> pa.StructType:
        """The type of `decode`'s structs."""
        return pa.struct(list(self.schema))

    @abstractmethod
    def object_decoder(self) -> ObjectDecoder:
        """Returns a new native decoder that makes a Python object of each value, equal to what `to_pylist()`
        makes of `decode`'s arrays, with maps as dicts; if the schema is a class, the instance made of that.
        It is used by one thread at a time.
        """

    def _make_decoder(self) -> Decoder:
        """Creates the native decoder, on first use."""
        raise NotImplementedError

    def _make_encoder(self, start: bytes) -> Encoder:
        """Creates the native encoder, on first use, for values that begin with `start`."""
        raise NotImplementedError

    # The class that the schema is derived from.
    _class: ClassSchema | None = None

    # Message indexes of a Protobuf message, after the schema's id.
    _indexes: tuple[int, ...] | None = None

    def _native_decoder(self) -> Any:
        if "_decoder" not in vars(self):
            self._decoder = self._make_decoder()
        return self._decoder

    # The first bytes of every value that is encoded; None: those of the framing.
    _start: bytes | None = None

    def _first_bytes(self) -> bytes:
        if self._start is not None:
            return self._start
        return prefix(self._schema_id, self._indexes) if self.framing else b""

    def _native_encoder(self) -> Encoder:
        if "_encoder" not in vars(self):
            self._encoder = self._make_encoder(self._first_bytes())
        return self._encoder

    def _required_type(self) -> pa.StructType:
        """The type with the fields that an object must have not nullable."""
        return self.type

    def _native_object_encoder(self) -> ObjectEncoder:
        attributes = {} if self._class is None else self._class.attributes
        plan = object_columns(pa.field("", self._required_type()), attributes)
        self._object_encoder = ObjectEncoder(self._native_encoder(), plan)
        return self._object_encoder

    def encode_value(self, value: Any) -> bytes | None:
        """Encodes one value, as `Producer.send` does.

        Args:
            value: a dict by the names of the schema, or an object with such attributes: of a dataclass, a
                msgspec struct, a pydantic model. Bytes are returned unchanged, as a value that is already
                encoded, and None is None.

        Raises:
            ValueEncodeError: the value does not fit the schema: a field is missing, unknown, or of another
                type. The message names the field. Nothing is rounded or cut off.

        Examples:
            >>> import bowstring, pyarrow as pa
            >>> bowstring.Json(pa.schema({"id": pa.int64()})).encode_value({"id": 1})
            b'{"id":1}'
        """
        if value is None or isinstance(value, bytes):
            return value
        encoder = vars(self).get("_object_encoder") or self._native_object_encoder()
        try:
            return encoder.encode(value)
        except ObjectFault as fault:
            raise ValueEncodeError(str(fault)) from None
        except OverflowError as fault:
            raise ValueEncodeError(f"{fault}: send it in parts") from None

    def instance(self, value: dict[str, Any]) -> Any:
        """Makes an instance of the class that the schema was given as; without a class, returns the dict.

        pydantic's models are made by `model_validate`, all other classes by `msgspec.convert`.

        Args:
            value: a decoded value.

        Raises:
            ValueError: the class does not take the value.
            MissingPackageError: msgspec is not installed (extra `objects`).
        """
        if self._class is None:
            return value
        make = vars(self).get("_make_instance")
        if make is None:
            from bowstring.values.class_instances import instance_maker

            make = self._make_instance = instance_maker(self._class)
        return make(value)

    def _instances(self, decoder: ObjectDecoder) -> ObjectDecoder:
        """Returns a decoder of instances if the schema is a class."""
        if self._class is None:
            return decoder
        from bowstring.values.class_instances import refusal

        return InstanceObjects(decoder, self.instance, partial(refusal, self._class.cls))

    def _decode(self, values: Input) -> tuple[Finished, list[tuple[int, str]]]:
        """Returns columns, and bad rows with the reason. Called by one thread at a time."""
        return self._native_decoder().decode(values)  # type: ignore[no-any-return]

    def _encode(self, columns: pa.StructArray) -> pa.BinaryArray:
        """Returns one value for each row; null for a null row. Called by one thread at a time."""
        offsets, data, fault = self._native_encoder().encode(encoder_input(columns))
        if fault is not None:
            raise ValueEncodeError(fault)
        return encoded_array(columns, offsets, data)

    def decode(self, array: pa.Array | pa.ChunkedArray) -> tuple[pa.StructArray, pa.StringArray | None]:
        """Decodes values in bulk, without the GIL.

        Args:
            array: binary, binary_view or strings, or their large variants. Null stays null.

        Returns:
            A struct for each value, and the errors of bad values (null for good ones), or None if all are
            good.

        Raises:
            ValueDecodeError: with `on_error="raise"`, for the first bad value.
            ValuesTooLargeError: one column has 2 GiB of strings.
        """
        if not isinstance(array, pa.Array | pa.ChunkedArray):
            raise ConfigError(f"array is {_kind(array)}, it must be an Arrow array: pyarrow.array([b'…'])")
        values = binary_array(array)
        structs, bad = self.decode_all(values)
        if not bad:
            return structs, None
        if self.on_error == "raise":
            raise ValueDecodeError(*bad[0], len(bad))
        reasons: list[str | None] = [None] * len(values)
        for row, reason in bad:
            reasons[row] = reason
        return structs, pa.array(reasons, pa.string())

    def decode_all(self, values: pa.Array, skip: int = 0) -> tuple[pa.StructArray, list[tuple[int, str]]]:
        """Returns a struct for each value, and the rows and errors of bad ones, whatever `on_error` is.

        Args:
            values: of a layout that decoders accept.
            skip: bytes at the start of each value that are left out.

        Raises:
            ValuesTooLargeError: one column has 2 GiB of strings.
        """
        with self._lock:
            try:
                finished, bad = self._decode(decoder_input(values, skip))
            except OverflowError:
                raise ValuesTooLargeError from None
        return arrow_array(self.type, finished), bad

    def encode(self, columns: pa.StructArray | pa.RecordBatch | pa.Table) -> pa.BinaryArray:
        """Encodes columns in bulk: one value for each row; a null struct gives null.

        Fields are matched by name; fields that the schema does not have are left out, missing ones are null.

        Args:
            columns: structs, or the columns of a batch or table, by the names of the schema.

        Raises:
            ValueEncodeError: a field has the wrong type, or null where the format does not allow it.
        """
        if isinstance(columns, pa.Table):
            columns = columns.combine_chunks().to_struct_array()
        if isinstance(columns, pa.RecordBatch):
            columns = columns.to_struct_array()
        if isinstance(columns, pa.ChunkedArray):
            columns = columns.combine_chunks()
        if not isinstance(columns, pa.Array):
            raise ConfigError(
                f"columns is {_kind(columns)}, it must be Arrow structs, a RecordBatch or a Table, such as "
                "pyarrow.Table.from_pylist(rows)"
            )
        if not pa.types.is_struct(columns.type):
            raise TypeError(f"values to encode must be structs or a RecordBatch, not {columns.type}")
        with self._lock:
            try:
                return self._encode(self._fitted(columns))
            except OverflowError:
                raise ValueEncodeError("the values would exceed 2 GiB: encode fewer rows at once") from None

    def _fitted(self, columns: pa.StructArray) -> pa.StructArray:
        """Returns the columns in the schema's order and types."""
        wanted = self.type
        if columns.type == wanted:
            return columns
        fields = []
        for field in wanted:
            place = columns.type.get_field_index(field.name)
            if place < 0:
                fields.append(pa.nulls(len(columns), field.type))
                continue
            column = columns.field(place)
            try:
                fields.append(column if column.type == field.type else column.cast(field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
                raise ValueEncodeError(
                    f"the field {field.name} is {column.type} and cannot be converted to {field.type}: "
                    f"{error}"
                ) from None
        mask = columns.is_null() if columns.null_count else None
        return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=mask)

    def with_on_error(self, on_error: OnError) -> Self:
        """Returns the same format with another `on_error`.

        Args:
            on_error: "column", "raise" or a DeadLetter.
        """
        return self._changed(on_error=on_error)

    def with_start(self, start: bytes) -> Self:
        """Returns the same format with other first bytes of every value that is encoded.

        Args:
            start: the bytes.
        """
        return self._changed(_start=start)

    def _changed(self, **attributes: Any) -> Self:
        other = type(self).__new__(type(self))
        other.__setstate__({**self.__getstate__(), **attributes})
        return other
