"""Clients of others log in to an embedded broker, and are who they say they are; no secret leaves the broker."""

import asyncio
import logging
import time
from base64 import b64encode

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka import admin as confluent
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from bowstring import Admin, Broker
from bowstring.engine.broker import metrics
from bowstring.security.scram import SCRAM_BY_NUMBER
from tests.support.embedded import engine_of
from tests.support.waiting import HANG_S, wait_until

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD, MASTER = "Pa55-known-text", "M45ter-known-text"
USERS = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{PASSWORD}" user_bob="b";'
)
CONFIG = {
    "listeners": "INNER://127.0.0.1:0,OUTER://127.0.0.1:0",
    "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "INNER",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.outer.plain.sasl.jaas.config": USERS,
    "connections.max.reauth.ms": "1500",
    "delegation.token.secret.key": MASTER,
    "connection.failed.authentication.delay.ms": "1",
}
# A name that is nobody's fails as a wrong password does.
WRONG = [("alice", "wrong"), ("nobody", PASSWORD)]


@pytest.fixture(scope="module")
def broker():
    with Broker(config=CONFIG) as broker:
        admin = confluent.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([confluent.NewTopic("t", 1)])["t"].result()
        for number in SCRAM_BY_NUMBER:
            set_password(admin, number, PASSWORD)
        yield broker


def set_password(admin, number, password):
    info = confluent.ScramCredentialInfo(confluent.ScramMechanism(number), 4096)
    change = confluent.UserScramCredentialUpsertion("alice", info, password.encode())
    admin.alter_user_scram_credentials([change])["alice"].result()


@pytest.fixture
def outer(broker):
    (found,) = [each for each in engine_of(broker).listeners if each.name == "OUTER"]
    return f"127.0.0.1:{found.port}"


def librdkafka(outer, mechanism, name="alice", password=PASSWORD, **more):
    return {
        "bootstrap.servers": outer,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": name,
        "sasl.password": password,
        "logger": logging.getLogger("librdkafka"),
        **more,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka(outer, mechanism):
    producer = Producer(librdkafka(outer, mechanism))
    delivered = []
    producer.produce("t", b"v", on_delivery=lambda error, message: delivered.append(error))
    producer.flush(HANG_S)
    assert delivered == [None]


@pytest.mark.parametrize(("name", "password"), WRONG)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_is_refused(outer, mechanism, name, password):
    errors = []
    client = confluent.AdminClient(librdkafka(outer, mechanism, name, password, error_cb=errors.append))
    with pytest.raises(KafkaException):
        client.list_topics(timeout=0.1)
    wait_until(lambda: client.poll(0.01) or errors, "the error")
    assert any("SASL authentication error: Authentication failed" in each.str() for each in errors)
    assert not any(password in each.str() for each in errors)


def kafka_python(outer, mechanism, password):
    return KafkaProducer(
        bootstrap_servers=outer,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username="alice",
        sasl_plain_password=password,
        bootstrap_timeout_ms=1000,
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(outer, mechanism):
    producer = kafka_python(outer, mechanism, PASSWORD)
    assert producer.send("t", b"v").get(HANG_S).offset >= 0
    producer.close()


def test_kafka_python_is_refused(outer):
    with pytest.raises(KafkaPythonError):
        kafka_python(outer, "SCRAM-SHA-256", "wrong")


@pytest.mark.parametrize("password", [PASSWORD, "wrong"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(outer, mechanism, password):
    async def send():
        producer = AIOKafkaProducer(
            bootstrap_servers=outer,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password=password,
        )
        try:
            await producer.start()
            return (await producer.send_and_wait("t", b"v")).offset
        finally:
            await producer.stop()

    if password == PASSWORD:
        assert asyncio.run(send()) >= 0
    else:
        with pytest.raises(Exception, match=r"[Uu]nable to bootstrap|[Aa]uthentication failed"):
            asyncio.run(send())


def test_a_changed_and_a_removed_credential(broker, outer):
    admin = confluent.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    security = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
    }

    def comes_in(password):
        try:
            with Admin(outer, security=security | {"sasl.password": password}) as client:
                return client.list_topics() is not None
        except Exception as error:
            assert "uthentication" in str(error), error
            return False

    set_password(admin, 1, "changed")
    assert comes_in("changed") and not comes_in(PASSWORD)
    removal = confluent.UserScramCredentialDeletion("alice", confluent.ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([removal])["alice"].result()
    assert not comes_in("changed")
    set_password(admin, 1, PASSWORD)
    assert comes_in(PASSWORD)


def test_a_transaction_goes_on_through_authenticating_again(broker, outer):
    """librdkafka authenticates again before its session of 1.5 s ends, and the transaction commits."""
    authentication = engine_of(broker).authentication
    producer = Producer(librdkafka(outer, "SCRAM-SHA-512", **{"transactional.id": "through"}))
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("t", b"first")
    producer.flush(HANG_S)
    accepted = engine_of(broker).plane.counters()["accepted"]
    before, deadline = authentication.successes, time.monotonic() + HANG_S
    sent = 1
    while authentication.successes < before + 2 and time.monotonic() < deadline:
        producer.produce("t", b"more")
        producer.flush(HANG_S)
        sent += 1
    producer.commit_transaction()
    assert authentication.successes >= before + 2
    assert engine_of(broker).plane.counters()["accepted"] == accepted, "on the same connection"
    consumer = Consumer(librdkafka(outer, "PLAIN", **{"group.id": "g", "isolation.level": "read_committed"}))
    consumer.assign([TopicPartition("t", 0, 0)])
    seen = 0
    while seen < sent:
        message = consumer.poll(HANG_S)
        assert message is not None and message.error() is None
        seen += message.value() in (b"first", b"more")
    consumer.close()


def test_log_ins_are_counted(broker, outer):
    engine = engine_of(broker)
    text = metrics.exposition(metrics.registry(engine), "", "")[0].decode()
    for name, value in (("", engine.authentication.successes), ("failed_", engine.authentication.failures)):
        assert value > 0 and f"bowstring_{name}authentications_total {float(value)}" in text


def test_no_secret_leaves_the_broker(broker, outer, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    engine = engine_of(broker)
    security = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    with Admin(outer, security=security | {"sasl.password": PASSWORD}) as admin:
        token = admin.create_delegation_token()
        described = repr(admin.describe_configs("broker", str(engine.node_id)))
    secrets = [PASSWORD, MASTER]
    for users in engine.metadata.image.scram.by_user.values():
        for record in users.values():
            keys = (record.stored_key, record.server_key)
            secrets += [
                text for key in keys for text in (repr(key)[2:-1], key.hex(), b64encode(key).decode())
            ]
    shown = [described, repr(token), repr(engine.authentication), caplog.text, "".join(capfd.readouterr())]
    for secret in secrets:
        assert not any(secret in text for text in shown), shown
    written = b"".join(
        path.read_bytes()
        for path in broker.data_dir.rglob("*")
        if path.is_file() and path.stat().st_size < 1 << 22
    )
    assert PASSWORD.encode() not in written and MASTER.encode() not in written
