"""A slow, obvious encoder to compare with the fast one, written from KIP-482 and the protocol guide."""

import struct

from bowstring.protocol.schema import (
    ARRAY,
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    STRUCT,
    UINT16,
    UINT32,
    UUID,
    fields_of,
)

FORMATS = {
    BOOL: ">?",
    INT8: ">b",
    INT16: ">h",
    UINT16: ">H",
    INT32: ">i",
    UINT32: ">I",
    INT64: ">q",
    FLOAT64: ">d",
}


def uvarint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def encode(message, version):
    lowest, highest = type(message).__layout__.flexible
    return encode_struct(message, version, lowest <= version <= highest)


def encode_struct(value, version, flexible):
    present = [f for f in fields_of(type(value)) if f.versions[0] <= version <= f.versions[1]]
    out = b"".join(
        encode_field(field, getattr(value, field.name), version, flexible)
        for field in present
        if field.tag < 0
    )
    if not flexible:
        return out
    tags = dict(value.unknown_tags or {})
    for field in present:
        item = getattr(value, field.name)
        if field.tag >= 0 and not is_default(field, item):
            tags[field.tag] = encode_field(field, item, version, flexible)
    out += uvarint(len(tags))
    for tag, data in sorted(tags.items()):
        out += uvarint(tag) + uvarint(len(data)) + data
    return out


def is_default(field, value):
    if field.kind == ARRAY and field.default is not None:
        return value == []
    if field.kind == STRUCT and field.default is not None:
        return value == field.struct()
    return value == field.default


def encode_field(field, value, version, flexible):
    compact = flexible if field.flexible is None else field.flexible
    if field.kind == ARRAY:
        if value is None:
            return uvarint(0) if compact else struct.pack(">i", -1)
        count = uvarint(len(value) + 1) if compact else struct.pack(">i", len(value))
        return count + b"".join(encode_plain(field.element, item, version, compact) for item in value)
    if field.kind == STRUCT and field.nullable[0] <= version <= field.nullable[1]:
        absent = b"\xff" if field.tag < 0 else b"\x00"
        return absent if value is None else b"\x01" + encode_struct(value, version, flexible)
    return encode_plain(field.kind, value, version, compact)


def encode_plain(kind, value, version, compact):
    if kind in FORMATS:
        return struct.pack(FORMATS[kind], value)
    if kind == UUID:
        return value
    if kind == STRUCT:
        return encode_struct(value, version, compact)
    assert kind in (STRING, BYTES, RECORDS)
    length_format = ">h" if kind == STRING else ">i"
    if value is None:
        return uvarint(0) if compact else struct.pack(length_format, -1)
    data = value.encode() if kind == STRING else bytes(value)
    return (uvarint(len(data) + 1) if compact else struct.pack(length_format, len(data))) + data
