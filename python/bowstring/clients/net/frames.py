"""Encodes and decodes frames for clients, and chooses API versions."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from bowstring._native.client.fetch_codec import MalformedAnswer, parse_fetch_answer
from bowstring._native.client.produce_requests import parse_acknowledgements
from bowstring._native.protocol.message_codec import ProtocolError as CodecError
from bowstring.clients.errors import MisroutedError, ProtocolError, UnsupportedApiError
from bowstring.protocol import frames
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.api_versions import ApiVersionsRequest
from bowstring.protocol.messages.fetch import FetchRequest
from bowstring.protocol.messages.metadata import MetadataRequest
from bowstring.protocol.messages.produce import ProduceRequest
from bowstring.protocol.schema import Request
from bowstring.protocol.versions import API_VERSIONS
from bowstring.version import __version__

# A Metadata of more bytes is decoded topic by topic.
LARGE_BYTES = 1 << 17
# Requested first; a broker that does not support it answers in version 0 with its versions (KIP-511).
API_VERSIONS_HIGHEST = 4
API_VERSIONS_KEY = ApiVersionsRequest.api_key
# Since this version the request names the broker that the client means to reach (KIP-1242).
API_VERSIONS_NAMING = 5

# The newest versions that these clients use if not the newest declared: committed offsets are addressed by
# topic name here; later versions use topic ids only. Those of AddPartitionsToTxn from 4 on are for brokers.
HIGHEST_SPOKEN = {8: 9, 9: 9, 24: 3, 28: 5}

# The newest versions that transactional producers use where transaction.version is below 2 (KIP-890): later
# ones rely on brokers that add partitions to transactions and raise epochs.
TRANSACTION_FEATURE = "transaction.version"
BEFORE_TRANSACTION_2 = {0: 11, 26: 4, 28: 4}


class Meant(NamedTuple):
    """The broker that a client means to reach, by its cluster's metadata."""

    cluster_id: str
    node_id: int


def api_versions_body(asked: int, meant: Meant | None = None) -> ApiVersionsRequest:
    """Returns the first request on every connection."""
    if asked < 3:
        return ApiVersionsRequest()
    request = ApiVersionsRequest(client_software_name="bowstring", client_software_version=__version__)
    if meant is not None and asked >= API_VERSIONS_NAMING:
        request.cluster_id, request.node_id = meant
    return request


def api_name(api: type[Request]) -> str:
    """Returns Kafka's name of an API."""
    return API_VERSIONS[api.api_key].name


def choose_version(api: type[Request], versions: Mapping[int, tuple[int, int]]) -> int:
    """Returns the newest version of `api` that both sides support.

    Raises:
        UnsupportedApiError: there is none.
    """
    ours = API_VERSIONS[api.api_key]
    theirs = versions.get(api.api_key)
    if theirs is None:
        raise UnsupportedApiError(
            f"the broker does not offer {ours.name}: it is too old or does not support it yet"
        )
    highest = min(HIGHEST_SPOKEN.get(ours.key, ours.highest), theirs[1])
    if highest < max(ours.lowest, theirs[0]):
        raise UnsupportedApiError(
            f"the broker supports {ours.name} {theirs[0]} to {theirs[1]}, this client {ours.lowest} to "
            f"{ours.highest}: upgrade the older of the two"
        )
    return highest


class FramedRequest(ABC):
    """A request that writes its own frame around buffers too large to copy."""

    @abstractmethod
    def buffers(self, version: int, correlation_id: int, client_id: str) -> list[memoryview]:
        """Returns the frame with its length in front, as buffers to send one after another."""


def encode_request(
    body: Request | FramedRequest, version: int, correlation_id: int, client_id: str
) -> list[memoryview]:
    """Returns the frame of a request with its length in front, as buffers to send one after another.

    Raises:
        ProtocolError: the body does not fit the version.
    """
    if not isinstance(body, Request):  # checked this way because isinstance() with an ABC takes microseconds
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
    """Decodes the body of a response frame (without its length). Fetch gives a FetchAnswer, whose records
    stay in the frame; Produce gives Acknowledgements if nothing was refused. The topics of a large Metadata
    are decoded while they are read, so that other threads run in between: an error in one is raised then.

    Raises:
        ProtocolError: the bytes are malformed.
    """
    try:
        if api is FetchRequest:
            return parse_fetch_answer(frame, version)
        if api is ProduceRequest and (acknowledged := parse_acknowledgements(frame, version)) is not None:
            return acknowledged
        if api is MetadataRequest and len(frame) > LARGE_BYTES:
            return frames.decode_large_response(api.api_key, version, frame)
        return frames.decode_response(api.api_key, version, frame)[1]
    except (CodecError, MalformedAnswer) as error:
        raise ProtocolError(f"the broker's answer cannot be decoded: {error}") from error


class BrokerVersions(NamedTuple):
    """What a broker offers.

    Attributes:
        by_key: lowest and highest version by API key.
        retry_version: the version of ApiVersions to retry with after a refusal; or None.
        features: finalized levels of features by name (KIP-584).
    """

    by_key: dict[int, tuple[int, int]]
    retry_version: int | None
    features: dict[str, int]


def for_transactions(offered: BrokerVersions) -> dict[int, tuple[int, int]]:
    """Returns the versions that a transactional producer may use."""
    versions = dict(offered.by_key)
    if offered.features.get(TRANSACTION_FEATURE, 0) < 2:
        for key, highest in BEFORE_TRANSACTION_2.items():
            if key in versions:
                versions[key] = (versions[key][0], min(highest, versions[key][1]))
    return versions


def decode_api_versions(asked: int, frame: memoryview) -> BrokerVersions:
    """Returns what a broker offers.

    Raises:
        ProtocolError: the bytes are malformed, or the broker refuses every version.
        MisroutedError: the broker is not the one that was named.
    """
    (code,) = struct.unpack_from(">h", frame, 4) if len(frame) >= 6 else (0,)
    refused = code == Errors.UNSUPPORTED_VERSION.code
    response = decode_response(ApiVersionsRequest, 0 if refused else asked, frame)
    versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    if not refused:
        if code == Errors.REBOOTSTRAP_REQUIRED.code:
            raise MisroutedError
        if code:
            raise ProtocolError(f"the broker refuses to report its versions: {Errors.of(code).name}")
        features = {each.name: each.max_version_level for each in response.finalized_features}
        return BrokerVersions(versions, None, features)
    highest = min(versions.get(ApiVersionsRequest.api_key, (0, 0))[1], asked - 1)
    if asked == 0:
        raise ProtocolError("the broker refuses every version of ApiVersions")
    return BrokerVersions(versions, max(0, highest), {})
