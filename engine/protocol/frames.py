"""Requests and responses with their headers, as they stand in a frame behind its length."""

from __future__ import annotations

from typing import NamedTuple

from bowstring._native.codec import ProtocolError, decode, decode_prefix, encode
from bowstring._native.layout import StructBase
from bowstring.engine.protocol.messages.headers import RequestHeader, ResponseHeader
from bowstring.engine.protocol.schema import Request, Response
from bowstring.engine.protocol.versions import API_VERSIONS

Buffer = bytes | bytearray | memoryview


class DecodedHeader(NamedTuple):
    """A request's header, and the offset in the frame at which the body begins."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def encode_request(body: Request, version: int, correlation_id: int, client_id: str | None = None) -> bytes:
    """Header and body of a request, without the length in front.

    Raises:
        ProtocolError: the body does not fit the version.
    """
    header = RequestHeader(
        request_api_key=body.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return encode(body, version, header, API_VERSIONS[body.api_key].request_header_version(version))


def decode_request_header(frame: Buffer) -> DecodedHeader:
    """The header of a request frame (without its length). The version may be one that is not known.

    Raises:
        ProtocolError: the API key is not declared, or the header is cut short.
    """
    if len(frame) < 8:
        raise ProtocolError("RequestHeader", 1, "", 0, f"a header has 8 bytes or more, {len(frame)} are left")
    api_key = int.from_bytes(frame[0:2], "big", signed=True)
    if api_key not in API_VERSIONS:
        raise ProtocolError("RequestHeader", 1, "request_api_key", 0, f"API key {api_key} is not known")
    api_version = int.from_bytes(frame[2:4], "big", signed=True)
    header_version = API_VERSIONS[api_key].request_header_version(api_version)
    header, end = decode_prefix(RequestHeader, header_version, frame)
    return DecodedHeader(api_key, api_version, header.correlation_id, header.client_id, end)


def decode_request(api_key: int, version: int, frame: Buffer, body_offset: int = 0) -> Request:
    """The body of a request, from `body_offset` on. Bytes that follow it are ignored, as Kafka ignores them:
    librdkafka's Metadata request for all topics ends in three of them.

    Raises:
        KeyError: the API key is not declared.
        ProtocolError: the version is not declared, or the bytes are no such request.
    """
    body, _ = decode_prefix(API_VERSIONS[api_key].request, version, frame, body_offset)
    return body


def encode_response(api_key: int, version: int, correlation_id: int, body: StructBase) -> bytes:
    """Header and body of a response, without the length in front.

    Raises:
        KeyError: the API key is not declared.
        ProtocolError: the body does not fit the version.
    """
    header_version = API_VERSIONS[api_key].response_header_version(version)
    return encode(body, version, ResponseHeader(correlation_id=correlation_id), header_version)


def decode_response(api_key: int, version: int, frame: Buffer) -> tuple[int, Response]:
    """Correlation id and body of a response frame (without its length).

    An ApiVersions answer to a version the broker does not know comes as version 0; ask for that version
    when error_code, its first field, is UNSUPPORTED_VERSION.

    Raises:
        KeyError: the API key is not declared.
        ProtocolError: the version is not declared, or the bytes are no such response.
    """
    api = API_VERSIONS[api_key]
    header, offset = decode_prefix(ResponseHeader, api.response_header_version(version), frame)
    return header.correlation_id, decode(api.response, version, frame, offset)
