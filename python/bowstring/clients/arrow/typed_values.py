"""Decodes keys and values of record batches with a format (bowstring.Json, Avro, Protobuf)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from bowstring.clients.arrow.arrow_format import pyarrow
from bowstring.clients.errors import ConfigError
from bowstring.values.errors import ValueDecodeError

if TYPE_CHECKING:
    import pyarrow as pa

    from bowstring._native.base.object_decoder import ObjectDecoder


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

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the batch with typed columns; a bad value is null, with its message in the error column."""
        if not self._formats:
            return batch
        pa = pyarrow()
        arrays = []
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            form = self._formats.get(name)
            if form is None:
                arrays.append(array)
                continue
            try:
                structs, errors = form.decode(array)
            except ValueDecodeError as error:
                record = _record(batch, name, error.row)
                raise ValueDecodeError(error.row, error.reason, error.bad_values, record) from None
            dead_letter = getattr(form, "dead_letter", None)
            if errors is not None and dead_letter is not None:
                dead_letter.send(batch, errors)
            arrays.append(structs)
            arrays.append(pa.nulls(len(array), pa.string()) if errors is None else errors)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _record(batch: pa.RecordBatch, name: str, row: int) -> str:
    """Names the record of a row, if the batch has its topic, partition and offset."""
    parts = [
        f"{part} {batch.column(part)[row].as_py()}"
        for part in ("topic", "partition", "offset")
        if part in batch.schema.names
    ]
    return ", ".join([*parts, name if parts else f"{name} {row}"])
