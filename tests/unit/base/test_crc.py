import random

import pytest

from bowstring._native.base import crc
from tests.support import reference_batch as reference

POLYNOMIAL = 0x11EDC6F41  # x^32 and the rest of CRC-32C's, most significant bit first


@pytest.mark.parametrize("name", crc.implementations())
@pytest.mark.parametrize(
    ("data", "expected"),
    [  # RFC 3720, appendix B.4, and the usual check value
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_known_vectors(name, data, expected):
    assert crc.crc32c_by(name, data) == expected
    assert crc.crc32c(data) == expected


def test_every_kernel_agrees_with_the_table_at_every_length_and_alignment():
    data = random.Random(3720).randbytes(5064)
    view = memoryview(data)
    expected = {start: 0 for start in range(64)}
    for length in range(5001):
        start = length % 64
        if length < 600 or length % 97 == 0 or length > 4990:
            expected[start] = reference.crc32c(data[start : start + length])
            for name in crc.implementations():
                assert crc.crc32c_by(name, view[start : start + length]) == expected[start], (
                    name,
                    length,
                    start,
                )
        else:  # the reference is slow: in between, the table kernel speaks for it
            whole = crc.crc32c_by("portable", view[start : start + length])
            for name in crc.implementations():
                assert crc.crc32c_by(name, view[start : start + length]) == whole, (name, length, start)


@pytest.mark.parametrize("name", crc.implementations())
@pytest.mark.parametrize("length", [1, 7, 63, 511, 512, 513, 1024, 4099])
def test_every_alignment(name, length):
    data = memoryview(random.Random(length).randbytes(length + 64))
    for start in range(64):
        piece = data[start : start + length]
        assert crc.crc32c_by(name, piece) == crc.crc32c_by("portable", piece)


@pytest.mark.parametrize("name", crc.implementations())
def test_large_and_continued(name):
    data = random.Random(7).randbytes(1_000_003)
    whole = crc.crc32c_by("portable", data)
    assert crc.crc32c_by(name, data) == whole
    for cut in (0, 1, 8, 511, 512, 65536, len(data)):
        assert crc.crc32c_by(name, data[cut:], crc.crc32c_by(name, data[:cut])) == whole


@pytest.mark.parametrize("size", [0, 1, 2, 3, 40, 4095, 4096, 8155, 100_000, 1_000_003])
def test_of_two_pieces(size):
    generator = random.Random(size)
    before, following = generator.randbytes(40), generator.randbytes(size)
    joined = crc.crc32c_combine(crc.crc32c(before), crc.crc32c(following), size)
    assert joined == crc.crc32c(before + following)
    assert crc.crc32c_combine(0, crc.crc32c(following), size) == crc.crc32c(following)


def test_of_two_pieces_of_which_one_cannot_be():
    with pytest.raises(ValueError, match="size is -1"):
        crc.crc32c_combine(1, 2, -1)


def test_unknown_kernel_is_named():
    with pytest.raises(ValueError, match="no CRC-32C kernel 'abacus'; it has portable"):
        crc.crc32c_by("abacus", b"")


def test_folding_factors_are_powers_of_x():
    """The constants in crc32c.h are what its comment says they are."""

    def reflected_power(n):
        value = 1
        for _ in range(n):
            value <<= 1
            if value >> 32:
                value ^= POLYNOMIAL
        return int(f"{value:032b}"[::-1], 2)

    for distance, low, high in [
        (16, 0xF20C0DFE, 0x493C7D27),
        (64, 0x740EEF02, 0x9E4ADDF8),
        (256, 0xDCB17AA4, 0xB9E02B86),
    ]:
        assert low == reflected_power(8 * distance + 31)
        assert high == reflected_power(8 * distance - 33)
