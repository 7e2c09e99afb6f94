"""Clients log in with GSSAPI, at a broker and a real KDC: tickets, and what is wrong with them."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bowstring import Admin, AuthenticationError, Broker, ConfigError, Consumer, NewTopic, Producer
from bowstring.protocol import encode_request
from bowstring.protocol.messages.api_versions import ApiVersionsRequest
from bowstring.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from bowstring.protocol.messages.sasl_handshake import SaslHandshakeRequest
from bowstring.security.gssapi_client import GssapiClient
from bowstring.security.kerberos import KerberosInitiator
from tests.conformance.drivers import CLIENTS as CLIENT_PROGRAMS
from tests.conformance.drivers import Driver, DriverError, Json, Session
from tests.support.debian_packages import NoPackagesError
from tests.support.kerberos_realm import FOREIGN, MODULE, REALM, Realm, realm
from tests.support.serving import steady_port
from tests.support.target import KafkaBroker, kafka_java
from tests.support.waiting import HANG_S

# The others lack Kerberos: confluent-kafka's wheels and KafkaJS.
CLIENTS = ("java", "kafka-python", "aiokafka", "franz-go", "sarama")
SERVICES = [f"{name}/{host}" for name in ("kafka", "nokafka") for host in ("localhost", "127.0.0.1")]
PRINCIPALS = (*SERVICES, "alice", f"eve@{FOREIGN}")


@dataclass(frozen=True)
class Kerberized:
    """A broker with a listener for Kerberos.

    Attributes:
        bootstrap: Where it is.
        realm: Of Kerberos.
    """

    bootstrap: str
    realm: Realm

    def login(
        self, name: str = "alice", service: str = "kafka", *, expired: bool = False, **more: str
    ) -> Json:
        """Returns the security of a client that logs in with a principal's tickets or keytab."""
        first, _, of = name.partition("@")
        cache = (
            self.realm.tickets(name, f"{first}-{expired}", expired=expired) if first != "mallory" else "none"
        )
        keytab = self.realm.keytab(name)
        # With a keytab Java would get new tickets.
        options = (
            f'ticketCache="{cache}"' if expired else f'useKeyTab=true keyTab="{keytab}" principal="{name}"'
        )
        return {
            "mechanism": "GSSAPI",
            "service": service,
            "username": first,
            "realm": of or REALM,
            "krb5": str(self.realm.folder / "krb5.conf"),
            "site": self.realm.site,
            "cache": cache,
            "keytab": keytab,
            "jaas": f"{MODULE} required useTicketCache={str(expired).lower()} {options};",
        } | more


@pytest.fixture(scope="module")
def kerberized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberized]:
    folder = tmp_path_factory.mktemp("kerberos")
    port = steady_port()
    try:
        with realm(folder, *PRINCIPALS, gone=["mallory"]) as found:
            settings = {
                "listeners": f"K://127.0.0.1:{port},INNER://127.0.0.1:0",
                "advertised.listeners": f"K://localhost:{port}",
                "listener.security.protocol.map": "K:SASL_PLAINTEXT,INNER:PLAINTEXT",
                "inter.broker.listener.name": "INNER",
                "sasl.enabled.mechanisms": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                "listener.name.k.gssapi.sasl.jaas.config": found.jaas(f"kafka/localhost@{REALM}"),
                "connection.failed.authentication.delay.ms": "0",
            }
            with Broker(data_dir=folder / "data", config=settings):
                yield Kerberized(f"localhost:{port}", found)
    except NoPackagesError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def clients(kerberized: Kerberized, drivers: Callable[[str], Driver]) -> Iterator[Callable[[str], Driver]]:
    """Drivers of other modules; but aiokafka looks for gssapi once, when it is imported, so its is new."""
    own = Driver(CLIENT_PROGRAMS["aiokafka"])
    yield lambda name: own if name == "aiokafka" else drivers(name)
    own.close()


@pytest.fixture
def secured(
    kerberized: Kerberized, clients: Callable[[str], Driver]
) -> Iterator[Callable[[str, Json], Session]]:
    """secured("java", login) is a client that connects like this."""
    used = []

    def of(name: str, security: Json) -> Session:
        session = Session(clients(name), kerberized.bootstrap)
        used.append(name)
        session.call("secure", security=security)
        return session

    yield of
    for name in used:
        clients(name).call("secure", security={})


@pytest.mark.parametrize("name", CLIENTS)
def test_logs_in(
    kerberized: Kerberized, secured: Callable[[str, Json], Session], name: str, topic_name: str
) -> None:
    session = secured(name, kerberized.login())
    session.call("create_topic", topic=topic_name, partitions=1)
    session.produce(topic_name, [{"value": b"secured", "key": b"k", "partition": 0}])
    (record,) = session.consume(topic_name, 1)
    assert record["value"] == b"secured"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (name, what)
        for name in CLIENTS
        for what in ("service", "realm", "expired", "unknown")
        if what != "expired" or name not in ("franz-go", "sarama")  # they get new tickets with the keytab
    ],
)
def test_is_refused(
    kerberized: Kerberized, secured: Callable[[str, Json], Session], name: str, what: str
) -> None:
    if what == "service":
        login = kerberized.login(service="nokafka")
    elif what == "realm":
        login = kerberized.login(f"eve@{FOREIGN}")
    elif what == "unknown":
        login = kerberized.login("mallory")
    else:
        login = kerberized.login(expired=True)
    words = {"expired": None, "unknown": None}.get(what, "invalid credentials with SASL mechanism GSSAPI")
    # The Python clients try again until their time is over, and do not say why.
    with pytest.raises(DriverError, match=words if name in ("java", "sarama") else None):
        secured(name, login).call("greet")


class Frames:
    """A connection to the broker, frame by frame."""

    def __init__(self, kerberized: Kerberized) -> None:
        host, _, port = kerberized.bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=HANG_S)
        self._answers = self._socket.makefile("rb")

    def __enter__(self) -> Frames:
        return self

    def __exit__(self, *failure: object) -> None:
        self._answers.close()
        self._socket.close()

    def ask(self, frame: bytes) -> bytes:
        """Sends a frame; returns the next one, b"" at the connection's end."""
        self.send(frame)
        size = self._answers.read(4)
        return self._answers.read(*struct.unpack(">i", size)) if size else b""

    def send(self, frame: bytes) -> None:
        """Sends a frame."""
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)


def handshake(version: int) -> bytes:
    return encode_request(SaslHandshakeRequest(mechanism="GSSAPI"), version, 1, "raw")


def of_alice(kerberized: Kerberized) -> GssapiClient:
    initiator = KerberosInitiator("kafka", keytab=kerberized.realm.keytab("alice"))
    return GssapiClient(lambda: initiator.context("localhost"), "kafka")


def test_after_a_handshake_of_version_0_the_last_token_has_no_answer(kerberized: Kerberized) -> None:
    with Frames(kerberized) as frames:
        assert frames.ask(handshake(0))[4:6] == b"\0\0"
        exchange = of_alice(kerberized)
        answer = frames.ask(exchange.first())
        while (message := exchange.next(answer)) is not None and not exchange.is_done:
            answer = frames.ask(message)
        assert message is not None
        frames.send(message)
        assert frames.ask(encode_request(ApiVersionsRequest(), 0, 77, "raw"))[:4] == struct.pack(">i", 77)


def test_a_replay_ends_the_connection_without_an_answer(kerberized: Kerberized) -> None:
    """A client whose ticket is only taken for a replay tries again."""
    first = SaslAuthenticateRequest(auth_bytes=of_alice(kerberized).first())
    for is_replay in (False, True):
        with Frames(kerberized) as frames:
            frames.ask(handshake(1))
            assert (frames.ask(encode_request(first, 2, 2, "raw")) == b"") == is_replay


@pytest.mark.parametrize(
    ("option", "text", "words"),
    [
        ("keyTab", "/nowhere/kafka.keytab", "the keytab /nowhere/kafka.keytab does not exist: make it with"),
        ("keyTab", "{folder}/krb5.conf", "krb5.conf has no key of kafka/localhost@"),
        ("principal", "kafka/elsewhere", "localhost.keytab has no key of kafka/elsewhere .* `klist -k"),
    ],
)
def test_a_broker_needs_its_keytab_at_start(
    kerberized: Kerberized, tmp_path: Path, option: str, text: str, words: str
) -> None:
    of = kerberized.realm
    line = of.jaas(f"kafka/localhost@{REALM}")
    name = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        name: re.sub(f'{option}="[^"]*"', f'{option}="{text.format(folder=of.folder)}"', line),
    }
    with pytest.raises(ConfigError, match=f"{re.escape(name)}: .*{words}"):
        Broker(data_dir=tmp_path, config=settings).start()


def test_a_new_key_counts_at_once(kerberized: Kerberized) -> None:
    """As a change of the keytab's file; the ticket that is there is for the old key, which the file still has."""
    of = kerberized.realm
    path = of.tickets("alice", "before")
    with Admin(kerberized.bootstrap, security=ours(kerberized, sasl_jaas_config=cached(path))) as admin:
        admin.describe_cluster()
    of.change_key("kafka/localhost")
    for cache in (path, of.tickets("alice", "after")):
        with Admin(kerberized.bootstrap, security=ours(kerberized, sasl_jaas_config=cached(cache))) as admin:
            admin.describe_cluster()


# ------------------------------------------------------------ our own


def cached(path: str) -> str:
    """Returns the JAAS line of a ticket cache."""
    return f'{MODULE} required useTicketCache=true ticketCache="{path}";'


def ours(kerberized: Kerberized, **settings: str) -> Json:
    """Returns the settings of our clients."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
    } | {name.replace("_", "."): value for name, value in settings.items()}


def test_ours_with_a_keytab_and_with_tickets(kerberized: Kerberized, topic_name: str) -> None:
    keytab = {"sasl_kerberos_keytab": kerberized.realm.keytab("alice"), "sasl_kerberos_principal": "alice"}
    line = cached(kerberized.realm.tickets("alice", "ours"))
    with Admin(kerberized.bootstrap, security=ours(kerberized, sasl_jaas_config=line)) as admin:
        admin.create_topics([NewTopic(topic_name, 1)])
    with Producer(kerberized.bootstrap, security=ours(kerberized, **keytab)) as producer:
        producer.send(topic_name, b"secured").result()
    with Consumer(
        kerberized.bootstrap, security=ours(kerberized, **keytab), auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([(topic_name, 0)])
        assert [record.value for record in consumer.poll(timeout=60)] == [b"secured"]


def test_ours_on_kafka(kerberized: Kerberized, tmp_path: Path, topic_name: str) -> None:
    of = kerberized.realm
    settings = {
        "listener.name.k.sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.k.gssapi.sasl.jaas.config": of.jaas(f"kafka/127.0.0.1@{REALM}", serviceName="kafka"),
    }
    kafka = KafkaBroker(
        tmp_path,
        settings,
        [*kafka_java(), f"-Djava.security.krb5.conf={of.folder}/krb5.conf"],
        listeners={"K": "SASL_PLAINTEXT"},
    )
    kafka.start()
    try:
        where = f"127.0.0.1:{kafka.ports['K']}"
        security = ours(kerberized, sasl_kerberos_keytab=of.keytab("alice"))
        with Admin(where, security=security) as admin, Producer(where, security=security) as producer:
            admin.create_topics([NewTopic(topic_name, 1)])
            assert producer.send(topic_name, b"secured").result().offset == 0
        with pytest.raises(AuthenticationError, match="refuses the login with GSSAPI"):
            Admin(where, security=security | {"sasl.kerberos.service.name": "nokafka"}).describe_cluster()
    finally:
        kafka.kill()


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("service", r"Server nowhere/localhost@BOWSTRING.TEST not found .* check sasl.kerberos.service.name"),
        ("other service", "refuses the login with GSSAPI"),
        ("realm", "refuses the login with GSSAPI"),
        ("expired", "Ticket expired; run kinit again"),
        ("unknown", "not found in Kerberos database; check sasl.kerberos.principal"),
        ("no tickets", "No Kerberos credentials available .* run kinit"),
    ],
)
def test_ours_say_what_is_wrong(
    kerberized: Kerberized, monkeypatch: pytest.MonkeyPatch, what: str, words: str
) -> None:
    of = kerberized.realm
    keytab = {"sasl_kerberos_keytab": of.keytab("alice")}
    if what == "expired":
        monkeypatch.setenv("KRB5CCNAME", of.tickets("alice", "old", expired=True))
    settings = {
        "service": keytab | {"sasl_kerberos_service_name": "nowhere"},
        "other service": keytab | {"sasl_kerberos_service_name": "nokafka"},
        "realm": {
            "sasl_kerberos_keytab": of.keytab(f"eve@{FOREIGN}"),
            "sasl_kerberos_principal": f"eve@{FOREIGN}",
        },
        "expired": {},
        "unknown": {"sasl_kerberos_keytab": of.keytab("mallory")},
        "no tickets": {},
    }[what]
    with pytest.raises(AuthenticationError, match=words):
        Admin(kerberized.bootstrap, security=ours(kerberized, **settings)).describe_cluster()
