"""Replaces keys and values of records by their JSON text, by the schemas that they were written with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from bowstring.clients.errors import MissingPackageError
from bowstring.clients.registry.registry_errors import SchemaNotFoundError, SchemaRegistryError
from bowstring.rest.records.schema_values import SchemaValues
from bowstring.web.http_error import HttpError

if TYPE_CHECKING:
    import pyarrow as pa

    from bowstring.rest.callers import Callers

TEXT_BYTES = 1 << 20
"""Of a piece of records: once they have so much text, the piece ends."""
LARGE_BYTES = 256 << 10
"""Of text: smaller ones are within what is counted for a stream."""
_CODES = {401: 40101, 403: 40301, 404: 40403}


class DecodedRecords:
    """Decodes the records of one request. What does not decode stays as it is.

    Args:
        values: of the caller's registry.
        fields: which of "key" and "value" are decoded.
        memory: counts the text of large ones, which stay as they are if there is too little.
    """

    def __init__(self, values: SchemaValues, fields: tuple[str, ...], memory: Callers):
        self._values, self._fields, self._memory = values, fields, memory

    def pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yields a batch in pieces of about TEXT_BYTES, with JSON text in the fields.

        Args:
            batch: with the columns key, value and headers.

        Raises:
            HttpError: the registry does not answer, or refuses.
        """
        columns = {field: batch.column(field).to_pylist() for field in self._fields}
        headers = _headers(batch.column("headers"))
        begin = size = 0
        texts: dict[str, list[bytes | None]] = {field: [] for field in self._fields}
        held, sent = 0, 0  # bytes of large texts: of this piece, and of the one before
        try:
            for row in range(batch.num_rows):
                for field, data in columns.items():
                    text = None if data[row] is None else self._text(field, data[row], headers.get(row, ()))
                    if text is not None and text is not data[row] and len(text) > LARGE_BYTES:
                        large = len(text)
                        text, held = (
                            (text, held + large) if self._memory.take_text(large) else (data[row], held)
                        )
                    texts[field].append(text)
                    size += 0 if text is None else len(text)
                if size >= TEXT_BYTES:
                    yield _replaced(batch.slice(begin, row + 1 - begin), texts)
                    self._memory.return_text(sent)
                    begin, size, texts = row + 1, 0, {field: [] for field in self._fields}
                    held, sent = 0, held
            if begin < batch.num_rows or not batch.num_rows:
                yield _replaced(batch.slice(begin), texts)
        finally:
            self._memory.return_text(held + sent)

    def _text(self, field: str, data: bytes, headers: Any) -> bytes:
        try:
            return _json(self._values.tree(field, data, headers))
        except SchemaNotFoundError:
            return data
        except SchemaRegistryError as error:
            if error.status == 403:  # the caller may read other schemas
                return data
            raise registry_failure(error) from error
        except MissingPackageError as error:
            raise HttpError(501, 50101, str(error)) from error
        except Exception:  # of libraries, for data of any kind
            return data


def registry_failure(error: SchemaRegistryError) -> HttpError:
    """Returns what a request fails with that the registry refused, or did not answer."""
    status = error.status if error.status in _CODES else 502
    return HttpError(status, _CODES.get(status, 50201), str(error))


def _json(tree: Any) -> bytes:
    try:
        return msgspec.json.encode(tree)
    except (TypeError, ValueError, RecursionError):  # a number of arbitrary size, a lone surrogate
        return json.dumps(tree, separators=(",", ":")).encode()


def _headers(column: pa.Array) -> dict[int, list[tuple[str, bytes | None]]]:
    """Returns the headers of the records that have some, by row."""
    import pyarrow.compute as pc

    if not len(column.flatten()):
        return {}
    rows = pc.indices_nonzero(pc.list_value_length(column))
    return {
        row: [(each["key"], each["value"]) for each in found]
        for row, found in zip(rows.to_pylist(), column.take(rows).to_pylist(), strict=True)
    }


def _replaced(batch: pa.RecordBatch, texts: dict[str, list[bytes | None]]) -> pa.RecordBatch:
    import pyarrow as pa

    for field, found in texts.items():
        place = batch.schema.get_field_index(field)
        batch = batch.set_column(place, pa.field(field, pa.binary()), pa.array(found, pa.binary()))
    return batch
