"""bowstring.web.serving and server: real sockets, TLS, heads that are too large, the graceful stop."""

import asyncio
import contextlib
import http.client
import socket
import ssl
import threading
import time
import urllib.request

import pytest
from uvicorn.server import ServerState

from bowstring.clients.errors import ConfigError
from bowstring.web import server, tls_listener
from bowstring.web.limits import read_body
from bowstring.web.listening import Listening
from bowstring.web.server import HEAD_BYTES_MAX, distinguished_name
from bowstring.web.serving import Site
from tests.support.certificates import CertificateAuthority
from tests.support.served_site import served
from tests.support.waiting import HANG_S


async def echo(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    who = (scope.get("extensions") or {}).get("tls", {}).get("client_cert_name", "")
    body = f"{scope['method']} {scope['raw_path'].decode()} {who}".encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def test_serves_on_a_free_port_and_keeps_what_is_encoded():
    with served(echo) as site:
        assert site.url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{site.url}/a%2Fb", timeout=30) as answer:
            assert answer.read() == b"GET /a%2Fb "
            assert answer.headers["Date"]


def test_a_head_that_is_too_large_is_refused():
    with served(echo) as site, socket.create_connection(("127.0.0.1", site.port), timeout=30) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n")
        line = b"x: " + b"y" * 1000 + b"\r\n"
        connection.sendall(line * (HEAD_BYTES_MAX // 1000 + 2))
        assert connection.recv(100).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("begin", [b"GET / HTTP/1.1\r\nhost: x\r\n", b"POST / HTTP/1.1\r\nhost: x\r\n"])
def test_a_head_with_too_many_headers_is_refused(begin):
    with served(echo) as site, socket.create_connection(("127.0.0.1", site.port), timeout=30) as connection:
        connection.sendall(begin + b"xx:yy\r\n" * (server.HEADERS_MAX - 1) + b"\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    with served(echo) as site, socket.create_connection(("127.0.0.1", site.port), timeout=30) as connection:
        connection.sendall(begin + b"xx:yy\r\n" * (server.HEADERS_MAX + 1))
        assert connection.recv(100).startswith(b"HTTP/1.1 400")


HEADS = {
    "a name": b"GET / HTTP/1.1\r\nhost: x\r\n",
    "a value": b"GET / HTTP/1.1\r\nhost: x\r\nx: ",
    "a trailer": b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx: ",
    "a chunk's extension": b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2;",
}


@pytest.mark.parametrize("begin", HEADS.values(), ids=HEADS.keys())
def test_a_line_of_a_head_that_does_not_end_is_refused(begin):
    with (
        served(echo) as site,
        socket.create_connection(("127.0.0.1", site.port), timeout=30) as connection,
        pytest.raises(ConnectionError),
    ):
        connection.sendall(begin)
        for _ in range(100):
            connection.sendall(b"y" * HEAD_BYTES_MAX)
        pytest.fail("the line was read as long as it came")


def test_large_bodies_are_no_heads():
    async def count(scope, receive, send):
        if scope["type"] != "http":
            raise NotImplementedError
        body = str(len(await read_body(scope, receive, 1 << 30))).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"7")]})
        await send({"type": "http.response.body", "body": body})

    with served(count) as site:
        connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=30)
        for body in (b"y" * 2_000_000, iter([b"y" * 1000] * 2000), iter([b"y" * 1_000_000] * 2)):
            connection.request("POST", "/", body, encode_chunked=not isinstance(body, bytes))
            assert connection.getresponse().read() == b"2000000"
        connection.close()


def test_a_client_that_takes_no_answer_is_cut_off(monkeypatch):
    monkeypatch.setattr(server, "STALLED_S", 0.2)
    ended = threading.Event()

    async def endless(scope, receive, send):
        if scope["type"] != "http":
            raise NotImplementedError
        await receive()
        leaving = asyncio.ensure_future(receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not leaving.done():
            await send({"type": "http.response.body", "body": b"y" * 65536, "more_body": True})
            await asyncio.sleep(0)
        ended.set()

    with served(endless) as site, socket.create_connection(("127.0.0.1", site.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert ended.wait(HANG_S)


async def repeat(scope, receive, send):
    """Answers with the request."""
    if scope["type"] != "http":
        raise NotImplementedError
    seen = dict(scope["headers"]).get(b"upgrade", b"")
    body = await read_body(scope, receive, 1 << 20)
    body = b"<%b %b %b %b>" % (scope["method"].encode(), scope["raw_path"], body, seen)
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-length", str(len(body)).encode())],
        }
    )
    await send({"type": "http.response.body", "body": body})


class Wire(asyncio.Transport):
    """Collects what a server writes."""

    def __init__(self):
        super().__init__()
        self.written, self.is_closed = b"", False

    def write(self, data):
        if not self.is_closed:
            self.written += data

    def close(self):
        self.is_closed = True

    def is_closing(self):
        return self.is_closed

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


def answers_to(*segments):
    """Returns what `repeat` answers to segments of one connection, until it is closed."""

    async def run():
        state, wire = ServerState(), Wire()
        config = server.make_server(repeat, None, asyncio.Event()).config
        config.load()
        protocol = config.http_protocol_class(config, state, {})
        protocol.connection_made(wire)
        for each in segments:
            if not wire.is_closed:
                protocol.data_received(each)
            while state.tasks and not (protocol.cycle.more_body and not protocol.pipeline):
                await asyncio.sleep(0)
        protocol.connection_lost(None)
        while state.tasks:
            await asyncio.sleep(0)
        return wire.written

    return asyncio.run(asyncio.wait_for(run(), HANG_S))


OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEA\r\n"
HIDDEN = b"GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n"
END = b"GET /end HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
CHUNKED = b"%x\r\n%b\r\n0\r\nx: y\r\n\r\n" % (len(HIDDEN), HIDDEN)


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_an_offer_of_another_protocol_is_declined_with_its_body(version, is_chunked):
    framing = b"transfer-encoding: chunked" if is_chunked else b"content-length: %d" % len(HIDDEN)
    head = b"POST /a HTTP/%b\r\n%bhost: x\r\n%b\r\n\r\n" % (version, OFFER, framing)
    body = CHUNKED if is_chunked else HIDDEN
    answer = b"<POST /a %b h2c>" % HIDDEN
    whole = head + body
    for parts in (
        (whole + END,),
        (head, body + END),
        (head + body[:9], body[9:], END),
        (head[:-1], head[-1:] + body + END),
        tuple(bytes([each]) for each in whole + END),
    ):
        found = answers_to(*parts)
        assert found.count(answer) == 1
        assert b"<GET /hidden" not in found
        assert (b"<GET /end  >" in found) == (version == b"1.1")
    if version == b"1.1":
        assert answers_to(whole * 20 + END).count(answer) == 20
        assert answers_to(whole * 20 + END).endswith(b"<GET /end  >")
        closing = whole.replace(b"Upgrade, HTTP2", b"close, Upgrade, HTTP2")
        assert b"<GET /end" not in answers_to(closing + END)


@pytest.mark.parametrize("offer", [b"", OFFER, b"Upgrade: x\r\nconnection: upgrade\r\n"])
@pytest.mark.parametrize(
    "framing",
    [
        b"content-length: 3\r\ntransfer-encoding: chunked",
        b"transfer-encoding: chunked\r\ncontent-length: 3",
        b"content-length: 3\r\ncontent-length: 4",
        b"content-length: 3, 4",
        b"content-length: +3",
        b"transfer-encoding: chunked, gzip",
        b"transfer-encoding: gzip",
        b"transfer-encoding: chunked\r\ntransfer-encoding: x",
        b"content-length: 1\r\n 2",
        b"content-length : 3",
    ],
)
def test_two_lengths_of_a_body_are_refused_with_any_offer(offer, framing):
    found = answers_to(b"POST /a HTTP/1.1\r\nhost: x\r\n%b%b\r\n\r\n3\r\nabc" % (offer, framing))
    assert found.startswith(b"HTTP/1.1 400")
    assert b"<POST" not in found


def test_a_tunnel_is_refused():
    for target in (b"/", b"x:443"):
        found = answers_to(b"CONNECT %b HTTP/1.1\r\nhost: x\r\n\r\n%b" % (target, HIDDEN))
        assert found.startswith(b"HTTP/1.1 405")
        assert b"hidden" not in found


@pytest.mark.parametrize("offer", [b"", OFFER])
def test_requests_that_wait_for_an_answer_are_bounded(offer):
    began, release = threading.Event(), threading.Event()

    async def slow(scope, receive, send):
        if scope["type"] == "http" and scope["path"] == "/slow":
            began.set()
            await asyncio.to_thread(release.wait, HANG_S)
        await repeat(scope, receive, send)

    with (
        served(slow) as site,
        socket.create_connection(("127.0.0.1", site.port), timeout=HANG_S) as connection,
    ):
        connection.sendall(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n")
        assert began.wait(HANG_S)
        connection.sendall(b"POST /a HTTP/1.1\r\n%bcontent-length: 1\r\n\r\nb" % offer * 2000)
        release.set()
        found = b"".join(iter(lambda: connection.recv(65536), b""))
    assert found.startswith(b"HTTP/1.1 200")
    assert found.count(b"<POST /a b ") == server.PIPELINED_MAX
    assert found.count(b"connection: close") == 1


def drip(connection, what):
    """Sends something again and again until the server ends the connection."""
    connection.settimeout(0.02)
    deadline = time.monotonic() + HANG_S
    while time.monotonic() < deadline:
        try:
            connection.sendall(what)
            if not connection.recv(1000):
                return
        except TimeoutError:
            continue
        except ConnectionError:
            return
    pytest.fail("the connection was kept")


@pytest.mark.parametrize("begin", [b"", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"])
@pytest.mark.parametrize("what", [b"GET / HTTP/1.1\r\nx: ", b"\r\n"])
def test_who_drips_a_head_or_nothing_is_cut_off(monkeypatch, begin, what):
    monkeypatch.setattr(server, "HEAD_S", 0.2)
    monkeypatch.setattr(server, "KEEP_ALIVE_S", 0.2)
    monkeypatch.setattr(server, "LOOK_S", 0.05)
    with served(echo) as site, socket.create_connection(("127.0.0.1", site.port)) as connection:
        connection.settimeout(HANG_S)
        if begin:
            connection.sendall(begin)
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        first, rest = what[:4], what[4:] or what
        connection.sendall(first)
        drip(connection, rest[-2:])


def test_too_many_connections_close_those_at_rest(monkeypatch):
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 8)  # four of one address
    began, release = threading.Event(), threading.Event()

    async def some_slow(scope, receive, send):
        if scope["type"] == "http" and scope["path"] == "/slow":
            began.set()
            await asyncio.to_thread(release.wait, HANG_S)
        await echo(scope, receive, send)

    def ask(connection, path):
        connection.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        return connection.recv(1000)

    with served(some_slow) as site, contextlib.ExitStack() as stack:

        def connect():
            made = stack.enter_context(socket.create_connection(("127.0.0.1", site.port), timeout=HANG_S))
            return made

        busy, rested = connect(), connect()
        busy.sendall(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n")
        assert began.wait(HANG_S)
        assert ask(rested, "/rested")
        others = [connect() for _ in range(20)]
        assert b"GET /last" in ask(others[-1], "/last")
        assert rested.recv(1000) == b""
        assert [each.recv(1000) for each in others[:-3]] == [b""] * 17
        release.set()
        assert b"GET /slow" in busy.recv(1000)


def test_head_and_body_of_a_stream_are_sent_as_they_come():
    released = threading.Event()

    async def late(scope, receive, send):
        if scope["type"] != "http":
            raise NotImplementedError
        headers = [(b"content-length", b"4")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await asyncio.to_thread(released.wait, HANG_S)
        await send({"type": "http.response.body", "body": b"ab", "more_body": True})
        await send({"type": "http.response.body", "body": b"cd"})

    with served(late) as site, socket.create_connection(("127.0.0.1", site.port), timeout=HANG_S) as one:
        one.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        found = b""
        while not found.endswith(b"\r\n\r\n"):
            found += one.recv(1000)
        released.set()
        while not found.endswith(b"abcd"):
            found += one.recv(1000)
        one.sendall(b"HEAD / HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.0\r\nhost: x\r\n\r\n")
        rest = b"".join(iter(lambda: one.recv(1000), b""))
        assert rest.count(b"HTTP/1.1 200") == 2
        assert rest.endswith(b"abcd")
        assert rest.count(b"abcd") == 1


def test_a_header_of_an_answer_cannot_split_it():
    async def split(scope, receive, send):
        if scope["type"] != "http":
            raise NotImplementedError
        headers = [(b"content-length", b"0"), (b"x", scope["path"].encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    with served(split) as site:
        for path, status in (("/a", 200), ("/a%0d%0aset-cookie:%20b", 500)):
            connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=HANG_S)
            connection.request("GET", path)
            assert connection.getresponse().status == status
            connection.close()


def test_answers_under_way_end_before_the_stop():
    began, release = threading.Event(), threading.Event()

    async def slow(scope, receive, send):
        if scope["type"] != "http":
            raise NotImplementedError
        began.set()
        await asyncio.to_thread(release.wait, 30)
        await echo(scope, receive, send)

    found = []
    with served(slow) as site:

        def ask():
            connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=30)
            connection.request("GET", "/late")
            found.append(connection.getresponse().read())

        asking = threading.Thread(target=ask)
        asking.start()
        assert began.wait(30)
        threading.Timer(0.05, release.set).start()
    asking.join(30)
    assert found == [b"GET /late "]


def https(tmp_path, **options):
    """Returns a listening of https, and a context for its clients."""
    authority = CertificateAuthority()
    identity = authority.identity()
    for name, text in (("chain", identity.certificate), ("key", identity.key), ("ca", authority.certificate)):
        (tmp_path / f"{name}.pem").write_bytes(text)
    files = {"tls_certificate": str(tmp_path / "chain.pem"), "tls_key": str(tmp_path / "key.pem")}
    return Listening(0, **files, **options), ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))


def test_handshakes_are_bounded_in_number_and_time(tmp_path, monkeypatch):
    monkeypatch.setattr(tls_listener, "HANDSHAKES_MAX", 8)  # four of one address
    listening, context = https(tmp_path)
    with served(echo, listening) as site, contextlib.ExitStack() as stack:

        def connect():
            return stack.enter_context(socket.create_connection(("127.0.0.1", site.port), timeout=HANG_S))

        silent = [connect() for _ in range(20)]
        assert [each.recv(1) for each in silent[:16]] == [b""] * 16
        with urllib.request.urlopen(f"{site.url}/", context=context, timeout=HANG_S) as answer:
            assert answer.read() == b"GET / "
        silent[-1].sendall(b"GET / HTTP/1.1\r\n\r\n")
        stack.enter_context(contextlib.suppress(ConnectionError))
        while silent[-1].recv(100):
            pass
        monkeypatch.setattr(tls_listener, "HANDSHAKE_S", 0.05)
        assert connect().recv(1) == b""


def test_the_name_in_a_client_certificate_reaches_the_application(tmp_path):
    authority = CertificateAuthority()
    server, client = authority.identity(), authority.identity("orders")
    files = {"ca": authority.certificate, "server": server.certificate, "server_key": server.key}
    files |= {"client": client.certificate, "client_key": client.key}
    paths = {name: str(tmp_path / f"{name}.pem") for name in files}
    for name, text in files.items():
        (tmp_path / f"{name}.pem").write_bytes(text)
    listening = Listening(
        0,
        tls_certificate=paths["server"],
        tls_key=paths["server_key"],
        tls_client_authorities=paths["ca"],
        client_certificates="required",
    )
    with served(echo, listening) as site:
        context = ssl.create_default_context(cafile=paths["ca"])
        context.load_cert_chain(paths["client"], paths["client_key"])
        with urllib.request.urlopen(f"{site.url}/", context=context, timeout=30) as answer:
            assert answer.read() == b"GET / CN=orders,O=Bowstring"
        bare = ssl.create_default_context(cafile=paths["ca"])
        with pytest.raises((OSError, http.client.HTTPException)):
            urllib.request.urlopen(f"{site.url}/", context=bare, timeout=30)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ((), ""),
        (((("countryName", "DE"),), (("commonName", "a"),)), "CN=a,C=DE"),
        (((("commonName", 'a,b+"c'),),), 'CN=a\\,b\\+\\"c'),
        (((("commonName", " #a "),),), "CN=\\ #a\\ "),
        (((("commonName", "a"), ("userId", "b")),), "CN=a+UID=b"),
    ],
)
def test_a_distinguished_name_is_written_as_rfc_4514_says(subject, name):
    assert distinguished_name({"subject": subject}) == name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": 70000}, "between 0 and 65535"),
        ({"tls_key": "x"}, "both --tls-certificate"),
        ({"client_certificates": "required"}, "needs https"),
        ({"tls_client_authorities": "x"}, "has no effect"),
        ({"host": "no.such.host.invalid"}, "cannot listen"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        Site("test", Listening(**{"port": 0} | options), "registry")


def test_an_address_in_use_is_named():
    taken = Site("test", Listening(0), "registry")
    with pytest.raises(ConfigError, match="choose another port"):
        Site("test", Listening(taken.port), "registry")
    taken.close()
