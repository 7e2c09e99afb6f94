"""Registries on a broker: their topic, one leader, followers, and what remains without a broker."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from bowstring import Broker
from bowstring.clients.admin.acls import AclBinding
from bowstring.clients.admin.admin import Admin
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import ConfigError
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import TopicPartition
from bowstring.protocol.acls import (
    AclOperation,
    AclPermissionType,
    AclResourceType,
    ResourcePatternType,
)
from bowstring.registry import parsed_schemas, schema_work
from bowstring.registry.operations.deletion import decide_delete_subject, decide_delete_version
from bowstring.registry.operations.registration import decide_register
from bowstring.registry.registry_error import RegistryError
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.registry_node import NodeSettings, NotLeader, RegistryNode
from bowstring.registry.store import topic_reader
from bowstring.registry.store.leadership import Append, Claim
from bowstring.registry.store.schemas_topic import UnfitTopicError, prepare_topic
from bowstring.registry.store.store_target import StoreTarget
from bowstring.registry.store.store_thread import StoreThread
from bowstring.registry.store.topic_reader import ReadRecords, TopicReader
from tests.support.registry_process import settings_of
from tests.support.waiting import HANG_S, wait_until, wait_until_async

URL = "http://127.0.0.1:18081"
OTHER_URL = "http://127.0.0.1:18082"
CONFIG = {"group.min.session.timeout.ms": "1000"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config=CONFIG) as started:
        yield started


def settings(broker: Broker, name: str, url: str = URL, **more: Any) -> NodeSettings:
    """Settings of a registry with a topic and a group of its own."""
    found = settings_of(broker.bootstrap_servers, url, **more)
    return found._replace(target=found.target._replace(topic=f"_schemas-{name}", group_id=f"group-{name}"))


def avro(name: str, doc: str = "") -> dict[str, str]:
    return {"schema": json.dumps({"type": "record", "name": name, "doc": doc, "fields": []})}


async def register(node: RegistryNode, subject: str, doc: str = "") -> int:
    answer = await node.write(lambda image: decide_register(image, subject, avro("r", doc)))
    return answer["id"]


def ids(image: RegistryImage, subject: str) -> list[int]:
    return [record.id for record in image.versions(subject)]


def records(broker: Broker, topic: str) -> list[tuple[Any, Any]]:
    """Keys and values of a topic, out of their JSON."""
    partition = TopicPartition(topic, 0)
    found: list[tuple[Any, Any]] = []
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            for record in consumer.poll(1.0):
                assert record.key is not None
                value = None if record.value is None else json.loads(record.value)
                found.append((json.loads(record.key), value))
    return found


def test_a_registry_makes_its_topic_and_writes(broker):
    async def life() -> None:
        node = RegistryNode(settings(broker, "new"))
        await node.start()
        assert [await register(node, "a"), await register(node, "a", "2"), await register(node, "a")] == [
            1,
            2,
            1,
        ]
        assert ids(node.image, "a") == [1, 2]
        assert (node.is_leader, node.leader_url) == (True, URL)
        with pytest.raises(RegistryError, match="Invalid schema"):
            await node.write(lambda image: decide_register(image, "a", {"schema": "record"}))
        await node.stop()
        with pytest.raises(NotLeader):
            await register(node, "a", "3")

    asyncio.run(life())
    with Admin(broker.bootstrap_servers) as admin:
        found = admin.describe_configs("topic", "_schemas-new", names=["cleanup.policy"])
        assert found["cleanup.policy"].value == "compact"
    stored = records(broker, "_schemas-new")
    assert stored[0] == ({"keytype": "NOOP", "magic": 0}, None)
    assert [key.get("version") for key, _ in stored[1:]] == [1, 2]


def test_a_follower_sends_on_and_catches_up_and_takes_over(broker):
    async def life() -> None:
        leader = RegistryNode(settings(broker, "two"))
        follower = RegistryNode(settings(broker, "two", OTHER_URL))
        await leader.start()
        assert await register(leader, "a") == 1
        await follower.start()
        with pytest.raises(NotLeader) as elsewhere:
            await register(follower, "a", "2")
        assert elsewhere.value.leader_url == URL
        assert await register(leader, "a", "2") == 2
        assert all(await asyncio.gather(*(follower.catch_up() for _ in range(5))))
        assert ids(follower.image, "a") == [1, 2]
        assert await follower.catch_up(leader.position)
        await leader.stop()
        await wait_until_async(lambda: follower.leader_url == OTHER_URL)
        assert await register(follower, "a", "3") == 3
        await follower.stop()

    asyncio.run(life())


def test_what_follows_an_election_cannot_end_it(broker):
    def fail(url: str | None) -> None:
        raise AttributeError(url)

    async def life() -> None:
        node = RegistryNode(settings(broker, "deaf"))
        node.leader_changed = fail
        await node.start()
        assert await register(node, "a") == 1
        await node.stop()

    asyncio.run(life())


def test_concurrent_writes_of_one_schema_have_one_id(broker):
    async def life() -> None:
        node = RegistryNode(settings(broker, "busy"))
        await node.start()
        found = await asyncio.gather(*(register(node, f"s{n % 10}", str(n % 5)) for n in range(100)))
        assert set(found) == {1, 2, 3, 4, 5}
        await node.stop()

    asyncio.run(life())


def test_writes_that_wait_together_go_out_in_one_batch(broker, monkeypatch):
    """What follows from a schema of the batch is answered after it."""
    batches: list[int] = []
    run = StoreThread.run_command

    def counted(thread: StoreThread, command: Claim | Append) -> None:
        batches.append(len(command.records) if isinstance(command, Append) else 0)
        run(thread, command)

    monkeypatch.setattr(StoreThread, "run_command", counted)

    async def life() -> None:
        node = RegistryNode(settings(broker, "batch"))
        await node.start()
        await register(node, "first")
        batches.clear()
        texts = ["1", "2", "1", "2", "3"]
        refused = node.write(lambda image: decide_register(image, "a", {"schema": '"int"'}))
        delete = node.write(lambda image: decide_delete_version(image, "a", "1"))
        *found, failed, deleted, last = await asyncio.gather(
            *(register(node, "a", each) for each in texts),
            refused,
            delete,
            register(node, "a", "4"),
            return_exceptions=True,
        )
        assert found == [2, 3, 2, 3, 4]
        assert isinstance(failed, RegistryError)
        assert failed.code == 40901
        assert (deleted, last) == (1, 5)
        assert batches == [4, 1]
        body = avro("r", "5")
        new, same = await asyncio.gather(
            *[node.write(lambda image: decide_register(image, "a", body)) for _ in range(2)]
        )
        (record,) = node.image.context(".").of_id(new["id"])
        assert (same["id"], same["ts"]) == (new["id"], record.timestamp_ms)
        await node.stop()

    asyncio.run(life())


def test_writes_that_are_too_large_together_are_not_refused(broker, monkeypatch):
    batches: list[int] = []
    run = StoreThread.run_command

    def counted(thread: StoreThread, command: Claim | Append) -> None:
        batches.append(len(command.records) if isinstance(command, Append) else 0)
        run(thread, command)

    target = settings(broker, "narrow").target
    with Admin(broker.bootstrap_servers) as admin:
        configs = {"cleanup.policy": "compact", "max.message.bytes": "3000"}
        admin.create_topic(target.topic, partitions=1, configs=configs)

    async def life() -> None:
        node = RegistryNode(settings(broker, "narrow"))
        await node.start()
        sizes = [500, 1500, 5000, 1500, 500, 500, 5000, 1500, 500]
        found = await asyncio.gather(
            *(register(node, f"s{k}", f"{k}" * size) for k, size in enumerate(sizes)), return_exceptions=True
        )
        assert [isinstance(each, RegistryError) for each in found] == [size == 5000 for size in sizes], found
        assert sorted(each for each in found if isinstance(each, int)) == [1, 2, 3, 4, 5, 6, 7]
        with Admin(broker.bootstrap_servers) as admin:
            admin.alter_configs("topic", target.topic, set={"max.message.bytes": "100000"})
        monkeypatch.setattr(StoreThread, "run_command", counted)
        for turn in range(200):
            texts = [f"{turn}-{number}" + "x" * 500 for number in range(8)]
            await asyncio.gather(*(register(node, text[:9], text) for text in texts))
            if batches[-1] == 8:
                break
        assert batches[-1] == 8  # once the topic takes more, batches grow again
        await node.stop()

    asyncio.run(life())


def test_others_go_on_while_a_large_schema_is_parsed(broker, monkeypatch):
    """A write whose time is over, or that another registry must decide, does not wait for its parsing."""
    parse, entered, release = parsed_schemas.parse_outcome, threading.Event(), threading.Event()

    def slow(kind: str, text: str, *more: Any, **options: Any) -> Any:
        if len(text) > schema_work.INLINE_CHARS_MAX:
            entered.set()
            assert release.wait(HANG_S)
        return parse(kind, text, *more, **options)

    monkeypatch.setattr(parsed_schemas, "parse_outcome", slow)
    large = "x" * (schema_work.INLINE_CHARS_MAX + 1)

    async def life() -> None:
        node = RegistryNode(settings(broker, "large"))
        await node.start()
        await wait_until_async(lambda: node.is_leader)
        first = asyncio.ensure_future(register(node, "a", large))
        await asyncio.to_thread(entered.wait, HANG_S)
        assert await register(node, "b") == 1
        left = asyncio.ensure_future(register(node, "c", large + "y"))
        assert await register(node, "b", "2") == 2
        left.cancel()
        release.set()
        assert await first == 3
        assert await register(node, "a", large) == 3
        release.clear()
        entered.clear()
        stopped = asyncio.ensure_future(register(node, "d", large + "z"))
        await asyncio.to_thread(entered.wait, HANG_S)
        await node.stop()
        release.set()
        with pytest.raises(NotLeader):
            await stopped

    asyncio.run(life())


def test_a_large_schema_that_takes_too_long_is_not_written(broker, monkeypatch):
    parse, release = parsed_schemas.parse_outcome, threading.Event()

    def slow(*given: Any, **options: Any) -> Any:
        assert release.wait(HANG_S)
        return parse(*given, **options)

    async def life() -> None:
        node = RegistryNode(settings(broker, "long", write_timeout_s=0.5))
        await node.start()
        await wait_until_async(lambda: node.is_leader)
        monkeypatch.setattr(parsed_schemas, "parse_outcome", slow)
        with pytest.raises(RegistryError, match="nothing was written") as late:
            await register(node, "a", "x" * (schema_work.INLINE_CHARS_MAX + 1))
        assert late.value.code == 50002
        release.set()
        monkeypatch.undo()
        assert await register(node, "a") == 1
        await node.stop()

    asyncio.run(life())


def test_an_id_is_not_given_again_after_its_schema_is_gone(broker):
    """Not even when compaction keeps only the last NOOP, which a new leader writes."""

    async def life() -> None:
        first = RegistryNode(settings(broker, "gone"))
        await first.start()
        assert [await register(first, "a"), await register(first, "b", "2")] == [1, 2]
        await first.write(lambda image: decide_delete_version(image, "b", "1"))
        await first.write(lambda image: decide_delete_version(image, "b", "1", permanent=True))
        await first.stop()
        second = RegistryNode(settings(broker, "gone"))
        await second.start()
        await register(second, "a")
        await second.stop()
        stored = records(broker, "_schemas-gone")
        marks = [value for key, value in stored if key["keytype"] == "NOOP"]
        assert marks[-1] == {"maxIds": {".": 2}}
        third = RegistryNode(settings(broker, "gone"))
        await third.start()
        assert await register(third, "b", "3") == 3
        await third.stop()

    asyncio.run(life())


def test_a_topic_of_several_partitions_is_refused(broker):
    target = settings(broker, "wide").target
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(target.topic, partitions=2, configs={"cleanup.policy": "compact"})
    with pytest.raises(UnfitTopicError, match="2 partitions"):
        prepare_topic(target, 1, HANG_S)


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_forgets_is_refused(broker, policy):
    target = settings(broker, policy.replace(",", "-")).target
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(target.topic, partitions=1, configs={"cleanup.policy": policy})
    with pytest.raises(UnfitTopicError, match=r"bowstring configs"):
        prepare_topic(target, 1, HANG_S)


def test_a_record_that_is_no_record_of_a_registry_is_left_out(broker):
    target = settings(broker, "odd").target
    prepare_topic(target, 1, HANG_S)
    with Producer(broker.bootstrap_servers) as producer:
        for key, value in [(b"", b"x"), (b"\xff", b"x"), (b"[" * 100_000, None), (b'{"keytype":7}', b"{}")]:
            producer.send(target.topic, value, key=key).result(HANG_S)

    async def life() -> None:
        node = RegistryNode(settings(broker, "odd"))
        await node.start()
        assert await register(node, "a") == 1
        await node.stop()

    asyncio.run(life())


def test_a_schema_that_the_topic_does_not_take_is_too_large(broker):
    target = settings(broker, "small").target
    with Admin(broker.bootstrap_servers) as admin:
        configs = {"cleanup.policy": "compact", "max.message.bytes": "2000"}
        admin.create_topic(target.topic, partitions=1, configs=configs)

    async def life() -> None:
        node = RegistryNode(settings(broker, "small"))
        await node.start()
        with pytest.raises(RegistryError) as refused:
            await register(node, "a", "x" * 3000)
        assert (refused.value.status, refused.value.code) == (422, 42209)
        assert await register(node, "a") == 1
        await node.stop()

    asyncio.run(life())


def test_a_topic_that_was_created_again_is_read_again(broker):
    async def life() -> None:
        node = RegistryNode(settings(broker, "again"))
        await node.start()
        assert await register(node, "a") == 1
        target = settings(broker, "again").target
        await asyncio.to_thread(recreate, broker, target)
        await wait_until_async(lambda: not ids(node.image, "a"))
        await wait_until_async(lambda: node.is_leader)
        assert await register(node, "b") == 1
        await node.stop()

    asyncio.run(life())


def recreate(broker: Broker, target: StoreTarget) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_topics([target.topic])
    prepare_topic(target, 1, HANG_S)


def test_without_a_broker_reads_go_on_and_writes_fail_and_later_succeed(tmp_path):
    async def life() -> None:
        broker = await asyncio.to_thread(Broker(data_dir=tmp_path, config=CONFIG).start)
        port = broker.port
        node = RegistryNode(settings(broker, "alone", write_timeout_s=0.5))
        await node.start()
        await wait_until_async(lambda: node.is_leader)
        assert await register(node, "a") == 1
        await asyncio.to_thread(broker.stop)
        assert ids(node.image, "a") == [1]
        with pytest.raises(RegistryError) as failed:
            await register(node, "a", "2")
        assert (failed.value.status, failed.value.code) == (500, 50002)
        assert ids(node.image, "a") == [1]
        broker = await asyncio.to_thread(Broker(port, tmp_path, CONFIG).start)
        await wait_until_async(lambda: registered(node, "a", "2"))
        assert ids(node.image, "a") == [1, 2]
        await node.stop()
        await asyncio.to_thread(broker.stop)

    asyncio.run(life())


async def registered(node: RegistryNode, subject: str, doc: str) -> bool:
    try:
        await register(node, subject, doc)
    except (RegistryError, NotLeader):
        return False
    return True


def test_another_writer_with_the_same_transactional_id_fences_the_leader(broker):
    """As a leader does that the group elected meanwhile."""
    chosen = settings(broker, "fenced")

    async def life() -> None:
        node = RegistryNode(chosen)
        await node.start()
        assert await register(node, "a") == 1
        await asyncio.to_thread(usurp)
        with pytest.raises(NotLeader):
            await register(node, "a", "2")
        await wait_until_async(lambda: node.is_leader)
        assert await register(node, "a", "3") == 2
        await node.stop()

    def usurp() -> None:
        with Producer(broker.bootstrap_servers, transactional_id=chosen.target.transactional_id) as producer:
            producer.begin_transaction()
            producer.send(chosen.target.topic, None, key=b'{"keytype":"NOOP","magic":0}')
            producer.commit_transaction()

    asyncio.run(life())


def test_decisions_without_records_stand_and_callers_that_left_are_forgotten(broker):
    async def life() -> None:
        node = RegistryNode(settings(broker, "left"))
        await node.start()
        await register(node, "a")
        leaving = asyncio.ensure_future(register(node, "a", "2"))
        await asyncio.sleep(0)
        leaving.cancel()
        assert await register(node, "a", "3") in (2, 3)
        assert await node.write(lambda image: decide_delete_subject(image, "a")) is not None
        await node.stop()

    asyncio.run(life())


def test_a_registry_that_may_not_fence_says_what_it_needs():
    standard = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    config = {"authorizer.class.name": standard, "allow.everyone.if.no.acl.found": "true", **CONFIG}

    async def life(broker: Broker) -> None:
        chosen = settings(broker, "denied", write_timeout_s=1.0)
        name = chosen.target.transactional_id
        acl = AclBinding(
            AclResourceType.TRANSACTIONAL_ID,
            name,
            ResourcePatternType.LITERAL,
            "User:other",
            "*",
            AclOperation.WRITE,
            AclPermissionType.ALLOW,
        )
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_acls([acl])
        node = RegistryNode(chosen)
        await node.start()
        await wait_until_async(lambda: node.leader_url)
        with pytest.raises(RegistryError, match=f"write to '{name}'") as refused:
            await register(node, "a")
        assert refused.value.code == 50001
        await node.stop()

    with Broker(config=config) as broker:
        asyncio.run(life(broker))


def test_urls_are_checked():
    with pytest.raises(ConfigError, match="http://host:port"):
        RegistryNode(NodeSettings(StoreTarget("localhost:1"), "localhost:8081"))


def test_a_target_keeps_its_secrets():
    assert "secret" not in repr(StoreTarget("localhost:1", {"sasl.password": "secret"}))


def test_a_reader_waits_for_a_loop_that_is_slower(broker):
    target = settings(broker, "slow").target
    prepare_topic(target, 1, HANG_S)
    delivered: list[ReadRecords] = []
    reader = TopicReader(target, delivered.append, lambda function, read: function(read))
    with Producer(broker.bootstrap_servers) as producer:
        reader.start()
        for number in range(5):
            producer.send(target.topic, b"{}", key=b"%d" % number).result(HANG_S)
    wait_until(lambda: len(delivered) == 2)
    while not delivered or delivered[-1].position < 5:
        seen = len(delivered)
        reader.done()
        wait_until(lambda seen=seen: len(delivered) > seen)
    reader.stop()
    assert sum(len(each.records) for each in delivered) == 5


def test_a_reader_of_what_is_known_is_in_no_hurry(broker, monkeypatch):
    """It makes the look that it has begun, and pauses then; stopping ends the pause."""
    monkeypatch.setattr(topic_reader, "ECHO_PAUSE_S", 100 * HANG_S)
    target = settings(broker, "echo").target
    prepare_topic(target, 1, HANG_S)
    delivered: list[ReadRecords] = []
    reader = TopicReader(target, delivered.append, lambda function, read: function(read))
    reader.start()
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(target.topic, b"{}", key=b"0").result(HANG_S)
        wait_until(lambda: delivered and delivered[-1].position == 1)
        seen = len(delivered)
        for _ in range(seen):
            reader.done(known=True)
        for number in range(1, 5):
            producer.send(target.topic, b"{}", key=b"%d" % number).result(HANG_S)
    reader.stop()
    assert len(delivered) <= seen + 1
