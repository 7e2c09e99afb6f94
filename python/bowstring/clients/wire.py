"""Frames as clients write and read them, and which version of an API to speak."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from bowstring._native.codec import ProtocolError as CodecError
from bowstring._native.fetch_answer import MalformedAnswer, parse_fetch_answer
from bowstring._native.produce_rounds import parse_acknowledgements
from bowstring.clients.errors import ProtocolError, UnsupportedApiError
from bowstring.engine.errors import Errors
from bowstring.engine.protocol import frames
from bowstring.engine.protocol.messages.api_versions import ApiVersionsRequest
from bowstring.engine.protocol.messages.fetch import FetchRequest
from bowstring.engine.protocol.messages.produce import ProduceRequest
from bowstring.engine.protocol.schema import Request
from bowstring.engine.protocol.versions import API_VERSIONS

# Asked for first; a broker that does not know it answers in version 0 with what it does know (KIP-511).
API_VERSIONS_HIGHEST = 4

# The newest versions that these clients speak where that is not the newest declared: committed offsets are
# addressed by topic name here, later versions know topics by id only.
HIGHEST_SPOKEN = {8: 9, 9: 9}


@cache
def software_version() -> str:
    """Version of the installed package, as told to brokers."""
    try:
        return version("bowstring")
    except PackageNotFoundError:
        return "unknown"


def api_versions_body(asked: int) -> ApiVersionsRequest:
    """The first request on every connection."""
    if asked < 3:
        return ApiVersionsRequest()
    return ApiVersionsRequest(client_software_name="bowstring", client_software_version=software_version())


def api_name(api: type[Request]) -> str:
    """Kafka's name of an API."""
    return API_VERSIONS[api.api_key].name


def choose_version(api: type[Request], versions: Mapping[int, tuple[int, int]]) -> int:
    """The newest version of `api` that both sides know.

    Raises:
        UnsupportedApiError: there is none.
    """
    ours = API_VERSIONS[api.api_key]
    theirs = versions.get(api.api_key)
    if theirs is None:
        raise UnsupportedApiError(
            f"the broker does not offer {ours.name}: it is too old or does not have it yet"
        )
    highest = min(HIGHEST_SPOKEN.get(ours.key, ours.highest), theirs[1])
    if highest < max(ours.lowest, theirs[0]):
        raise UnsupportedApiError(
            f"the broker offers {ours.name} {theirs[0]} to {theirs[1]}, this client speaks "
            f"{ours.lowest} to {ours.highest}: upgrade the older of the two"
        )
    return highest


class FramedRequest(ABC):
    """A request that writes its own frame, around buffers too large to be copied."""

    @abstractmethod
    def buffers(self, version: int, correlation_id: int, client_id: str) -> list[memoryview]:
        """The frame with its length in front, as buffers to be sent one after the other."""


def encode_request(
    body: Request | FramedRequest, version: int, correlation_id: int, client_id: str
) -> list[memoryview]:
    """The frame of a request with its length in front, as buffers to be sent one after the other.

    Raises:
        ProtocolError: the body does not fit the version.
    """
    if not isinstance(body, Request):  # asked this way because asking an ABC takes microseconds
        return body.buffers(version, correlation_id, client_id)
    try:
        frame = frames.encode_request(body, version, correlation_id, client_id)
    except CodecError as error:
        raise ProtocolError(f"cannot be sent: {error}") from error
    prefix = struct.pack(">i", len(frame))
    if len(frame) < 4096:
        return [memoryview(prefix + frame)]
    return [memoryview(prefix), memoryview(frame)]


def decode_response(api: type[Request], version: int, frame: memoryview) -> Any:
    """The body of a response frame (without its length); of Fetch a FetchAnswer, whose records stay in it;
    of Produce Acknowledgements where nothing is refused.

    Raises:
        ProtocolError: the bytes are no such response.
    """
    try:
        if api is FetchRequest:
            return parse_fetch_answer(frame, version)
        if api is ProduceRequest and (acknowledged := parse_acknowledgements(frame, version)) is not None:
            return acknowledged
        return frames.decode_response(api.api_key, version, frame)[1]
    except (CodecError, MalformedAnswer) as error:
        raise ProtocolError(f"the broker's answer cannot be read: {error}") from error


def decode_api_versions(asked: int, frame: memoryview) -> tuple[dict[int, tuple[int, int]], int | None]:
    """Versions by API key; and, when `asked` was refused, the version to ask with instead.

    Raises:
        ProtocolError: the bytes are no such response, or the broker refuses every version.
    """
    (code,) = struct.unpack_from(">h", frame, 4) if len(frame) >= 6 else (0,)
    refused = code == Errors.UNSUPPORTED_VERSION.code
    response = decode_response(ApiVersionsRequest, 0 if refused else asked, frame)
    versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    if not refused:
        if code:
            raise ProtocolError(f"the broker refuses to tell its versions: {Errors.of(code).name}")
        return versions, None
    highest = min(versions.get(ApiVersionsRequest.api_key, (0, 0))[1], asked - 1)
    if asked == 0:
        raise ProtocolError("the broker refuses every version of ApiVersions")
    return versions, max(0, highest)
