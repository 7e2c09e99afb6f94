"""Kafka's ids as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring.protocol import ZERO_UUID, format_uuid, parse_uuid, random_uuid


def test_as_kafka_prints_them():
    assert format_uuid(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert format_uuid((1).to_bytes(16, "big")) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert format_uuid(b"\xff" * 16) == "_____________________w"


@given(st.binary(min_size=16, max_size=16))
def test_there_and_back(value):
    text = format_uuid(value)
    assert len(text) == 22
    assert parse_uuid(text) == value
    assert parse_uuid(text + "==") == value


@pytest.mark.parametrize(
    "text", ["", "AAAA", "A" * 21, "A" * 23, "A" * 43, "AAAAAAAAAAAAAAAAAAAA+/", "é" * 22]
)
def test_what_is_no_id(text):
    with pytest.raises(ValueError, match="not a Kafka id"):
        parse_uuid(text)


def test_wrong_size():
    with pytest.raises(ValueError, match="16 bytes"):
        format_uuid(bytes(15))


def test_random_ids_avoid_reserved_ones_and_dashes():
    draws = iter([b"\xfb" + bytes(15), b"\xf8" + bytes(15), b"\x01" * 16])
    made = random_uuid(lambda size: next(draws))
    assert made == b"\x01" * 6 + b"\x41\x01\x81" + b"\x01" * 7
    assert random_uuid() != random_uuid()
    assert all(random_uuid()[6] >> 4 == 4 for _ in range(20))
