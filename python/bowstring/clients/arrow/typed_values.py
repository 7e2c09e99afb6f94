"""Decodes keys and values of record batches with a format (bowstring.Json, Avro, Protobuf)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from bowstring.clients.arrow.arrow_format import pyarrow
from bowstring.clients.errors import ConfigError
from bowstring.values.errors import ValueDecodeError

if TYPE_CHECKING:
    import pyarrow as pa

    from bowstring._native.base.object_decoder import ObjectDecoder

DecoderPair: TypeAlias = "tuple[ObjectDecoder | None, ObjectDecoder | None]"


class ValueFormat(Protocol):
    """Decodes bytes into typed columns.

    Formats may also have `type`, the type of what `decode` makes (else a struct of `schema`), and
    `object_decoder()`, which returns a native decoder of single values for one thread: without it, `poll`
    returns their bytes.

    Attributes:
        schema: the columns.
    """

    schema: pa.Schema

    def decode(self, array: pa.Array) -> tuple[pa.StructArray, pa.StringArray | None]:
        """Decodes binary or binary_view values into structs and error messages. A bad value is a null struct
        with a message, a null value a null struct without one. The messages are None when all values are
        good.
        """


def object_decoder_of(form: ValueFormat | None) -> ObjectDecoder | None:
    """Returns a decoder of single values, None where `poll` returns their bytes."""
    make = getattr(form, "object_decoder", None)
    return None if make is None else make()


def format_for(form: Any, topics: Iterable[str], field: str) -> Any:
    """Returns the format for the keys or values of topics: formats of a registry differ by topic.

    Args:
        field: "key" or "value".
    """
    make = getattr(form, "for_topics", None)
    return form if make is None else make(topics, field)


class ObjectDecoders:
    """Decoders of single keys and values, by topic. Used by one thread at a time.

    Args:
        key, value: the formats; None keeps the bytes.

    Attributes:
        are_bytes: whether keys and values stay bytes.
    """

    def __init__(self, key: ValueFormat | None = None, value: ValueFormat | None = None):
        self._forms = (key, value)
        by_topic = any(hasattr(form, "for_topics") for form in self._forms)
        self._all = None if by_topic else self._of(())
        self._by_topic: dict[str, DecoderPair] = {}
        self.are_bytes = self._all == (None, None)

    def of(self, topic: str) -> DecoderPair:
        """Returns the decoders of a topic's keys and values."""
        if self._all is not None:
            return self._all
        found = self._by_topic.get(topic)
        if found is None:
            found = self._by_topic[topic] = self._of((topic,))
        return found

    def _of(self, topics: tuple[str, ...]) -> DecoderPair:
        key, value = self._forms
        return (
            object_decoder_of(format_for(key, topics, "key")),
            object_decoder_of(format_for(value, topics, "value")),
        )


def named_format(form: Any) -> Any:
    """Returns the format of "json" (without a schema) or "text"; another format unchanged.

    Raises:
        ConfigError: another name.
    """
    if not isinstance(form, str):
        return form
    import bowstring.values

    if form not in ("json", "text"):
        raise ConfigError(
            f'the format is {form!r}, it must be "json", "text", or such as bowstring.Json(schema)'
        )
    return bowstring.values.Json() if form == "json" else bowstring.values.Text()


class TypedColumns:
    """Replaces `key` and `value` by structs, each followed by a column `key_error` or `value_error`.

    Args:
        schema: of the columns that are wanted.
        formats: by "key" and "value"; None keeps the bytes.

    Raises:
        ConfigError: a format was given for a column that is not read.
    """

    def __init__(self, schema: pa.Schema, formats: Mapping[str, ValueFormat | None]):
        arrow = pyarrow()
        self._formats = {name: form for name, form in formats.items() if form is not None}
        for name in self._formats:
            if name not in schema.names:
                raise ConfigError(
                    f"a format for {name!r} was given, but columns={schema.names} leaves it out"
                )
        self._names = schema.names
        fields = []
        for field in schema:
            form = self._formats.get(field.name)
            if form is None:
                fields.append(field)
            else:
                kind = getattr(form, "type", None) or arrow.struct(list(form.schema))
                fields.append(arrow.field(field.name, kind))
                fields.append(arrow.field(f"{field.name}_error", arrow.string()))
        self.schema: pa.Schema = arrow.schema(fields)

    @property
    def columns_to_read(self) -> tuple[str, ...]:
        """The columns that are wanted, and headers where they may name the schema of a value."""
        by_header = any(hasattr(each, "decode_records") for each in self._formats.values())
        more = ("headers",) if by_header and "headers" not in self._names else ()
        return (*self._names, *more)

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the batch with typed columns; a bad value is null, with its message in the error column.

        Args:
            batch: with `columns_to_read`.
        """
        if not self._formats:
            return batch
        pa = pyarrow()
        arrays = []
        for name in self._names:
            array, form = batch.column(name), self._formats.get(name)
            if form is None:
                arrays.append(array)
                continue
            try:
                structs, errors = _decoded(form, array, batch)
            except ValueDecodeError as error:
                record = _record(batch, name, error.row)
                raise ValueDecodeError(error.row, error.reason, error.bad_values, record) from None
            dead_letter = getattr(form, "dead_letter", None)
            if errors is not None and dead_letter is not None:
                dead_letter.send(batch, errors)
            arrays.append(structs)
            arrays.append(pa.nulls(len(array), pa.string()) if errors is None else errors)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _decoded(form: Any, array: pa.Array, batch: pa.RecordBatch) -> Any:
    if hasattr(form, "decode_records") and "headers" in batch.schema.names:
        return form.decode_records(array, batch.column("headers"))
    return form.decode(array)


def _record(batch: pa.RecordBatch, name: str, row: int) -> str:
    """Names the record of a row, if the batch has its topic, partition and offset."""
    parts = [
        f"{part} {batch.column(part)[row].as_py()}"
        for part in ("topic", "partition", "offset")
        if part in batch.schema.names
    ]
    return ", ".join([*parts, name if parts else f"{name} {row}"])
