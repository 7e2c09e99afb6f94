"""Clients log in with GSSAPI, at a broker and a real KDC: tickets, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from bowstring import Admin, AuthenticationError, Broker, Consumer, NewTopic, Producer
from tests.conformance.drivers import Driver, DriverError, Json, Session
from tests.support.kerberos_packages import NoKerberosError
from tests.support.kerberos_realm import FOREIGN, MODULE, REALM, Realm, realm
from tests.support.serving import steady_port

# Those of the others lack Kerberos: confluent-kafka's wheels, KafkaJS, and franz-go without a further module.
CLIENTS = ("java", "kafka-python", "aiokafka", "sarama")


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
        with realm(
            folder, "kafka/localhost", "nokafka/localhost", "alice", f"eve@{FOREIGN}", gone=["mallory"]
        ) as found:
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
    except NoKerberosError as error:
        pytest.skip(str(error))


@pytest.fixture
def secured(
    kerberized: Kerberized, drivers: Callable[[str], Driver]
) -> Iterator[Callable[[str, Json], Session]]:
    """secured("java", login) is a client that connects like this. Other modules have the same drivers."""
    used = []

    def of(name: str, security: Json) -> Session:
        session = Session(drivers(name), kerberized.bootstrap)
        used.append(name)
        session.call("secure", security=security)
        return session

    yield of
    for name in used:
        drivers(name).call("secure", security={})


@pytest.mark.parametrize("name", CLIENTS)
def test_logs_in(
    kerberized: Kerberized, secured: Callable[[str, Json], Session], name: str, topic_name: str
) -> None:
    session = secured(name, kerberized.login())
    session.call("create_topic", topic=topic_name, partitions=1)
    session.produce(topic_name, [{"value": b"secured", "key": b"k", "partition": 0}])
    (record,) = session.consume(topic_name, 1)
    assert record["value"] == b"secured"


def test_logs_in_without_headers(
    kerberized: Kerberized, secured: Callable[[str, Json], Session], topic_name: str
) -> None:
    session = secured("sarama", kerberized.login() | {"raw": True})
    session.call("create_topic", topic=topic_name, partitions=1)
    assert topic_name in session.call("list_topics")["topics"]


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("what", ["service", "realm", "expired", "unknown"])
def test_is_refused(
    kerberized: Kerberized, secured: Callable[[str, Json], Session], name: str, what: str
) -> None:
    if what == "service":
        login = kerberized.login(service="nokafka")
    elif what == "realm":
        login = kerberized.login(f"eve@{FOREIGN}")
    elif what == "unknown":
        login = kerberized.login("mallory")
    elif name == "sarama":
        pytest.skip("sarama gets tickets with a keytab here")
    else:
        login = kerberized.login(expired=True)
    with pytest.raises(DriverError):
        secured(name, login).call("greet")


# ------------------------------------------------------------ our own


def ours(kerberized: Kerberized, **settings: str) -> Json:
    """Returns the settings of our clients."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
    } | {name.replace("_", "."): value for name, value in settings.items()}


def test_ours_with_a_keytab_and_with_tickets(kerberized: Kerberized, topic_name: str) -> None:
    keytab = {"sasl_kerberos_keytab": kerberized.realm.keytab("alice"), "sasl_kerberos_principal": "alice"}
    line = f'{MODULE} required useTicketCache=true ticketCache="{kerberized.realm.tickets("alice", "ours")}";'
    with Admin(kerberized.bootstrap, security=ours(kerberized, sasl_jaas_config=line)) as admin:
        admin.create_topics([NewTopic(topic_name, 1)])
    with Producer(kerberized.bootstrap, security=ours(kerberized, **keytab)) as producer:
        producer.send(topic_name, b"secured").result()
    with Consumer(
        kerberized.bootstrap, security=ours(kerberized, **keytab), auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([(topic_name, 0)])
        assert [record.value for record in consumer.poll(timeout=60)] == [b"secured"]


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
