"""bowstring.rest.records.content_coding: what clients accept, and pieces that can be read at once."""

import gzip
import zlib

import pytest
import zstandard

from bowstring.rest.records.content_coding import coding_of


@pytest.mark.parametrize(
    ("accepted", "name"),
    [
        ("", ""),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip", "gzip"),
        ("zstd;q=0, gzip;q=0.5", "gzip"),
        ("br, *", ""),
        ("ZSTD", "zstd"),
    ],
)
def test_the_best_accepted_coding(accepted, name):
    assert coding_of(accepted)[0] == name


PIECES = [b"a" * 1000, b"", b"b" * 10]


def test_zstd_pieces_can_be_read_at_once():
    _, coding = coding_of("zstd")
    reader = zstandard.ZstdDecompressor().decompressobj()
    assert [reader.decompress(coding.piece(each)) for each in PIECES] == PIECES
    reader.decompress(coding.end())
    assert reader.eof


def test_gzip_pieces_can_be_read_at_once():
    _, coding = coding_of("gzip")
    reader = zlib.decompressobj(31)
    assert [reader.decompress(coding.piece(each)) for each in PIECES] == PIECES
    reader.decompress(coding.end())
    assert reader.eof
    _, coding = coding_of("gzip")
    assert gzip.decompress(coding.piece(b"x") + coding.end()) == b"x"
