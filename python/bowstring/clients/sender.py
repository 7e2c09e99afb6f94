"""The producer's thread: takes full or lingering batches, sends them to their leaders, settles answers.

It and the threads that send share the GIL, and one that sends without pause gives it up every 5 ms only. So a
pass does much at once: it takes everything that may go, writes it all, and only then lets go of the GIL.
"""

from __future__ import annotations

import logging
import threading
import time

from bowstring._native.accumulator import Accumulator
from bowstring.clients.accumulator import PartitionQueue, ProduceBatch
from bowstring.clients.cluster import Cluster
from bowstring.clients.connection import Pending
from bowstring.clients.errors import (
    BrokerError,
    ClientError,
    ClientTimeoutError,
    ClosedError,
    ForkedError,
    broker_error,
)
from bowstring.clients.network import NetworkClient
from bowstring.clients.produce_frames import ProduceFrame, TopicBatches
from bowstring.clients.producer_config import ProducerSettings
from bowstring.clients.producer_metrics import ProducerMetrics
from bowstring.clients.records import Node
from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages.init_producer_id import InitProducerIdRequest
from bowstring.engine.protocol.messages.produce import PartitionProduceResponse, ProduceRequest

EPOCH_MAX = 32767
# Waiting callers go on when this share of buffer_memory is in use: not at once, so that they and the sender
# do not take turns for every batch.
ROOM_SHARE = 0.75
TOLD_EVERY_S = 1.0  # a failure, in the log

_SEQUENCE_ERRORS = (Errors.OUT_OF_ORDER_SEQUENCE_NUMBER.code, Errors.UNKNOWN_PRODUCER_ID.code)
_METADATA_ERRORS = (
    Errors.UNKNOWN_TOPIC_OR_PARTITION.code,
    Errors.UNKNOWN_TOPIC_ID.code,
    Errors.NOT_LEADER_OR_FOLLOWER.code,
    Errors.LEADER_NOT_AVAILABLE.code,
    Errors.KAFKA_STORAGE_ERROR.code,
)


_log = logging.getLogger("bowstring.producer")


class Sender:
    """Owns the connections; shares `accumulator` with the producer's callers, who may be many threads.

    `changed` is signalled when metadata arrived, batches were done or the sender ended; `lock` is its lock,
    and guards nothing else.
    """

    def __init__(
        self, client: NetworkClient, cluster: Cluster, config: ProducerSettings, accumulator: Accumulator
    ):
        self.client = client
        self.cluster = cluster
        self.config = config
        self.accumulator = accumulator
        self.metrics = ProducerMetrics()
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.flushes = 0
        self.memory_short = False
        self.closing = False
        self.abandon = False
        self.failure: Exception | None = None
        self.last_error: Exception | None = None
        self._told_at = -TOLD_EVERY_S
        self._producer = (-1, -1)
        self._identifying: Pending | None = None
        self._identify_at = 0.0
        self._seen_version = -1
        self._finished: list[tuple[ProduceBatch, Exception | None, int, int]] = []
        accumulator.wake_descriptor = client.wake_descriptor
        self.thread = threading.Thread(target=self._run, name="bowstring-producer", daemon=True)

    def wake(self) -> None:
        """Makes the thread look again."""
        self.accumulator.wake()

    def requests_in_flight(self) -> int:
        """Requests that are sent or wait to be, to all brokers."""
        return sum(self.client.in_flight(node) for node in list(self.cluster.brokers.values()))

    def _notify(self) -> None:
        if self.accumulator.waiters:
            with self.lock:
                self.changed.notify_all()

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
            self.accumulator.wake_descriptor = -1
            self.client.close()
            self._fail_all(error)
            self._settle()
            with self.lock:
                self.changed.notify_all()

    def _ended(self) -> bool:
        return self.closing and (self.abandon or not self.accumulator.unfinished)

    def _pass(self) -> None:
        accumulator = self.accumulator
        accumulator.sleeping = True  # what comes from here on wakes the poll below
        wait_s = self.cluster.maintain()
        if self.config.idempotent and self._producer[0] < 0:
            wait_s = min(wait_s, self._identify())
        elif accumulator.active:
            wait_s = min(wait_s, self._send_due())
        wait_s = min(wait_s, self._expire())
        self._settle()
        if self._ended():
            return
        self.client.poll(wait_s)
        self._settle()
        if self.cluster.version != self._seen_version or self.cluster.topic_errors:
            self._seen_version = self.cluster.version
            accumulator.metadata_version = self.cluster.version
            self._notify()

    def _send_due(self) -> float:
        """Sends all that may go; seconds until more will be due."""
        while True:
            count = self.metrics.requests
            self.client.cork()
            try:
                due_s = self._send_until_none_is_due()
            finally:
                self.client.uncork()
            # Writing may have found a connection broken: then what it carried is due again, at its time.
            if self.metrics.requests == count:
                return due_s

    def _send_until_none_is_due(self) -> float:
        while True:
            requests, due_s = self._collect(time.monotonic())
            if not requests:
                return due_s
            for node, taken in requests.items():
                self._transmit(node, taken)

    def _collect(self, now: float) -> tuple[dict[Node, list[ProduceBatch]], float]:
        """Takes a batch of each partition that has one to be sent, by leader; seconds until more is due."""
        config, client, accumulator = self.config, self.client, self.accumulator
        hurry = self.flushes > 0 or self.closing or self.memory_short
        requests: dict[Node, list[ProduceBatch]] = {}
        sizes: dict[Node, int] = {}
        wait_s = float("inf")
        for queue in list(accumulator.active):
            assert isinstance(queue, PartitionQueue)
            due_s = queue.due_in_s(now, config.linger_s, config.batch_bytes, hurry)
            if due_s > 0:
                wait_s = min(wait_s, due_s)
                continue
            topic, partition = queue.partition
            node = self.cluster.leader(topic, partition)
            if node is None or client.backing_off(node):
                self.cluster.want(topic)
                self.cluster.invalidate()
                wait_s = min(wait_s, config.retry_backoff_s)
                continue
            if client.in_flight(node) >= config.in_flight_max:
                continue  # an answer will come first
            size = sizes.get(node, 0)
            if size and size + queue.waiting[0].size_bytes > config.request_bytes:
                continue  # it is in the next request
            batch = accumulator.take(queue)
            assert isinstance(batch, ProduceBatch)
            # What was passed over comes first in the next request.
            accumulator.pass_over(queue)
            sizes[node] = size + batch.size_bytes
            requests.setdefault(node, []).append(batch)
        return requests, wait_s

    def _transmit(self, node: Node, taken: list[ProduceBatch]) -> None:
        config = self.config
        now = time.monotonic()
        for batch in taken:
            batch.attempts += 1
            batch.sent_at = now
            identity = ((-1, -1), -1)
            if config.idempotent:
                identity = self._queue(batch).sequence(batch, self._producer)
            if not batch.sealed or (batch.producer, batch.base_sequence) != identity:
                batch.seal(*identity, config.compression, config.compression_level)
        self.metrics.sent(taken, now)
        self.client.send(
            node,
            ProduceRequest,
            lambda version: self._request(version, taken),
            timeout_s=config.request_timeout_s,
            callback=lambda pending: self._answered(pending, taken),
            expects_reply=config.acks != 0,
        )

    def _request(self, version: int, taken: list[ProduceBatch]) -> ProduceFrame:
        topics: dict[str, TopicBatches] = {}
        for batch in taken:
            topic, partition = batch.partition
            if topic not in topics:
                topics[topic] = TopicBatches(topic, self.cluster.topic_id(topic), [])
            topics[topic].partitions.append((partition, batch.wire()))
        return ProduceFrame(
            self.config.acks, int(self.config.request_timeout_s * 1000), list(topics.values())
        )

    def _queue(self, batch: ProduceBatch) -> PartitionQueue:
        queue = self.accumulator.lanes[batch.partition]
        assert isinstance(queue, PartitionQueue)
        return queue

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
        self.metrics.answered(time.monotonic() - taken[0].sent_at)
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
        if part.error_code == Errors.MESSAGE_TOO_LARGE.code and batch.record_count > 1 and not self.abandon:
            self._divide(batch)
            return
        error = broker_error(part.error_code, f"writing to {batch.partition}", part.error_message)
        queue = self._queue(batch)
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
        queue = self._queue(batch)
        queue.last_error = error
        if retriable is None:
            retriable = bool(getattr(error, "retriable", False))
        now = time.monotonic()
        config = self.config
        if config.retries is not None and batch.attempts > config.retries:
            retriable = False
        if retriable and now < batch.deadline and not self.abandon:
            pause_s = config.retry_backoff_s * 2 ** min(batch.attempts - 1, 8)
            batch.retry_at = now + min(pause_s, config.retry_backoff_max_s)
            self.metrics.retries += batch.record_count
            self.accumulator.put_back(queue, batch)
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
        """Notes an outcome; `_settle` publishes it."""
        self.accumulator.drop(self._queue(batch), batch)
        self._finished.append((batch, error, base_offset, log_append_time_ms))

    def _divide(self, batch: ProduceBatch) -> None:
        """Sends a batch that was larger than the topic allows as two, numbered as it was."""
        accumulator, queue = self.accumulator, self._queue(batch)
        accumulator.drop(queue, batch)
        first = ProduceBatch(batch.partition, 0.0)
        second = ProduceBatch(batch.partition, 0.0)
        batch.divide(first, second)
        self.metrics.splits += 1
        accumulator.unfinished.discard(batch)  # its bytes count with the halves from now on
        for half in (second, first):
            accumulator.put_back(queue, half)

    def _settle(self) -> None:
        finished, self._finished = self._finished, []
        if not finished:
            return
        for batch, error, base_offset, log_append_time_ms in finished:
            if error is not None:
                self._tell(batch, error)
            self.metrics.finished(batch, error)
            batch.finish(error, base_offset, log_append_time_ms)
            self.accumulator.settle(batch)
        if not self.memory_short or self.accumulator.buffered_bytes <= ROOM_SHARE * self.config.buffer_memory:
            self._notify()

    def _tell(self, batch: ProduceBatch, error: Exception) -> None:
        """Leaves a line in the log, once a second at most: nobody may look at the futures."""
        self.last_error = error
        now = time.monotonic()
        if now - self._told_at >= TOLD_EVERY_S:
            self._told_at = now
            _log.warning(
                "%d records for %s were not delivered: %s", batch.record_count, batch.partition, error
            )

    # ------------------------------------------------------------ time and identity

    def _expire(self) -> float:
        """Fails batches that waited for delivery_timeout_ms; seconds until the next may."""
        if not self.accumulator.active:
            return float("inf")
        now = time.monotonic()
        nearest = float("inf")
        late: list[ProduceBatch] = []
        for queue in list(self.accumulator.active):
            while queue.waiting and now >= queue.waiting[0].deadline:
                batch = self.accumulator.take(queue)
                assert isinstance(batch, ProduceBatch)
                late.append(batch)
            if queue.waiting:
                nearest = min(nearest, queue.waiting[0].deadline - now)
        for batch in late:
            queue = self._queue(batch)
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
        if not self.accumulator.active:
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
        self.failure = self.failure or error
        self.closing = True
        self.accumulator.halted = True
        decided = {id(entry[0]) for entry in self._finished}
        for batch in list(self.accumulator.unfinished):
            if id(batch) not in decided:
                assert isinstance(batch, ProduceBatch)
                self._done(batch, error)

    def after_fork(self, error: ForkedError) -> None:
        """In a forked child: every use fails with `error`. What waits is the parent's to send."""
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.failure = error
        self.closing = self.abandon = True
        self.accumulator.halted = True
        self.accumulator.wake_descriptor = -1
        for batch in self.accumulator.unfinished:
            batch.give_up(error)
        self.accumulator.unfinished.clear()

    def stop(self, timeout_s: float | None) -> bool:
        """Sends what is left and ends the thread; after `timeout_s` the rest fails. True if all was sent."""
        if isinstance(self.failure, ForkedError):
            return False
        self.accumulator.halted = True
        self.closing = True
        self.client.wakeup()
        self.thread.join(timeout_s)
        if not self.thread.is_alive():
            return True
        self.abandon = True
        self.client.wakeup()
        self.thread.join(self.config.request_timeout_s)
        return False
