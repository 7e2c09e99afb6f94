"""A slow, obvious reader of ArrowRows: reads its buffers value by value, as Arrow's format describes them."""

import struct
from typing import Any

from bowstring._native.arrow.decode import COLUMN_BITS, ArrowRows
from bowstring._native.record.decode import decode_batches
from bowstring._native.record.encode import encode_batch

ALL = tuple(COLUMN_BITS)
WIDTHS = {"topic": "i", "partition": "i", "offset": "q", "timestamp": "q", "timestamp_type": "b"}


def bit(bitmap, i):
    return bitmap is None or memoryview(bitmap)[i >> 3] >> (i & 7) & 1


def binary(count, parts):
    nulls, (valid, entries, data) = parts
    ends = struct.unpack(f"={count + 1}i", memoryview(entries)[: 4 * (count + 1)])
    assert ends[0] == 0 and list(ends) == sorted(ends) and ends[-1] == len(data)
    found = [bytes(memoryview(data)[ends[i] : ends[i + 1]]) if bit(valid, i) else None for i in range(count)]
    assert found.count(None) == nulls
    return found


def views(count, parts):
    nulls, (valid, entries, *data) = parts
    found = []
    for i in range(count):
        view = bytes(memoryview(entries)[16 * i : 16 * i + 16])
        (length,) = struct.unpack_from("=i", view)
        if not bit(valid, i):
            assert view == bytes(16)
            found.append(None)
        elif length <= 12:
            assert view[4 + length :] == bytes(12 - length), "what is unused must be zero"
            found.append(view[4 : 4 + length])
        else:
            prefix, index, offset = struct.unpack_from("=4sii", view, 4)
            value = bytes(memoryview(data[index])[offset : offset + length])
            assert len(value) == length and value[:4] == prefix
            found.append(value)
    assert found.count(None) == nulls
    return found


def headers(count, parts):
    ends, total, keys, values = parts
    ends = struct.unpack(f"={count + 1}i", ends)
    names = [name.decode() for name in binary(total, keys)]
    pairs = list(zip(names, binary(total, values), strict=True))
    return [tuple(pairs[ends[i] : ends[i + 1]]) for i in range(count)]


def taken(rows: ArrowRows, in_views: bool = False):
    """Returns rows of (column, ...) in the order of `ALL`, for the requested columns."""
    count, found = rows.take()
    columns: dict[str, Any] = dict(found)
    lists = []
    for name in ALL:
        if name not in columns:
            continue
        if name in WIDTHS:
            assert len(columns[name]) == count * struct.calcsize(WIDTHS[name])
            lists.append(struct.unpack(f"={count}{WIDTHS[name]}", columns[name]))
        elif name == "headers":
            lists.append(headers(count, columns[name]))
        else:
            lists.append((views if in_views else binary)(count, columns[name]))
    return list(zip(*lists, strict=True)) if lists else [()] * count


def readable(pairs):
    """Converts header keys to text that Arrow's strings may have."""
    return tuple(
        (key.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"), value)
        for key, value in pairs
    )


def expected(data, start=0, end=1 << 62, *, topic=0, partition=0):
    """Returns the expected result of ArrowRows for `data`, from the decoder that creates Python objects."""
    return [
        (topic, partition, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, readable(r.headers))
        for r in decode_batches(data)
        if not r.control and start <= r.offset < end
    ]


def marker(producer_id, base_offset, kind):
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0)
    return encode_batch(
        [(key, value, 0, [])], base_offset=base_offset, producer_id=producer_id, producer_epoch=0, base_sequence=0,
        transactional=True, control=True,
    )  # fmt: skip
