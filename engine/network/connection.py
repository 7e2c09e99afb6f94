"""Sends requests to another node over one connection, in versions that both nodes have.

A connection is made when it is needed and closed when a request fails on it or gets no answer in time. One
that has logged in is made anew before its session ends (KIP-368), between two requests.
Requests on one connection are answered in order.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

from bowstring.engine.storage.open_files import with_reserve_async
from bowstring.protocol import API_VERSIONS, ProtocolError, decode_response, encode_request
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from bowstring.protocol.schema import Request, Response

if TYPE_CHECKING:
    from bowstring.engine.network.peer_security import PeerSecurity
    from bowstring.engine.network.secure_link import SecureLink

_ASKED_VERSION: Final = 4
_SOFTWARE: Final = "bowstring"
_FRAME_MAX_BYTES: Final = 100 << 20
_LOOK_S: Final = 0.5


class NoAnswerError(Exception):
    """There was no answer: the node is not reachable, closed the connection, or is too slow.

    Attributes:
        refused: No process listens at its address.
    """

    def __init__(self, detail: str, *, refused: bool = False) -> None:
        super().__init__(detail)
        self.refused = refused


class UnsupportedByPeerError(Exception):
    """The node does not have the API in a version that this one has."""


async def open_stream(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connects to a node in plain text. Has descriptors in reserve when none are left.

    Raises:
        OSError: No process listens there, or the node cannot be reached.
    """
    return await with_reserve_async(lambda: asyncio.open_connection(host, port))


async def has_ended(host: str, port: int) -> bool:
    """Whether the process that listened at an address has ended: the connection is refused, not only slow."""
    try:
        async with asyncio.timeout(_LOOK_S):
            _, writer = await open_stream(host, port)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    writer.close()
    return False


class PeerConnection:
    """A connection to one address. Not thread-safe.

    Args:
        security: How to connect; None for plain text.
    """

    def __init__(self, host: str, port: int, client_id: str, security: "PeerSecurity | None" = None) -> None:
        self.host = host
        self.port = port
        self._client_id = client_id
        self._security = security
        self._reader: asyncio.StreamReader | SecureLink
        self._writer: asyncio.StreamWriter | SecureLink | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._correlation_id = 0
        self._turn = asyncio.Lock()

    async def exchange(
        self, request: Request, versions: tuple[int, int], timeout_s: float
    ) -> tuple[Response, int]:
        """Sends a request in the highest version that both nodes have; returns the response and the version.

        Args:
            versions: The lowest and highest version to use.

        Raises:
            NoAnswerError: There is no answer. The connection is closed, unless another request had it still.
            UnsupportedByPeerError: The node has no such version.
        """
        return await self.exchange_prepared(lambda version: request, request.api_key, versions, timeout_s)

    async def exchange_prepared(
        self, prepare: Any, key: int, versions: tuple[int, int], timeout_s: float
    ) -> tuple[Response, int]:
        """As `exchange`; `prepare(version)` returns the request for a version."""
        has_turn = False
        try:
            async with asyncio.timeout(timeout_s), self._turn:
                has_turn = True
                if self._writer is not None and self._is_over():
                    self.close()
                if self._writer is None:
                    await self._connect()
                version = self._version(key, versions)
                return await self._send(prepare(version), version), version
        except (OSError, TimeoutError, EOFError, ProtocolError) as error:
            if has_turn:
                self.close()
            refused = isinstance(error, ConnectionRefusedError)
            raise NoAnswerError(str(error) or type(error).__name__, refused=refused) from error
        except asyncio.CancelledError:
            if has_turn:
                self.close()  # the answer may still come, and would be mistaken for that of the next request
            raise

    def _version(self, key: int, versions: tuple[int, int]) -> int:
        lowest, highest = self._versions.get(key, (0, -1))
        version = min(highest, versions[1])
        if version < max(lowest, versions[0]):
            raise UnsupportedByPeerError(f"{API_VERSIONS[key].name} of {self.host}:{self.port}")
        return version

    def _is_over(self) -> bool:
        """Whether the other node closed the connection while it was idle, or its login is about to expire."""
        if self._reader.at_eof():
            return True
        return self._security is not None and cast("SecureLink", self._reader).is_due()

    async def _connect(self) -> None:
        if self._security is None:
            self._reader, self._writer = await open_stream(self.host, self.port)
        else:
            link = await self._security.connect(self.host, self.port, self._client_id)
            self._reader = self._writer = link
            self._versions = link.versions
            return
        asked = ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version="1")
        answer: Any = await self._send(asked, _ASKED_VERSION)
        if answer.error_code == Errors.UNSUPPORTED_VERSION.code:
            answer = await self._send(ApiVersionsRequest(), 0)
        if answer.error_code:
            raise ConnectionError(f"ApiVersions of {self.host}:{self.port}: error {answer.error_code}")
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    async def _send(self, request: Request, version: int) -> Response:
        assert self._writer is not None
        self._correlation_id += 1
        frame = encode_request(request, version, self._correlation_id, self._client_id)
        self._writer.write(len(frame).to_bytes(4, "big") + frame)
        await self._writer.drain()
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        if not 4 <= size <= _FRAME_MAX_BYTES:
            raise ConnectionError(f"{self.host}:{self.port} sent a frame of {size} bytes")
        answer = await self._reader.readexactly(size)
        return self._decode(request.api_key, version, answer)

    def _decode(self, key: int, version: int, answer: bytes) -> Response:
        if int.from_bytes(answer[:4], "big", signed=True) != self._correlation_id:
            raise ConnectionError(f"{self.host}:{self.port} answered another request")
        unsupported = Errors.UNSUPPORTED_VERSION.code.to_bytes(2, "big")
        if key == ApiKeys.API_VERSIONS and answer[4:6] == unsupported:
            return ApiVersionsResponse(error_code=Errors.UNSUPPORTED_VERSION.code)
        return decode_response(key, version, answer)[1]

    def close(self) -> None:
        """Closes the connection; the next request makes it again."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
