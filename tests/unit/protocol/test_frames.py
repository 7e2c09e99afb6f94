"""Headers, and the table of versions behind them."""

import pytest

from bowstring.protocol import (
    API_VERSIONS,
    ProtocolError,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from bowstring.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from bowstring.protocol.messages.metadata import MetadataRequest, MetadataResponse


def test_request_header_v1():
    frame = encode_request(MetadataRequest(topics=None), 8, 7, "me")
    assert frame.startswith(b"\x00\x03\x00\x08\x00\x00\x00\x07\x00\x02me\xff\xff\xff\xff")
    assert decode_request_header(frame) == (3, 8, 7, "me", 12)


def test_request_header_v2_keeps_the_two_byte_length_of_the_client_id():
    frame = encode_request(MetadataRequest(topics=None), 9, 7, "me")
    assert frame.startswith(b"\x00\x03\x00\x09\x00\x00\x00\x07\x00\x02me\x00\x00")
    header = decode_request_header(frame)
    assert header == (3, 9, 7, "me", 13)
    assert decode_request(3, 9, frame, header.body_offset) == MetadataRequest(topics=None)
    assert decode_request(3, 9, memoryview(frame)[13:]) == MetadataRequest(topics=None)


def test_no_client_id():
    assert decode_request_header(encode_request(MetadataRequest(topics=[]), 12, 1)).client_id is None


def test_response_headers():
    assert encode_response(3, 8, 7, MetadataResponse()).startswith(b"\x00\x00\x00\x07\x00\x00\x00\x00\x00")
    for version in (8, 9):
        frame = encode_response(3, version, 7, MetadataResponse(cluster_id="c"))
        assert decode_response(3, version, frame) == (7, MetadataResponse(cluster_id="c"))
    assert encode_response(3, 9, 7, MetadataResponse())[4] == 0


def test_api_versions_answers_always_have_header_v0():
    for version in range(5):
        frame = encode_response(18, version, 9, ApiVersionsResponse(error_code=35))
        assert frame[:6] == b"\x00\x00\x00\x09\x00\x23"
        assert decode_response(18, version, frame) == (9, ApiVersionsResponse(error_code=35))


def test_the_header_of_a_version_from_the_future_is_read():
    """So that ApiVersions can be answered with the known fields."""
    frame = encode_request(ApiVersionsRequest(client_software_name="new"), 4, 3, "client")
    future = frame[:2] + b"\x00\x63" + frame[4:]
    assert decode_request_header(future)[:4] == (18, 99, 3, "client")


@pytest.mark.parametrize("frame", [b"", b"\x00\x03", b"\x00\x03\x00\x08\x00\x00\x00\x07\x00\x09me"])
def test_cut_headers(frame):
    with pytest.raises(ProtocolError):
        decode_request_header(frame)


def test_unknown_api_key():
    with pytest.raises(ProtocolError, match="API key 999 is unknown"):
        decode_request_header(b"\x03\xe7\x00\x08\x00\x00\x00\x07\x00\x00")


def test_the_table_is_what_the_declarations_say():
    for key in API_VERSIONS:
        api = API_VERSIONS[key]
        assert (api.key, api.request.api_key, api.response.api_key) == (key, key, key)
        assert api.request.__name__ == f"{api.name}Request"
        assert 0 <= api.lowest <= api.highest <= api.highest_declared <= api.highest + 1
        assert set(api.served_by) <= {"broker", "controller"}
        assert (api.request.__module__, api.request.__doc__) == (api.response.__module__, None)


def test_versions_the_project_promises():
    promised = {
        "Produce": (3, 13),
        "Fetch": (4, 18),
        "ListOffsets": (1, 11),
        "Metadata": (0, 13),
        "ApiVersions": (0, 5),
        "JoinGroup": (0, 9),
        "OffsetCommit": (2, 10),
        "OffsetFetch": (1, 10),
    }
    table = {api.name: (api.lowest, api.highest) for api in map(API_VERSIONS.__getitem__, API_VERSIONS)}
    assert promised.items() <= table.items()
    assert table["InitProducerId"] == (0, 5) and API_VERSIONS[22].highest_declared == 6
