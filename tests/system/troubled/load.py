"""Producers and consumer groups that keep working while a cluster is in trouble, and note what they saw."""

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import confluent_kafka

import bowstring
from bowstring.clients.admin.admin import Admin
from bowstring.clients.errors import BrokerError, TopicExistsError, UnknownTopicError
from tests.support.acked_load import QUICK
from tests.support.waiting import FOR_EVER_MS, HANG_S, pause

# Keys of each writer in a partition, for compaction.
KEYS = 40
WAITING_MAX = 200
LIBRDKAFKA, OURS = "rd", "own"
# Of each kind of client two members are a group.
GROUPS = {LIBRDKAFKA: "group-rd", OURS: "group-own"}
PACE_S = 0.06
PADDING_MAX_BYTES = 4000
RECREATED = "again"
RECREATED_RECORDS = 40

Place = tuple[str, int]


class Notes:
    """What the clients saw, of all topics.

    Attributes:
        acked: `{(topic, partition): {offset: value}}`.
        unplaced: Records that librdkafka counts as acknowledged without an offset, because later ones were.
        sent: Number of records by topic, partition and writer.
        covered: The offset up to which a group has read, by group and place.
        wrong: What must not happen.
        over: The clients come to their end.
    """

    def __init__(self) -> None:
        self.acked: dict[Place, dict[int, bytes]] = defaultdict(dict)
        self.unplaced: dict[Place, set[bytes]] = defaultdict(set)
        self.sent: dict[tuple[str, int, str], int] = defaultdict(int)
        self.covered: dict[tuple[str, Place], int] = defaultdict(int)
        self.wrong: list[str] = []
        self.over = threading.Event()
        self._lock = threading.Lock()

    def next_record(self, place: Place, writer: str) -> tuple[bytes, bytes]:
        """Key and value of a writer's next record; its number is part of the value."""
        number = self.sent[(*place, writer)]
        self.sent[(*place, writer)] += 1
        padding = b"." * (number * 37 % PADDING_MAX_BYTES)
        return b"%s%d" % (writer.encode(), number % KEYS), b"%s:%d:%s" % (writer.encode(), number, padding)

    def acknowledge(self, place: Place, offset: int | None, value: bytes) -> None:
        """A record was acknowledged at an offset."""
        with self._lock:
            if offset is None:
                self.unplaced[place].add(value)
                return
            first = self.acked[place].setdefault(offset, value)
        if first != value:
            self.fail(f"two records at {place}: {offset}")

    def read(self, group: str, place: Place, offset: int) -> None:
        """A member of a group had this record. Committed records were read, so there can be no gap."""
        with self._lock:
            covered = self.covered[group, place]
            self.covered[group, place] = max(covered, offset + 1)
        if offset > covered:
            self.fail(f"{group} had {place}: {offset}, and nobody {covered}")

    def fail(self, what: str) -> None:
        """Notes what must not happen."""
        self.wrong.append(what)
        print("WRONG", what, flush=True)

    @property
    def count(self) -> int:
        """Of acknowledged records."""
        return sum(map(len, list(self.acked.values())))


class Load:
    """The clients, each in a thread.

    Args:
        topics: Number of partitions of the topics that are written to.
        read: Those that groups read. They keep all records.
    """

    def __init__(self, notes: Notes, bootstrap: str, topics: Mapping[str, int], read: Sequence[str]) -> None:
        self._notes = notes
        self._bootstrap = bootstrap
        self._places = [(topic, each) for topic, partitions in topics.items() for each in range(partitions)]
        self._read = list(read)
        self._threads: list[threading.Thread] = []

    def start(self, *others: Callable[[], None]) -> None:
        """Starts the clients, and other work that ends when all is over."""
        members = [self._read_with_librdkafka, self._read_with_ours]
        work = [
            self._write_with_librdkafka,
            self._write_with_ours,
            *members,
            *members,
            self._recreate,
            *others,
        ]
        for each in work:
            thread = threading.Thread(target=self._guarded, args=(each,), name=each.__name__, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Waits until all records are acknowledged, and all clients have ended."""
        self._notes.over.set()
        for thread in self._threads:
            thread.join(HANG_S)
            if thread.is_alive():
                self._notes.fail(f"{thread.name} hangs")

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._notes.fail(f"{work.__name__}: {error!r}")
            raise

    def _fatal(self, error: Any) -> None:
        if error.fatal():
            self._notes.fail(f"librdkafka: {error}")

    # ------------------------------------------------------------ writers

    def _write_with_librdkafka(self) -> None:
        notes = self._notes

        def told(place: Place, value: bytes) -> Callable[[Any, Any], None]:
            def done(error: Any, message: Any) -> None:
                if error is not None:
                    notes.fail(f"librdkafka, {place}: {error} {value[:20]!r}")
                else:
                    notes.acknowledge(place, message.offset(), value)

            return done

        settings = {
            "bootstrap.servers": self._bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.timeout.ms": FOR_EVER_MS,
            "error_cb": self._fatal,
        }
        client = confluent_kafka.Producer(QUICK | settings)
        while not notes.over.is_set():
            if len(client) < WAITING_MAX:
                for place in self._places:
                    key, value = notes.next_record(place, LIBRDKAFKA)
                    client.produce(place[0], value, key, place[1], on_delivery=told(place, value))
            client.poll(PACE_S)
        if waiting := client.flush(HANG_S):
            notes.fail(f"librdkafka: {waiting} records are not acknowledged")

    def _write_with_ours(self) -> None:
        notes = self._notes
        room = threading.Semaphore(WAITING_MAX)

        def told(place: Place, value: bytes) -> Callable[[Any], None]:
            def done(future: Any) -> None:
                room.release()
                if (error := future.exception()) is not None:
                    notes.fail(f"our producer, {place}: {error!r} {value[:20]!r}")
                else:
                    notes.acknowledge(place, future.result().offset, value)

            return done

        with self._producer() as producer:
            while not notes.over.is_set():
                for place in self._places:
                    while not room.acquire(timeout=1.0) and not notes.over.is_set():
                        pass
                    key, value = notes.next_record(place, OURS)
                    sent = producer.send(place[0], value, key, partition=place[1])
                    sent.add_done_callback(told(place, value))
                pause(PACE_S, "the pace of the load")
            producer.flush(HANG_S)

    def _producer(self) -> bowstring.Producer:
        return bowstring.Producer(self._bootstrap, acks="all", delivery_timeout_ms=FOR_EVER_MS)

    # ------------------------------------------------------------ readers

    def _read_with_librdkafka(self) -> None:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "group.id": GROUPS[LIBRDKAFKA],
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 300,
            "session.timeout.ms": 30_000,
            "error_cb": self._fatal,
        }
        client = confluent_kafka.Consumer(QUICK | settings)
        client.subscribe(self._read)
        while not self._notes.over.is_set():
            for message in client.consume(500, 0.1):
                if message.error() is None:
                    place = message.topic(), message.partition()
                    self._notes.read(GROUPS[LIBRDKAFKA], place, message.offset())
                elif not message.error().retriable():
                    self._notes.fail(f"librdkafka's member: {message.error()}")
        client.close()

    def _read_with_ours(self) -> None:
        settings: dict[str, Any] = {
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 300,
            "session_timeout_ms": 30_000,
        }
        with bowstring.Consumer(self._bootstrap, group_id=GROUPS[OURS], **settings) as consumer:
            consumer.subscribe(self._read)
            while not self._notes.over.is_set():
                for record in consumer.poll(0.1):
                    self._notes.read(GROUPS[OURS], (record.topic, record.partition), record.offset)

    # ------------------------------------------------------------ a topic that comes and goes

    def _recreate(self) -> None:
        """Creates a topic, fills it, reads it and deletes it, again and again."""
        lives = 0
        with Admin(self._bootstrap, timeout_ms=int(HANG_S * 1000)) as admin:
            while not self._notes.over.is_set():
                if self._created(admin):
                    self._fill(lives)
                    lives += 1
                    with contextlib.suppress(UnknownTopicError):  # the answer to the first attempt was lost
                        admin.delete_topics([RECREATED])
                self._notes.over.wait(1.0)

    def _created(self, admin: Admin) -> bool:
        configs = {"min.insync.replicas": "2"}
        try:
            admin.create_topic(RECREATED, partitions=2, replication_factor=3, configs=configs)
        except TopicExistsError:
            pass  # the answer to the first attempt was lost
        except BrokerError as error:
            if "INVALID_REPLICATION_FACTOR" not in str(error):
                raise
            return False  # a broker is stopping
        return True

    def _fill(self, life: int) -> None:
        numbers = range(RECREATED_RECORDS)
        with self._producer() as producer:
            sent = [producer.send(RECREATED, b"%d:%d" % (life, i), partition=i % 2) for i in numbers]
            offsets = [each.result(HANG_S).offset for each in sent]
        if offsets != [i // 2 for i in numbers]:
            self._notes.fail(f"{RECREATED}: a new topic gave offsets {offsets}")
        found: list[bytes] = []
        with bowstring.Consumer(self._bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([(RECREATED, 0), (RECREATED, 1)])
            for _ in range(int(HANG_S)):
                found += [record.value for record in consumer.poll(1.0)]
                if len(found) >= RECREATED_RECORDS:
                    break
        if sorted(found) != sorted(b"%d:%d" % (life, i) for i in numbers):
            self._notes.fail(f"{RECREATED}: life {life} has {sorted(found)}")
