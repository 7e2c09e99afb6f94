"""Copies records that a share group gives up to its dead-letter topic (KIP-1191)."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.record.encode import BatchBuilder
from bowstring.engine import event_log
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.configs.table_groups import GROUPS
from bowstring.engine.metadata.image import GROUP_RESOURCE, ClusterImage, ImageSource
from bowstring.engine.metadata.topic_changes import NewTopic
from bowstring.engine.network.broker_peers import BrokerPeers
from bowstring.engine.network.connection import NoAnswerError, UnsupportedByPeerError
from bowstring.engine.share.leader.dead_letter_batches import (
    NO_CONTENT,
    DeadLetter,
    Resolved,
    Source,
    fits,
    resolve,
)
from bowstring.engine.share.persister.interface import SharePartitionKey
from bowstring.engine.storage.disk_reads import DiskReads
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC_NAME: Final = "errors.deadletterqueue.topic.name"
COPY_ENABLE: Final = "errors.deadletterqueue.copy.record.enable"
GROUP_ENABLE: Final = "errors.deadletterqueue.group.enable"
AUTO_CREATE: Final = "errors.deadletterqueue.auto.create.topics.enable"
PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"

_VERSIONS: Final = (3, 12)  # those with the topic's name
_ALL_REPLICAS: Final = -1
_ATTEMPTS: Final = 5
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
_PURPOSE: Final = "share-dead-letters"
_LATE_S: Final = 5.0
_READ_BYTES: Final = 1 << 20
_RANGES_TOLD: Final = 20
_CONFIGS: Final = {GROUP_ENABLE: "true", "message.timestamp.type": "CreateTime"}
"""Of topics that are created: the time of a letter is the one at which it was written."""

LeaderLog = Callable[[str, int], PartitionLog]


class TopicCreator(Protocol):
    """Has the controller create topics, as engine.broker.forwarded_changes does."""

    async def create_topics(self, topics: Sequence[NewTopic]) -> Mapping[str, KafkaError]:
        """Creates topics; returns why some could not be created, by name."""


class Slices(Protocol):
    """Shares the control thread's time, as engine.requests.time_slices does."""

    def over(self) -> bool:
        """Returns whether the slice is over."""

    async def rest(self) -> None:
        """Lets others go first."""


class _Destination(NamedTuple):
    topic: str
    partition: int
    leader: int
    max_bytes: int


class _Batch(NamedTuple):
    data: bytes
    records: int
    rest: list[DeadLetter]


class UnusableTopicError(Exception):
    """The group's dead-letter topic cannot be used; the message says why and what to do."""


class UndeliverableError(Exception):
    """Letters cannot be written; the message says why.

    Attributes:
        rest: Letters that were not in the failed batch.
    """

    def __init__(self, why: str, rest: list[DeadLetter]) -> None:
        super().__init__(why)
        self.rest = rest


def refusal(topic: str, image: ClusterImage, configs: BrokerConfigs) -> str | None:
    """Returns why a group's dead-letter topic cannot be used, as Kafka checks it for each record."""
    prefix = configs.value(PREFIX)
    if not topic:
        return f"the group has no {TOPIC_NAME} any more"
    if topic.startswith("__"):
        return f"{TOPIC_NAME}={topic} must not start with __"
    if topic in image.topics:
        if image.topic_configs(topic).get(GROUP_ENABLE, "false").strip().lower() != "true":
            return f"topic {topic} does not have {GROUP_ENABLE}=true"
    elif not configs.value(AUTO_CREATE):
        return f"topic {topic} does not exist: create it with {GROUP_ENABLE}=true, or set {AUTO_CREATE}=true"
    if prefix and not topic.startswith(prefix):
        return f"{TOPIC_NAME}={topic} does not begin with {prefix} ({PREFIX})"
    return None


class DeadLetters:
    """Writes letters. Used on the control loop.

    Args:
        creator: Has the controller create topics.
        leader_log: Returns the log of a partition that this broker leads; KafkaError if it does not.
        peers: The brokers, this one among them.
        timeout_s: How long an answer may take.
        first_pause_s: Before a write is tried again; it doubles.

    Attributes:
        written: Records that have a copy.
        lost: Records that were archived without one.
    """

    def __init__(
        self,
        configs: BrokerConfigs,
        metadata: ImageSource,
        creator: TopicCreator,
        *,
        leader_log: LeaderLog,
        peers: BrokerPeers,
        disk_reads: DiskReads,
        time_slices: Slices,
        timeout_s: float,
        first_pause_s: float = _FIRST_PAUSE_S,
    ) -> None:
        self.written = 0
        self.lost = 0
        self._configs = configs
        self._metadata = metadata
        self._creator = creator
        self._leader_log = leader_log
        self._peers = peers
        self._disk_reads = disk_reads
        self._time_slices = time_slices
        self._timeout_s = timeout_s
        self._first_pause_s = first_pause_s
        # One batch at a time for each broker: that bounds memory, and requests do not wait in the connection.
        self._lanes: dict[int, asyncio.Lock] = {}

    async def write(self, key: SharePartitionKey, letters: Sequence[DeadLetter]) -> bool:
        """Writes a letter for each record. What cannot be written is logged and left out, as in Kafka: the
        records count as archived then, because the group would stand still otherwise.

        Returns False if this broker no longer leads the partition: the next leader writes them.
        """
        left = list(letters)
        while left:
            if not self._leads(key):
                return False
            try:
                left = await self._write_some(key, left)
            except UndeliverableError as error:
                if not self._leads(key):
                    return False
                self._tell_lost(key, left, error)
                left = error.rest
        return True

    def _leads(self, key: SharePartitionKey) -> bool:
        topic = self._metadata.image.topics_by_id.get(key.topic_id)
        if topic is None:
            return False
        try:
            self._leader_log(topic.name, key.partition)
        except KafkaError:
            return False
        return True

    def _tell_lost(
        self, key: SharePartitionKey, letters: list[DeadLetter], error: UndeliverableError
    ) -> None:
        whole = len(letters) - len(error.rest)
        lost = [(each.first, each.last) for each in letters[:whole]]
        if error.rest and letters[whole].first < error.rest[0].first:
            lost.append((letters[whole].first, error.rest[0].first - 1))
        records = sum(last - first + 1 for first, last in lost)
        self.lost += records
        told = ", ".join(f"{first}-{last}" for first, last in lost[:_RANGES_TOLD])
        event_log.error(
            "records of a share group have no copy in the dead-letter topic, and are archived",
            group=key.group_id,
            topic=self._source_name(key),
            partition=key.partition,
            offsets=told if len(lost) <= _RANGES_TOLD else f"{told}, …",
            records=records,
            detail=str(error),
        )

    def _source_name(self, key: SharePartitionKey) -> str:
        topic = self._metadata.image.topics_by_id.get(key.topic_id)
        return key.topic_id.hex() if topic is None else topic.name

    # ------------------------------------------------------------ attempts

    async def _write_some(self, key: SharePartitionKey, letters: list[DeadLetter]) -> list[DeadLetter]:
        """Writes as many letters as fit into one batch; returns the rest. Repeats what fails with an error
        that passes, at most four times.

        Raises:
            UndeliverableError: The letters of the batch cannot be written.
        """
        pause_s = self._first_pause_s
        rest: list[DeadLetter] = []
        for left in reversed(range(_ATTEMPTS)):
            try:
                to = await self._destination(key)
                async with self._lanes.setdefault(to.leader, asyncio.Lock()):
                    batch = await self._batch(key, letters, to.max_bytes, may_do_without=not left)
                    rest = batch.rest
                    await self._produce(to, batch.data)
                self.written += batch.records
                return rest
            except UnusableTopicError as error:
                raise UndeliverableError(str(error), []) from error
            except KafkaError as error:
                why, passes = str(error.detail or error.error.message), error.error.retriable
            except (NoAnswerError, UnsupportedByPeerError, OSError, MemoryError) as error:
                why, passes = str(error) or type(error).__name__, True
            if not left or not passes or not self._leads(key):
                raise UndeliverableError(why, rest)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        raise AssertionError("the last attempt returns or raises")

    async def _destination(self, key: SharePartitionKey) -> _Destination:
        image = self._metadata.image
        own = image.resource_configs(GROUP_RESOURCE, key.group_id)
        name = own.get(TOPIC_NAME, "").strip()
        if (why := refusal(name, image, self._configs)) is not None:
            raise UnusableTopicError(why)
        topic = image.topics.get(name)
        if topic is None:
            failed = await self._creator.create_topics([NewTopic(name, configs=_CONFIGS)])
            for error in failed.values():
                raise error
            topic = self._metadata.image.topics.get(name)
            if topic is None:
                raise KafkaError(Errors.LEADER_NOT_AVAILABLE, f"{name} was created and is not here yet")
        partition = key.partition % len(topic.partitions)
        leader = topic.partitions[partition].leader
        if self._peers.address(leader) is None:
            raise KafkaError(Errors.LEADER_NOT_AVAILABLE, f"{name}-{partition} has no leader")
        max_bytes = self._metadata.image.topic_configs(name).get("max.message.bytes")
        if max_bytes is None:
            max_bytes = self._configs.value("message.max.bytes")
        return _Destination(name, partition, leader, int(max_bytes))

    def _is_led(self, to: _Destination) -> bool:
        topic = self._metadata.image.topics.get(to.topic)
        return topic is not None and topic.partitions[to.partition].leader == to.leader

    async def _produce(self, to: _Destination, records: bytes) -> None:
        data = PartitionProduceData(index=to.partition, records=records)
        request = ProduceRequest(
            acks=_ALL_REPLICAS,
            timeout_ms=int(self._timeout_s * 1000),
            topic_data=[TopicProduceData(name=to.topic, partition_data=[data])],
        )
        answer: Any = await self._peers.exchange(
            *(_PURPOSE, to.leader, request, _VERSIONS),
            timeout_s=self._timeout_s + _LATE_S,  # the broker says itself that its time is over
            is_wanted=lambda: self._is_led(to),
        )
        result = answer.responses[0].partition_responses[0]
        error: Error = Errors.of(result.error_code)
        if error:
            raise KafkaError(
                error, f"{to.topic}-{to.partition}: {error.name}, {result.error_message or error.message}"
            )

    # ------------------------------------------------------------ the records themselves

    async def _batch(
        self, key: SharePartitionKey, letters: list[DeadLetter], max_bytes: int, *, may_do_without: bool
    ) -> _Batch:
        """Returns a batch with as many letters as fit, at least one, and the rest.

        Args:
            may_do_without: Letters have headers only if the log cannot be read at the moment.
        """
        builder = BatchBuilder(max_bytes)
        source = Source(key.group_id, self._source_name(key), key.partition)
        own = self._metadata.image.resource_configs(GROUP_RESOURCE, key.group_id)
        copies = GROUPS[COPY_ENABLE].parse(own.get(COPY_ENABLE, "false"))
        now_ms = time.time_ns() // 1_000_000
        for index, letter in enumerate(letters):
            found = Resolved({}, letter.first - 1 if copies else letter.last)
            for offset in range(letter.first, letter.last + 1):
                if self._time_slices.over():
                    await self._time_slices.rest()
                if offset > found.last:
                    data = await self._read(source, offset, may_do_without=may_do_without)
                    found = await self._disk_reads.run(resolve, data, offset, letter.last, max_bytes)
                headers = source.headers(letter, offset)
                content = found.contents.get(offset, NO_CONTENT)
                if not fits(headers, content, max_bytes):
                    content = NO_CONTENT
                if not builder.append(*content, now_ms, headers):
                    rest = [letter._replace(first=offset), *letters[index + 1 :]]
                    return _Batch(builder.build(), builder.count, rest)
        return _Batch(builder.build(), builder.count, [])

    async def _read(self, source: Source, offset: int, *, may_do_without: bool) -> bytes:
        """Returns batches from the one with an offset on; none if they are damaged or gone."""
        log = self._leader_log(source.topic, source.partition)
        try:
            records = log.read_from_memory(offset, _READ_BYTES)
            if records is None:
                records = await self._disk_reads.run(log.read, offset, _READ_BYTES)
            return records
        except LogError as error:
            known = Errors.of(error.code)
            if known.retriable and known is not Errors.CORRUPT_MESSAGE and not may_do_without:
                raise KafkaError(known, str(error)) from error
            event_log.warning(
                "copies in the dead-letter topic have no key and value, because the log cannot be read",
                group=source.group_id,
                topic=source.topic,
                partition=source.partition,
                offset=offset,
                detail=str(error),
            )
            return b""
