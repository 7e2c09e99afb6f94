"""Typed keys and values in record batches."""

from __future__ import annotations

import pyarrow as pa

from bowstring.values.dead_letter import DeadLetter
from bowstring.values.format import ValueFormat


def decoded_schema(
    schema: pa.Schema, *, value: ValueFormat | None = None, key: ValueFormat | None = None
) -> pa.Schema:
    """The schema of what `decode_batch` gives for batches of `schema`."""
    fields = []
    for field in schema:
        form = value if field.name == "value" else key if field.name == "key" else None
        fields.append(pa.field(field.name, form.type) if form else field)
    for name, form in (("value", value), ("key", key)):
        if form is not None and form.on_error == "column" and name in schema.names:
            fields.append(pa.field(f"{name}_error", pa.string()))
    return pa.schema(fields, schema.metadata)


def decode_batch(
    batch: pa.RecordBatch, *, value: ValueFormat | None = None, key: ValueFormat | None = None
) -> pa.RecordBatch:
    """Decodes the columns `value` and `key` of a batch into structs.

    Bad ones are null. With `on_error="column"` a column `value_error` (`key_error`) says why,
    with a DeadLetter they have been sent to its topic.

    Raises:
        ValueDecodeError: a format has `on_error="raise"`.
    """
    columns = {name: batch.column(name) for name in batch.schema.names}
    for name, form in (("value", value), ("key", key)):
        if form is None or name not in columns:
            continue
        columns[name], errors = form.decode(batch.column(name))
        if isinstance(form.on_error, DeadLetter):
            if errors is not None:
                form.on_error.send(batch, errors)
        elif form.on_error == "column":
            columns[f"{name}_error"] = pa.nulls(len(batch), pa.string()) if errors is None else errors
    schema = decoded_schema(batch.schema, value=value, key=key)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
