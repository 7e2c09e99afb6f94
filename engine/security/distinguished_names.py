"""Reads the subject of a certificate (X.509, DER) as Java's X500Principal.getName() writes it (RFC 2253)."""

from collections.abc import Iterator
from typing import Final

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# Tags of strings and how they are encoded.
_ENCODINGS: Final = {
    12: "utf-8",
    19: "ascii",
    20: "latin-1",
    22: "ascii",
    27: "ascii",
    28: "utf-32-be",
    30: "utf-16-be",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_SEQUENCE, _SET, _OID, _VERSION = 0x30, 0x31, 6, 0xA0


class CertificateError(ValueError):
    """Bytes that are not a certificate."""


def subject_of(certificate: bytes) -> str:
    """Returns the subject of a certificate, such as ``CN=broker-1,O=Example``; the last part comes first.

    Raises:
        CertificateError: The bytes are not a certificate.
    """
    try:
        (_, signed, _), *_ = _items(certificate)
        (_, tbs, _), *_ = _items(signed)
        fields = [each for each in _items(tbs) if each[0] != _VERSION]
        # serial number, signature, issuer, validity, subject
        return ",".join(
            "+".join(_part(attribute) for _, attribute, _ in _items(names))
            for _, names, _ in reversed(list(_items(fields[4][1])))
        )
    except (IndexError, ValueError, UnicodeDecodeError) as error:
        raise CertificateError("the peer's certificate cannot be read") from error


def _items(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yields tag, content and whole encoding of the elements."""
    at = 0
    while at < len(data):
        begin, tag, size = at, data[at], data[at + 1]
        at += 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[at : at + count], "big")
            at += count
        if at + size > len(data):
            raise ValueError("truncated")
        yield tag, data[at : at + size], data[begin : at + size]
        at += size


def _part(attribute: bytes) -> str:
    (_, oid, _), (tag, value, whole) = _items(attribute)
    name = _dotted(oid)
    if name not in _KEYWORDS or tag not in _ENCODINGS:
        return f"{_KEYWORDS.get(name, name)}=#{whole.hex()}"
    return f"{_KEYWORDS[name]}={_escaped(value.decode(_ENCODINGS[tag]))}"


def _dotted(oid: bytes) -> str:
    numbers, value = [], 0
    for byte in oid:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(text: str) -> str:
    inner = text.strip(" ")
    if not inner:
        return "\\ " * len(text)
    begin = len(text) - len(text.lstrip(" "))
    end = len(text) - len(text.rstrip(" "))
    body = "".join(f"\\{char}" if char in _ESCAPED else char for char in inner).replace("\0", "\\00")
    return "\\ " * begin + body + "\\ " * end
