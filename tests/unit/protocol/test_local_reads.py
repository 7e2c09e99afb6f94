"""Frames of local reads: both ends agree, and truncated or invented ones are refused by name."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring.protocol import local_reads
from bowstring.protocol.local_reads import (
    Hello,
    HelloRequest,
    LocalFrameError,
    Segment,
    Segments,
    SegmentsRequest,
)

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
PAIRS = st.lists(st.tuples(INT64, INT64), max_size=3)
TEXT = st.text(max_size=50)
SEGMENT = st.builds(
    Segment, INT64, INT64, INT64, INT64, INT64, INT64, st.booleans(), TEXT, PAIRS, fd=st.just(-1)
)
ANSWER = st.builds(
    Segments,
    st.binary(min_size=16, max_size=16),
    INT32,
    INT64,
    INT64,
    INT64,
    INT64,
    INT64,
    st.lists(SEGMENT, max_size=3),
    PAIRS,
)
REQUEST = st.builds(
    SegmentsRequest,
    TEXT,
    INT32,
    INT64,
    st.binary(min_size=16, max_size=16),
    INT32,
    st.integers(-128, 127),
    INT32,
    st.integers(-32768, 32767),
    st.booleans(),
)


def body(frame: bytes) -> bytes:
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return frame[4:]


@given(INT32, REQUEST)
def test_requests(number, request):
    header, found = local_reads.decode_request(body(local_reads.encode_segments_request(number, request)))
    assert (header.kind, header.version, header.correlation_id) == (local_reads.SEGMENTS, 0, number)
    assert found == request


@given(INT32, ANSWER)
def test_answers(number, answer):
    frame = local_reads.encode_segments(number, answer)
    correlation_id, code, message, reader = local_reads.decode_response_header(body(frame))
    assert (correlation_id, code, message) == (number, 0, "")
    assert local_reads.decode_segments(reader) == answer


def test_hello_and_errors():
    for token in ("", "a token"):
        frame = body(local_reads.encode_hello_request(7, "me", token))
        header, found = local_reads.decode_request(frame)
        assert (header.kind, header.version) == (local_reads.HELLO, 1 if token else 0)
        assert (header.correlation_id, found) == (7, HelloRequest("me", token))
        assert "a token" not in repr(found)
    hello = Hello("an instance", "a cluster", 3)
    *_, reader = local_reads.decode_response_header(body(local_reads.encode_hello(7, hello)))
    assert local_reads.decode_hello(reader) == hello
    number, code, message, _ = local_reads.decode_response_header(body(local_reads.encode_error(9, 3, "no")))
    assert (number, code, message) == (9, 3, "no")


@given(ANSWER)
def test_answers_cut_short(answer):
    whole = body(local_reads.encode_segments(1, answer))
    for size in range(0, len(whole), 7):
        with pytest.raises(LocalFrameError):
            *_, reader = local_reads.decode_response_header(whole[:size])
            local_reads.decode_segments(reader)


@given(st.binary(max_size=100))
def test_any_bytes(data):
    with contextlib.suppress(LocalFrameError):
        local_reads.decode_request(data)
    with contextlib.suppress(LocalFrameError):
        *_, reader = local_reads.decode_response_header(data)
        local_reads.decode_segments(reader)


def test_what_is_not_known_is_told_apart_from_what_is_malformed():
    frame = body(local_reads.encode_hello_request(7, "me"))
    header, request = local_reads.decode_request(b"\0\5" + frame[2:])
    assert (header.kind, request) == (5, None)
    with pytest.raises(LocalFrameError, match="follow"):
        local_reads.decode_request(frame + b"x")
