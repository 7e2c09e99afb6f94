"""Everything at once, against a model.

Producers that lose their connections, sessions, slow readers, topics that come and go, retention of segments,
and a broker that is killed in the end.

The model holds every acknowledged record and its offset. A record names its sender and carries a checksum, so
each reader can check that it belongs there. BOWSTRING_STRESS_SECONDS makes it longer (default 8).
"""

import os
import random
import signal
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from bowstring._native.record.decode import decode_batches
from bowstring._native.record.encode import encode_batch, with_producer
from bowstring.protocol.messages import create_partitions as cp
from bowstring.protocol.messages import create_topics as ct
from bowstring.protocol.messages import delete_records as dr
from bowstring.protocol.messages import delete_topics as dt
from bowstring.protocol.messages import fetch as f
from bowstring.protocol.messages import incremental_alter_configs as iac
from bowstring.protocol.messages import init_producer_id as ip
from bowstring.protocol.messages import produce as p
from tests.support.plane_client import PlaneClient
from tests.support.serving import Process
from tests.support.waiting import FOR_EVER_MS, HANG_S, pause, wait_until
from tests.support.wire_client import WireClient

SECONDS = float(os.environ.get("BOWSTRING_STRESS_SECONDS", "8"))
PRODUCE, FETCH = 13, 17
UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID, OUT_OF_RANGE = 3, 100, 1
HEAD = struct.Struct(">QII")  # batch, record in it, CRC-32 of the rest
SMALL = {"internal.segment.bytes": "60000", "index.interval.bytes": "500", "file.delete.delay.ms": "300"}
KINDS = [
    SMALL,
    SMALL | {"retention.bytes": "200000"},
    SMALL | {"compression.type": "lz4"},
    SMALL | {"message.timestamp.type": "LogAppendTime"},
    SMALL | {"flush.messages": "40"},
    SMALL | {"flush.ms": "20"},
]
Key = tuple[bytes, int]


@dataclass
class Topic:
    """One life of a topic name."""

    name: str
    id: bytes
    partitions: int
    alive: bool = True


@dataclass
class Model:
    """State shared by all threads, under one lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    topics: list[Topic] = field(default_factory=list)
    sent: dict[int, Key] = field(default_factory=dict)  # batch -> where it was sent
    acked: dict[Key, dict[int, tuple[int, int]]] = field(
        default_factory=dict
    )  # base offset -> batch, records
    found: dict[int, int] = field(default_factory=dict)  # batch -> its base offset, as read
    unreliable: set[int] = field(default_factory=set)  # no acknowledgement will ever come
    next_batch: int = 0
    reads: int = 0

    def new_batch(self, key: Key) -> int:
        """A number for a batch."""
        with self.lock:
            self.next_batch += 1
            self.sent[self.next_batch] = key
            return self.next_batch

    def has_much(self) -> bool:
        """Whether living topics have enough acknowledged and read records for a verdict."""
        with self.lock:
            keys = [(topic.id, n) for topic in self.topics if topic.alive for n in range(topic.partitions)]
            acked = sum(len(self.acked.get(key, ())) for key in keys)
            return acked > 100 and self.reads > 1000

    def acknowledge(self, key: Key, number: int, records: int, base_offset: int) -> None:
        """Notes the broker's offset of a batch: the batch is nowhere else, and no other batch is there."""
        with self.lock:
            known = self.acked.setdefault(key, {}).setdefault(base_offset, (number, records))
            assert known == (number, records), f"{key} {base_offset}: {known} and {number} acknowledged"

    def read(self, key: Key, offset: int, value: bytes) -> None:
        """Checks a record: intact, from a batch that was sent there, once."""
        number, index, crc = HEAD.unpack_from(value)
        assert zlib.crc32(value[HEAD.size :]) == crc, f"{key} {offset}: damaged"
        with self.lock:
            self.reads += 1
            assert self.sent[number] == key, f"{key} {offset}: a record of {self.sent[number]}"
            base = self.found.setdefault(number, offset - index)
            assert base == offset - index, f"{key} {offset}: batch {number} is also at {base}"

    def some_topic(self, chance: random.Random) -> Topic | None:
        """A living topic, or now and then a deleted one."""
        with self.lock:
            living = [t for t in self.topics if t.alive or chance.random() < 0.02]
            return chance.choice(living) if living else None


def values_of(number: int, records: int, chance: random.Random) -> list[bytes]:
    """The records of a batch."""
    bodies = [chance.randbytes(chance.choice([0, 10, 200, 3000])) for _ in range(records)]
    return [HEAD.pack(number, i, zlib.crc32(body)) + body for i, body in enumerate(bodies)]


def encoded(values: list[bytes], codec: int = 0) -> bytes:
    """A batch of records with the current time."""
    now = time.time_ns() // 1_000_000
    return encode_batch([(None, value, now, []) for value in values], codec)


def produce_request(topic: Topic, partition: int, data: bytes, acks: int) -> p.ProduceRequest:
    """One batch for one partition."""
    part = p.PartitionProduceData(index=partition, records=data)
    return p.ProduceRequest(
        acks=acks,
        timeout_ms=FOR_EVER_MS,
        topic_data=[p.TopicProduceData(topic_id=topic.id, partition_data=[part])],
    )


def produced(client: PlaneClient) -> tuple[int, int]:
    """(error, base offset) of the next answer."""
    part = client.receive(0, PRODUCE).responses[0].partition_responses[0]
    return part.error_code, part.base_offset


class Stress:
    """The threads, their end, and their problems."""

    def __init__(self, port: int, seed: int) -> None:
        self.port = port
        self.seed = seed
        self.model = Model()
        self.stopping = threading.Event()
        self.problems: list[BaseException] = []

    def run(self, *works: Callable[[random.Random], None]) -> list[threading.Thread]:
        """Starts a thread for each task, which repeats it."""

        def again(work: Callable[[random.Random], None], chance: random.Random) -> None:
            try:
                while not self.stopping.is_set():
                    work(chance)
            except BaseException as problem:
                self.problems.append(problem)
                self.stopping.set()

        threads = [
            threading.Thread(target=again, args=(work, random.Random(self.seed * 1000 + i)))
            for i, work in enumerate(works)
        ]
        for thread in threads:
            thread.start()
        return threads

    # ------------------------------------------------------------ producing

    def plain_producer(self, chance: random.Random) -> None:
        """A few batches with any acks, then perhaps no look at the answers."""
        topic = self.model.some_topic(chance)
        if topic is None:
            return
        client = PlaneClient(self.port)
        waiting = []
        for _ in range(chance.randrange(1, 30)):
            key = (topic.id, chance.randrange(topic.partitions))
            acks, records = chance.choice([0, 1, -1]), chance.randrange(1, 6)
            number = self.model.new_batch(key)
            if acks == 0:
                self.model.unreliable.add(number)
            else:
                waiting.append((key, number, records))
            data = encoded(values_of(number, records, chance), chance.choice([0, 0, 1, 3]))
            try:
                client.send(produce_request(topic, key[1], data, acks), PRODUCE)
            except ConnectionError:  # an acks=0 batch for a deleted topic: the broker closes
                break
        if chance.random() < 0.7:
            self.take_answers(client, topic, waiting)
        self.model.unreliable.update(number for _, number, _ in waiting)
        client.close()

    def take_answers(self, client: PlaneClient, topic: Topic, waiting: list[tuple[Key, int, int]]) -> None:
        """Reads the answers; removes the answered ones from `waiting`."""
        try:
            while waiting:
                error, base = produced(client)
                key, number, records = waiting.pop(0)
                if error:
                    assert error in (UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID) and not topic.alive, error
                    self.model.unreliable.add(number)
                else:
                    self.model.acknowledge(key, number, records, base)
        except ConnectionError:
            assert not topic.alive, "closed by the broker"

    def idempotent_producer(self, chance: random.Random) -> None:
        """Five batches in flight, sent again on new connections until all are acknowledged."""
        topic = self.model.some_topic(chance)
        if topic is None:
            return
        client = PlaneClient(self.port)
        client.send(ip.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4)
        identity = client.receive(22, 4)
        partition, sequence = chance.randrange(topic.partitions), 0
        key = (topic.id, partition)
        for _ in range(chance.randrange(1, 8)):
            batches = []
            for _ in range(5):
                number, records = self.model.new_batch(key), chance.randrange(1, 5)
                plain = encoded(values_of(number, records, chance))
                batches.append((number, records, with_producer(plain, identity.producer_id, 0, sequence)))
                sequence += records
            if not self.insist(client, topic, key, batches, chance):
                return
            client = PlaneClient(self.port) if chance.random() < 0.3 else client

    def insist(
        self, client: PlaneClient, topic: Topic, key: Key, batches: list, chance: random.Random
    ) -> bool:
        """Repeats until every batch is acknowledged; returns False when the topic has gone."""
        done = False
        while not done:
            for _, _, data in batches:
                client.send(produce_request(topic, key[1], data, chance.choice([1, -1])), PRODUCE)
            if chance.random() < 0.4:  # without a look at the answers
                if chance.random() < 0.5:
                    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()
                client.__init__(self.port)  # type: ignore[misc]
                continue
            answers = [produced(client) for _ in batches]
            if any(error for error, _ in answers):
                assert all(error in (0, UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID) for error, _ in answers), answers
                assert not topic.alive
                self.model.unreliable.update(number for number, _, _ in batches)
                client.close()
                return False
            for (number, records, _), (_, base) in zip(batches, answers, strict=True):
                self.model.acknowledge(key, number, records, base)
            done = True
        return True

    # ------------------------------------------------------------ fetching

    def session_reader(self, chance: random.Random) -> None:
        """Follows every partition of a topic in one session, from the log start, for a while."""
        topic = self.model.some_topic(chance)
        if topic is None:
            return
        client = PlaneClient(self.port)
        places = dict.fromkeys(range(topic.partitions), 0)
        session, epoch, changed = 0, 0, set(places)
        for _ in range(chance.randrange(5, 40)):
            parts = [
                f.FetchPartition(
                    partition=i, fetch_offset=places[i], partition_max_bytes=chance.choice([1, 70_000])
                )
                for i in sorted(changed)
            ]
            topics = [f.FetchTopic(topic_id=topic.id, partitions=parts)] if parts else []
            request = f.FetchRequest(
                max_wait_ms=50, min_bytes=chance.choice([1, 10_000]), max_bytes=1 << 20, isolation_level=chance.randrange(2),
                session_id=session, session_epoch=epoch, topics=topics,
            )  # fmt: skip
            answer = client.call(request, FETCH)
            if answer.error_code in (70, 71):
                break
            session, epoch = answer.session_id, epoch + 1
            if session == 0:
                break
            changed = self.follow(topic, answer, places)
        client.close()

    def follow(self, topic: Topic, answer: f.FetchResponse, places: dict[int, int]) -> set[int]:
        """Checks the records and advances; returns the partitions whose position has changed."""
        changed = set()
        for part in (part for each in answer.responses for part in each.partitions):
            index = part.partition_index
            if part.error_code == OUT_OF_RANGE:
                places[index] = self.start_of(topic, index, places[index])
                changed.add(index)
            elif part.error_code:
                assert part.error_code in (UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID) and not topic.alive
            elif part.records:
                places[index] = self.check((topic.id, index), part.records, places[index])
                changed.add(index)
        return changed

    def check(self, key: Key, records: bytes, offset: int) -> int:
        """Checks that offsets are dense from `offset` on and records belong there; returns the next one."""
        for record in decode_batches(records):
            if record.offset < offset:
                continue  # of a batch that began earlier
            assert record.offset == offset, f"{key}: {record.offset} where {offset} should be"
            self.model.read(key, offset, record.value)
            offset += 1
        return offset

    def start_of(self, topic: Topic, partition: int, known: int) -> int:
        """Returns the log start offset; it never goes back."""
        client = PlaneClient(self.port)
        nothing = dr.DeleteRecordsPartition(partition_index=partition, offset=0)
        one = dr.DeleteRecordsTopic(name=topic.name, partitions=[nothing])
        answer = client.call(dr.DeleteRecordsRequest(timeout_ms=FOR_EVER_MS, topics=[one]), 2)
        client.close()
        start = answer.topics[0].partitions[0].low_watermark
        assert start >= known or not topic.alive
        return max(start, known)

    def slow_reader(self, chance: random.Random) -> None:
        """Requests much, reads little, may leave at any time; answers come in the order of the requests."""
        topic = self.model.some_topic(chance)
        if topic is None:
            return
        client = PlaneClient(self.port)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asked = []
        for _ in range(chance.randrange(1, 60)):
            part = f.FetchPartition(partition=chance.randrange(topic.partitions), fetch_offset=0,
                                    partition_max_bytes=1 << 20)  # fmt: skip
            request = f.FetchRequest(max_wait_ms=chance.choice([0, 20]), min_bytes=1, max_bytes=1 << 20, session_epoch=-1,
                                     topics=[f.FetchTopic(topic_id=topic.id, partitions=[part])])  # fmt: skip
            asked.append(client.send(request, FETCH))
        for correlation_id in asked[: chance.randrange(len(asked) + 1)]:
            if self.stopping.is_set():
                break
            pause(chance.choice([0, 0, 0.02]), "a slow peer")
            answer = client.receive(1, FETCH)
            assert client.answered == correlation_id
            for part in answer.responses[0].partitions:
                if part.records:
                    first = decode_batches(part.records)[0].offset
                    self.check((topic.id, part.partition_index), part.records, first)
        client.close()

    # ------------------------------------------------------------ changes

    def administrator(self, chance: random.Random) -> None:
        """Topics come, grow, lose records at their front, and go."""
        pause(chance.uniform(0, 0.15), "the pace of changes")
        client = WireClient(self.port)
        with self.model.lock:
            living = [t for t in self.model.topics if t.alive]
        what = chance.randrange(7)
        if len(living) < 4:
            name = chance.choice([f"t{i}" for i in range(6) if f"t{i}" not in {t.name for t in living}])
            self.create(client, name, chance.randrange(1, 4), chance.choice(KINDS))
        elif what == 0:
            topic = chance.choice(living)
            topic.alive = False
            state = dt.DeleteTopicState(name=topic.name)
            assert (
                client.ask(dt.DeleteTopicsRequest(topics=[state], timeout_ms=FOR_EVER_MS))
                .responses[0]
                .error_code
                == 0
            )
        elif what == 1:
            topic = chance.choice(living)
            grown = cp.CreatePartitionsTopic(name=topic.name, count=topic.partitions + 1, assignments=None)
            if topic.partitions < 6:
                assert client.ask(cp.CreatePartitionsRequest(topics=[grown])).results[0].error_code == 0
                topic.partitions += 1
        elif what == 2:
            name, value = chance.choice([("compression.type", "zstd"), ("compression.type", "producer"),
                                         ("retention.bytes", "300000"), ("index.interval.bytes", "100")])  # fmt: skip
            config = iac.AlterableConfig(name=name, config_operation=0, value=value)
            named = iac.AlterConfigsResource(
                resource_type=2, resource_name=chance.choice(living).name, configs=[config]
            )
            answer = client.ask(iac.IncrementalAlterConfigsRequest(resources=[named]))
            assert answer.responses[0].error_code == 0
        else:
            topic = chance.choice(living)
            index = chance.randrange(topic.partitions)
            with self.model.lock:
                offsets = sorted(self.model.acked.get((topic.id, index), {}))
            if offsets:
                part = dr.DeleteRecordsPartition(partition_index=index, offset=offsets[len(offsets) // 2])
                one = dr.DeleteRecordsTopic(name=topic.name, partitions=[part])
                answer = client.ask(dr.DeleteRecordsRequest(topics=[one], timeout_ms=FOR_EVER_MS))
                assert answer.topics[0].partitions[0].error_code == 0
        client.close()

    def create(self, client: WireClient, name: str, partitions: int, configs: dict[str, str]) -> None:
        """Creates a topic; the model has it once it is there."""
        wanted = ct.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1,
            configs=[ct.CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
        )  # fmt: skip
        made = client.ask(ct.CreateTopicsRequest(topics=[wanted])).topics[0]
        assert made.error_code == 0, made
        with self.model.lock:
            self.model.topics.append(Topic(name, made.topic_id, partitions))

    # ------------------------------------------------------------ the end

    def read_all(self, topic: Topic, partition: int) -> dict[int, int]:
        """Offset and batch of every existing record."""
        client = PlaneClient(self.port)
        place, end = self.start_of(topic, partition, 0), -1
        there: dict[int, int] = {}
        while end < 0 or place < end:
            part = f.FetchPartition(partition=partition, fetch_offset=place, partition_max_bytes=1 << 20)
            request = f.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_epoch=-1,
                                     topics=[f.FetchTopic(topic_id=topic.id, partitions=[part])])  # fmt: skip
            got = client.call(request, FETCH).responses[0].partitions[0]
            if got.error_code == OUT_OF_RANGE:  # retention continued meanwhile
                place = self.start_of(topic, partition, place)
                there.clear()
                continue
            assert got.error_code == 0
            end = got.high_watermark
            first, place = place, self.check((topic.id, partition), got.records or b"", place)
            for record in decode_batches(got.records or b""):
                if record.offset >= first:
                    there[record.offset] = HEAD.unpack_from(record.value)[0]
        client.close()
        return there

    def verify(self) -> int:
        """All acknowledged, undeleted records are there; others only if no answer to them was awaited."""
        total = 0
        for topic in (t for t in self.model.topics if t.alive):
            for partition in range(topic.partitions):
                key = (topic.id, partition)
                there = self.read_all(topic, partition)
                total += len(there)
                start = min(there, default=self.start_of(topic, partition, 0))
                acked = self.model.acked.get(key, {})
                for base, (number, records) in acked.items():
                    for offset in range(max(base, start), base + records):
                        assert there.get(offset) == number, (
                            f"{topic.name}-{partition} {offset}: batch {number} lost"
                        )
                known = {number for number, _ in acked.values()} | self.model.unreliable
                assert set(there.values()) <= known
        return total


def started(arguments: list[str]) -> Process:
    """A broker whose log lines are read, so that it never blocks on its output."""
    broker = Process(*arguments)
    threading.Thread(target=broker.process.stderr.read, daemon=True).start()
    return broker


@pytest.mark.timeout(1_200 + 4 * SECONDS)
@pytest.mark.parametrize("reactors", [1, 3])
def test_everything_at_once(tmp_path, reactors):
    """No acknowledged record is lost, moved, duplicated or damaged, even if the broker is killed then."""
    options = {
        "bowstring.reactor.threads": reactors, "log.retention.check.interval.ms": 100,
        "log.initial.task.delay.ms": 100, "log.segment.delete.delay.ms": 200, "max.incremental.fetch.session.cache.slots": 9,
    }  # fmt: skip
    arguments = ["--data", str(tmp_path / "data"), "--host", "127.0.0.1", "--port", "0"]
    arguments += [part for key, value in options.items() for part in ("--set", f"{key}={value}")]
    broker = started(arguments)
    stress = Stress(broker.port, seed=int(os.environ.get("BOWSTRING_STRESS_SEED", "1")))
    try:
        threads = stress.run(
            stress.administrator, *[stress.plain_producer] * 3, *[stress.idempotent_producer] * 3,
            *[stress.session_reader] * 3, *[stress.slow_reader] * 2,
        )  # fmt: skip
        stress.stopping.wait(SECONDS)
        # A slow machine gets more time for the same amount of work.
        wait_until(lambda: stress.stopping.is_set() or stress.model.has_much(), "hardly anything is done")
        stress.stopping.set()
        for thread in threads:
            thread.join(HANG_S)
        if stress.problems:
            raise stress.problems[0]
        assert not any(thread.is_alive() for thread in threads)
        assert broker.process.poll() is None
        stress.verify()
        for number in (signal.SIGKILL, signal.SIGTERM):
            status = broker.stop(number)
            assert status == (0 if number == signal.SIGTERM else -number)
            broker = started(arguments)
            stress.port = broker.port
            stress.verify()
    finally:
        broker.stop(signal.SIGTERM)
