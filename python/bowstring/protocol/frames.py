"""Encodes and decodes requests and responses with their headers, as in a frame after its length."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bowstring._native.protocol.message_codec import (
    ProtocolError,
    decode,
    decode_lazily,
    decode_prefix,
    encode,
)
from bowstring._native.protocol.message_layout import StructBase
from bowstring._native.protocol.message_steps import Encoding
from bowstring.protocol.headers import (
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from bowstring.protocol.schema import Request, Response
from bowstring.protocol.versions import API_VERSIONS

if TYPE_CHECKING:
    from typing_extensions import Buffer

Frame = bytes | bytearray | memoryview


class DecodedHeader(NamedTuple):
    """A request's header, and the offset in the frame at which the body begins."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def encode_request(body: Request, version: int, correlation_id: int, client_id: str | None = None) -> bytes:
    """Encodes header and body of a request, without the length in front.

    Raises:
        ProtocolError: the body does not fit the version.
    """
    header = RequestHeader(
        request_api_key=body.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return encode(body, version, header, request_header_version(API_VERSIONS[body.api_key], version))


def decode_request_header(frame: Frame) -> DecodedHeader:
    """Decodes the header of a request frame (without its length). The version may be unknown.

    Raises:
        ProtocolError: the API key is not declared, or the header is truncated.
    """
    if len(frame) < 8:
        raise ProtocolError(
            "RequestHeader", 1, "", 0, f"a header has at least 8 bytes, but only {len(frame)} are left"
        )
    api_key = int.from_bytes(frame[0:2], "big", signed=True)
    if api_key not in API_VERSIONS:
        raise ProtocolError("RequestHeader", 1, "request_api_key", 0, f"API key {api_key} is unknown")
    api_version = int.from_bytes(frame[2:4], "big", signed=True)
    header_version = request_header_version(API_VERSIONS[api_key], api_version)
    header, end = decode_prefix(RequestHeader, header_version, frame)
    return DecodedHeader(api_key, api_version, header.correlation_id, header.client_id, end)


def decode_request(api_key: int, version: int, frame: Buffer, body_offset: int = 0) -> Request:
    """Decodes the body of a request from `body_offset` on. Like Kafka, ignores bytes after it: librdkafka's
    Metadata request for all topics has three extra bytes.

    Raises:
        KeyError: the API key is not declared.
        ProtocolError: the version is not declared, or the bytes are malformed.
    """
    body, _ = decode_prefix(API_VERSIONS[api_key].request, version, frame, body_offset)
    return body


def decode_large_request(api_key: int, version: int, body: Buffer) -> Request:
    """Decodes the body of a large request. Its large arrays are not lists: they have a length and can be
    iterated, and each iteration creates new elements. The arrays are complete; a string that is not UTF-8
    raises when its element is reached.

    Raises:
        KeyError: the API key is not declared.
        ProtocolError: the version is not declared, or the bytes are malformed.
    """
    return decode_lazily(API_VERSIONS[api_key].request, version, body)


def begin_response(api_key: int, version: int, correlation_id: int, body: StructBase) -> Encoding:
    """Returns an encoder that writes header and body of a response step by step, as `encode_response` does at
    once.

    Raises:
        KeyError: the API key is not declared.
        ProtocolError: the version is not declared.
    """
    header_version = response_header_version(API_VERSIONS[api_key], version)
    return Encoding(body, version, ResponseHeader(correlation_id=correlation_id), header_version)


def encode_response(api_key: int, version: int, correlation_id: int, body: StructBase) -> bytes:
    """Encodes header and body of a response, without the length in front.

    Raises:
        KeyError: the API key is not declared.
        ProtocolError: the body does not fit the version.
    """
    header_version = response_header_version(API_VERSIONS[api_key], version)
    return encode(body, version, ResponseHeader(correlation_id=correlation_id), header_version)


def decode_large_response(api_key: int, version: int, frame: Buffer) -> Response:
    """Decodes the body of a large response as `decode_large_request` does that of a request.

    Raises:
        KeyError: the API key is not declared.
        ProtocolError: the version is not declared, or the bytes are malformed.
    """
    api = API_VERSIONS[api_key]
    _, offset = decode_prefix(ResponseHeader, response_header_version(api, version), frame)
    return decode_lazily(api.response, version, frame, offset)


def decode_response(api_key: int, version: int, frame: Frame) -> tuple[int, Response]:
    """Decodes correlation id and body of a response frame (without its length).

    A broker answers an unknown version of ApiVersions in version 0. Decode as that version when error_code,
    its first field, is UNSUPPORTED_VERSION.

    Raises:
        KeyError: the API key is not declared.
        ProtocolError: the version is not declared, or the bytes are malformed.
    """
    api = API_VERSIONS[api_key]
    header, offset = decode_prefix(ResponseHeader, response_header_version(api, version), frame)
    return header.correlation_id, decode(api.response, version, frame, offset)
