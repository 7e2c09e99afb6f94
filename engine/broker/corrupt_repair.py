"""Replaces corrupt batches of this broker's replicas by those of another replica.

Any replica will do, also a follower, because consumers read the same everywhere. The request is a consumer's,
so the answer has committed batches only. Nothing is truncated: the replica keeps its role and
its place in the ISR.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.log.verified_ranges import corrupt_marks
from bowstring.engine import event_log
from bowstring.engine.metadata.image import ClusterImage, PartitionImage, TopicImage
from bowstring.engine.network.broker_peers import BrokerPeers
from bowstring.engine.storage.log_directory import partition_directory
from bowstring.engine.storage.log_manager import LogManager
from bowstring.protocol.errors import Errors

if TYPE_CHECKING:
    from bowstring.protocol.messages.fetch import FetchRequest

_RETRY_S: Final = 10.0
_RETRY_MAX_S: Final = 600.0
_ANSWER_S: Final = 30.0
_FETCHED_BYTES: Final = 1 << 20
_RANGE_MAX_BYTES: Final = 64 << 20
"""Larger corrupt ranges stay: they are fetched into memory."""
_FETCH_VERSIONS: Final = (12, 17)
_HEADER_BYTES: Final = 12  # of a batch: base offset and length
_LAST_OFFSET_DELTA: Final = 23  # its position in a batch
_BATCH_HEADER_BYTES: Final = 61

Place = tuple[int, int, int, int, int, int]
"""As `corrupt_offsets` of _native/log/repair.pyx returns it."""


class _NotThereError(Exception):
    """The other replica lacks the batches; the message says why."""


def batches_within(records: bytes, first_offset: int, end_offset: int) -> tuple[bytes, int]:
    """Cuts whole batches of a range of offsets out of fetched ones.

    Returns:
        The batches, and the offset after the last of them; `first_offset` if there is none. Batches behind
        the range end the search, and set that offset to `end_offset`.
    """
    at, begin, end, next_offset = 0, 0, 0, first_offset
    while at + _BATCH_HEADER_BYTES <= len(records):
        base_offset = int.from_bytes(records[at : at + 8], "big", signed=True)
        size = int.from_bytes(records[at + 8 : at + _HEADER_BYTES], "big", signed=True) + _HEADER_BYTES
        if size < _BATCH_HEADER_BYTES or at + size > len(records):
            break
        if base_offset >= end_offset:
            return records[begin:end], end_offset
        if base_offset >= first_offset:
            begin = begin if end else at
            end = at + size
            delta = records[at + _LAST_OFFSET_DELTA : at + _LAST_OFFSET_DELTA + 4]
            next_offset = base_offset + int.from_bytes(delta, "big", signed=True) + 1
        at += size
    return records[begin:end], next_offset


class CorruptRepair:
    """Repairs corrupt ranges when some were marked, and tries again while some are left. Used on the control
    loop.

    Attributes:
        repaired: Ranges that were replaced.
    """

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        logs: LogManager,
        peers: BrokerPeers,
        *,
        node_id: int,
    ) -> None:
        self._image = image
        self._logs = logs
        self._node_id = node_id
        self._peers = peers
        self._purpose = f"bowstring-{node_id}-repair"
        self._is_due = asyncio.Event()
        self._seen = 0
        self._told: set[tuple[str, int, int]] = set()
        self.repaired = 0

    def look(self) -> None:
        """Wakes the repair if ranges were marked as corrupt since the last time."""
        if corrupt_marks() != self._seen:
            self._is_due.set()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        retry_s = _RETRY_S
        while True:
            self._is_due.clear()
            self._seen = corrupt_marks()
            left = await self.repair_all()
            self.look()
            try:
                async with asyncio.timeout(retry_s if left else None):
                    await self._is_due.wait()
                retry_s = _RETRY_S
            except TimeoutError:
                retry_s = min(_RETRY_MAX_S, retry_s * 2)

    async def repair_all(self) -> int:
        """Tries to repair every corrupt range; returns how many are left that another replica may have."""
        left = 0
        loop = asyncio.get_running_loop()
        logs = list(self._logs)
        if not logs:
            return 0
        for topic, index, log in await loop.run_in_executor(None, _with_corrupt_ranges, logs):
            places = await loop.run_in_executor(None, _places_of, topic, index, log)
            left += not places
            for place in places:
                left += not await self._repair(topic, index, log, place)
        return left

    async def _repair(self, topic: str, index: int, log: PartitionLog, place: Place) -> bool:
        """Returns whether nothing is left to do."""
        found = self._image().topics.get(topic)
        if found is None or index >= len(found.partitions):
            return True
        if place[4] <= log.log_start_offset or len(found.partitions[index].replicas) < 2:
            return True
        # Not at start: most brokers never need it.
        from bowstring.engine.network.connection import NoAnswerError, UnsupportedByPeerError

        problems = []
        for peer in self._others(found.partitions[index]):
            try:
                data = await self._fetch(peer, found, index, place)
                written = await asyncio.get_running_loop().run_in_executor(None, _write, log, place, data)
            except (_NotThereError, NoAnswerError, UnsupportedByPeerError, ValueError, OSError) as error:
                problems.append(f"broker {peer}: {error}")
                continue
            if written:
                self._tell_repaired(topic, index, log, place, peer)
            return written
        self._tell_left(topic, index, log, place, "; ".join(problems) or "no other replica is alive")
        return False

    def _others(self, partition: PartitionImage) -> Iterator[int]:
        """Yields the other replicas: the leader first, then those in sync."""
        order = dict.fromkeys((partition.leader, *partition.in_sync, *partition.replicas))
        for each in order:
            broker = self._image().brokers.get(each)
            if each != self._node_id and broker is not None and not broker.fenced:
                yield each

    # ------------------------------------------------------------ fetching

    async def _fetch(self, peer: int, topic: TopicImage, index: int, place: Place) -> bytes:
        _, _, size_bytes, offset, end_offset, _ = place
        if size_bytes > _RANGE_MAX_BYTES:
            raise _NotThereError(f"ranges of more than {_RANGE_MAX_BYTES} bytes are not repaired")
        found = bytearray()
        while offset < end_offset and len(found) <= size_bytes:
            request = self._request(topic, index, offset)
            answer = await self._peers.exchange(
                *(self._purpose, peer, request, _FETCH_VERSIONS), timeout_s=_ANSWER_S
            )
            records, next_offset = batches_within(_records_of(answer), offset, end_offset)
            if next_offset == offset:
                raise _NotThereError(f"it has no committed batch at offset {offset}")
            found += records
            offset = next_offset
        return bytes(found)

    def _request(self, topic: TopicImage, index: int, offset: int) -> "FetchRequest":
        from bowstring.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

        wanted = FetchPartition(
            partition=index,
            current_leader_epoch=topic.partitions[index].leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=_FETCHED_BYTES,
        )
        return FetchRequest(
            max_bytes=_FETCHED_BYTES,
            min_bytes=1,
            topics=[FetchTopic(topic=topic.name, topic_id=topic.id, partitions=[wanted])],
        )

    # ------------------------------------------------------------ reports

    def _tell_repaired(self, topic: str, index: int, log: PartitionLog, place: Place, peer: int) -> None:
        self.repaired += 1
        self._told.discard((log.directory, place[0], place[1]))
        event_log.warning(
            "corrupt records were fetched again from another replica and are served; check the disk",
            **_facts(topic, index, log, place),
            broker=peer,
        )

    def _tell_left(self, topic: str, index: int, log: PartitionLog, place: Place, detail: str) -> None:
        key = (log.directory, place[0], place[1])
        if key not in self._told:
            self._told.add(key)
            event_log.error(
                "corrupt records could not be fetched from another replica; this is tried again",
                **_facts(topic, index, log, place),
                detail=detail,
            )


def _facts(topic: str, index: int, log: PartitionLog, place: Place) -> dict[str, Any]:
    return {
        "partition": partition_directory(topic, index),
        "file": f"{log.directory}/{place[0]:020d}.log",
        "position": place[1],
        "bytes": place[2],
        "first_offset": place[3],
        "last_offset": place[4] - 1,
    }


def _records_of(answer: Any) -> bytes:
    if answer.error_code:
        raise _NotThereError(Errors.of(answer.error_code).name)
    for topic in answer.responses:
        for partition in topic.partitions:
            if partition.error_code:
                raise _NotThereError(Errors.of(partition.error_code).name)
            return bytes(partition.records or b"")
    return b""


def _with_corrupt_ranges(logs: list[tuple[str, int, PartitionLog]]) -> list[tuple[str, int, PartitionLog]]:
    return [(topic, index, log) for topic, index, log in logs if log.corrupt_ranges()]


def _places_of(topic: str, index: int, log: PartitionLog) -> list[Place]:
    # Not at start: most brokers never need it.
    from bowstring._native.log.repair import corrupt_offsets

    try:
        return corrupt_offsets(log)
    except OSError as error:
        event_log.error(
            "a segment with corrupt records cannot be read, so they are not fetched again; check the disk",
            partition=partition_directory(topic, index),
            file=error.filename,
            detail=error.strerror,
        )
        return []


def _write(log: PartitionLog, place: Place, data: bytes) -> bool:
    from bowstring._native.log.repair import write_back

    if len(data) != place[2]:
        raise ValueError(
            f"its batches have {len(data)} bytes, not {place[2]}: the two were compacted differently"
        )
    return write_back(log, place, data)
