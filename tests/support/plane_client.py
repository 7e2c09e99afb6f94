"""A raw client for one DataPlane that sends and receives frames."""

import socket
import ssl
import struct

from bowstring.protocol import decode_response, encode_request
from tests.support.readable import readable
from tests.support.waiting import HANG_S


class PlaneClient:
    def __init__(self, port: int, tls: ssl.SSLContext | None = None, session: ssl.SSLSession | None = None):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=HANG_S)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost", session=session)
        self.correlation_id = 0
        self.client_id: str | None = "test"
        self.received = b""

    def send(self, body, version: int) -> int:
        self.correlation_id += 1
        frame = encode_request(body, version, self.correlation_id, self.client_id)
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        return self.correlation_id

    def read_frame(self) -> bytes:
        while len(self.received) < 4 or len(self.received) < 4 + struct.unpack(">i", self.received[:4])[0]:
            more = self.socket.recv(1 << 20)
            if not more:
                raise ConnectionError("closed by the broker")
            self.received += more
        size = struct.unpack(">i", self.received[:4])[0]
        frame, self.received = self.received[4 : 4 + size], self.received[4 + size :]
        return frame

    def receive(self, api_key: int, version: int):
        self.answered, response = decode_response(api_key, version, self.read_frame())
        return response

    def call(self, body, version: int):
        sent = self.send(body, version)
        response = self.receive(body.api_key, version)
        assert self.answered == sent
        return response

    def closed(self, timeout: float = HANG_S) -> bool:
        """Whether the broker closed the connection; it resets the connection if requests were unread."""
        try:
            return readable(self.socket, timeout) and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self):
        self.socket.close()
