"""Finds the keys of schemas (ids and guids) of many values at once, and adds them to records' headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from bowstring._native.values.schema_keys import schema_groups
from bowstring.values.decoder_arrays import decoder_input

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])


class Part(NamedTuple):
    """Values that have one key.

    Attributes:
        key: see `_native.values.schema_keys`; b"": they have none.
        rows: their places; None: all.
        values: they.
        skip: bytes at the start of each value that are not its payload.
    """

    key: bytes
    rows: pa.Array | None
    values: pa.Array
    skip: int


def parts(values: pa.Array, headers: pa.Array | None, header: str, *, indexed: bool) -> Iterator[Part]:
    """Yields values by the keys of their schemas, from a header or from their start.

    Args:
        values: of a layout that decoders accept.
        headers: of the records; None: they were not read.
        header: name of the header that has a key; the last one of a record counts.
        indexed: whether the indexes of Protobuf messages belong to keys.
    """
    keys = None if headers is None else _header_keys(headers, header)
    if keys is None:
        yield from _prefixed(values, None, indexed)
        return
    in_headers = keys.dictionary_encode()
    for number, key in enumerate(in_headers.dictionary.to_pylist()):
        rows = _where(pc.equal(in_headers.indices, number))
        yield Part(key, rows, _taken(values, rows), 0)
    others = _where(pc.is_null(keys))
    if len(others):
        yield from _prefixed(_taken(values, others), others, indexed)


def _prefixed(values: pa.Array, rows: pa.Array | None, indexed: bool) -> Iterator[Part]:
    keys, groups = schema_groups(decoder_input(values), indexed)
    if len(keys) <= 1:
        key = keys[0] if keys else b""
        # Without any value there is no key either, and nothing to decode.
        yield Part(key, rows, values, len(key))
        return
    numbers = pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(groups)], 0)
    for number, key in enumerate(keys):
        places = _where(pc.equal(numbers, number))
        yield Part(key, places if rows is None else rows.take(places), _taken(values, places), len(key))


def _where(mask: pa.Array) -> pa.Array:
    return pc.indices_nonzero(mask.fill_null(False)).cast(pa.int64())


def _taken(values: pa.Array, rows: pa.Array) -> pa.Array:
    plain = {pa.binary_view(): pa.binary(), pa.string_view(): pa.string()}
    # Arrow cannot take from some views.
    return values.cast(plain.get(values.type, values.type)).take(rows)


def _header_keys(headers: pa.Array, name: str) -> pa.Array | None:
    """Returns each record's last header of a name; None where no record has one."""
    pairs = headers.flatten()
    if not len(pairs):
        return None
    found = _where(pc.and_(pc.equal(pairs.field("key"), name), pc.is_valid(pairs.field("value"))))
    if not len(found):
        return None
    rows = pc.list_parent_indices(headers).cast(pa.int64()).take(found)
    values = pairs.field("value").take(found)
    # The last one of a row: the next one is of another row.
    is_last = pc.not_equal(rows.slice(1), rows.slice(0, len(rows) - 1))
    lasts = _where(pa.concat_arrays([is_last, pa.array([True])]))
    rows, values = rows.take(lasts), values.take(lasts)
    places = pc.index_in(pa.array(range(len(headers)), pa.int64()), rows)
    return values.take(places)


def with_header(headers: pa.Array | None, rows: pa.Array, name: str, value: bytes) -> pa.Array:
    """Returns the headers of records with one more where a mask is true.

    Args:
        headers: of the records, list<struct<key, value>> or map<string, binary>; None: they have none.
        rows: the mask.
    """
    count = len(rows)
    wanted = _where(rows)
    added = pa.StructArray.from_arrays(
        [pa.repeat(name, len(wanted)), pa.repeat(pa.scalar(value, pa.binary()), len(wanted))],
        fields=list(_HEADER),
    )
    counts = rows.cast(pa.int32()).fill_null(0)
    if headers is None:
        entries = added
    else:
        own = _entries(headers)
        places = pc.list_parent_indices(own).cast(pa.int64())
        counts = pc.add(counts, pc.list_value_length(own).fill_null(0))
        both = pa.concat_arrays([own.flatten().cast(_HEADER), added])
        # The sort is stable, so a record's headers stay in order.
        entries = both.take(pc.sort_indices(pa.concat_arrays([places, wanted])))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(counts).cast(pa.int32())])
    made = pa.ListArray.from_arrays(offsets if count else pa.array([0], pa.int32()), entries)
    return made


def _entries(headers: pa.Array) -> pa.Array:
    """Returns headers as lists."""
    if not pa.types.is_map(headers.type):
        return headers
    whole = pa.concat_arrays([headers])
    pairs = pa.StructArray.from_arrays([whole.keys, whole.items], names=["key", "value"])
    return pa.ListArray.from_arrays(whole.offsets, pairs)
