"""What Json, Avro and Protobuf have in common."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import pyarrow as pa

from bowstring.values.arrays import arrow_array, binary_array, decoder_input
from bowstring.values.errors import ValueDecodeError, ValueEncodeError, ValuesTooLargeError
from bowstring.values.framing import prefix
from bowstring.values.sources import encoded_array, encoder_input

if TYPE_CHECKING:
    from bowstring._native.value_column import Finished, Input
    from bowstring._native.value_decoder import Decoder
    from bowstring._native.value_encoder import Encoder
    from bowstring.values.dead_letter import DeadLetter

OnError: TypeAlias = "Literal['column', 'raise'] | DeadLetter"
Framing: TypeAlias = Literal["confluent"] | None


class ValueFormat(ABC):
    """How values are encoded: `schema` says what they hold, `decode` and `encode` work on whole arrays.

    A value that does not decode never stops the others: it becomes null, and `on_error` says what else.

    Attributes:
        schema: pyarrow schema of the values. All fields are nullable, since bad values are null.
        on_error: "column" (errors are given beside the values), "raise", or a DeadLetter.
        framing: "confluent" if values begin with a zero byte and a schema's id (Confluent's wire format).
    """

    schema: pa.Schema

    def __init__(self, on_error: OnError, framing: Framing, schema_id: int):
        from bowstring.values.dead_letter import DeadLetter

        if on_error not in ("column", "raise") and not isinstance(on_error, DeadLetter):
            raise ValueError(f"on_error is 'column', 'raise' or a DeadLetter, not {on_error!r}")
        if framing not in (None, "confluent"):
            raise ValueError(f"framing is None or 'confluent', not {framing!r}")
        self.on_error = on_error
        self.framing = framing
        self._schema_id = schema_id
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._unpicklable}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()

    # Native objects; made again where the format is unpickled.
    _unpicklable: tuple[str, ...] = ("_lock", "_decoder", "_encoder")

    @property
    def dead_letter(self) -> DeadLetter | None:
        """Where bad values are sent, if they are."""
        return None if isinstance(self.on_error, str) else self.on_error

    @property
    def type(self) -> pa.StructType:
        """The type of `decode`'s structs."""
        return pa.struct(list(self.schema))

    @abstractmethod
    def _make_decoder(self) -> Decoder:
        """The native decoder, made when it is first needed."""

    @abstractmethod
    def _make_encoder(self, start: bytes) -> Encoder:
        """The native encoder, made when it is first needed, of values that begin with `start`."""

    # Of a Protobuf message, behind the schema's id.
    _indexes: tuple[int, ...] | None = None

    def _native_decoder(self) -> Any:
        if "_decoder" not in vars(self):
            self._decoder = self._make_decoder()
        return self._decoder

    def _native_encoder(self) -> Encoder:
        if "_encoder" not in vars(self):
            start = prefix(self._schema_id, self._indexes) if self.framing else b""
            self._encoder = self._make_encoder(start)
        return self._encoder

    def _decode(self, values: Input) -> tuple[Finished, list[tuple[int, str]]]:
        """Columns, and rows that are bad with the reason. Called by one thread at a time."""
        return self._native_decoder().decode(values)  # type: ignore[no-any-return]

    def _encode(self, columns: pa.StructArray) -> pa.BinaryArray:
        """One value for each row; a row that is null is null. Called by one thread at a time."""
        offsets, data, fault = self._native_encoder().encode(encoder_input(columns))
        if fault is not None:
            raise ValueEncodeError(fault)
        return encoded_array(columns, offsets, data)

    def decode(self, array: pa.Array | pa.ChunkedArray) -> tuple[pa.StructArray, pa.StringArray | None]:
        """Decodes values in bulk, without the GIL.

        Args:
            array: binary, binary_view or strings, or the large kinds of them. Null stays null.

        Returns:
            A struct for each value, and what is wrong with those that are bad (null: nothing), or None
            if all are good.

        Raises:
            ValueDecodeError: with `on_error="raise"`, for the first bad value.
            ValuesTooLargeError: 2 GiB of strings in one column.
        """
        values = binary_array(array)
        with self._lock:
            try:
                finished, bad = self._decode(decoder_input(values))
            except OverflowError:
                raise ValuesTooLargeError from None
        structs = arrow_array(self.type, finished)
        if not bad:
            return structs, None
        if self.on_error == "raise":
            raise ValueDecodeError(*bad[0], len(bad))
        reasons: list[str | None] = [None] * len(values)
        for row, reason in bad:
            reasons[row] = reason
        return structs, pa.array(reasons, pa.string())

    def encode(self, columns: pa.StructArray | pa.RecordBatch | pa.Table) -> pa.BinaryArray:
        """Encodes columns in bulk: one value for each row; a struct that is null gives null.

        Fields are found by name; those that the schema does not know are left out, those that are
        missing are null.

        Raises:
            ValueEncodeError: a field has the wrong type, or null where the format has none.
        """
        if isinstance(columns, pa.Table):
            columns = columns.combine_chunks().to_struct_array()
        if isinstance(columns, pa.RecordBatch):
            columns = columns.to_struct_array()
        if isinstance(columns, pa.ChunkedArray):
            columns = columns.combine_chunks()
        if not pa.types.is_struct(columns.type):
            raise TypeError(f"structs or a RecordBatch are encoded, not {columns.type}")
        with self._lock:
            try:
                return self._encode(self._fitted(columns))
            except OverflowError:
                raise ValueEncodeError("the values would pass 2 GiB: encode fewer rows at once") from None

    def _fitted(self, columns: pa.StructArray) -> pa.StructArray:
        """The columns in the schema's order and types."""
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
                    f"the field {field.name} is {column.type} and does not become {field.type}: {error}"
                ) from None
        mask = columns.is_null() if columns.null_count else None
        return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=mask)

    def with_on_error(self, on_error: OnError) -> Self:
        """The same format with other ways with bad values."""
        other = type(self).__new__(type(self))
        other.__setstate__({**self.__getstate__(), "on_error": on_error})
        return other
