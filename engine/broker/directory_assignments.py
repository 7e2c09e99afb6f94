"""Reports to the controller which log directory of this broker holds which replica (KIP-858)."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from bowstring.engine import background, event_log
from bowstring.engine.metadata.directory_ids import LOST, MIGRATING, UNASSIGNED
from bowstring.engine.metadata.features import names_directories
from bowstring.engine.metadata.image import PartitionImage, TopicImage
from bowstring.engine.quorum.service import QuorumService
from bowstring.engine.raft.keys import NO_LEADER
from bowstring.engine.replication.isr_changes import PartitionKey
from bowstring.engine.storage.found_logs import assigned_id
from bowstring.engine.storage.log_directories import LogDirectories
from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.engine.storage.log_manager import LogManager
from bowstring.protocol.errors import Errors, KafkaError

if TYPE_CHECKING:
    from bowstring.protocol.messages.assign_replicas_to_dirs import (
        AssignReplicasToDirsRequest,
        AssignReplicasToDirsResponse,
    )

_RETRY_S: Final = 0.5
PARTITIONS_MAX: Final = 2250
"""Of one request, as in Kafka."""


class DirectoryAssignments:
    """The directories that the controller does not have yet. Used on the control loop.

    Attributes:
        is_moving: Whether a partition is on its way to another directory: the move reports it.
    """

    def __init__(
        self,
        quorum: QuorumService,
        directories: LogDirectories,
        logs: LogManager,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._quorum = quorum
        self._directories = directories
        self._logs = logs
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self.is_moving: Callable[[str, int], bool] = lambda topic, index: False
        self._waiting: dict[PartitionKey, bytes] = {}
        self._is_due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to send. Call on the control loop, once the broker is registered."""
        self._task = background.keep_running(self._send_for_ever, "directory assignments")

    async def stop(self) -> None:
        """Stops sending: the next start checks again where partitions are."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def note(self, topic: TopicImage) -> None:
        """Reports the partitions of a topic that are in another directory than the controller has, and in a
        directory that has failed: the controller chooses other leaders of what it has in one.

        Clusters below metadata.version 17 have no directories; the next start reports them. The image may be
        newer than the logs, and have another topic of that name with fewer partitions.
        """
        if not names_directories(self._quorum.image.features):
            return
        without_room = set(self._logs.durability.waiting_logs())
        logs = zip(self._logs.of_topic(topic.name), topic.partitions, strict=False)
        for index, (log, partition) in enumerate(logs):
            if self._node_id not in partition.replicas:
                continue
            known = assigned_id(topic, index, self._node_id)
            if log is None:
                is_missing = self._logs.is_missing(topic.name, index)
                if known not in (UNASSIGNED, MIGRATING) or not is_missing or self._led_last(partition):
                    continue
                directory_id = LOST
            else:
                home = self._directories.of(log)
                is_served = not (log.failed or log.refuses or log in without_room)
                if not is_served and not home.health.failed:
                    continue  # `lose` reports it, and nothing takes that back before it is in service
                directory_id = home.directory_id
            if directory_id != known and not self.is_moving(topic.name, index):
                self._waiting[topic.id, index] = directory_id
                self._is_due.set()

    def note_failed(self, directory: LogDirectory) -> None:
        """Reports the partitions that the controller does not have in a directory that has failed."""
        topics = self._quorum.image.topics
        for name in {topic for topic, _, log in self._logs if self._directories.of(log) is directory}:
            if name in topics:
                self.note(topics[name])

    def lose(self, partitions: Iterable[PartitionKey], *, for_good: bool = False) -> None:
        """Reports partitions that this broker cannot serve, as if their directory were lost: the controller
        chooses other leaders. `note` takes that back.

        Args:
            for_good: Their records are gone here. Otherwise the last known leader of a partition without a
                leader stays that: once it serves again it may be the only one that has them.
        """
        if not names_directories(self._quorum.image.features):
            return
        for topic_id, index in partitions:
            topic = self._quorum.image.topics_by_id.get(topic_id)
            if (
                topic is not None
                and index < len(topic.partitions)
                and self._node_id in topic.partitions[index].replicas
                and assigned_id(topic, index, self._node_id) != LOST
                and not self.is_moving(topic.name, index)
                and (for_good or not self._led_last(topic.partitions[index]))
            ):
                self._waiting[topic_id, index] = LOST
                self._is_due.set()

    def _led_last(self, partition: PartitionImage) -> bool:
        return partition.leader == NO_LEADER and self._node_id in partition.last_known_leaders

    async def assign(self, topic: TopicImage, index: int, directory_id: bytes) -> None:
        """Reports one partition, and waits for the controller's answer.

        Raises:
            KafkaError: The controller has refused, or there is none.
        """
        if not names_directories(self._quorum.image.features):
            return
        self._waiting.pop((topic.id, index), None)
        request = self._request({(topic.id, index): directory_id})
        answer: AssignReplicasToDirsResponse = await self._quorum.ask_leader(request)
        (error_code,) = [answer.error_code] if answer.error_code else _partition_errors(answer)
        if error_code:
            raise KafkaError(Errors.of(error_code))

    async def lose_now(self, partitions: Iterable[PartitionKey]) -> None:
        """Does as `lose` for good, and waits until the controller has answered. Call before `start`."""
        self.lose(partitions, for_good=True)
        await self._send_waiting()

    async def disown(self, lost: Iterable[tuple[str, int]]) -> None:
        """Has the controller not elect this broker as the last known leader of partitions whose logs are gone
        here: others may have their records. Waits for its answer. Call before `start`.
        """
        topics = self._quorum.image.topics
        disowned = [
            (name, index)
            for name, index in lost
            if (topic := topics.get(name)) is not None
            and index < len(topic.partitions)
            and self._node_id in topic.partitions[index].last_known_leaders
        ]
        if disowned:
            event_log.error(
                "partitions that this broker led last have lost their logs here, so it does not lead them by "
                "itself; if no other broker does, elect one that has records "
                "(docs/how-to/operate-a-cluster.md: Elect leaders)",
                partitions=len(disowned),
                example="-".join(map(str, disowned[0])),
            )
        await self.lose_now((topics[name].id, index) for name, index in disowned)

    def lose_stuck(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Has the controller choose other leaders of partitions that accept no records.

        A leader without another replica in sync stays, so that at least its records can be read.
        """
        topics = self._quorum.image.topics
        for name, index in partitions:
            if (topic := topics.get(name)) is None or index >= len(topic.partitions):
                continue
            partition = topic.partitions[index]
            if partition.leader != self._node_id or any(each != self._node_id for each in partition.in_sync):
                self.lose([(topic.id, index)])

    async def _send_for_ever(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            await self._send_waiting()

    async def _send_waiting(self) -> None:
        while self._waiting:
            chosen = dict(list(self._waiting.items())[:PARTITIONS_MAX])
            if await self._send(chosen):
                for key, directory_id in chosen.items():
                    if self._waiting.get(key) == directory_id:
                        del self._waiting[key]
            else:
                await asyncio.sleep(_RETRY_S)

    async def _send(self, assigned: dict[PartitionKey, bytes]) -> bool:
        """Returns whether the controller has answered for all; a refusal counts, as its state is newer."""
        try:
            answer: AssignReplicasToDirsResponse = await self._quorum.ask_leader(self._request(assigned))
        except KafkaError:
            return False
        if answer.error_code:
            event_log.warning(
                "the controller did not take over the log directories of replicas; this is tried again",
                error=Errors.of(answer.error_code).name,
            )
            return False
        return True

    def _request(self, assigned: dict[PartitionKey, bytes]) -> "AssignReplicasToDirsRequest":
        # Not at start: most brokers never need it.
        from bowstring.protocol.messages.assign_replicas_to_dirs import (
            AssignReplicasToDirsRequest,
            AssignReplicasToDirsRequestDirectoryData,
            AssignReplicasToDirsRequestPartitionData,
            AssignReplicasToDirsRequestTopicData,
        )

        by_directory: dict[bytes, dict[bytes, list[int]]] = {}
        for (topic_id, index), directory_id in assigned.items():
            by_directory.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
        return AssignReplicasToDirsRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                AssignReplicasToDirsRequestDirectoryData(
                    id=directory_id,
                    topics=[
                        AssignReplicasToDirsRequestTopicData(
                            topic_id=topic_id,
                            partitions=[
                                AssignReplicasToDirsRequestPartitionData(partition_index=index)
                                for index in indexes
                            ],
                        )
                        for topic_id, indexes in topics.items()
                    ],
                )
                for directory_id, topics in by_directory.items()
            ],
        )


def _partition_errors(answer: "AssignReplicasToDirsResponse") -> list[int]:
    return [
        partition.error_code
        for directory in answer.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]
