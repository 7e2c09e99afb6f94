"""Copies of given-up records of share groups in dead-letter topics (KIP-1191)."""

import asyncio
import re
from types import SimpleNamespace

import pytest

from bowstring import Admin, Broker, Consumer, Producer, ShareConsumer
from bowstring._native.log.partition_log import LogError
from bowstring._native.record.decode import batch_headers
from bowstring._native.record.encode import encode_batch
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import BrokerImage, Endpoint
from bowstring.engine.network.broker_peers import BrokerPeers
from bowstring.engine.share.leader.dead_letter_batches import DeadLetter, Source, fits, resolve
from bowstring.engine.share.leader.dead_letters import DeadLetters, refusal
from bowstring.engine.share.leader.settings import share_settings
from bowstring.engine.share.leader.share_partition import LedSharePartition, steady_ms
from bowstring.engine.share.persister.interface import ReadState, SharePartitionKey
from bowstring.engine.storage.disk_reads import DiskReads
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.share_batches import StateBatch
from tests.support.share_records import Acknowledged, record_batch
from tests.support.waiting import HANG_S, wait_until, wait_until_async

KEY = SharePartitionKey("g", bytes(16), 0)
REJECT, ARCHIVING, ARCHIVED = 3, 3, 4
COPY = "errors.deadletterqueue.copy.record.enable"
ON = {"errors.deadletterqueue.group.enable": "true"}


# ---- contents of a letter


def test_headers_are_kafkas():
    source = Source("g", "orders", 3)
    rejected = source.headers(DeadLetter(5, 9, 2, rejected=True), 7)
    assert rejected == [
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"3"),
        ("__dlq.errors.offset", b"7"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"2"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    ]
    exceeded = source.headers(DeadLetter(5, 9, 5, rejected=False), 7)
    assert exceeded[-1][1] == b"Offset delivery count exceeded the threshold."
    assert fits(rejected, (b"k", b"v"), 1000) and not fits(rejected, (None, b"v" * 1000), 1000)


def batch(first, values, codec=0, **fields):
    return encode_batch([(None, value, 0, None) for value in values], codec, base_offset=first, **fields)


def test_contents_are_those_of_the_offsets():
    data = batch(0, [b"a", b"b", b"c"]) + batch(3, [b"d"], codec=4) + batch(5, [b"f"])
    found = resolve(data, 1, 5, 1000)
    assert found.contents == {1: (None, b"b"), 2: (None, b"c"), 3: (None, b"d"), 5: (None, b"f")}
    assert found.last == 5
    assert resolve(data, 1, 2, 1000).contents.keys() == {1, 2}
    assert resolve(data, 1, 9, 2) == ({1: (None, b"b"), 2: (None, b"c")}, 2), "no more than it may take"
    assert resolve(b"", 4, 9, 1000) == ({}, 9), "the log does not have them any more"


def test_a_batch_that_decompresses_to_too_much_has_no_contents():
    data = batch(0, [bytes(100_000)], codec=4) + batch(1, [b"b"])
    assert resolve(data, 0, 1, 5000) == ({1: (None, b"b")}, 1)


# ---- which topic


class Image:
    def __init__(self, *, topics=(), topic_configs=None, features=None, own=None):
        self.topics = dict.fromkeys(topics)
        self.features = features or {}
        self.topic_configs = lambda name: topic_configs or {}
        self.resource_configs = lambda kind, name: own or {}


@pytest.mark.parametrize(
    ("topic", "image", "configs", "why"),
    [
        ("dlq.t", Image(topics=["dlq.t"], topic_configs=ON), {}, None),
        ("", Image(), {}, "any more"),
        ("__dlq", Image(), {}, "must not start with __"),
        ("dlq.t", Image(topics=["dlq.t"]), {}, "does not have errors.deadletterqueue.group.enable=true"),
        ("dlq.t", Image(), {}, "does not exist"),
        ("dlq.t", Image(), {"errors.deadletterqueue.auto.create.topics.enable": "true"}, None),
        ("other", Image(topics=["other"], topic_configs=ON), {}, r"does not begin with dlq\."),
        (
            "other",
            Image(topics=["other"], topic_configs=ON),
            {"errors.deadletterqueue.topic.name.prefix": ""},
            None,
        ),
    ],
)
def test_topics_that_cannot_be_used(topic, image, configs, why):
    found = refusal(topic, image, BrokerConfigs(configs))
    assert (found is None) if why is None else re.search(why, found)


@pytest.mark.parametrize(("level", "expected"), [(1, False), (2, True)])
def test_share_version_2_has_dead_letters(level, expected):
    image = Image(own={"errors.deadletterqueue.topic.name": "dlq.t"}, features={"share.version": level})
    assert share_settings("g", image, BrokerConfigs()).dead_letters is expected
    assert (
        share_settings("g", Image(features={"share.version": level}), BrokerConfigs()).dead_letters is False
    )


# ---- when


class Stored:
    """Stores at once, or fails."""

    def __init__(self, batches=(), error=Errors.NONE):
        self.batches, self.error, self.written, self.writes = batches, error, [], 0

    async def read_state(self, key, leader_epoch):
        return ReadState(Errors.NONE, 0, 0, self.batches)

    async def write_state(self, key, written):
        self.written += written.batches
        self.writes += 1
        return self.error


class Letters:
    """Holds letters back until the test lets them go."""

    def __init__(self):
        self.letters, self.may_write, self.leads = [], asyncio.Event(), True

    async def write(self, key, letters):
        self.letters += letters
        await self.may_write.wait()
        return self.leads


async def led_over(persister, letters, after=None):
    settings = share_settings("g", Image(own={}), BrokerConfigs())._replace(dead_letters=True)
    led = LedSharePartition(KEY, 0, persister, lambda: settings, when_fenced=lambda led: None)
    led.dead_letters = letters
    led.load(None, after)
    await wait_until_async(lambda: led.is_active)
    return led


def reject(led, first, last):
    led.window.acquire(
        1,
        record_batch(first, last),
        fetch_offset=first,
        max_records=100,
        batch_size=100,
        now_ms=steady_ms(),
    )
    return led.acknowledge(1, [Acknowledged(first, last, [REJECT])])[2]


def test_records_are_archived_after_their_copies():
    async def main():
        persister, letters = Stored(), Letters()
        led = await led_over(persister, letters)
        assert await reject(led, 0, 1) is Errors.NONE, "members do not wait for the copies"
        await wait_until_async(lambda: letters.letters)
        assert letters.letters == [DeadLetter(0, 1, 1, rejected=True)]
        assert persister.written == [StateBatch(0, 1, ARCHIVING, 1)]
        assert led.window.start_offset == 0
        assert await reject(led, 2, 2) is Errors.NONE
        assert len(letters.letters) == 1, "one write after the other"
        letters.may_write.set()
        await wait_until_async(lambda: led.window.start_offset == 3)
        assert letters.letters[1:] == [DeadLetter(2, 2, 1, rejected=True)]
        assert persister.written[-1] == StateBatch(2, 2, ARCHIVED, 1)
        await led.stop()

    asyncio.run(main())


def test_copies_end_when_the_group_has_gone():
    """Its last member closes its connection right after the acknowledgement."""

    async def main():
        persister, letters = Stored(), Letters()
        led = await led_over(persister, letters)
        await reject(led, 0, 1)
        await wait_until_async(lambda: letters.letters)
        led.drop()
        letters.may_write.set()
        await led.ended()
        assert persister.written[-1] == StateBatch(0, 1, ARCHIVED, 1), "the next one copies nothing again"

    asyncio.run(main())


def test_a_rejection_that_is_not_stored_has_no_copy():
    async def main():
        persister, letters = Stored(error=Errors.COORDINATOR_NOT_AVAILABLE), Letters()
        led = await led_over(persister, letters)
        assert await reject(led, 0, 0) is Errors.COORDINATOR_NOT_AVAILABLE
        assert letters.letters == []
        await led.stop()

    asyncio.run(main())


def test_the_next_leader_writes_what_is_left():
    async def main():
        persister, letters = (
            Stored([StateBatch(0, 0, ARCHIVING, 1), StateBatch(1, 1, ARCHIVING, 5)]),
            Letters(),
        )
        led = await led_over(persister, letters)
        await wait_until_async(lambda: letters.letters)
        assert letters.letters == [DeadLetter(0, 0, 1, rejected=True), DeadLetter(1, 1, 5, rejected=False)]
        await led.stop()
        assert persister.written == [], "it did not end"
        letters.may_write.set()
        led = await led_over(persister, letters)
        await wait_until_async(lambda: led.window.start_offset == 2)
        await led.stop()

    asyncio.run(main())


def test_copies_that_take_long_are_left_to_the_next_one():
    """A dead-letter topic that cannot be written does not keep the group from its records."""

    async def main():
        persister, letters = Stored(), Letters()
        led = await led_over(persister, letters)
        await reject(led, 0, 1)
        await wait_until_async(lambda: letters.letters)
        led.drop()
        persister.batches = tuple(persister.written)
        other = await led_over(persister, letters, after=led)
        assert not led.is_ending
        await wait_until_async(lambda: len(letters.letters) == 2)
        assert letters.letters == [DeadLetter(0, 1, 1, rejected=True)] * 2
        letters.may_write.set()
        await wait_until_async(lambda: other.window.start_offset == 2)
        assert persister.written == [StateBatch(0, 1, ARCHIVING, 1), StateBatch(0, 1, ARCHIVED, 1)]
        await other.stop()

    asyncio.run(main())


def test_what_another_leader_writes_is_not_archived_here():
    async def main():
        persister, letters = Stored(), Letters()
        led = await led_over(persister, letters)
        letters.leads = False
        letters.may_write.set()
        await reject(led, 0, 1)
        await led.ended()
        assert persister.written == [StateBatch(0, 1, ARCHIVING, 1)]
        await led.stop()

    asyncio.run(main())


def test_many_copies_are_stored_together():
    async def main():
        persister, letters = Stored(), Letters()
        led = await led_over(persister, letters)
        for offset in range(0, 10, 2):
            await reject(led, offset, offset)
        writes = persister.writes
        letters.may_write.set()
        await led.ended()
        assert persister.writes == writes + 2, "one for the first letter, one for those that came meanwhile"
        await led.stop()

    asyncio.run(main())


# ---- on a broker


@pytest.fixture(scope="module")
def where():
    config = {
        "errors.deadletterqueue.auto.create.topics.enable": "true",
        "num.partitions": "2",
    } | dict.fromkeys(("share.coordinator.state.topic.num.partitions", "offsets.topic.num.partitions"), "1")
    with Broker(config=config) as broker:
        yield broker.bootstrap_servers


def give_up(where, group, topic, how, count=3, **configs):
    """Makes a member of a group give up the records of partition 2 of a new topic."""
    own = {"share.auto.offset.reset": "earliest", "share.heartbeat.interval.ms": "5000"}
    with Admin(where) as admin:
        admin.create_topic(topic, partitions=3)
        admin.alter_configs("group", group, set=own | configs)
    with Producer(where) as producer:
        for number in range(count):
            producer.send(topic, f"v{number}", key=f"k{number}", partition=2)
    seen = 0
    with ShareConsumer(where, group_id=group, acknowledgement_mode="explicit") as consumer:
        consumer.subscribe(topic)

        def enough():
            nonlocal seen
            for record in consumer.poll(0.2):
                how(consumer, record)
                seen += 1
            consumer.commit_sync()
            return seen >= count

        wait_until(enough)


def read(where, topic, count):
    with Consumer(where, auto_offset_reset="earliest") as consumer:
        found = []

        def enough():
            with Admin(where) as admin:
                if topic not in admin.list_topics():
                    return False
            if not consumer.assignment():
                consumer.assign([(topic, 0), (topic, 1)])
            found.extend(consumer.poll(0.2))
            return len(found) >= count

        wait_until(enough)
        return found


def test_rejected_records_are_in_the_dead_letter_topic(where):
    give_up(
        where,
        "g1",
        "t1",
        lambda consumer, record: consumer.reject(record),
        **{
            "errors.deadletterqueue.topic.name": "dlq.one",
            "errors.deadletterqueue.copy.record.enable": "true",
        },
    )
    letters = read(where, "dlq.one", 3)
    assert [(each.partition, each.key, each.value) for each in letters] == [
        (0, f"k{n}".encode(), f"v{n}".encode()) for n in range(3)
    ], "partition 2 of 3 goes to partition 0 of 2"
    headers = dict(letters[1].headers)
    assert headers["__dlq.errors.topic"] == b"t1" and headers["__dlq.errors.offset"] == b"1"
    assert headers["__dlq.errors.delivery.count"] == b"1"
    with Admin(where) as admin:
        assert (
            admin.describe_configs("topic", "dlq.one")["errors.deadletterqueue.group.enable"].value == "true"
        )


def test_records_delivered_too_often_have_headers_only(where):
    give_up(
        where,
        "g2",
        "t2",
        lambda consumer, record: consumer.release(record),
        **{
            "errors.deadletterqueue.topic.name": "dlq.two",
            "share.delivery.count.limit": "2",
        },
    )
    with ShareConsumer(where, group_id="g2", acknowledgement_mode="explicit") as consumer:
        consumer.subscribe("t2")

        def done():
            for record in consumer.poll(0.2):
                consumer.release(record)
            consumer.commit_sync()
            with Admin(where) as admin:
                return "dlq.two" in admin.list_topics()

        wait_until(done)
    letters = read(where, "dlq.two", 3)
    assert [(each.key, each.value) for each in letters] == [(None, None)] * 3
    assert (
        dict(letters[0].headers)["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."
    )


def test_without_a_usable_topic_the_group_goes_on(where, caplog):
    """As in Kafka: the records are archived, and the broker logs which ones have no copy."""
    with Admin(where) as admin:
        admin.create_topic("dlq.three", partitions=1)
    give_up(
        where,
        "g3",
        "t3",
        lambda consumer, record: consumer.reject(record),
        **{"errors.deadletterqueue.topic.name": "dlq.three"},
    )
    with Admin(where) as admin:
        (place,) = [each for each in admin.describe_share_offsets("g3") if each.partition == 2]
        wait_until(lambda: admin.describe_share_offsets("g3")[place].lag == 0)
    (told,) = [each.facts for each in caplog.records if "no copy in the dead-letter" in each.message]
    assert (told["offsets"], told["records"]) == ("0-2", 3)
    assert "does not have errors.deadletterqueue.group.enable=true" in told["detail"]


# ---- failures on the way

TOPIC = bytes(range(16))


class Now:
    """Time slices that never end."""

    def over(self):
        return False

    async def rest(self):
        raise AssertionError("the slice is not over")


class Memory:
    """A log whose batches are all in memory."""

    def __init__(self, data=b""):
        self.data = data

    def read_from_memory(self, offset, max_bytes):
        if isinstance(self.data, Exception):
            raise self.data
        return b"".join(
            self.data[each.position : each.position + each.size_bytes]
            for each in batch_headers(self.data)
            if each.last_offset >= offset
        )


class World:
    """What `DeadLetters` sees: an image with a source and a dead-letter topic, which a real broker has."""

    def __init__(self, where, topic, *, own=None, topic_configs=None):
        self.topic = topic
        self.log, self.leads = Memory(), True
        self.image = Image(
            topics=[topic],
            topic_configs=ON | (topic_configs or {}),
            own={"errors.deadletterqueue.topic.name": topic} | (own or {}),
        )
        self.image.topics[topic] = SimpleNamespace(name=topic, partitions=[SimpleNamespace(leader=1)])
        self.moves_to(where)
        self.image.topics_by_id = {TOPIC: SimpleNamespace(name="source")}
        with Admin(where) as admin:
            admin.create_topic(topic, partitions=1, configs=topic_configs)

    def moves_to(self, where):
        """The broker that leads the dead-letter topic listens there."""
        host, _, port = where.rpartition(":")
        listener = (Endpoint("PLAINTEXT", host, int(port), 0),)
        self.image.brokers = {1: BrokerImage(1, 0, b"", listener, None, fenced=False, directories=())}

    def leader_log(self, topic, partition):
        if not self.leads:
            raise KafkaError(Errors.NOT_LEADER_OR_FOLLOWER)
        return self.log

    async def write(self, *letters, meanwhile=None):
        peers = BrokerPeers(self, "PLAINTEXT")
        made = DeadLetters(
            BrokerConfigs(),
            self,
            None,
            leader_log=self.leader_log,
            peers=peers,
            disk_reads=DiskReads(),
            time_slices=Now(),
            timeout_s=HANG_S,
            first_pause_s=0.01,
        )
        settled = asyncio.create_task(made.write(SharePartitionKey("g", TOPIC, 0), letters))
        if meanwhile is not None:
            meanwhile()
        found = await settled
        peers.close()
        return found, made.written, made.lost


def offsets_and_values(where, topic, count):
    with Consumer(where, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        found = []
        wait_until(lambda: found.extend(consumer.poll(0.2)) or len(found) >= count)
        return [(int(dict(each.headers)["__dlq.errors.offset"]), each.value) for each in found]


def test_many_letters_go_in_several_batches(where):
    """As many as the dead-letter topic accepts in a batch, and no more in memory."""
    world = World(where, "dlq.small", own={COPY: "true"}, topic_configs={"max.message.bytes": "3000"})
    world.log = Memory(batch(0, [b"%03d" % n * 100 for n in range(10)], codec=4) + batch(10, [b"x" * 2990]))
    letters = [DeadLetter(0, 9, 1, rejected=True), DeadLetter(10, 10, 1, rejected=True)]
    assert asyncio.run(world.write(*letters)) == (True, 11, 0)
    found = offsets_and_values(where, "dlq.small", 11)
    assert [offset for offset, _ in found] == list(range(11))
    assert [value for _, value in found[:10]] == [None] * 10, (
        "the batch decompresses to more than 3,000 bytes"
    )
    assert found[10][1] is None, "with its headers it is too large, so they go alone"


def test_contents_of_many_batches(where):
    world = World(where, "dlq.copies", own={COPY: " TRUE "}, topic_configs={"max.message.bytes": "3000"})
    world.log = Memory(b"".join(batch(n, [b"%03d" % n * 100], codec=n % 2 * 4) for n in range(20)))
    letters = [DeadLetter(12, 19, 2, rejected=False), DeadLetter(0, 9, 1, rejected=True)]
    assert asyncio.run(world.write(*letters)) == (True, 18, 0)
    found = offsets_and_values(where, "dlq.copies", 18)
    assert found == [(n, b"%03d" % n * 100) for n in (*range(12, 20), *range(10))]


def test_one_batch_that_is_refused_does_not_stop_the_others(where, caplog):
    """The topic's size limit is lower than in the image of the broker that copies."""
    world = World(where, "dlq.refuses", own={COPY: "true"}, topic_configs={"max.message.bytes": "3000"})
    world.image.topic_configs = lambda name: ON | {"max.message.bytes": "5000"}
    world.log = Memory(batch(0, [b"a" * 4500]) + batch(1, [b"b" * 500]) + batch(2, [b"c" * 500]))
    letters = [DeadLetter(0, 1, 1, rejected=True), DeadLetter(2, 2, 1, rejected=True)]
    assert asyncio.run(world.write(*letters)) == (True, 2, 1)
    assert [offset for offset, _ in offsets_and_values(where, "dlq.refuses", 2)] == [1, 2]
    (told,) = [each.facts for each in caplog.records if "no copy in the dead-letter" in each.message]
    assert (told["offsets"], told["records"]) == ("0-0", 1)
    assert "MESSAGE_TOO_LARGE" in told["detail"]


def test_what_passes_is_tried_again(where):
    world = World(where, "dlq.later")
    there = world.image.brokers.pop(1)

    def soon():
        asyncio.get_running_loop().call_later(0.03, world.image.brokers.__setitem__, 1, there)

    assert asyncio.run(world.write(DeadLetter(0, 0, 1, rejected=True), meanwhile=soon)) == (True, 1, 0)


def test_what_does_not_pass_is_given_up(where):
    world = World(where, "dlq.never")
    world.image.brokers.clear()
    assert asyncio.run(world.write(DeadLetter(3, 7, 1, rejected=True))) == (True, 0, 5)


def test_another_leader_goes_on(where):
    """Otherwise a letter without contents would be written beside the next leader's."""
    world = World(where, "dlq.moved", own={COPY: "true"})
    world.leads = False
    assert asyncio.run(world.write(DeadLetter(0, 0, 1, rejected=True))) == (False, 0, 0)
    world.leads = True
    world.image.brokers.clear()

    def moves():
        asyncio.get_running_loop().call_later(0.03, setattr, world, "leads", False)

    assert asyncio.run(world.write(DeadLetter(0, 0, 1, rejected=True), meanwhile=moves)) == (False, 0, 0)


@pytest.mark.parametrize("code", [Errors.CORRUPT_MESSAGE, Errors.KAFKA_STORAGE_ERROR])
def test_a_log_that_cannot_be_read_leaves_headers(where, caplog, code):
    world = World(where, f"dlq.unread.{code.code}", own={COPY: "true"})
    world.log = Memory(LogError(code.code, "the disk says no"))
    assert asyncio.run(world.write(DeadLetter(0, 1, 1, rejected=True))) == (True, 2, 0)
    assert offsets_and_values(where, world.topic, 2) == [(0, None), (1, None)]
    assert "no key and value" in caplog.text
