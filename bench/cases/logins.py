"""Measures what a handshake and a log-in cost the broker: how many a core does in a second.

Clients are plain sockets of this process; the broker's CPU is what counts, so that their own cost does not.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import statistics
import struct
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

from bench.cases.security import SecuredPeers
from bench.lab import Lab
from bench.peers.peer import HOST, Peer
from bench.peers.tls_files import MECHANISM, SUITE, VERSION
from bench.procfs import Meter
from bench.results import CaseResult
from bowstring import Admin
from bowstring.clients.admin.scram_users import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from bowstring.protocol import decode_response, encode_request
from bowstring.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from bowstring.protocol.messages.sasl_handshake import SaslHandshakeRequest
from bowstring.protocol.schema import Request

USER, PASSWORD = "bench", "bench-secret"
ITERATIONS = 4096
THREADS = 2
_PACE_S = 0.002


def handshakes(lab: Lab, name: str, title: str) -> CaseResult:
    """Full handshakes of TLS 1.3, and resumed ones; each connection ends after it."""
    count = lab.size.handshakes
    facts = {"handshakes": f"{count:,}", "TLS": f"{VERSION}, {SUITE}, ECDSA P-256", "client": "Python's ssl"}
    peers = SecuredPeers(lab)

    def measure(peer_name: str) -> dict[str, float]:
        peer = peers.peer(peer_name)
        context = ssl.create_default_context(cafile=str(peers.files.authority))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        full = _rate(peer, count, lambda: _shake(context, peer, None))
        session = _session(context, peer)
        found = {"full_per_core_second": full}
        if _shake(context, peer, session):
            resumed = _rate(peer, count, lambda: _shake(context, peer, session))
            found["resumed_per_core_second"] = resumed
        return found

    try:
        return lab.alternate(CaseResult(name, title, facts), measure)
    finally:
        peers.stop()


def _shake(context: ssl.SSLContext, peer: Peer, session: ssl.SSLSession | None) -> bool:
    """Returns whether the broker resumed the session."""
    with (
        socket.create_connection((HOST, peer.tls_port)) as plain,
        context.wrap_socket(plain, server_hostname=HOST, session=session) as secured,
    ):
        return bool(secured.session_reused)


def _session(context: ssl.SSLContext, peer: Peer) -> ssl.SSLSession:
    """Returns a session to resume: its ticket comes with the first answer."""
    with (
        socket.create_connection((HOST, peer.tls_port)) as plain,
        context.wrap_socket(plain, server_hostname=HOST) as secured,
    ):
        header = struct.pack(">hhih", 18, 0, 1, -1)
        secured.sendall(struct.pack(">i", len(header)) + header)
        secured.recv(4)
        assert secured.session is not None
        return secured.session


def _rate(peer: Peer, count: int, once: Callable[[], object]) -> float:
    """Returns how many a core of the broker does in a second."""
    with ThreadPoolExecutor(THREADS) as pool, Meter(peer.pid) as meter:
        for each in [pool.submit(once) for _ in range(count)]:
            each.result()
    return count / meter.cpu_seconds


def logins(lab: Lab, name: str, title: str) -> CaseResult:
    """Log-ins with SCRAM-SHA-256 in the clear, and p99 of ApiVersions on a connection beside them."""
    count = lab.size.handshakes
    facts = {"log-ins": f"{count:,}", "iterations": f"{ITERATIONS:,}", "client": "plain sockets"}
    peers = SecuredPeers(lab)

    def measure(peer_name: str) -> dict[str, float]:
        peer = peers.peer(peer_name)
        _add_user(peer)
        salted = _Password()
        _log_in(peer, salted)
        quiet = _p99_ms(peer, lambda: time.sleep(_PACE_S * 200))
        rates: list[float] = []
        busy = _p99_ms(peer, lambda: rates.append(_rate(peer, count, lambda: _log_in(peer, salted))))
        return {"logins_per_core_second": rates[0], "quiet_p99_ms": quiet, "busy_p99_ms": busy} | (
            {"p99_over_quiet": busy / quiet} if quiet else {}
        )

    try:
        return lab.alternate(CaseResult(name, title, facts), measure)
    finally:
        peers.stop()


def _p99_ms(peer: Peer, load: Callable[[], object]) -> float:
    """Returns the 99th percentile of round trips of a small request while `load` runs."""
    times: list[float] = []
    done = threading.Event()

    def ask() -> None:
        with peer.connect() as connection:
            while not done.is_set():
                began = time.perf_counter()
                connection.api_versions()
                times.append(time.perf_counter() - began)
                time.sleep(_PACE_S)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        load()
    finally:
        done.set()
        thread.join()
    return statistics.quantiles(times, n=100)[98] * 1000 if len(times) > 2 else 0.0


def _add_user(peer: Peer) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, ITERATIONS)
    with Admin(bootstrap_servers=peer.bootstrap) as admin:
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, info, PASSWORD)])


class _Password:
    """The password, hashed once: a client does not pay for it in each log-in."""

    def __init__(self) -> None:
        self._by_salt: dict[bytes, bytes] = {}

    def salted(self, salt: bytes, iterations: int) -> bytes:
        if salt not in self._by_salt:
            self._by_salt[salt] = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), salt, iterations)
        return self._by_salt[salt]


def _log_in(peer: Peer, password: _Password) -> None:
    with socket.create_connection((HOST, peer.sasl_port)) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _exchange(plain, SaslHandshakeRequest(mechanism=MECHANISM), 1)
        nonce = f"{id(plain)}{time.perf_counter_ns()}"
        bare = f"n={USER},r={nonce}"
        first = _token(plain, f"n,,{bare}".encode()).decode()
        fields = dict(part.split("=", 1) for part in first.split(","))
        final = f"c=biws,r={fields['r']}"
        salted = password.salted(b64decode(fields["s"]), int(fields["i"]))
        key = hmac.digest(salted, b"Client Key", "sha256")
        signed = hmac.digest(sha256(key).digest(), f"{bare},{first},{final}".encode(), "sha256")
        proof = bytes(one ^ other for one, other in zip(key, signed, strict=True))
        _token(plain, f"{final},p={b64encode(proof).decode()}".encode())


def _token(plain: socket.socket, data: bytes) -> bytes:
    answer: SaslAuthenticateResponse = _exchange(plain, SaslAuthenticateRequest(auth_bytes=data), 1)
    assert answer.error_code == 0, answer.error_message
    return bytes(answer.auth_bytes)


def _exchange(plain: socket.socket, request: Request, version: int):  # type: ignore[no-untyped-def]
    frame = encode_request(request, version, 1, "bench")
    plain.sendall(struct.pack(">i", len(frame)) + frame)
    size = int.from_bytes(_exactly(plain, 4), "big")
    return decode_response(request.api_key, version, _exactly(plain, size))[1]


def _exactly(plain: socket.socket, n: int) -> bytes:
    data = b""
    while len(data) < n:
        piece = plain.recv(n - len(data))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        data += piece
    return data
