"""Our clients on a broker with SSL and SASL_SSL listeners: all of them, wrong credentials, and sessions that end."""

import asyncio
import re
import time
import urllib.request

import pytest

import bowstring
from bowstring import Admin, AuthenticationError, Consumer, Producer, ShareConsumer, TlsError, aio
from bowstring.cli import run
from tests.support.certificates import client_identity, foreign_authority
from tests.support.secured_nodes import key_files
from tests.support.serving import steady_port
from tests.support.target import BowstringBroker
from tests.support.waiting import HANG_S

PASSWORD = "of-alice-51"
LIFETIME_MS = 1200  # brokers refuse a second login within a second
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


class SecuredBroker(BowstringBroker):
    """A broker whose listeners are in its settings."""

    def command(self):
        given = super().command()
        at = given.index("--host")
        return given[:at] + given[at + 4 :]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secured")
    ports = {name: steady_port() for name in ("PLAINTEXT", "SASL_SSL", "SSL")}
    settings = key_files(folder) | {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{MODULE} required user_alice="{PASSWORD}";',
        "connections.max.reauth.ms": str(LIFETIME_MS),
        "listener.name.ssl.ssl.client.auth": "requested",
        "group.share.min.heartbeat.interval.ms": "100",
        "bowstring.metrics.port": str(steady_port()),
    }
    made = SecuredBroker(folder / "broker", settings)
    made.port = ports["PLAINTEXT"]
    made.start()
    made.metrics_port = settings["bowstring.metrics.port"]
    made.where = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    made.trust = {"ssl.ca.location": str(folder / "trust.pem")}
    made.alice = made.trust | {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
    }
    with Admin(made.bootstrap) as admin:
        admin.create_topic("t", partitions=2)
        admin.alter_configs("group", "jobs", set={"share.auto.offset.reset": "earliest"})
    yield made
    made.stop()
    assert PASSWORD not in made.log_path.read_text(errors="replace")


def test_every_client(broker, tmp_path, capsys):
    where, alice = broker.where["SASL_SSL"], broker.alice
    value = bytes(range(256)) * 1200
    with Producer(where, security=alice) as producer:
        for _ in range(20):
            producer.send("t", value)
        producer.flush(HANG_S)
    for group in ({"group_protocol": "classic"}, {"group_protocol": "consumer"}):
        with Consumer(
            where,
            security=alice,
            group_id=f"g-{group['group_protocol']}",
            auto_offset_reset="earliest",
            **group,
        ) as consumer:
            consumer.subscribe("t")
            found = []
            while len(found) < 20:
                found += consumer.poll(HANG_S)
            assert all(record.value == value for record in found)
    with ShareConsumer(where, security=alice, group_id="jobs") as consumer:
        consumer.subscribe("t")
        assert consumer.poll(HANG_S)[0].value == value
    assert bowstring.read("t", bootstrap_servers=where, security=alice).to_arrow().num_rows == 20

    async def count():
        async with aio.Admin(where, security=alice) as admin:
            return len(await admin.topics())

    assert asyncio.run(count()) == 1
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in alice.items()))
    assert run(["topics", "describe", "t", "-b", where, "--command-config", str(config)]) == 0
    assert "t" in capsys.readouterr().out


def resumptions(broker):
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics", timeout=HANG_S) as answer:
        text = answer.read().decode()
    return float(re.search(r"^bowstring_tls_resumptions_total (\S+)$", text, re.MULTILINE)[1])


def test_later_connections_of_a_client_resume_tls(broker):
    before = resumptions(broker)
    with Producer(broker.where["SASL_SSL"], security=broker.alice) as producer:
        producer.send("t", b"x").result(HANG_S)
    assert resumptions(broker) == before  # of another client
    with Consumer(
        broker.where["SASL_SSL"], security=broker.alice, group_id="resuming", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe("t")
        assert consumer.poll(HANG_S)  # the coordinator, and the leader, have connections of their own
    assert resumptions(broker) > before


def test_a_certificate_of_the_client(broker):
    alice = client_identity()
    own = {"ssl.certificate.pem": alice.certificate.decode(), "ssl.key.pem": alice.key.decode()}
    for settings in (own, {}):
        with Admin(
            broker.where["SSL"], security={"security.protocol": "SSL", **broker.trust, **settings}
        ) as admin:
            assert "t" in admin.topics()


def test_wrong_credentials(broker):
    with (
        pytest.raises(AuthenticationError) as raised,
        Producer(broker.where["SASL_SSL"], security=broker.alice | {"sasl.password": "wrong-1"}) as producer,
    ):
        producer.send("t", b"x").result(HANG_S)
    assert "wrong-1" not in str(raised.value)
    foreign = foreign_authority().certificate.decode()
    with (
        pytest.raises(TlsError, match="certificate verify failed"),
        Admin(broker.where["SSL"], security={"security.protocol": "SSL", "ssl.ca.pem": foreign}) as admin,
    ):
        admin.topics()


def test_sessions_are_renewed_in_the_middle_of_transactions(broker):
    """With requests in flight all the time, for two lifetimes."""
    with Producer(broker.where["SASL_SSL"], security=broker.alice, transactional_id="renewed") as producer:
        producer.begin_transaction()
        sent = []
        ends = time.monotonic() + 2.2 * LIFETIME_MS / 1000
        while time.monotonic() < ends:
            sent.append(producer.send("t", b"x" * 100))
            if len(sent) % 100 == 0:
                sent[-1].result(HANG_S)
        producer.commit_transaction()
        assert all(each.result(0).offset >= 0 for each in sent)
