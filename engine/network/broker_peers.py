"""Sends requests to other brokers, and waits for answers as long as the image of the cluster has them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from bowstring.protocol.schema import Request, Response

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import ImageSource
    from bowstring.engine.network.peer_security import PeerSecurity
    from bowstring.engine.network.peers import Peers


class BrokerPeers:
    """The connections to other brokers, by what they are for. Used on the control loop only.

    The controller fences a broker that hangs, or that it cannot reach, and elects other leaders. An exchange
    with it ends then, so that the request can go to the new leader; `request.timeout.ms` may be much longer.

    Args:
        metadata: Has the brokers.
        listener: Name of the listener through which brokers connect to one another.
        security: How to connect to it; None for plain text.
    """

    def __init__(
        self, metadata: "ImageSource", listener: str, security: "PeerSecurity | None" = None
    ) -> None:
        self._metadata = metadata
        self._listener = listener
        self._security = security
        self._peers: dict[str, Peers] = {}

    def address(self, id: int) -> tuple[str, int] | None:
        """Returns host and port of a broker; None when it is not registered."""
        broker = self._metadata.image.brokers.get(id)
        endpoint = broker.endpoint(self._listener) if broker is not None else None
        return None if endpoint is None else (endpoint.host, endpoint.port)

    async def exchange(
        self,
        purpose: str,
        id: int,
        request: Request,
        versions: tuple[int, int],
        *,
        timeout_s: float,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> Response:
        """Sends a request to a broker in the highest version that both have; returns the response.

        Args:
            purpose: Requests of one purpose share a connection, which has it as its client id.
            versions: The lowest and highest version to use.
            is_wanted: Whether the answer is still of use by the image: whether that broker leads what the
                request is for.

        Raises:
            NoAnswerError: There is no answer in time; or the image says that the broker is fenced, not
                registered or started anew, or the answer is not wanted any more. What was sent may have an
                effect.
            UnsupportedByPeerError: The broker has no such version.
        """
        # Not at start: a node alone has no others.
        from bowstring.engine.network.connection import NoAnswerError
        from bowstring.engine.network.peers import Peers

        address = self.address(id)
        if address is None:
            raise NoAnswerError(f"broker {id} is not registered")
        epoch = self._metadata.image.brokers[id].epoch

        def is_there() -> bool:
            broker = self._metadata.image.brokers.get(id)
            return broker is not None and broker.epoch == epoch and not broker.fenced and is_wanted()

        peers = self._peers.get(purpose)
        if peers is None:
            peers = self._peers[purpose] = Peers(purpose, self._security)
        return await peers.exchange((id, *address), request, versions, timeout_s, is_there)

    def look(self, *_: object) -> None:
        """Ends the exchanges for which the image gives no reason any more. Call it for each change of it."""
        for peers in self._peers.values():
            peers.look()

    def close(self) -> None:
        """Closes the connections."""
        for peers in self._peers.values():
            peers.close()
