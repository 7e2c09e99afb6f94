"""Random steps on a broker's storage, and the promises after each step."""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bowstring._native.log.durability import staged_frame
from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.server.recompress import recompress
from bowstring.engine.groups.service import Event
from bowstring.engine.groups.state import RequestContext
from bowstring.engine.metadata.image import TOPIC_RESOURCE
from bowstring.engine.storage.checkpoints import RECOVERY_POINTS, read_offsets
from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from bowstring.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from bowstring.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from bowstring.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bowstring.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from tests.simulation.storage.model import Acked, Partition, Put
from tests.simulation.storage.one_thread_broker import SteadyBroker
from tests.support.log_batches import batch
from tests.support.waiting import pause_async

# Producers whose batches are older than producer.id.expiration.ms are forgotten.
NOW_MS: Final = time.time_ns() // 1_000_000
# Errors with which a step may end after an injected failure.
FAILURES: Final = (LogError, KafkaError, OSError)
# name -> partitions and configs
TOPICS: Final[dict[str, tuple[int, dict[str, str]]]] = {
    "plain": (2, {"internal.segment.bytes": "6000", "index.interval.bytes": "300"}),
    "table": (1, {"internal.segment.bytes": "2500", "cleanup.policy": "compact"}),
    "large": (1, {"internal.segment.bytes": "400000", "max.message.bytes": "300000"}),
    "loose": (1, {"internal.segment.bytes": "5000", "bowstring.durability": "os"}),
}
PASSING: Final = "passing"  # a topic that comes and goes
GROUPS: Final = ("g0", "g1", "g2")
NO_OFFSET: Final = -1
PRODUCER: Final = 7
SIZES: Final = [
    ("plain", "1500"),
    ("plain", "6000"),
    ("plain", "20000"),
    ("large", "60000"),
    ("large", "400000"),
]
HARMLESS: Final = ("retention.ms", "segment.ms", "max.compaction.lag.ms")
MOVE_TURNS: Final = 60
TIMEOUT_MS: Final = 30_000
RECORD_LIST_TOO_LARGE: Final = 18
WEIGHTS: Final = {
    "append": 24, "append_keyed": 14, "append_large": 6, "append_recompressed": 4, "many_appends": 3, "commit": 16,
    "commit_offsets": 10, "checkpoint": 4, "checkpoint_given_up": 1, "housekeeping": 3, "roll": 7, "clean": 4,
    "retain": 2, "delete_records": 2, "move": 2, "switch_durability": 3, "switch_cleanup": 1, "resize_segments": 2,
    "come_and_go": 2, "delete_group": 3, "together": 4, "configure_many": 8, "rest": 3,
}  # fmt: skip


def request_to_set(configs: dict[str, dict[str, str]]) -> IncrementalAlterConfigsRequest:
    """Returns the request that sets configs of topics."""
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=TOPIC_RESOURCE,
                resource_name=topic,
                configs=[AlterableConfig(name=name, value=value) for name, value in values.items()],
            )
            for topic, values in configs.items()
        ]
    )


@dataclass(eq=False)
class Asked:
    """A request to a group's coordinator, after which the group has committed `offset`, or nothing."""

    offset: int
    group: str = ""
    answer: Any = None

    def error_code(self) -> int:
        """Error code of the answer."""
        answer = self.answer.result()
        return (
            answer.results[0].error_code
            if self.offset == NO_OFFSET
            else answer.topics[0].partitions[0].error_code
        )


class Work:
    """Steps on a broker, and the models of its partitions and groups."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.partitions: dict[str, Partition] = {}
        # offsets that groups may have, oldest first: the acknowledged one, then requested ones
        self.groups: dict[str, list[Asked]] = {group: [Asked(NO_OFFSET)] for group in GROUPS}
        self.asked: list[Asked] = []  # unanswered requests
        self.offset = 0
        # acknowledged topics; topics in an unknown state
        self.topics: set[str] = set()
        self.doubtful: set[str] = set()
        self.count = 0
        self.may_interleave = False
        self.are_together = False
        self.failed_meanwhile: Exception | None = None
        # the greatest offsets in the directories' files
        self.points: dict[tuple[LogDirectory, tuple[str, int]], int] = {}
        self.broker: SteadyBroker

    # ------------------------------------------------------------ running

    def choose(self) -> str:
        """Returns the name of a step."""
        return self.chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]

    def do(self, name: str) -> None:
        """Runs one step by name.

        Raises:
            LogError, KafkaError, OSError: An operation of the step failed.
        """
        method: Callable[[], None] = getattr(self, name)
        self.failed_meanwhile = None
        try:
            method()
        finally:
            self.may_interleave = self.are_together = False
            self.acknowledge()
        if self.failed_meanwhile is not None:
            raise self.failed_meanwhile

    def interleave(self) -> None:
        """A reactor appends while the control thread, or the supply thread, does work that locks no log."""
        if self.may_interleave:
            self.may_interleave = False
            self._meanwhile(self.append)
            self.may_interleave = True

    def appends(self) -> bool:
        """Appends if there is room, to a partition that accepts appends."""
        logs = [(each, self.log(each)) for each in self.partitions.values() if each.topic == "plain"]
        for partition, log in logs:
            if log is not None and not log.failed:
                self._meanwhile(partial(self._append, partition, self.values(200)))
                return not log.failed
        return True

    def executor_delay(self) -> int:
        """Returns turns of the loop before an executor's thread starts, while other threads work."""
        if not self.are_together:
            return 0
        chance = self.chance.random()
        if chance < 0.3:
            self._meanwhile(self.append)
        elif chance < 0.4:
            self._meanwhile(self.append_keyed)
        elif chance < 0.5:
            self._meanwhile(self.broker.commit_now)
        elif chance < 0.55:
            self._meanwhile(self.chance.choice(self.broker.wals()).checkpoint)
        return self.chance.choice([0, 0, 1, 2, 4, 8, 16])

    def _meanwhile(self, work: Callable[[], None]) -> None:
        try:
            work()
        except FAILURES as error:
            self.failed_meanwhile = error

    def acknowledge(self) -> None:
        """Acknowledges durable batches, like reactors and handlers; in commit mode others are never acknowledged."""
        for partition in self.partitions.values():
            log = self.log(partition)
            for put in partition.puts:
                if put.acked is Acked.NOT and put.wal is not None and put.wal.durable_frame >= put.frame > 0:
                    put.acked = Acked.POWER
                    put.doubtful = False
                    if log is not None and log.in_commit_mode:
                        self.broker.durable(log, put.last + 1)
        for asked in list(self.asked):
            if asked.answer.done():
                self.asked.remove(asked)
                known = self.groups[asked.group]
                if asked.answer.exception() is None and asked.error_code() == 0 and asked in known:
                    del known[: known.index(asked)]

    # ------------------------------------------------------------ after a start

    def adopt(self, broker: SteadyBroker, survived: Acked, safe: Acked) -> None:
        """Continues with a started broker; checks that all acknowledged data is there.

        Args:
            survived: The failure before the start.
            safe: The failure that all present data survives from now on; commit mode always promises `POWER`.
        """
        self.broker = broker
        broker.loop.delay = self.executor_delay
        image = broker.broker.metadata.image
        there = set(image.topics)
        assert self.topics - self.doubtful <= there, (
            f"topics are missing: {self.topics - self.doubtful - there}"
        )
        assert not (there & {*TOPICS, PASSING}) - self.topics - self.doubtful, (
            f"deleted topics are there: {there}"
        )
        self.topics = there & {*TOPICS, PASSING}
        self.doubtful.clear()
        for name in self.topics:
            for index in range(len(image.topics[name].partitions)):
                self.partitions.setdefault(
                    f"{name}-{index}", Partition(name, index, compacted=name == "table")
                )
        for name, partition in list(self.partitions.items()):
            if partition.topic not in self.topics:
                del self.partitions[name]
                continue
            log = self.log(partition)
            assert log is not None, f"{name} is not here"
            home, directory = broker.broker.directories.of(log), os.path.basename(log.directory)
            assert home.read_partition_metadata(directory) == image.topics[partition.topic].id, (
                f"{name} does not say which topic it belongs to"
            )
            partition.check(log, survived)
            for put in partition.puts:
                put.wal = None
                put.acked = max(put.acked, Acked.POWER if log.in_commit_mode else safe)
                put.doubtful = put.doubtful and not log.in_commit_mode
        self.asked.clear()
        for group, known in self.groups.items():
            found = self.fetch_offset(group)
            may_be = [asked.offset for asked in known]
            assert found in may_be, f"{group} has {found}, not one of {may_be}"
            self.groups[group] = [Asked(found)]
        for name in TOPICS:
            if name not in self.topics:
                self._create(name, *TOPICS[name])

    def sync_failed(self, path: str) -> None:
        """Records that a file below the disk's root could not be synced."""
        directory = os.path.basename(os.path.dirname(path))
        if directory in self.partitions:
            self.partitions[directory].sync_failed()

    def log(self, partition: Partition) -> PartitionLog | None:
        return self.broker.log(partition.topic, partition.index)

    def fetch_offset(self, group: str) -> int:
        """Returns the offset that a group has committed, -1 for none."""
        request = OffsetFetchRequestGroup(group_id=group, topics=None)

        async def fetch() -> Any:
            groups = self.broker.broker.coordination.groups
            await groups.ensure_topic()
            return await groups.ask(
                group, lambda shard, token, now: shard.fetch_offsets(request, token, require_stable=False)
            )

        answer = self.broker.run(fetch())
        return max(
            (part.committed_offset for topic in answer.topics for part in topic.partitions), default=-1
        )

    # ------------------------------------------------------------ appends

    def put(self, partition: Partition, data: bytes, **facts: Any) -> None:
        """Appends a batch."""
        log = self.log(partition)
        if log is None:
            return
        end = log.log_end_offset
        put = Put(end, data, **facts)
        partition.put(put)  # whatever the result, the batch may be found
        try:
            base = log.append(data, max(0, log.leader_epoch), NOW_MS)
        except LogError as error:
            if error.code != RECORD_LIST_TOO_LARGE:
                raise
            partition.refuse(put)
            return
        assert base == end, f"{partition.name}: appended at {base}, not at {end}"
        if put.producer >= 0:
            partition.sequences[put.producer] = put.sequence + put.last - put.base + 1
        if log.in_commit_mode:
            put.wal, put.frame = self.broker.wal_of(log), staged_frame(log)
        else:
            log.advance_high_watermark(log.log_end_offset)
            put.acked = Acked.KILL

    def is_loose(self, path: str) -> bool:
        """Whether a file belongs to a log in os mode."""
        for partition in self.partitions.values():
            log = self.log(partition)
            if (
                log is not None
                and not log.in_commit_mode
                and f"{log.directory}/".endswith(f"/{path.rsplit('/', 1)[0]}/")
            ):
                return True
        return False

    def some(self, *topics: str) -> Partition | None:
        """Returns a partition of one of the topics."""
        found = [each for each in self.partitions.values() if each.topic in (topics or (*TOPICS, PASSING))]
        return self.chance.choice(found) if found else None

    def values(self, most_bytes: int) -> list[bytes]:
        self.count += 1
        values = []
        for i in range(self.chance.randrange(1, 4)):
            size = self.chance.randrange(most_bytes)
            values.append(
                b"%d.%d " % (self.count, i) + self.chance.randbytes(min(size, 64)) * (size // 64 + 1)
            )
        return values

    def append(self) -> None:
        """Appends a small batch, every second one from an idempotent producer."""
        partition = self.some("plain", "loose", PASSING)
        if partition is not None:
            self._append(partition, self.values(800))

    def _append(self, partition: Partition, values: list[bytes]) -> None:
        if self.chance.random() < 0.5:
            self.put(partition, batch(values, timestamp=NOW_MS + self.count))
            return
        sequence = partition.sequences.get(PRODUCER, 0)
        data = batch(values, timestamp=NOW_MS + self.count, producer_id=PRODUCER, epoch=0, sequence=sequence)
        self.put(partition, data, producer=PRODUCER, sequence=sequence)

    def many_appends(self) -> None:
        """Appends enough to fill segments of the write-ahead log."""
        for _ in range(12):
            self._append(self.partitions["plain-0"], self.values(9000))

    def append_keyed(self) -> None:
        """Appends to the compacted topic."""
        values: list[bytes | None] = [
            value if self.chance.random() < 0.85 else None for value in self.values(300)
        ]
        keys = [b"k%d" % self.chance.randrange(8) for _ in values]
        self.put(self.partitions["table-0"], batch(values, timestamp=NOW_MS + self.count, keys=keys))

    def append_large(self) -> None:
        """Appends a batch that is too large for a frame of the write-ahead log."""
        values = [b"%d" % self.count + bytes(self.chance.choice([50_000, 70_000, 250_000]))]
        self.count += 1
        self._append(self.partitions["large-0"], values)

    def append_recompressed(self) -> None:
        """Appends a batch that is recompressed to another codec."""
        partition = self.some("plain", "large")
        if partition is not None:
            data = batch(self.values(3000), timestamp=NOW_MS + self.count)
            self.put(partition, recompress(data, self.chance.choice([1, 3, 4])))

    # ------------------------------------------------------------ groups

    def commit_offsets(self) -> None:
        """Commits an offset of a group; the answer comes when it is on the medium."""
        group = self.chance.choice(GROUPS)
        self.offset += 1
        part = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=self.offset, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=group, topics=[OffsetCommitRequestTopic(name="plain", partitions=[part])]
        )
        context = RequestContext(9, "c", "/127.0.0.1")

        self._ask(
            group, self.offset, lambda shard, token, now: shard.commit_offsets(request, context, token, now)
        )

    def delete_group(self) -> None:
        """Deletes a group with its offsets."""
        group = self.chance.choice(GROUPS)
        self._ask(group, NO_OFFSET, lambda shard, token, now: shard.delete_groups([group], token))

    def _ask(self, group: str, offset: int, event: Event) -> None:
        """Sends a request to a group's coordinator, after which the group has an offset."""

        async def ask() -> asyncio.Future[Any]:
            groups = self.broker.broker.coordination.groups
            await groups.ensure_topic()
            self.groups[group].append(Asked(offset, group))
            return asyncio.ensure_future(groups.ask(group, event))

        answer = self.broker.run(ask())
        self.groups[group][-1].answer = answer
        self.asked.append(self.groups[group][-1])

    def nothing_hangs(self) -> None:
        """Checks that every waiting request is answered once staged batches are durable, or never will be."""
        self.acknowledge()
        wals = self.broker.wals()
        if all(wal.wal.failure is not None or wal.wal.durable_frame >= wal.wal.staged_frame for wal in wals):
            waiting = [(asked.group, asked.offset) for asked in self.asked if not asked.answer.done()]
            assert not waiting, f"nobody answers {waiting}"
            self._wait_for_moves()
            assert not list(self.broker.broker.moves), "a move does not end"

    # ------------------------------------------------------------ the write-ahead log

    def commit(self) -> None:
        self.broker.commit()

    def checkpoint(self) -> None:
        """Writes a checkpoint of one directory while one or two batches are appended."""
        self.may_interleave = True
        self.chance.choice(self.broker.wals()).checkpoint()

    def checkpoint_given_up(self) -> None:
        """Requests a checkpoint and cancels the request."""
        wal = self.chance.choice(self.broker.wals())
        wal.ask_checkpoint().cancel()
        wal.answer_checkpoints()

    # ------------------------------------------------------------ housekeeping

    def housekeeping(self) -> None:
        self.may_interleave = True
        self.broker.broker.logs.control_writes += 1
        self.broker.run(self.broker.broker.housekeeping.checkpoint_recovery())

    def roll(self) -> None:
        """Rolls segments by the clock, of any topic, including the broker's own."""
        _, _, log = self.chance.choice(list(self.broker.broker.logs))
        log.roll()

    def clean(self) -> None:
        """Compacts all logs that are dirty enough."""
        self.broker.run(self.broker.broker.cleaner.clean_all())

    def rest(self) -> None:
        """Writes out the staged tails of one directory."""
        self.chance.choice(self.broker.broker.directories.all).tails.rest()

    def retain(self) -> None:
        self.broker.run(self.broker.broker.housekeeping.apply_retention())

    def delete_records(self) -> None:
        partition = self.some("plain", "loose", "large")
        log = self.log(partition) if partition is not None else None
        if partition is not None and log is not None:
            low, high = log.log_start_offset, log.high_watermark
            partition.start = max(partition.start, log.delete_records(low + (high - low) // 3))

    # ------------------------------------------------------------ changes

    async def changed(self, request: Any) -> None:
        """Sends a request that changes the cluster, as a client does.

        Raises:
            KafkaError: The first error of the answer.
        """
        answer: Any = await self.broker.answer(request)
        for each in getattr(answer, "topics", None) or answer.responses:
            if each.error_code:
                raise KafkaError(Errors.of(each.error_code), each.error_message)

    def change(self, request: Any) -> None:
        """Like `changed`, run to its end."""
        self.broker.run(self.changed(request))

    def configure(self, topic: str, name: str, value: str) -> None:
        self.change(request_to_set({topic: {name: value}}))

    def configure_many(self) -> None:
        """Changes configs of many topics in one request: more records than fit a batch of the metadata log."""
        values = {name: str(self.chance.randrange(1 << 40, 1 << 50)) for name in HARMLESS}
        self.change(request_to_set(dict.fromkeys(self.broker.broker.metadata.image.topics, values)))

    def together(self) -> None:
        """Runs timers of the broker that are due at the same time, while producers continue."""
        broker = self.broker.broker
        broker.logs.control_writes += 1
        topic, size = self.chance.choice(SIZES)
        works: list[Callable[[], Awaitable[Any]]] = [
            broker.housekeeping.checkpoint_recovery,
            broker.cleaner.clean_all,
            broker.housekeeping.apply_retention,
            broker.housekeeping.checkpoint_starts,
            lambda: self.changed(request_to_set({topic: {"internal.segment.bytes": size}})),
        ]
        chosen = self.chance.sample(works, self.chance.randrange(2, 4))

        async def all_of_them() -> list[Any]:
            return await asyncio.gather(*(work() for work in chosen), return_exceptions=True)

        self.are_together = True
        self.points.clear()
        outcomes = self.broker.run(all_of_them())
        self._check_points()
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    def remember_points(self) -> None:
        """Stores the recovery points of a file that is about to be replaced."""
        if not self.are_together:
            return
        for home in self.broker.broker.directories.opened:
            for partition, point in read_offsets(home.path / RECOVERY_POINTS).items():
                self.points[home, partition] = max(point, self.points.get((home, partition), 0))

    def _check_points(self) -> None:
        """Checks that no recovery point decreased."""
        newest, self.points = self.points, {}
        self.remember_points()
        for (home, partition), point in newest.items():
            found = self.points.get((home, partition), point)
            assert found >= point, f"the recovery point of {partition} goes back from {point} to {found}"

    def switch_durability(self) -> None:
        """Switches a topic from one mode to the other during appends."""
        partition = self.some("plain", "loose", "table")
        if partition is None:
            return
        log = self.log(partition)
        to = "os" if log is not None and log.in_commit_mode else "commit"
        self.may_interleave = True
        self.configure(partition.topic, "bowstring.durability", to)
        for each in self.partitions.values():
            log = self.log(each)
            if each.topic == partition.topic and log is not None and log.in_commit_mode and not log.failed:
                for put in each.puts:
                    put.acked = Acked.POWER if put.acked is Acked.KILL else put.acked

    def switch_cleanup(self) -> None:
        self.configure("table", "cleanup.policy", self.chance.choice(["compact", "delete", "compact,delete"]))

    def resize_segments(self) -> None:
        topic, size = self.chance.choice(SIZES)
        self.configure(topic, "internal.segment.bytes", size)

    def come_and_go(self) -> None:
        """Creates or deletes a topic."""
        if PASSING not in self.topics:
            self._create(PASSING, self.chance.choice([1, 1, 2, 5]), {"internal.segment.bytes": "4000"})
            return
        self.doubtful.add(PASSING)
        self.change(DeleteTopicsRequest(topics=[DeleteTopicState(name=PASSING)], timeout_ms=TIMEOUT_MS))
        self.topics.discard(PASSING)
        self.doubtful.discard(PASSING)
        for name in [name for name, each in self.partitions.items() if each.topic == PASSING]:
            del self.partitions[name]

    def _create(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        self.doubtful.add(name)
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        self.change(CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS))
        self.topics.add(name)
        self.doubtful.discard(name)
        for index in range(partitions):
            self.partitions[f"{name}-{index}"] = Partition(name, index, compacted=name == "table")

    def move(self) -> None:
        """Moves a partition to the other log directory."""
        partition = self.some("plain", "table", "loose", "large")
        log = self.log(partition) if partition is not None else None
        if partition is None or log is None:
            return
        broker = self.broker.broker
        home = broker.directories.of(log)
        target = next(each for each in broker.directories.all if each is not home)
        topic = broker.metadata.image.topics[partition.topic]
        self.broker.run(broker.moves.start(topic, partition.index, target))
        self._wait_for_moves(
            self.broker.commit
        )  # else the move continues when something it waits for has changed

    def _wait_for_moves(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        for _ in range(MOVE_TURNS):
            if not list(self.broker.broker.moves):
                break
            meanwhile()
            self.acknowledge()
            self.broker.run(pause_async(0.001, "what copies is a thread; a bounded number of turns"))
