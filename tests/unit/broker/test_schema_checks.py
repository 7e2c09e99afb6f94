"""Topics with confluent.value.schema.validation and confluent.key.schema.validation: what they accept."""

import asyncio
import json
import struct
import threading
import uuid
from types import SimpleNamespace

import pytest

from bowstring import Admin, Broker, Consumer, Producer
from bowstring.clients.errors import BrokerError, ClientError
from bowstring.engine.broker import schema_checks
from bowstring.engine.broker.registry_lookups import Registration, RegistryLookups, RegistryUnavailable
from bowstring.engine.broker.schema_checks import SchemaChecks
from bowstring.protocol.errors import Errors
from tests.support.registered_schemas import registered_schemas
from tests.support.waiting import HANG_S, wait_until

STRATEGY = "io.confluent.kafka.serializers.subject."
GUID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff").bytes
CODECS = ["none", "gzip", "zstd"]


def framed(schema_id, payload=b"payload"):
    return b"\0" + struct.pack(">I", schema_id) + payload


@pytest.fixture(scope="module")
def registry():
    with registered_schemas() as has:
        yield has


@pytest.fixture(scope="module")
def broker(registry):
    settings = {
        "confluent.schema.registry.url": registry.url,
        "confluent.basic.auth.user.info": "broker:secret",
    }
    with Broker(config=settings) as broker:
        yield broker


@pytest.fixture
def topic(broker, registry, request):
    """Creates topics with their name's configs; each test has ids of its own."""
    registry.spoilt = None
    registry.asked.clear()

    def create(name, partitions=1, **configs):
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic(
                name,
                partitions,
                1,
                {f"confluent.{key.replace('_', '.')}": value for key, value in configs.items()},
            )
        return name

    return create


def producer(broker, **settings):
    return Producer(broker.bootstrap_servers, **settings)


def refused(sending, *parts):
    with pytest.raises(BrokerError, match="INVALID_RECORD") as error:
        sending.result(HANG_S)
    assert all(part in str(error.value) for part in parts), str(error.value)


@pytest.mark.parametrize("codec", CODECS)
def test_values_need_a_schema_of_the_topic(broker, registry, topic, codec):
    name = topic(f"values-{codec}", value_schema_validation="true")
    registry.subjects |= {10: [f"{name}-value"], 11: ["other-value"], 12: [f"{name}-key"]}
    with producer(broker, compression=codec) as sends:
        sends.send(name, framed(10)).result(HANG_S)
        sends.send(name, None, key=b"any key").result(HANG_S)
        refused(sends.send(name, framed(11)), "Schema id 11 of the value")
        refused(sends.send(name, framed(12)), "Schema id 12")
        refused(sends.send(name, framed(13)), "Schema id 13")
        refused(sends.send(name, b"plain"), "no schema id", "confluent.value.schema.validation")
        refused(sends.send(name, b""), "no schema id")
        registry.subjects[13] = [f"{name}-value"]
        sends.send(name, framed(13)).result(HANG_S)
        registry.asked.clear()
        sends.send(name, framed(13)).result(HANG_S)
        sends.send(name, framed(10)).result(HANG_S)
    assert registry.asked == []
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as reads:
        reads.assign([(name, 0)])
        found = [record.value for record in reads.poll(timeout=HANG_S)]
    assert found == [framed(10), None, framed(13), framed(13), framed(10)]


def test_the_registry_gets_the_brokers_user(registry):
    assert registry.authorization == {"Basic YnJva2VyOnNlY3JldA=="}


@pytest.mark.parametrize("codec", CODECS)
def test_only_the_refused_records_of_a_batch_are_named(broker, registry, topic, codec):
    name = topic(f"named-{codec}", value_schema_validation="true")
    registry.subjects |= {15: [f"{name}-value"], 16: []}
    with producer(broker, compression=codec, linger_ms=HANG_S * 1000) as sends:
        sent = [sends.send(name, framed(each)) for each in (15, 16, 15, 16)]
        sends.flush()
    refused(sent[1], "Schema id 16", "offset 1")
    refused(sent[3], "Schema id 16", "offset 3")
    for each in (sent[0], sent[2]):
        with pytest.raises(BrokerError, match="INVALID_RECORD"):
            each.result(HANG_S)  # as with Kafka, the batch is refused as a whole


def test_keys_need_a_schema_of_the_topic(broker, registry, topic):
    name = topic("keys", key_schema_validation="true")
    registry.subjects |= {20: [f"{name}-key"], 21: [f"{name}-value"]}
    with producer(broker) as sends:
        sends.send(name, b"any value", key=framed(20)).result(HANG_S)
        sends.send(name, b"any value").result(HANG_S)
        refused(sends.send(name, b"v", key=framed(21)), "Schema id 21 of the key", "subject for the key")
        refused(sends.send(name, b"v", key=b"k"), "The key", "confluent.key.schema.validation")


def test_both_are_checked(broker, registry, topic):
    name = topic("both", key_schema_validation="true", value_schema_validation="true")
    registry.subjects |= {30: [f"{name}-key"], 31: [f"{name}-value"]}
    with producer(broker) as sends:
        sends.send(name, framed(31), key=framed(30)).result(HANG_S)
        refused(sends.send(name, framed(30), key=framed(30)), "Schema id 30 of the value")
        refused(sends.send(name, framed(31), key=framed(31)), "Schema id 31 of the key")


@pytest.mark.parametrize("codec", CODECS)
def test_a_header_has_the_guid_or_the_id(broker, registry, topic, codec):
    name = topic(f"headers-{codec}", value_schema_validation="true")
    registry.subjects |= {40: [f"{name}-value"], 41: ["other-value"]}
    registry.guids[GUID] = 40
    other = bytes(reversed(GUID))
    registry.guids[other] = 41

    def header(value, key="__value_schema_id"):
        return [("x", b"1"), (key, value)]

    with producer(broker, compression=codec) as sends:
        sends.send(name, b"payload", headers=header(b"\1" + GUID)).result(HANG_S)
        sends.send(name, b"payload", headers=header(framed(40, b""))).result(HANG_S)
        refused(
            sends.send(name, b"payload", headers=header(b"\1" + other)),
            "guid in the header __value_schema_id",
        )
        refused(sends.send(name, b"payload", headers=header(b"\1" + bytes(16))), "guid")
        refused(sends.send(name, b"payload", headers=header(b"\1" + GUID, "__key_schema_id")), "no schema id")
        refused(sends.send(name, framed(40), headers=header(b"")), "no schema id")
        refused(sends.send(name, framed(40), headers=header(framed(41, b""))), "Schema id 41")


RECORDS = {
    50: (json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": []}), "AVRO"),
    51: (json.dumps({"title": "shop.Order", "type": "object"}), "JSON"),
    52: ("syntax = 'proto3'; // message No\npackage shop;\n/* message No */\nmessage Order{}", "PROTOBUF"),
    53: (json.dumps({"type": "record", "name": "shop.Order", "fields": []}), "AVRO"),
}


@pytest.mark.parametrize(
    "strategy, subject", [("RecordNameStrategy", "{}"), ("TopicRecordNameStrategy", "{topic}-{}")]
)
def test_subjects_by_the_name_of_the_record(broker, registry, topic, strategy, subject):
    name = topic(strategy, value_schema_validation="true", value_subject_name_strategy=strategy)
    with Admin(broker.bootstrap_servers) as admin:
        admin.alter_configs("topic", name, set={"confluent.value.subject.name.strategy": STRATEGY + strategy})
    registry.texts |= RECORDS | {54: ('"string"', "AVRO"), 55: RECORDS[50]}
    registry.subjects |= {each: [subject.format("shop.Order", topic=name)] for each in (*RECORDS, 54)}
    registry.subjects[55] = [f"{name}-value"]
    with producer(broker) as sends:
        for each in RECORDS:
            sends.send(name, framed(each)).result(HANG_S)
        refused(sends.send(name, framed(54)), "Schema id 54")
        refused(sends.send(name, framed(55)), "Schema id 55")


def test_a_batch_with_many_schemas_is_accepted(broker, registry, topic):
    name = topic("many", value_schema_validation="true")
    ids = range(1000, 1500)
    registry.subjects |= {each: [f"{name}-value"] for each in ids}
    with producer(broker, linger_ms=HANG_S * 1000) as sends:
        sent = [sends.send(name, framed(each)) for each in ids]
        sends.flush()
        assert [each.result(HANG_S).offset for each in sent] == list(range(500))


def test_batches_with_the_same_new_schemas_are_accepted(broker, registry, topic):
    name = topic("same", partitions=8, value_schema_validation="true")
    ids = range(2000, 2300)
    registry.subjects |= {each: [f"{name}-value"] for each in ids}
    with producer(broker, linger_ms=HANG_S * 1000) as sends:
        sent = [sends.send(name, framed(each), partition=partition) for each in ids for partition in range(8)]
        sends.flush()
        for each in sent:
            each.result(HANG_S)


def test_one_lookup_that_fails_answers_all_batches_that_wait():
    gate, looked_up = threading.Event(), []

    class Hanging:
        def registration(self, schema, *, named):
            looked_up.append(schema)
            assert gate.wait(HANG_S)
            raise RegistryUnavailable("away")

    async def check():
        checks = SchemaChecks(None, Hanging(), lambda topic: (f"{STRATEGY}TopicNameStrategy",) * 2)
        batches = [
            SimpleNamespace(topic=f"t{number % 3}", missing_schemas=({number}, {1})) for number in range(30)
        ]
        resolving = [asyncio.create_task(checks.resolve(each)) for each in batches]
        await asyncio.sleep(0)
        gate.set()
        outcomes = await asyncio.wait_for(asyncio.gather(*resolving), HANG_S)
        assert {error for error, _ in outcomes} == {Errors.REQUEST_TIMED_OUT.code}
        assert len(looked_up) == 1
        await checks.resolve(batches[0])
        assert len(looked_up) == 2, "a batch that comes later is looked up"
        await checks.stop()

    asyncio.run(check())


def test_unknown_schemas_ask_little(broker, registry, topic):
    name = topic("garbage", value_schema_validation="true")
    with producer(broker, linger_ms=HANG_S * 1000) as sends:
        sent = [sends.send(name, framed(each)) for each in range(100_000, 101_000)]
        sends.flush()
    refused(sent[0], "1000 records were refused")
    assert len(registry.asked) <= 200


def test_known_schemas_are_accepted_while_the_registry_is_away(broker, registry, topic):
    name = topic("away", partitions=2, value_schema_validation="true")
    registry.subjects |= {60: [f"{name}-value"], 61: [f"{name}-value"]}
    with producer(broker, retry_backoff_ms=20, retry_backoff_max_ms=50) as sends:
        sends.send(name, framed(60), partition=0).result(HANG_S)
        registry.spoilt = (503, b"away")
        waits = sends.send(name, framed(61), partition=1)
        for spoilt in (
            (503, b"away"),
            (200, b"[1]"),
            (200, b"{"),
            (200, b'[{"version":1}]'),
            (200, b"[" * 100_000),
        ):
            registry.spoilt = spoilt
            registry.asked.clear()
            sends.send(name, framed(60), partition=0).result(HANG_S)
            wait_until(lambda: len(registry.asked) >= 4)  # it is sent again
            assert not waits.done()
        registry.spoilt = None
        assert waits.result(HANG_S).offset == 0


def test_a_broker_without_a_registry_says_what_to_set(topic):
    with Broker() as alone:
        with Admin(alone.bootstrap_servers) as admin:
            admin.create_topic("t", 1, 1, {"confluent.value.schema.validation": "true"})
        with producer(alone, delivery_timeout_ms=1500, request_timeout_ms=1000, linger_ms=0) as sends:
            with pytest.raises(Exception, match=r"confluent\.schema\.registry\.url"):
                sends.send("t", framed(1)).result(HANG_S)
            refused(sends.send("t", b"plain"), "no schema id")


def test_settings_hold_at_once(broker, registry, topic):
    name = topic("changed")
    registry.subjects[70] = [f"{name}-value"]
    with producer(broker) as sends, Admin(broker.bootstrap_servers) as admin:
        sends.send(name, b"plain").result(HANG_S)
        admin.alter_configs("topic", name, set={"confluent.value.schema.validation": "true"})
        refused(sends.send(name, b"plain"), "no schema id")
        sends.send(name, framed(70)).result(HANG_S)
        admin.alter_configs("topic", name, set={"confluent.value.schema.validation": "false"})
        sends.send(name, b"plain").result(HANG_S)


def test_a_topic_made_anew_has_its_own_schemas(broker, registry, topic):
    for _ in range(2):
        name = topic("anew", value_schema_validation="true")
        registry.subjects[75] = [f"{name}-value"]
        with producer(broker) as sends, Admin(broker.bootstrap_servers) as admin:
            sends.send(name, framed(75)).result(HANG_S)
            refused(sends.send(name, framed(76)), "Schema id 76")
            admin.delete_topics([name])


def test_idempotent_and_transactional_batches_keep_their_order(broker, registry, topic):
    name = topic("ordered", value_schema_validation="true")
    ids = range(80, 90)
    registry.subjects |= {each: [f"{name}-value"] for each in ids}
    with producer(broker, transactional_id="t", linger_ms=0) as sends:
        for first in (80, 85):
            sends.begin_transaction()
            sent = [sends.send(name, framed(each)) for each in range(first, first + 5)]
            sends.commit_transaction()
            assert all(each.done() for each in sent)
    with Consumer(
        broker.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as reads:
        reads.assign([(name, 0)])
        found = []
        while len(found) < len(ids):
            found += [record.value for record in reads.poll(timeout=HANG_S)]
    assert found == [framed(each) for each in ids]


def test_schemas_are_looked_up_again(registry, monkeypatch):
    monkeypatch.setattr(schema_checks, "REFRESH_S", 0.05)
    with Broker(config={"confluent.schema.registry.url": registry.url}) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("again", 1, 1, {"confluent.value.schema.validation": "true"})
        registry.subjects[90] = ["again-value"]
        with producer(broker) as sends:
            sends.send("again", framed(90)).result(HANG_S)
            registry.spoilt = (500, b"")
            registry.asked.clear()
            wait_until(lambda: len(registry.asked) > 3)
            sends.send("again", framed(90)).result(HANG_S)  # what is known stays
            registry.spoilt = None
            registry.subjects[90] = []

            def is_refused():
                try:
                    sends.send("again", framed(90)).result(HANG_S)
                except BrokerError:
                    return True
                return False

            wait_until(is_refused)


def test_a_broker_stops_while_it_asks(registry, monkeypatch):
    gate, asked = threading.Event(), threading.Event()

    class Slow:
        def registration(self, schema, *, named):
            asked.set()
            gate.wait(HANG_S)
            raise RegistryUnavailable("away")

    monkeypatch.setattr(schema_checks, "lookups_of", lambda *, configs: Slow())
    broker = Broker().start()
    try:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("t", 1, 1, {"confluent.value.schema.validation": "true"})
        with producer(broker, delivery_timeout_ms=2000, request_timeout_ms=1000, linger_ms=0) as sends:
            sent = sends.send("t", framed(1))
            assert asked.wait(HANG_S)
            broker.stop()
            with pytest.raises(ClientError):
                sent.result(HANG_S)
    finally:
        gate.set()
        broker.stop()


@pytest.mark.parametrize("schemas", [1, 300])
def test_a_batch_whose_topic_is_made_anew_meanwhile_goes_to_the_new_one(monkeypatch, schemas):
    gate, asked = threading.Event(), threading.Event()

    class Slow:
        def registration(self, schema, *, named):
            asked.set()
            gate.wait(HANG_S)
            return Registration(frozenset({"t-value"}), None)

    monkeypatch.setattr(schema_checks, "lookups_of", lambda *, configs: Slow())
    with Broker() as broker, Admin(broker.bootstrap_servers) as admin:
        configs = {"confluent.value.schema.validation": "true"}
        admin.create_topic("t", 1, 1, configs)
        with producer(broker, linger_ms=HANG_S * 1000) as sends:
            sent = [sends.send("t", framed(each)) for each in range(schemas)]
            flushing = threading.Thread(target=sends.flush)
            flushing.start()
            try:
                assert asked.wait(HANG_S)
                admin.delete_topics(["t"])
                admin.create_topic("t", 1, 1, configs)
            finally:
                gate.set()
                flushing.join()
            assert [each.result(HANG_S).offset for each in sent] == list(range(schemas))


@pytest.mark.parametrize("url", ["registry:8081", "ftp://registry", "http://"])
def test_addresses_are_of_http(url):
    with pytest.raises(ValueError, match=r"confluent\.schema\.registry\.url"):
        RegistryLookups([url])


def test_the_next_registry_is_asked(registry):
    registry.spoilt = None
    registry.subjects[95] = ["x-value"]
    lookups = RegistryLookups(["http://127.0.0.1:1", registry.url])
    for _ in range(2):
        assert lookups.registration(95, named=False).subjects == {"x-value"}
    lookups.close()
    with pytest.raises(RegistryUnavailable, match="does not answer"):
        RegistryLookups(["http://127.0.0.1:1"]).registration(95, named=False)
