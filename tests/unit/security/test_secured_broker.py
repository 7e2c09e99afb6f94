"""A broker with access control, and clients of librdkafka that log in: what holds for open connections."""

import json

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from bowstring import Broker
from tests.support.access import STANDARD
from tests.support.waiting import HANG_S, wait_until

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = {"admin": "a-secret", "alice": "b-secret"}
DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED


class Secured:
    """A broker on which `admin` may do everything, and its clients."""

    def __init__(self, path):
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        self.audit = path / "audit.jsonl"
        self.broker = Broker(
            data_dir=path / "data",
            config={
                "listeners": "OUTER://127.0.0.1:0",
                "listener.security.protocol.map": "OUTER:SASL_PLAINTEXT",
                "inter.broker.listener.name": "OUTER",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.outer.plain.sasl.jaas.config": (
                    f'{LOGIN} username="admin" password="{USERS["admin"]}" {users};'
                ),
                "authorizer.class.name": STANDARD,
                "super.users": "User:admin",
                "bowstring.audit.file": str(self.audit),
                "bowstring.audit.topic": "audit",
            },
        ).start()
        self.admin = AdminClient(self.of("admin"))

    def of(self, user):
        return {
            "bootstrap.servers": f"127.0.0.1:{self.broker.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": USERS[user],
        }

    def rule(self, operation, name="t", permission=AclPermissionType.ALLOW):
        rule = AclBinding(
            ResourceType.TOPIC, name, ResourcePatternType.LITERAL, "User:alice", "*", operation, permission
        )
        self.admin.create_acls([rule])[rule].result(HANG_S)

    def forget_rules(self):
        every = AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        return self.admin.delete_acls([every])[every].result(HANG_S)


@pytest.fixture
def secured(tmp_path):
    made = Secured(tmp_path)
    made.admin.create_topics([NewTopic("t", 1, 1)])["t"].result(HANG_S)
    yield made
    made.broker.stop()


def sent(producer):
    """Sends one record; returns the code of its error, 0 without one."""
    results = []
    try:
        producer.produce("t", b"x", on_delivery=lambda error, message: results.append(error))
    except KafkaException as error:  # from the metadata that it has
        return error.args[0].code()
    producer.flush(HANG_S)
    return results[0].code() if results[0] is not None else 0


def polled(consumer):
    """Returns the value of the next record, or the code of the error that comes instead."""
    message = None
    while message is None:
        try:
            message = consumer.poll(HANG_S)
        except KafkaException as error:
            return error.args[0].code()
    return message.error().code() if message.error() else message.value()


def test_rules_hold_for_open_connections(secured):
    producer = Producer(secured.of("alice") | {"retries": 0})
    secured.rule(AclOperation.WRITE)
    assert sent(producer) == 0
    secured.rule(AclOperation.WRITE, permission=AclPermissionType.DENY)
    wait_until(lambda: sent(producer) == DENIED)
    assert len(secured.forget_rules()) == 2


def test_a_waiting_consumer_loses_its_permission(secured):
    secured.rule(AclOperation.READ)
    secured.rule(AclOperation.READ, "g")
    group = AclBinding(
        ResourceType.GROUP,
        "*",
        ResourcePatternType.LITERAL,
        "User:*",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    secured.admin.create_acls([group])[group].result(HANG_S)
    producer = Producer(secured.of("admin"))
    assert sent(producer) == 0
    consumer = Consumer(
        secured.of("alice") | {"group.id": "g", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 30_000}
    )
    consumer.subscribe(["t"])
    assert polled(consumer) == b"x"
    secured.forget_rules()
    assert polled(consumer) in (DENIED, KafkaError.GROUP_AUTHORIZATION_FAILED)
    consumer.close()


def test_the_audit_says_who_was_denied_and_no_password(secured):
    producer = Producer(secured.of("alice") | {"retries": 0})
    assert sent(producer) == DENIED

    def lines():
        return [json.loads(line) for line in secured.audit.read_text().splitlines()]

    def denied():
        return [each for each in lines() if each["principal"] == "User:alice" and not each["allowed"]]

    wait_until(lambda: any(each["resource"] == "t" for each in denied()))
    assert {each["host"] for each in denied()} == {"127.0.0.1"}
    assert any(each["principal"] == "User:admin" and each["api"] == "CreateTopics" for each in lines())
    assert not any(password in secured.audit.read_text() for password in USERS.values())


def test_the_audit_topic_has_what_the_file_has(secured):
    producer = Producer(secured.of("alice") | {"retries": 0})
    assert sent(producer) == DENIED
    consumer = Consumer(secured.of("admin") | {"group.id": "auditors", "auto.offset.reset": "earliest"})
    consumer.subscribe(["audit"])

    def is_denial(message):
        value = json.loads(message.value())
        return value["resource"] == "t" and not value["allowed"]

    def next_message():
        message = consumer.poll(HANG_S)
        return message if message.error() is None and is_denial(message) else None

    message = wait_until(next_message)
    assert message.key() == b"User:alice"
    value = json.loads(message.value())
    assert value["node"] == 1
    consumer.close()
    secured.broker.stop()
    in_file = [json.loads(line) for line in secured.audit.read_text().splitlines()]
    assert {name: value[name] for name in value if name != "node"} in in_file
