"""A client that uses the protocol's declarations over one socket, one request at a time."""

import socket
from typing import Any

from bowstring.protocol import API_VERSIONS, decode_response, encode_request
from bowstring.protocol.schema import Request
from tests.support.waiting import HANG_S


class WireClient:
    """One connection to a broker."""

    def __init__(self, port: int, host: str = "127.0.0.1", client_id: str = "test") -> None:
        self._client_id = client_id
        self._socket = socket.create_connection((host, port), timeout=HANG_S)
        self._correlation_id = 0

    def ask(self, request: Request, version: int | None = None) -> Any:
        """Sends a request, by default in its newest version, and returns the decoded answer: its API's Response."""
        if version is None:
            version = API_VERSIONS[request.api_key].highest
        self._correlation_id += 1
        self.send(encode_request(request, version, self._correlation_id, self._client_id))
        correlation_id, response = decode_response(request.api_key, version, self.receive())
        assert correlation_id == self._correlation_id
        return response

    def send(self, frame: bytes) -> None:
        """Sends a frame with its length."""
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def receive(self) -> bytes:
        """Returns the next frame; ConnectionError if the broker closed the connection."""
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
