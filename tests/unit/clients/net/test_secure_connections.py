"""Clients over TLS and SASL: what works, what fails with which words, and logging in again."""

import asyncio
import contextlib
import datetime
import socket
import threading
import time

import pytest

from bowstring import Admin, AuthenticationError, Consumer, Producer, TlsError, aio
from bowstring.clients.errors import ConfigError, ConnectionLostError, NoBrokerError
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.connection import Connection
from bowstring.clients.records import Node
from bowstring.protocol.messages.metadata import MetadataRequest
from bowstring.protocol.messages.produce import ProduceRequest
from bowstring.security.client_settings import ClientSecurity
from tests.support.addresses import own_address
from tests.support.certificates import authority, client_identity, foreign_authority
from tests.support.fake_broker import produced
from tests.support.secure_broker import PASSWORDS, SecureBroker, logging_in, server_context, trusting
from tests.support.waiting import FOR_EVER_MS, HANG_S, wait_until

WRONG = "wrong-password-7719"
QUICK = {"max_block_ms": FOR_EVER_MS, "linger_ms": 0}


@pytest.fixture(scope="module")
def tls():
    return server_context()


def accepting(**settings):
    """A broker that stores nothing and acknowledges all."""
    broker = SecureBroker(**settings)
    broker.handlers[ProduceRequest] = lambda version, request: produced(request)
    return broker


def send_some(broker, security, count=50, size=3000, **more):
    with Producer(broker.bootstrap, security=security, **QUICK | more) as producer:
        for _ in range(count):
            sent = producer.send("t", bytes(size))
        sent.result(HANG_S)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_mechanisms(mechanism, protocol, tls):
    with accepting(tls=tls if protocol == "SASL_SSL" else None, sasl=True) as broker:
        send_some(broker, logging_in(mechanism, protocol))
        assert all(login.mechanism == mechanism and login.done for _, login in broker.logins)


def test_a_bearer_token(tls):
    with accepting(tls=tls, sasl=True) as broker:
        token = {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda: "a.bearer-token"}
        send_some(broker, trusting(**token) | {"security.protocol": "SASL_SSL"})


def test_keywords_of_other_clients(tls, tmp_path):
    path = tmp_path / "ca.pem"
    path.write_bytes(authority().certificate)
    with accepting(tls=tls, sasl=True) as broker:
        of_kafka_python = {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(path),
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": "alice",
            "sasl_plain_password": PASSWORDS["alice"],
        }
        with Admin(broker.bootstrap, timeout_ms=FOR_EVER_MS, **of_kafka_python) as admin:
            assert admin.topics() == {}
        assert PASSWORDS["alice"] not in repr(admin)
        of_confluent = {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(path),
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
        }
        with Admin(of_confluent, sasl_password=PASSWORDS["alice"], timeout_ms=FOR_EVER_MS) as admin:
            assert admin.topics() == {}


def test_large_records_and_small_windows(tls):
    """Requests larger than what is encrypted at once, to a broker that reads slowly."""
    with accepting(tls=tls) as broker:
        settings = {"max_request_size": 8 << 20, "batch_size": 4 << 20, "buffer_memory": 64 << 20}
        with Producer(broker.bootstrap, security=trusting(), **QUICK | settings) as producer:
            value = bytes(range(256)) * (3 << 12)
            for _ in range(6):
                sent = producer.send("t", value)
            sent.result(HANG_S)
        batches = [
            part.records
            for request in broker.seen(ProduceRequest)
            for topic in request.topic_data
            for part in topic.partition_data
        ]
        assert sum(bytes(batch).count(value) for batch in batches) == 6


def test_a_wrong_password(tls):
    with accepting(tls=tls, sasl=True) as broker:
        wrong = logging_in("SCRAM-SHA-256", **{"sasl.password": WRONG})
        for connect in (
            lambda: send_some(broker, wrong),
            lambda: Admin(broker.bootstrap, security=wrong, timeout_ms=FOR_EVER_MS).topics(),
            lambda: polled(broker, wrong),
        ):
            with pytest.raises(AuthenticationError, match="refuses the login with SCRAM-SHA-256") as raised:
                connect()
            assert raised.value.code == 58 and not raised.value.retriable
            assert WRONG not in str(raised.value)


def polled(broker, security):
    with Consumer(broker.bootstrap, security=security) as consumer:
        consumer.assign([("t", 0)])
        while True:
            consumer.poll(HANG_S)


def test_an_impostor_without_the_password(tls):
    other = accepting(tls=tls, sasl=True, passwords={"alice": "another"})
    with other as broker, pytest.raises(AuthenticationError):
        send_some(broker, logging_in())


def test_a_mechanism_that_the_broker_lacks():
    words = r"does not offer .* but GSSAPI, PLAIN"
    with (
        accepting(sasl=True, mechanisms=["GSSAPI", "PLAIN"]) as broker,
        pytest.raises(AuthenticationError, match=words),
    ):
        send_some(broker, logging_in(protocol="SASL_PLAINTEXT"))


DAY = datetime.timedelta(days=1)


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        (lambda: foreign_authority().identity("x", (own_address(),)), "ssl.ca.location"),
        (lambda: authority().identity("x", ("elsewhere.example",)), "mismatch"),
        (lambda: authority().identity("x", (own_address(),), valid_from=-3 * DAY, valid_for=DAY), "expired"),
        (lambda: authority().identity("x", (own_address(),), valid_from=DAY), "not yet valid"),
    ],
    ids=["foreign", "other host", "expired", "not yet valid"],
)
def test_certificates_that_are_not_acceptable(identity, words):
    with accepting(tls=server_context(identity())) as broker:
        with pytest.raises(TlsError, match=words) as raised:
            send_some(broker, trusting())
        assert broker.bootstrap in str(raised.value)
        assert raised.value.code == -181
        assert not broker.seen(MetadataRequest)


def test_a_host_name_that_is_not_checked():
    with accepting(tls=server_context(authority().identity("x", ("elsewhere.example",)))) as broker:
        send_some(broker, trusting(ssl_check_hostname=False))


def test_certificates_of_clients():
    with accepting(tls=server_context(client_authority=authority())) as broker:
        alice = client_identity()
        own = {"ssl.certificate.pem": alice.certificate.decode(), "ssl.key.pem": alice.key.decode()}
        send_some(broker, trusting(**own))
        with pytest.raises((TlsError, NoBrokerError), match="certificate"):
            send_some(broker, trusting(), max_block_ms=1500)


@pytest.mark.parametrize(
    ("broker_has", "security", "words"),
    [
        ({"tls": True}, None, r"may need TLS: check security\.protocol"),
        ({"sasl": True}, None, r"may need SASL: check security\.protocol"),
    ],
)
def test_plain_text_where_it_does_not_belong(broker_has, security, words, tls):
    settings = broker_has | ({"tls": tls} if "tls" in broker_has else {})
    with accepting(**settings) as broker, pytest.raises(NoBrokerError, match=words):
        send_some(broker, security, max_block_ms=700)


def test_tls_to_a_listener_that_answers_in_plain_text():
    """A peer that sends something that is no TLS record."""
    with socket.create_server((own_address(), 0)) as listener:
        host, port = listener.getsockname()

        def answer():
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                connection.sendall(b"\0\0\0\x10 not a TLS record")
                connection.recv(1 << 16)

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(TlsError, match="no TLS on this port"):
            Admin(f"{host}:{port}", security=trusting(), timeout_ms=FOR_EVER_MS).topics()


def test_settings_without_effect_are_refused():
    with pytest.raises(ConfigError, match=r"security\.protocol=SASL_SSL"):
        Producer("localhost:1", sasl_username="alice", sasl_password=WRONG)
    with pytest.raises(ConfigError, match=r"did you mean sasl\.username"):
        Admin("localhost:1", security={"sasl.usernam": "alice"})


# ------------------------------------------------------------ sessions that end


@pytest.mark.parametrize("acks", ["all", 1])
def test_logins_are_renewed_while_requests_are_in_flight(tls, acks):
    with accepting(tls=tls, sasl=True, lifetime_ms=150) as broker:
        with Producer(broker.bootstrap, security=logging_in("PLAIN"), acks=acks, **QUICK) as producer:
            sent = []

            def renewed():
                sent.append(producer.send("t", b"x" * 100))
                return max(broker.renewals()) >= 4

            wait_until(renewed)
            for each in sent:
                each.result(HANG_S)
        assert len(broker.logins) <= 2, "connections have stayed"
        assert not any(login.done is False for _, login in broker.logins)


def test_an_idle_session_is_renewed_before_its_next_request(tls):
    with accepting(tls=tls, sasl=True, lifetime_ms=50) as broker:
        with Admin(broker.bootstrap, security=logging_in("PLAIN"), timeout_ms=FOR_EVER_MS) as admin:
            admin.topics()
            wait_until(lambda: admin.topics() == {} and broker.renewals()[0] >= 3)
        assert len(broker.logins) == 1


def test_a_renewal_that_is_refused(tls):
    with (
        accepting(tls=tls, sasl=True, lifetime_ms=50) as broker,
        Admin(broker.bootstrap, security=logging_in("PLAIN"), timeout_ms=FOR_EVER_MS) as admin,
    ):
        admin.topics()
        broker.passwords["alice"] = "changed"
        with pytest.raises(AuthenticationError):
            while True:
                admin.topics()


def test_a_connection_that_breaks_as_its_login_is_renewed(monkeypatch):
    """The request that was the reason fails or goes over another connection; it does not wait for ever."""
    broken = []

    def renew(connection):
        broken.append(connection)
        raise BrokenPipeError(32, "broken pipe")

    monkeypatch.setattr(Connection, "renew", renew)
    with accepting(sasl=True, lifetime_ms=20) as broker:
        client = NetworkClient("c", security=ClientSecurity.of(logging_in("PLAIN", "SASL_PLAINTEXT")))
        host, port = broker.bootstrap.rsplit(":", 1)
        node = Node(-1, host, int(port))
        while len(broken) < 2:
            with contextlib.suppress(ConnectionLostError):
                client.wait(client.send(node, MetadataRequest, MetadataRequest()), HANG_S)
            until = time.monotonic() + 0.02
            wait_until(lambda until=until: time.monotonic() >= until)
        client.close()


# ------------------------------------------------------------ asyncio


def test_asyncio(tls):
    async def main(where):
        async with aio.Producer(where, security=logging_in(), **QUICK) as producer:
            await asyncio.gather(*(producer.send("t", b"x") for _ in range(20)))
        async with aio.Admin(where, security=logging_in(**{"sasl.password": WRONG})) as admin:
            with pytest.raises(AuthenticationError):
                await admin.topics()

    with accepting(tls=tls, sasl=True) as broker:
        asyncio.run(main(broker.bootstrap))
