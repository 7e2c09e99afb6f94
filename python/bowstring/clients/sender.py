"""The producer's thread: takes full or lingering batches, sends them to their leaders, settles answers."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from bowstring.clients.accumulator import PartitionQueue, ProduceBatch
from bowstring.clients.cluster import Cluster
from bowstring.clients.connection import Pending
from bowstring.clients.errors import BrokerError, ClientError, ClientTimeoutError, ClosedError, broker_error
from bowstring.clients.network import NetworkClient
from bowstring.clients.records import Node, TopicPartition
from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages.init_producer_id import InitProducerIdRequest
from bowstring.engine.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

# Kafka brokers remember five batches per producer and partition, so no more may be in flight (KIP-98).
IN_FLIGHT_MAX = 5
EPOCH_MAX = 32767
RETRY_BACKOFF_MAX_S = 1.0

_SEQUENCE_ERRORS = (Errors.OUT_OF_ORDER_SEQUENCE_NUMBER.code, Errors.UNKNOWN_PRODUCER_ID.code)
_METADATA_ERRORS = (
    Errors.UNKNOWN_TOPIC_OR_PARTITION.code,
    Errors.UNKNOWN_TOPIC_ID.code,
    Errors.NOT_LEADER_OR_FOLLOWER.code,
    Errors.LEADER_NOT_AVAILABLE.code,
    Errors.KAFKA_STORAGE_ERROR.code,
)


@dataclass(slots=True)
class SenderConfig:
    """What the producer was asked for, in the units the sender works in."""

    acks: int
    idempotent: bool
    compression: int
    compression_level: int | None
    linger_s: float
    batch_bytes: int
    request_bytes: int
    request_timeout_s: float
    delivery_timeout_s: float
    retry_backoff_s: float
    in_flight_max: int


class Sender:
    """Owns the connections; everything marked as shared is guarded by `lock`.

    Shared: `queues`, `active` (those with something to send), `flushes`, `closing`, `failure`.
    `changed` is signalled when metadata arrived, batches were done or the sender ended.
    """

    def __init__(self, client: NetworkClient, cluster: Cluster, config: SenderConfig):
        self.client = client
        self.cluster = cluster
        self.config = config
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.active: dict[TopicPartition, PartitionQueue] = {}
        self.flushes = 0
        self.unfinished = 0
        self.buffered_bytes = 0
        self.memory_short = False
        self.closing = False
        self.abandon = False
        self.failure: Exception | None = None
        self._producer = (-1, -1)
        self._identifying: Pending | None = None
        self._identify_at = 0.0
        self._seen_version = -1
        self._finished: list[tuple[ProduceBatch, Exception | None, int, int]] = []
        self.thread = threading.Thread(target=self._run, name="bowstring-producer", daemon=True)

    # ------------------------------------------------------------ called under the lock by the producer

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        """The queue of a partition."""
        found = self.queues.get(partition)
        if found is None:
            found = self.queues[partition] = PartitionQueue(partition)
        return found

    def enqueue(self, queue: PartitionQueue, batch: ProduceBatch) -> None:
        """Adds a batch that is open or encoded; counts it as unfinished."""
        queue.add(batch)
        self.active[queue.partition] = queue
        self.unfinished += 1

    def wake(self) -> None:
        """Makes the thread look again. Needs no lock."""
        self.client.wakeup()

    # ------------------------------------------------------------ the loop

    def _run(self) -> None:
        error: Exception = ClosedError("the producer was closed before this record was acknowledged")
        try:
            while not self._ended():
                self._pass()
        except Exception as bug:
            error = bug
            raise
        finally:
            self.abandon = True
            self.client.close()
            self._fail_all(error)
            self._settle()
            with self.lock:
                self.closing = True
                self.changed.notify_all()

    def _ended(self) -> bool:
        with self.lock:
            return self.closing and (self.abandon or not self.unfinished)

    def _pass(self) -> None:
        wait_s = self.cluster.maintain()
        if self.config.idempotent and self._producer[0] < 0:
            wait_s = min(wait_s, self._identify())
        else:
            now = time.monotonic()
            with self.lock:
                requests, due_s = self._collect(now)
            wait_s = min(wait_s, due_s)
            for node, taken in requests.items():
                self._transmit(node, taken)
        wait_s = min(wait_s, self._expire())
        self._settle()
        self.client.poll(0.0 if self._finished else wait_s)
        self._settle()
        if self.cluster.version != self._seen_version or self.cluster.topic_errors:
            self._seen_version = self.cluster.version
            with self.lock:
                self.changed.notify_all()

    def _collect(self, now: float) -> tuple[dict[Node, list[ProduceBatch]], float]:
        """Takes what may be sent now, by leader; and seconds until more will be due."""
        config = self.config
        hurry = self.flushes > 0 or self.closing or self.memory_short
        requests: dict[Node, list[ProduceBatch]] = {}
        sizes: dict[Node, int] = {}
        wait_s = float("inf")
        for partition, queue in list(self.active.items()):
            due_s = queue.due_in_s(now, config.linger_s, config.batch_bytes, hurry)
            if due_s > 0:
                wait_s = min(wait_s, due_s)
                continue
            node = self.cluster.leader(*partition)
            if node is None:
                self.cluster.want(partition.topic)
                self.cluster.invalidate()
                wait_s = min(wait_s, config.retry_backoff_s)
                continue
            if self.client.backing_off(node):
                self.cluster.invalidate()
                wait_s = min(wait_s, config.retry_backoff_s)
                continue
            size = sizes.get(node, 0)
            if self.client.in_flight(node) >= config.in_flight_max:
                continue
            if size and size + queue.waiting[0].size_bytes > config.request_bytes:
                wait_s = 0.0
                continue
            batch = queue.waiting.popleft()
            queue.in_flight.append(batch)
            if queue.waiting:
                wait_s = 0.0
                # What was passed over comes first in the next request.
                self.active[partition] = self.active.pop(partition)
            else:
                del self.active[partition]
            sizes[node] = size + batch.size_bytes
            requests.setdefault(node, []).append(batch)
        if (
            requests
            and wait_s == 0.0
            and all(self.client.in_flight(node) + 1 >= config.in_flight_max for node in requests)
        ):
            wait_s = float("inf")  # an answer will come first
        return requests, wait_s

    def _transmit(self, node: Node, taken: list[ProduceBatch]) -> None:
        config = self.config
        for batch in taken:
            batch.attempts += 1
            identity = ((-1, -1), -1)
            if config.idempotent:
                identity = self.queues[batch.partition].sequence(batch, self._producer)
            if batch.encoded is None or (batch.producer, batch.base_sequence) != identity:
                batch.encode(*identity, config.compression, config.compression_level)
        self.client.send(
            node,
            ProduceRequest,
            lambda version: self._request(version, taken),
            timeout_s=config.request_timeout_s,
            callback=lambda pending: self._answered(pending, taken),
            expects_reply=config.acks != 0,
        )

    def _request(self, version: int, taken: list[ProduceBatch]) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in taken:
            part = PartitionProduceData(index=batch.partition.partition, records=batch.encoded)
            topics.setdefault(batch.partition.topic, []).append(part)
        data = []
        for name, parts in topics.items():
            if version >= 13:
                data.append(TopicProduceData(topic_id=self.cluster.topic_id(name), partition_data=parts))
            else:
                data.append(TopicProduceData(name=name, partition_data=parts))
        return ProduceRequest(
            acks=self.config.acks, timeout_ms=int(self.config.request_timeout_s * 1000), topic_data=data
        )

    # ------------------------------------------------------------ answers

    def _answered(self, pending: Pending, taken: list[ProduceBatch]) -> None:
        if pending.error is not None:
            self.cluster.invalidate()
            for batch in taken:
                self._retry_or_fail(batch, pending.error)
            return
        if not pending.expects_reply:
            for batch in taken:
                self._done(batch, None)
            return
        answers = {}
        assert pending.response is not None
        for topic in pending.response.responses:
            name = topic.name or self.cluster.names.get(topic.topic_id)
            for part in topic.partition_responses:
                answers[(name, part.index)] = part
        for batch in taken:
            part = answers.get((batch.partition.topic, batch.partition.partition))
            if part is None:
                self._retry_or_fail(batch, ClientError(f"the answer does not mention {batch.partition}"))
            elif part.error_code in (0, Errors.DUPLICATE_SEQUENCE_NUMBER.code):
                self._done(batch, None, part.base_offset, part.log_append_time_ms)
            else:
                self._refused(batch, part)

    def _refused(self, batch: ProduceBatch, part: PartitionProduceResponse) -> None:
        error = broker_error(part.error_code, f"writing to {batch.partition}", part.error_message)
        queue = self.queues[batch.partition]
        if part.error_code in _METADATA_ERRORS:
            self.cluster.invalidate()
        if part.error_code in _SEQUENCE_ERRORS and self.config.idempotent:
            earlier = any(other.order < batch.order for other in (*queue.in_flight, *queue.waiting))
            # With an earlier batch still to come the gap closes by itself; else the producer's state is lost.
            queue.epoch_bump = queue.epoch_bump or not earlier
            if queue.epoch_bump and queue.producer[1] >= EPOCH_MAX - 1:
                self._producer = (-1, -1)
            self._retry_or_fail(batch, error, retriable=True)
            return
        self._retry_or_fail(batch, error)

    def _retry_or_fail(self, batch: ProduceBatch, error: Exception, retriable: bool | None = None) -> None:
        queue = self.queues[batch.partition]
        queue.last_error = error
        if retriable is None:
            retriable = bool(getattr(error, "retriable", False))
        now = time.monotonic()
        if retriable and now < batch.deadline and not self.abandon:
            pause_s = self.config.retry_backoff_s * 2 ** min(batch.attempts - 1, 8)
            batch.retry_at = now + min(pause_s, RETRY_BACKOFF_MAX_S)
            with self.lock:
                queue.put_back(batch)
                self.active[batch.partition] = queue
            return
        if self.config.idempotent and batch.base_sequence >= 0:
            queue.epoch_bump = True  # its sequence numbers will be missing
        self._done(batch, error)

    def _done(
        self,
        batch: ProduceBatch,
        error: Exception | None,
        base_offset: int = -1,
        log_append_time_ms: int = -1,
    ) -> None:
        """Notes an outcome; `_settle` publishes it once no lock is held."""
        with self.lock:
            queue = self.queues[batch.partition]
            if batch in queue.in_flight:
                queue.in_flight.remove(batch)
        self._finished.append((batch, error, base_offset, log_append_time_ms))

    def _settle(self) -> None:
        finished, self._finished = self._finished, []
        if not finished:
            return
        for batch, error, base_offset, log_append_time_ms in finished:
            batch.finish(error, base_offset, log_append_time_ms)
        with self.lock:
            self.unfinished -= len(finished)
            self.buffered_bytes -= sum(entry[0].size_bytes for entry in finished)
            self.changed.notify_all()

    # ------------------------------------------------------------ time and identity

    def _expire(self) -> float:
        """Fails batches that waited for delivery_timeout_ms; seconds until the next may."""
        now = time.monotonic()
        nearest = float("inf")
        with self.lock:
            late: list[ProduceBatch] = []
            for partition, queue in list(self.active.items()):
                while queue.waiting and now >= queue.waiting[0].deadline:
                    late.append(queue.waiting.popleft())
                if queue.waiting:
                    nearest = min(nearest, queue.waiting[0].deadline - now)
                else:
                    del self.active[partition]
        for batch in late:
            queue = self.queues[batch.partition]
            if batch.base_sequence >= 0:
                queue.epoch_bump = True
            self._done(batch, self._timed_out(queue))
        return nearest

    def _timed_out(self, queue: PartitionQueue) -> ClientTimeoutError:
        reason = queue.last_error
        if reason is None and self.cluster.leader(*queue.partition) is None:
            code = self.cluster.topic_errors.get(queue.partition.topic)
            reason = BrokerError(code) if code else ClientError("its leader is not known")
        return ClientTimeoutError(
            f"records for {queue.partition} could not be delivered within "
            f"{self.config.delivery_timeout_s:g} s (delivery_timeout_ms): {reason or 'no answer yet'}"
        )

    def _identify(self) -> float:
        """Asks for a producer id; seconds until it makes sense to look again."""
        now = time.monotonic()
        with self.lock:
            if not self.active:
                return float("inf")
        if self._identifying is not None:
            return float("inf")
        if now < self._identify_at:
            return self._identify_at - now
        self._identify_at = now + self.config.retry_backoff_s
        self._identifying = self.client.send(
            self.cluster.any_node(),
            InitProducerIdRequest,
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
            callback=self._identified,
        )
        return self.config.retry_backoff_s

    def _identified(self, pending: Pending) -> None:
        self._identifying = None
        error: ClientError | None = pending.error
        response = pending.response
        if error is None and response.error_code:
            error = broker_error(response.error_code, "asking for a producer id")
        if error is None:
            self._producer = (response.producer_id, response.producer_epoch)
        elif not error.retriable:
            self._fail_all(error)

    def _fail_all(self, error: Exception) -> None:
        with self.lock:
            self.failure = self.failure or error
            self.closing = True
            waiting = [
                batch for queue in self.queues.values() for batch in (*queue.in_flight, *queue.waiting)
            ]
            for queue in self.queues.values():
                queue.waiting.clear()
            self.active.clear()
        for batch in waiting:
            self._done(batch, error)

    def stop(self, timeout_s: float | None) -> bool:
        """Sends what is left and ends the thread; after `timeout_s` the rest fails. True if all was sent."""
        with self.lock:
            self.closing = True
        self.wake()
        self.thread.join(timeout_s)
        if not self.thread.is_alive():
            return True
        self.abandon = True
        self.wake()
        self.thread.join(self.config.request_timeout_s)
        return False
