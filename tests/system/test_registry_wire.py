"""HTTP as clients of all kinds write it, on real sockets: chunks, pipelines, HEAD, old versions, broken requests."""

import json
import socket

import pytest

from tests.support.registry_double import RegistryDouble, record_schema
from tests.support.served_site import served
from tests.support.waiting import HANG_S

BODY = json.dumps({"schema": record_schema("a")}).encode()


@pytest.fixture(scope="module")
def site():
    with served(RegistryDouble(body_bytes_max=100_000).app) as site:
        yield site


def exchange(site, *parts):
    """Returns all that comes until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", site.port), timeout=HANG_S) as connection:
        for part in parts:
            connection.sendall(part)
        found = b""
        while received := connection.recv(1 << 16):
            found += received
    return found


def head(method, path, *lines):
    return "\r\n".join((f"{method} {path} HTTP/1.1", "host: x", *lines, "", "")).encode()


def test_a_body_may_come_in_chunks(site):
    chunks = b"".join(b"%x\r\n%b\r\n" % (1, BODY[at : at + 1]) for at in range(len(BODY)))
    request = head("POST", "/subjects/chunked/versions", "transfer-encoding: chunked", "connection: close")
    answer = exchange(site, request, chunks, b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"id":' in answer


def test_requests_may_be_pipelined(site):
    length = f"content-length: {len(BODY)}"
    first = head("POST", "/subjects/piped/versions", length) + BODY
    answer = exchange(site, first + head("GET", "/subjects/piped/versions", "connection: close"))
    assert answer.count(b"HTTP/1.1 200") == 2
    assert answer.endswith(b"[1]")


def test_head_has_no_body(site):
    answer = exchange(site, head("HEAD", "/config", "connection: close"))
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"\r\n\r\n")


def test_a_client_may_wait_for_permission_to_send(site):
    lines = (f"content-length: {len(BODY)}", "expect: 100-continue", "connection: close")
    answer = exchange(site, head("POST", "/subjects/asked/versions", *lines), BODY)
    assert answer.startswith(b"HTTP/1.1 100")
    assert b"HTTP/1.1 200" in answer


def test_old_clients_are_served(site):
    answer = exchange(site, b"GET /subjects HTTP/1.0\r\n\r\n")
    assert b" 200 " in answer.split(b"\r\n")[0]


@pytest.mark.parametrize(
    "parts",
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",),
        (b"GET /subjects\xff HTTP/1.1\r\nhost: x\r\n\r\n",),
        (b"GET  HTTP/1.1\r\n\r\n",),
        (head("POST", "/subjects/a/versions", "content-length: -5"),),
        (head("POST", "/subjects/a/versions", "transfer-encoding: chunked") + b"zz\r\n",),
    ],
)
def test_what_is_no_http_is_answered_with_400(site, parts):
    assert exchange(site, *parts).startswith(b"HTTP/1.1 400")
    assert exchange(site, head("GET", "/subjects", "connection: close")).startswith(b"HTTP/1.1 200")


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(site):
    answer = exchange(site, head("POST", "/subjects/a/versions", "content-length: 99999999"))
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"connection: close" in answer
