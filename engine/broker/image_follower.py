"""Applies committed changes of the cluster on a broker: logs, replicas and configs follow the image."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Container, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from bowstring._native.log.partition_log import LogError
from bowstring.engine import background, event_log
from bowstring.engine.broker.committed_configs import CommittedConfigs
from bowstring.engine.broker.directory_assignments import DirectoryAssignments
from bowstring.engine.broker.replication import Replication
from bowstring.engine.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterImage, TopicImage
from bowstring.engine.quorum.service import QuorumService
from bowstring.engine.replication.isr_changes import PartitionKey
from bowstring.engine.storage.log_healer import GIVE_UP_S, RETRY_FIRST_S, next_pause_s
from bowstring.engine.storage.log_manager import LogManager
from bowstring.protocol.records.cluster_metadata.markers import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from bowstring.protocol.records.cluster_metadata.nodes import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.protocol.records.cluster_metadata.topics import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from bowstring.protocol.schema import MetadataRecord

_OF_BROKERS: Final = (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
)

_AT_ONCE: Final = 256
STOP_TIMEOUT_S: Final = 5.0
"""How long a stop waits for changes that are in progress."""

T = TypeVar("T")

RolesListener = Callable[[TopicImage, int], None]
"""Called with a topic and the index of a partition whose leader or epoch may have changed."""


class _Change(NamedTuple):
    """Partitions that may differ, in order; removed topics, changed configs, and whether brokers differ."""

    partitions: dict[PartitionKey, None]
    removed: set[bytes]
    configs: list[ConfigRecord]
    brokers: bool

    def __or__(self, more: "_Change") -> "_Change":
        return _Change(
            self.partitions | more.partitions,
            self.removed | more.removed,
            self.configs + more.configs,
            brokers=self.brokers or more.brokers,
        )


_NOTHING: Final = _Change({}, set(), [], brokers=False)


class ImageFollower:
    """Applies what the image says to this broker's logs and replicas, one change after the other.

    Attributes:
        when_roles_changed: Called for partitions of all topics, once the data plane has their roles.
        when_changed: Called after each change.
        when_topic_deleted: Called with the name and the id of each topic that is gone.
    """

    def __init__(
        self,
        quorum: QuorumService,
        configs: CommittedConfigs,
        logs: LogManager,
        replication: Replication,
        directories: DirectoryAssignments,
    ) -> None:
        self._quorum = quorum
        self._configs = configs
        self._logs = logs
        self._replication = replication
        self._directories = directories
        self._names: dict[bytes, str] = {}
        self._waiting: deque[_Change] = deque()
        self._left = _NOTHING
        self._pause_s = 0.0  # until the next attempt at the rest; 0: there is none
        self._missing_since_s: dict[PartitionKey, float] = {}
        self._transaction: list[MetadataRecord] | None = None
        self._is_due = asyncio.Event()
        self._has_begun = asyncio.Event()
        self._added = 0  # changes so far
        self._settled = 0  # those among them that were tried
        self._unsettled: list[tuple[int, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None
        self.when_roles_changed: RolesListener = lambda topic, index: None
        self.when_changed: Callable[[], None] = lambda: None
        self.when_topic_deleted: Callable[[str, bytes], None] = lambda name, topic_id: None

    # ------------------------------------------------------------ life

    def listen(self) -> None:
        """Begins to collect changes; those that the image has now are not among them: their logs are opened
        next.
        """
        for topic in self._quorum.image.topics.values():
            self._names[topic.id] = topic.name
        self._quorum.on_applied.append(self._applied)
        self._quorum.on_snapshot.append(self._replaced)

    def start(self) -> None:
        """Gives replicas their roles, and begins to carry changes out. Call on the control loop, when the
        logs of the image are open.
        """
        self._add(_everything(self._quorum.image, self._names))
        self._task = background.keep_running(self._follow, "changes of the cluster")

    async def begun(self) -> None:
        """Waits until the replicas of the image that `start` met have their roles, as far as possible."""
        await self._has_begun.wait()

    async def settled(self) -> None:
        """Waits until all that the image has now is carried out, or what of it fails was tried once."""
        if self._task is None or self._task.done() or self._settled >= self._added:
            return
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unsettled.append((self._added, settled))
        await settled

    def _settle(self, number: int) -> None:
        """Ends the waits for the first `number` changes."""
        self._settled = max(self._settled, number)
        waiting, self._unsettled = self._unsettled, []
        for each in waiting:
            if each[0] > self._settled:
                self._unsettled.append(each)
            elif not each[1].done():
                each[1].set_result(None)

    async def stop(self) -> None:
        """Stops applying changes, behind those that the image has now: the next start would take logs that
        are not there yet for lost ones. Waits a short time for those that are slow.
        """
        if self._task is not None:
            try:
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await self.settled()
            except TimeoutError:
                pass
            self._task.cancel()
            await asyncio.wait({self._task})
        self._settle(self._added)

    # ------------------------------------------------------------ reports of the image

    def _applied(self, records: Sequence[MetadataRecord], end_offset: int, epoch: int) -> None:
        done: list[MetadataRecord] = []
        for record in records:
            kind = type(record)
            if kind is BeginTransactionRecord:
                self._transaction = []
            elif kind is AbortTransactionRecord:
                self._transaction = None
            elif kind is EndTransactionRecord:
                done += self._transaction or []
                self._transaction = None
            elif self._transaction is not None:
                self._transaction.append(record)
            else:
                done.append(record)
        self._add(_change_of(done))

    def _replaced(self, image: ClusterImage, end_offset: int, epoch: int) -> None:
        """A snapshot may have changed anything."""
        self._transaction = None
        self._add(_everything(image, self._names))

    def _add(self, change: _Change) -> None:
        if self._wait(change):
            self._is_due.set()

    def _wait(self, change: _Change) -> bool:
        """Puts a change behind the others; returns whether it is one."""
        if not any(change):
            return False
        self._waiting.append(change)
        self._added += 1
        return True

    # ------------------------------------------------------------ changes

    async def _follow(self) -> None:
        if self._waiting:  # a failure has cut an earlier run short
            self._is_due.set()
        while True:
            await self._until_due()
            self._wait(self._left)  # behind newer changes: all are applied from the newest image
            self._left = _NOTHING
            while self._waiting:
                change, number = self._next()
                try:
                    left = await self._tried(change)
                    if left.removed:  # later changes may use the names of removed topics again
                        self._waiting.appendleft(left)
                    else:
                        self._left |= left
                    self.when_changed()
                finally:
                    self._settle(number)
                if left.removed:
                    await asyncio.sleep(self._pause_s)
            self._has_begun.set()
            if not any(self._left):
                self._end_of_retries()

    async def _until_due(self) -> None:
        """Waits for a change, or until the rest is due again."""
        try:
            async with asyncio.timeout(self._pause_s or None):
                await self._is_due.wait()
        except TimeoutError:
            pass
        self._is_due.clear()

    async def _tried(self, change: _Change) -> _Change:
        """Carries a change out, and returns what of it is left to be tried again."""
        try:
            left = await self._carry_out(change)
        except Exception as error:  # later requests to this broker must not depend on it
            self._report(error)
            return change
        return left

    def _report(self, error: Exception) -> None:
        """Logs the first failure of a series."""
        first, self._pause_s = self._pause_s == 0, next_pause_s(self._pause_s or RETRY_FIRST_S / 2)
        if not first:
            return
        if isinstance(error, (OSError, LogError)):
            event_log.error(
                "a change of the cluster could not be carried out; it is tried again until it works. Fix the "
                "cause in detail",
                detail=str(error),
            )
        else:
            event_log.error(
                "bug: a change of the cluster could not be carried out, and is tried again; report the "
                "traceback",
                traceback=True,
            )

    def _end_of_retries(self) -> None:
        if self._pause_s:
            self._pause_s = 0.0
            event_log.info("all changes of the cluster are carried out")

    def _next(self) -> tuple[_Change, int]:
        """Returns all waiting changes, which are applied from the newest image, and how many have been taken
        by now. Removals come alone.
        """
        change = self._waiting.popleft()
        while self._waiting and not change.removed and not self._waiting[0].removed:
            change |= self._waiting.popleft()
        return change, self._added - len(self._waiting)

    async def _carry_out(self, change: _Change) -> _Change:
        """Applies as much as possible. Returns the partitions whose logs could not be opened."""
        for topic_id in list(change.removed):
            await self._remove(topic_id)
            change.removed.discard(topic_id)
        topic_ids = dict.fromkeys(topic_id for topic_id, _ in change.partitions)
        opened = await self._open_new(topic_ids)
        image = self._quorum.image
        missing = set() if opened else self._missing(image, topic_ids)
        self._note_missing(topic_ids, missing)
        ready = [key for key in change.partitions if key not in missing] if missing else change.partitions
        failure: Exception | None = None
        try:
            await self._replication.apply(image, ready, brokers_changed=change.brokers)
            await self._logs.sync_removed()
        except Exception as error:  # of one partition; the others have their roles
            failure = error
        async for topic_id, index in _with_rests(ready):
            topic = image.topics_by_id.get(topic_id)
            if topic is not None:
                is_replica = self._replication.manager.broker_id in topic.partitions[index].replicas
                # With a role, the image is newer than the roles: the change that removes it is waiting.
                if failure is None and not (is_replica or self._replication.manager.has((topic_id, index))):
                    self._drop(topic.name, index)
                self.when_roles_changed(topic, index)
        if failure is not None:
            raise failure
        if change.configs:
            await self._configs.carry_out(self._quorum.image, change.configs)
            self._replication.configure(self._configured(change.configs))
        self._give_up_late()
        return _NOTHING._replace(partitions=dict.fromkeys(missing))

    def _missing(self, image: ClusterImage, topic_ids: Iterable[bytes]) -> set[PartitionKey]:
        """Returns the partitions of topics that have no log yet: they get no role before."""
        missing: set[PartitionKey] = set()
        for topic_id in topic_ids:
            topic = image.topics_by_id.get(topic_id)
            if topic is not None:
                missing.update((topic_id, index) for index in self._logs.unopened(topic))
        return missing

    def _note_missing(self, topic_ids: Container[bytes], missing: set[PartitionKey]) -> None:
        for key in list(self._missing_since_s):
            if key[0] in topic_ids and key not in missing:
                del self._missing_since_s[key]
        now_s = time.monotonic()
        for key in missing:
            self._missing_since_s.setdefault(key, now_s)

    def _give_up_late(self) -> None:
        """Has the controller choose other leaders of partitions that have had no log for long."""
        late_s = time.monotonic() - GIVE_UP_S
        self._directories.lose(key for key, since_s in self._missing_since_s.items() if since_s <= late_s)

    def _configured(self, configs: list[ConfigRecord]) -> set[str]:
        """Returns the topics whose configs have changed; all for a change of brokers' configs."""
        topics = self._quorum.image.topics
        if any(each.resource_type == BROKER_RESOURCE for each in configs):
            return set(topics)
        return {each.resource_name for each in configs if each.resource_type == TOPIC_RESOURCE} & set(topics)

    async def _open_new(self, topic_ids: Iterable[bytes]) -> bool:
        """Opens the logs of topics. Returns whether all are open."""
        opened = True
        image = self._quorum.image
        topics = [topic for each in topic_ids if (topic := image.topics_by_id.get(each)) is not None]
        for topic in topics:
            self._names[topic.id] = topic.name
        try:
            await self._logs.open_new(image, topics)
        except (OSError, LogError) as error:
            opened = False
            self._report(error)
        async for topic in _with_rests(topics):
            self._directories.note(topic)
        return opened

    async def _remove(self, topic_id: bytes) -> None:
        """Removes a topic. May be called again after a failure."""
        name = self._names.get(topic_id)
        if name is None:
            return  # created and removed before this broker got to it
        keys = self._replication.manager.keys_of(topic_id)
        await self._replication.apply(self._quorum.image, keys)
        async for index in _with_rests(range(len(self._logs.of_topic(name)))):
            self._drop(name, index)
        self._logs.forget_topic(name)
        await self._logs.sync_removed()
        self.when_topic_deleted(name, topic_id)
        del self._names[topic_id]

    def _drop(self, topic: str, index: int) -> None:
        """Removes a partition that left this broker before it had a role: no change of roles ends it."""
        if self._logs.get(topic, index) is not None or self._logs.is_missing(topic, index):
            self._replication.drop(topic, index)


async def _with_rests(items: Iterable[T]) -> AsyncIterator[T]:
    """Yields the items; others have their turn in between."""
    for count, item in enumerate(items, 1):
        yield item
        if count % _AT_ONCE == 0:
            await asyncio.sleep(0)


def _change_of(records: Iterable[MetadataRecord]) -> _Change:
    change = _Change({}, set(), [], brokers=False)
    for record in records:
        if isinstance(record, (PartitionChangeRecord, PartitionRecord)):
            change.partitions[record.topic_id, record.partition_id] = None
        elif isinstance(record, RemoveTopicRecord):
            change.removed.add(record.topic_id)
        elif isinstance(record, ConfigRecord):
            change.configs.append(record)
        elif isinstance(record, _OF_BROKERS):
            change = change._replace(brokers=True)
    return change


def _everything(image: ClusterImage, known: Iterable[bytes]) -> _Change:
    """Returns a change of all that an image has; of the known topics, those that it has not are removed."""
    configs = [
        ConfigRecord(resource_type=kind, resource_name=name, name=each, value=value)
        for (kind, name), values in image.configs.items()
        if kind in (BROKER_RESOURCE, TOPIC_RESOURCE)
        for each, value in values.items()
    ]
    partitions = dict.fromkeys(
        (topic.id, index) for topic in image.topics.values() for index in range(len(topic.partitions))
    )
    return _Change(partitions, set(known) - set(image.topics_by_id), configs, brokers=True)
