"""The producer's thread: takes full or lingering batches, sends them to their leaders, settles answers.

With linger 0 a caller whose record opens a batch sends it while this thread sleeps (`direct_send.pyx`).

It and the threads that send share the GIL, and one that sends without pause gives it up every 5 ms only. So
much is done at once: it takes everything that may go, writes it all, and only then lets go of the GIL. What
happens all the time runs natively, in rounds (`sender_rounds.pyx`); here is what begins and ends them.
"""

from __future__ import annotations

import logging
import threading
import time

from bowstring._native import produce_rounds
from bowstring._native.accumulator import Accumulator
from bowstring._native.direct_send import DirectSender
from bowstring._native.produce_channel import ProduceChannel, ProduceChannels, SentBatches
from bowstring._native.sender_rounds import SenderRounds
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
from bowstring.clients.produce_frames import ProduceFrame, TopicBatches, request_head, topic_head
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
        self._turn = threading.Lock()  # held by who works with the client and the batches on their way
        self._identifying: Pending | None = None
        self._identify_at = 0.0
        self._seen_version = -1
        self._timeout_ms = int(config.request_timeout_s * 1000)
        self._channels = ProduceChannels(
            accumulator,
            client,
            config,
            self.metrics,
            cluster,
            Pending,
            ProduceRequest,
            self._answered,
            self._unmentioned,
        )
        self._rounds = SenderRounds(self._channels, self, self._turn, client.poller, client.wake_reader)
        if config.linger_s == 0 and config.acks != 0 and config.compression == 0:
            accumulator.direct = DirectSender(self._channels, self._turn, client.poller)
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
        self._turn.acquire()
        try:
            while not self._ended():
                self._pass()
        except Exception as bug:
            error = bug
            raise
        finally:
            self.abandon = True
            self.accumulator.wake_descriptor = -1
            self._channels.forget()
            self.client.close()
            self._fail_all(error)
            self.settle()
            self.accumulator.direct = None  # which knows this thread's object, and that the accumulator
            self._turn.release()
            with self.lock:
                self.changed.notify_all()

    def _ended(self) -> bool:
        return self.closing and (self.abandon or not self.accumulator.unfinished)

    def _pass(self) -> None:
        accumulator = self.accumulator
        accumulator.sleeping = True  # what comes from here on wakes the poll below
        began = time.monotonic()
        self.client.flush_left()
        limit_s = min(self.cluster.maintain(), self.config.delivery_timeout_s)  # of batches yet to be made
        due = float("inf")
        if self.config.idempotent and self._channels.producer[0] < 0:
            limit_s = min(limit_s, self._identify())
        else:
            due = self._rounds.send_due()
        limit_s = min(limit_s, self._expire())
        self.settle()
        if self._ended():
            return
        if self.client.early:
            self.client.poll(0.0)
        else:
            self.client.serve(self._rounds.run(due, began + limit_s))
        self.settle()
        if (now := time.monotonic()) >= self.metrics.sample_at:
            self.metrics.sample(now)
        if self.cluster.version != self._seen_version or self.cluster.topic_errors:
            self._seen_version = self.cluster.version
            accumulator.metadata_version = self.cluster.version
            self._notify()

    def _open_channel(self, node: Node) -> None:
        """Later requests to `node` need no Python, as far as they are answered."""
        connection = self.client.ready_connection(node)
        if connection is None or self.config.acks == 0 or node in self._channels.by_node:
            return
        version = connection.version_of(ProduceRequest)
        if version is not None:
            head = request_head(version, self.client.client_id, self.config.acks, self._timeout_ms)
            self._channels.open(node, ProduceChannel(connection, version, head))

    def topic_head(self, topic: str, version: int) -> bytes:
        """A topic as Produce requests of `version` name it."""
        return topic_head(topic, self.cluster.topic_id(topic), version)

    def transmit(self, node: Node, taken: list[ProduceBatch]) -> None:
        """Sends batches to `node`, which there is no channel to."""
        config = self.config
        now = time.monotonic()
        produce_rounds.seal_all(self.accumulator, taken, now, config, self._channels.producer)
        self.metrics.sent(taken, now)
        self.client.send(
            node,
            ProduceRequest,
            lambda version: self._request(taken),
            timeout_s=config.request_timeout_s,
            callback=SentBatches(taken, self._answered),
            expects_reply=config.acks != 0,
        )
        self._open_channel(node)

    def _request(self, taken: list[ProduceBatch]) -> ProduceFrame:
        topics = [
            TopicBatches(name, self.cluster.topic_id(name), parts)
            for name, parts in produce_rounds.partitions_by_topic(taken).items()
        ]
        return ProduceFrame(self.config.acks, self._timeout_ms, topics)

    def _queue(self, batch: ProduceBatch) -> PartitionQueue:
        queue = self.accumulator.lanes[batch.partition]
        assert isinstance(queue, PartitionQueue)
        return queue

    # ------------------------------------------------------------ answers

    def _answered(self, taken: list[ProduceBatch], pending: Pending) -> None:
        if pending.error is not None:
            self.cluster.invalidate()
            for batch in taken:
                self._retry_or_fail(batch, pending.error)
            return
        if not pending.expects_reply:
            for batch in taken:
                self._done(batch, None)
            return
        self.metrics.answered(time.monotonic() - taken[0].sent_at)
        answers = {}
        if isinstance(pending.response, produce_rounds.Acknowledgements):
            names = self.cluster.names
            taken = produce_rounds.acknowledge(
                self.accumulator, taken, pending.response, names, self._channels.finished
            )
            for batch in taken:
                self._unmentioned(batch)
            return
        for topic in pending.response.responses:
            name = topic.name or self.cluster.names.get(topic.topic_id)
            for part in topic.partition_responses:
                answers[(name, part.index)] = part
        for batch in taken:
            part = answers.get((batch.partition.topic, batch.partition.partition))
            if part is None:
                self._unmentioned(batch)
            elif part.error_code in (0, Errors.DUPLICATE_SEQUENCE_NUMBER.code):
                self._done(batch, None, part.base_offset, part.log_append_time_ms)
            else:
                self._refused(batch, part)

    def _unmentioned(self, batch: ProduceBatch) -> None:
        self._retry_or_fail(batch, ClientError(f"the answer does not mention {batch.partition}"))

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
                self._channels.producer = (-1, -1)
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
        """Notes an outcome; `settle` publishes it."""
        self.accumulator.drop(self._queue(batch), batch)
        self._channels.finished.append((batch, error, base_offset, log_append_time_ms))

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

    def settle(self) -> None:
        """Publishes outcomes, and lets callers go on who wait for room."""
        finished, self._channels.finished = self._channels.finished, []
        if not finished:
            return
        for batch, error in produce_rounds.failures(finished):
            self._tell(batch, error)
            self.metrics.failed(batch)
        produce_rounds.publish(self.accumulator, finished)
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
            self._channels.producer = (response.producer_id, response.producer_epoch)
        elif not error.retriable:
            self._fail_all(error)

    def _fail_all(self, error: Exception) -> None:
        self.failure = self.failure or error
        self.closing = True
        self.accumulator.halted = True
        decided = {id(entry[0]) for entry in self._channels.finished}
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
