"""Sends the markers of decided transactions to the leaders of their partitions, until each has its marker.

The transaction log remembers which transactions are decided, so a coordinator that takes over sends their
markers again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final

from bowstring.engine import background, event_log
from bowstring.engine.coordinators.hosted import HostedShard
from bowstring.engine.network.broker_peers import BrokerPeers
from bowstring.engine.network.connection import NoAnswerError, UnsupportedByPeerError
from bowstring.engine.transactions.marker_writer import Marker, MarkerWriter
from bowstring.engine.transactions.shard import TransactionShard
from bowstring.engine.transactions.transaction import TopicPartition, Transaction
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import ImageSource

Hosted = HostedShard[TransactionShard]
"""A shard with its log. Markers carry its leader epoch as coordinator epoch."""

_PURPOSE: Final = "transaction-markers"
_VERSIONS: Final = (1, 2)
_RETRY_S: Final = 0.05
_RETRY_AFTER_BUG_S: Final = 1.0
_MARKERS_AT_ONCE: Final = 1000


class _Job:
    """Partitions of a transaction at one leader."""

    __slots__ = ("hosted", "partitions", "transaction")

    def __init__(self, hosted: Hosted, transaction: Transaction, partitions: list[TopicPartition]) -> None:
        self.hosted = hosted
        self.transaction = transaction
        self.partitions = partitions

    def marker(self) -> Marker:
        of = self.transaction
        return Marker(of.producer_id, of.epoch, of.is_commit, self.hosted.leader_epoch, of.client_version)


class MarkerSender:
    """Sends markers, one request at a time to each broker. Used on the control loop only.

    Args:
        peers: The other brokers.
        timeout_s: How long an answer may take.
        marked: Called with a shard, a transaction and partitions that have its marker.
    """

    def __init__(
        self,
        metadata: "ImageSource",
        node_id: int,
        peers: BrokerPeers,
        writer: MarkerWriter,
        *,
        timeout_s: float,
        marked: Callable[[Hosted, Transaction, list[TopicPartition]], None],
    ) -> None:
        self._metadata = metadata
        self._node_id = node_id
        self._peers = peers
        self._writer = writer
        self._timeout_s = timeout_s
        self._marked = marked
        self._queues: dict[int, list[_Job]] = defaultdict(list)
        self._busy: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def send(self, hosted: Hosted, transaction: Transaction, partitions: Iterable[TopicPartition]) -> None:
        """Sends the markers of a transaction to these partitions, until they have them or are deleted."""
        if self._stopped or hosted.dismissed:
            return
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        deleted: list[TopicPartition] = []
        for partition in partitions:
            leader = self._leader(partition)
            if leader is None:
                deleted.append(partition)
            else:
                by_leader[leader].append(partition)
        if deleted:  # no one reads what the markers would end
            self._marked(hosted, transaction, deleted)
        for leader, led in by_leader.items():
            job = _Job(hosted, transaction, led)
            if leader == self._node_id:
                self._spawn(self._write_here(job))
            elif self._peers.address(leader) is None:
                self._spawn(self._later(job))
            else:
                self._queues[leader].append(job)
                if leader not in self._busy:
                    self._busy.add(leader)
                    self._spawn(self._serve(leader))

    def _leader(self, partition: TopicPartition) -> int | None:
        topic = self._metadata.image.topics.get(partition[0])
        if topic is None or partition[1] >= len(topic.partitions):
            return None
        return topic.partitions[partition[1]].leader

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        background.spawn(work, "markers of transactions", among=self._tasks)

    async def _write_here(self, job: _Job) -> None:
        if job.hosted.dismissed:
            return
        try:
            errors = await self._writer.write(job.marker(), job.partitions)
        except Exception:
            self._again_after_bug([job])
        else:
            self._settle(job, errors)

    def _again_after_bug(self, jobs: list[_Job]) -> None:
        """Sends markers again that a bug has kept back: a transaction without them blocks its readers."""
        event_log.error(
            "bug: markers of transactions were not sent, and are sent again; report the traceback",
            traceback=True,
            transactional_ids=",".join(job.transaction.transactional_id for job in jobs[:10]),
        )
        for job in jobs:
            self._spawn(self._later(job, _RETRY_AFTER_BUG_S))

    async def _later(self, job: _Job, pause_s: float = _RETRY_S) -> None:
        await asyncio.sleep(pause_s)
        self.send(job.hosted, job.transaction, job.partitions)

    async def _serve(self, leader: int) -> None:
        """Sends the waiting markers for one broker, all in one request, until none is left."""
        try:
            while queue := self._queues.pop(leader, None):
                for first in range(0, len(queue), _MARKERS_AT_ONCE):
                    jobs = queue[first : first + _MARKERS_AT_ONCE]
                    try:
                        await self._exchange(leader, jobs)
                    except Exception:
                        self._again_after_bug(jobs)
        finally:
            self._busy.discard(leader)

    async def _exchange(self, leader: int, jobs: list[_Job]) -> None:
        jobs = [job for job in jobs if not job.hosted.dismissed]
        errors: dict[tuple[int, TopicPartition], Error] = {}
        if jobs:
            request = WriteTxnMarkersRequest(markers=[_encoded(job) for job in jobs])
            asked = [each for job in jobs for each in job.partitions]
            try:
                answer = await self._peers.exchange(
                    *(_PURPOSE, leader, request, _VERSIONS),
                    timeout_s=self._timeout_s,
                    is_wanted=lambda: any(self._leader(each) == leader for each in asked),
                )
                assert isinstance(answer, WriteTxnMarkersResponse), answer
                errors = _errors(answer)
            except NoAnswerError:
                pass  # the markers may be there, and are sent again
            except UnsupportedByPeerError as error:
                event_log.error("a broker cannot write markers of transactions", detail=str(error))
        for job in jobs:
            producer_id = job.transaction.producer_id
            self._settle(
                job,
                {each: errors.get((producer_id, each), Errors.REQUEST_TIMED_OUT) for each in job.partitions},
            )

    def _settle(self, job: _Job, errors: dict[TopicPartition, Error]) -> None:
        """Reports the markers that are written, and sends the others again."""
        left: list[TopicPartition] = []
        marked: list[TopicPartition] = []
        for partition, error in errors.items():
            if error is Errors.INVALID_PRODUCER_EPOCH:
                # A newer epoch can only be there after this transaction has ended there.
                event_log.warning(
                    "a partition refuses the marker of a transaction because it has a newer producer epoch",
                    partition="-".join(map(str, partition)),
                    transactional_id=job.transaction.transactional_id,
                )
            if not error or error is Errors.INVALID_PRODUCER_EPOCH:
                marked.append(partition)
            else:
                left.append(partition)
        if marked and not job.hosted.dismissed:
            self._marked(job.hosted, job.transaction, marked)
        if left and not self._stopped and not job.hosted.dismissed:
            self._spawn(self._later(_Job(job.hosted, job.transaction, left)))

    async def stop(self) -> None:
        """Stops sending."""
        self._stopped = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _encoded(job: _Job) -> WritableTxnMarker:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, index in job.partitions:
        by_topic[topic].append(index)
    marker = job.marker()
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.epoch,
        transaction_result=marker.commit,
        topics=[
            WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic.items()
        ],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.version,
    )


def _errors(answer: WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], Error]:
    return {
        (each.producer_id, (topic.name, part.partition_index)): Errors.of(part.error_code)
        for each in answer.markers
        for topic in each.topics
        for part in topic.partitions
    }
