"""Holds the connections to other nodes, one for each of them."""

from bowstring.engine.network.connection import PeerConnection


class Peers:
    """The connections to other nodes by node id."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._connections: dict[int, PeerConnection] = {}

    def at(self, id: int, host: str, port: int) -> PeerConnection:
        """Returns the connection to a node; one to another address of it is closed."""
        connection = self._connections.get(id)
        if connection is None or (connection.host, connection.port) != (host, port):
            if connection is not None:
                connection.close()
            connection = self._connections[id] = PeerConnection(host, port, self._client_id)
        return connection

    def close(self) -> None:
        """Closes them."""
        for connection in self._connections.values():
            connection.close()
