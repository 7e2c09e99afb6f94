"""Header keys that are not UTF-8: one rule for everything that decodes them (docs/guide/clients.md)."""

import pytest

from bowstring._native.record.decode import decode_batches, decode_records
from bowstring._native.record.encode import BatchBuilder, encode_batch, encode_headers
from bowstring.clients.arrow.arrow_format import ArrowFormat
from bowstring.clients.records import Record

KEYS = {
    b"\xff": ("\udcff", "\\xff"),
    b"\xfe": ("\udcfe", "\\xfe"),
    b"cut \xc3": ("cut \udcc3", "cut \\xc3"),
    b"\xed\xa0\x80": (
        "\udced\udca0\udc80",
        "\\xed\\xa0\\x80",
    ),  # a surrogate, as Java's modified UTF-8 has it
    "grün".encode(): ("grün", "grün"),
    b"": ("", ""),
}
HEADERS = [(key, b"%d" % i) for i, key in enumerate(KEYS)]


@pytest.fixture(params=range(5), ids=["none", "gzip", "snappy", "lz4", "zstd"])
def data(request):
    return encode_batch([(None, b"v", 0, HEADERS)], request.param)


def test_every_decoder_gives_the_same_text(data):
    expected = tuple((text, b"%d" % i) for i, (text, _) in enumerate(KEYS.values()))
    assert decode_batches(data)[0].headers == expected
    assert decode_records(Record, "t", 0, data)[0].headers == expected
    assert len({key for key, _ in expected}) == len(KEYS), "different keys stay different"


def test_what_was_decoded_encodes_to_the_same_bytes(data):
    headers = decode_records(Record, "t", 0, data)[0].headers
    assert encode_headers(headers) == encode_headers(dict(headers)) == encode_headers(HEADERS)
    builder = BatchBuilder()
    builder.append(None, b"v", 0, headers)
    assert builder.build() == encode_batch([(None, b"v", 0, HEADERS)])


def test_a_surrogate_that_stands_for_no_byte_is_refused():
    with pytest.raises(UnicodeEncodeError, match=r"surrogates not allowed"):
        encode_headers([("\ud800", b"")])
    assert encode_headers([("a", b"")]) == b"\x02\x02a\x00"


def test_arrow_has_the_bytes_escaped(data):
    form = ArrowFormat(["headers"])
    rows = form.rows(10, 1 << 20)
    rows.append(data, 0)
    batch = form.batch(rows, [])
    batch.validate(full=True)
    assert [pair["key"] for pair in batch.column("headers")[0].as_py()] == [text for _, text in KEYS.values()]
