"""Holds the connections to other nodes, one for each, and ends waits for answers that nobody needs."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from bowstring.engine.network.connection import NoAnswerError, PeerConnection
from bowstring.protocol.schema import Request, Response

if TYPE_CHECKING:
    from bowstring.engine.network.peer_security import PeerSecurity

_GRACE_S: Final = 0.2


class Peers:
    """The connections to other nodes by node id. Used on one event loop only.

    A node that hangs, or that no packet reaches, gives no sign of that; the cluster finds out, and chooses
    another node for what it did. `look` then ends the waits for its answers.
    """

    def __init__(self, client_id: str, security: "PeerSecurity | None" = None) -> None:
        """`security`: How to connect to them; None for plain text."""
        self._client_id = client_id
        self._security = security
        self._connections: dict[int, PeerConnection] = {}
        self._waits: dict[asyncio.Timeout, Callable[[], bool]] = {}

    def at(self, id: int, host: str, port: int) -> PeerConnection:
        """Returns the connection to a node; one to another address of it is closed."""
        connection = self._connections.get(id)
        if connection is None or (connection.host, connection.port) != (host, port):
            if connection is not None:
                connection.close()
            connection = self._connections[id] = PeerConnection(host, port, self._client_id, self._security)
        return connection

    async def exchange(
        self,
        node: tuple[int, str, int],
        request: Request,
        versions: tuple[int, int],
        timeout_s: float,
        is_wanted: Callable[[], bool],
    ) -> Response:
        """Sends a request as `PeerConnection.exchange` does, and returns the response.

        Args:
            node: Id, host and port.
            is_wanted: Whether this node is still the one to wait for. `look` reads it.

        Raises:
            NoAnswerError: There is no answer, or it is not wanted any more. What was sent may have an effect.
            UnsupportedByPeerError: The node has no such version.
        """
        if not is_wanted():
            raise NoAnswerError("another node is to be asked")
        end = asyncio.timeout(None)
        self._waits[end] = is_wanted
        try:
            async with end:
                answer, _ = await self.at(*node).exchange(request, versions, timeout_s)
                return answer
        except TimeoutError:
            raise NoAnswerError("it did not answer before another node had its place") from None
        finally:
            del self._waits[end]

    def look(self) -> None:
        """Ends the exchanges that are not wanted any more. Call it when that may have changed.

        A node that is alive says soon that it has lost its place, or what it has done: it has the time for
        that.
        """
        for end, is_wanted in self._waits.items():
            if end.when() is None and not is_wanted():
                end.reschedule(asyncio.get_running_loop().time() + _GRACE_S)

    def close(self) -> None:
        """Closes them."""
        for connection in self._connections.values():
            connection.close()
