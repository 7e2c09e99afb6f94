from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring._native.base import varint
from tests.support import reference_batch as reference

int64 = st.integers(-(1 << 63), (1 << 63) - 1)
near_powers = st.builds(lambda bit, off, sign: sign * ((1 << bit) + off), st.integers(0, 61), st.integers(-2, 2), st.sampled_from([1, -1]))  # fmt: skip


@given(st.lists(int64 | near_powers, max_size=50))
def test_varlongs_round_trip_as_the_reference_writes_them(values):
    encoded = varint.encode_varlongs(array("q", values))
    assert encoded == b"".join(reference.to_varint(value) for value in values)
    decoded = array("q", bytes(8 * len(values)))
    assert varint.decode_varlongs(encoded, decoded) == len(values)
    assert decoded.tolist() == values


@pytest.mark.parametrize(
    "bad",
    [b"\x80", b"\xff" * 9, b"\xff" * 10, b"\x80" * 11 + b"\x01"],
    ids=["cut", "cut-9", "no-end", "too-long"],
)
def test_bad_varlongs_are_refused(bad):
    with pytest.raises(ValueError, match="varlong number 1 is truncated or longer than 10 bytes"):
        varint.decode_varlongs(b"\x02" + bad, array("q", bytes(80)))


def test_no_more_than_there_is_room_for():
    target = array("q", [9, 9, 9])
    assert varint.decode_varlongs(b"\x02\x04\x06\x08", memoryview(target)[:2]) == 2
    assert target.tolist() == [1, 2, 9]
