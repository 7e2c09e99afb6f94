"""A client that speaks the protocol's declarations over one socket, one request at a time."""

import socket

from bowstring.engine.protocol import API_VERSIONS, decode_response, encode_request
from bowstring.engine.protocol.schema import Request, Response


class WireClient:
    """One connection to a broker."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection((host, port), timeout=20)
        self._correlation_id = 0

    def ask(self, request: Request, version: int | None = None) -> Response:
        """Sends a request, by default in its newest version, and returns the decoded answer."""
        if version is None:
            version = API_VERSIONS[request.api_key].highest
        self._correlation_id += 1
        self.send(encode_request(request, version, self._correlation_id, "test"))
        correlation_id, response = decode_response(request.api_key, version, self.receive())
        assert correlation_id == self._correlation_id
        return response

    def send(self, frame: bytes) -> None:
        """Sends a frame, its length in front."""
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def receive(self) -> bytes:
        """The next frame; ConnectionError when the broker closed the connection instead."""
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("closed by the broker")
            data += piece
        return data

    def is_closed(self) -> bool:
        """Whether the broker closes the connection."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()
