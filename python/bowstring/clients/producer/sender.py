"""The producer's sender: one thread, one state machine, and one owner for each of its states.

Calls go down this list, never up. A lower module returns what it cannot handle as a value.

    producer.py, record_sender.pyx  callers: records in, futures out
    sender.py                       the sender's thread, for rare events: connections, metadata, the
                                    producer's id, refusals, deadlines, closing
    sender_loop.pyx                 its native loop: sleep, complete acknowledged batches, send; and the
                                    share of it that a caller runs with linger 0
    produce_channel.pyx             a connection's requests in flight
    produce_requests.pyx            the bytes of requests and answers
    accumulator.pyx                 batches and queues (producer_batch.pyx)

The states, and the module with the steps from one to the next:

    batch    open ─▶ waiting ─▶ in flight ─▶ completed ─▶ done                  accumulator.pyx
                                 │ ▲  └────▶ divided ──────▲
                                 ▼ │
                                retrying
    queue     unplaced ─▶ placed, or without a leader; muted; new; stale;        accumulator.pyx
             sequence gap
    channel  none ─▶ open ─▶ full; broken ─▶ none                               produce_channel.pyx
    thread   asleep (its turn is free, or lent to a caller) ◀─▶ in a round      sender_loop.pyx
             in a pass; closing ─▶ ended                                        here

A pass begins with rare work, sends, and then enters the loop, which makes rounds. These events end it:

    event        means                                           the sender
    TIME         a deadline, or a sample of metrics is due       makes the next pass
    CALLED       a caller needs the sender, or closed            makes the next pass
    UNREADY      there is no channel, or no producer id          makes the next pass, which sends from Python
    UNREACHED    a queue is due and its leader has no channel     makes the next pass, which sends from Python
    SOCKETS      something arrived that is no acknowledgement    lets the client serve it; next pass
    BROKEN       reading or writing failed                       lets the client drop it; next pass
    UNMENTIONED  an answer left a batch out                      tries it again; next pass
    FULL         a socket has no room                            lets the client wait for room; next round
    UNPLACED     a leader, or a topic on its channel, is new     looks it up; next round
    ROOM         the buffer has room again                       wakes waiting callers; next round

The sender and the sending threads share the GIL, and a thread that sends without pause releases it only every
5 ms. So each turn does much: everything that may go is taken and written before the GIL is released.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from bowstring._native.client import produce_requests
from bowstring._native.client.accumulator import Accumulator, PartitionQueue
from bowstring._native.client.produce_channel import ProduceChannel, ProduceChannels, SentBatches
from bowstring._native.client.sender_loop import Event, SenderLoop
from bowstring.clients.errors import (
    BrokerError,
    ClientError,
    ClientTimeoutError,
    ClosedError,
    ForkedError,
    TransactionAbortedError,
    broker_error,
)
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.connection import Pending
from bowstring.clients.net.metadata import ClusterMetadata
from bowstring.clients.producer.batches import ProduceBatch
from bowstring.clients.producer.config import ProducerSettings
from bowstring.clients.producer.metrics import ProducerMetrics
from bowstring.clients.producer.requests import ProduceFrame, TopicBatches, request_head, topic_head
from bowstring.clients.producer.transaction_requests import CONCURRENT_PAUSE_S
from bowstring.clients.producer.transactions import Transactions
from bowstring.clients.records import Node, TopicPartition
from bowstring.clients.troubles import GRACE_S
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest
from bowstring.protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from bowstring.clients.producer.count_reporter import CountReporter

EPOCH_MAX = 32767
TOLD_EVERY_S = 1.0  # a failure, in the log
LOOK_AT_TROUBLES_S = 0.5
LEADER_PAUSE_S = 0.02  # before a leader that refused a batch is tried again; twice as long each time

_SEQUENCE_ERRORS = (Errors.OUT_OF_ORDER_SEQUENCE_NUMBER.code, Errors.UNKNOWN_PRODUCER_ID.code)
_TRANSACTION_ERRORS = (Errors.CONCURRENT_TRANSACTIONS.code, *_SEQUENCE_ERRORS)
_LEADER_ERRORS = (Errors.NOT_LEADER_OR_FOLLOWER.code, Errors.FENCED_LEADER_EPOCH.code)
_METADATA_ERRORS = (
    Errors.UNKNOWN_TOPIC_OR_PARTITION.code,
    Errors.UNKNOWN_TOPIC_ID.code,
    *_LEADER_ERRORS,
    Errors.LEADER_NOT_AVAILABLE.code,
    Errors.KAFKA_STORAGE_ERROR.code,
)


_log = logging.getLogger("bowstring.producer")


class Sender:
    """Owns the connections; shares `accumulator` with the producer's callers, possibly many threads.

    Everything here runs in its thread, which holds the loop's turn, except `requests_in_flight`,
    `after_fork` and `stop`.

    Attributes:
        changed: signalled when metadata arrived, batches were done or the sender ended. `lock` is its lock,
            and guards nothing else.
        passes: how often the thread left the native loop: how much of its work was rare.
        abandon: gives up undelivered batches instead of retrying.
        failure: why the producer ended before it was closed, or None.
    """

    def __init__(
        self,
        client: NetworkClient,
        cluster: ClusterMetadata,
        config: ProducerSettings,
        accumulator: Accumulator,
    ):
        self.client = client
        self.cluster = cluster
        self.config = config
        self.accumulator = accumulator
        self.metrics = ProducerMetrics()
        self.lock = threading.RLock()  # signal handlers may send, too
        self.changed = threading.Condition(self.lock)
        self.passes = 0
        self.abandon = False
        self.failure: Exception | None = None
        self.last_error: Exception | None = None
        self.reporter: CountReporter | None = None  # of an audit's counts
        self._told_at = -TOLD_EVERY_S
        self._identifying: Pending | None = None
        self._identify_at = 0.0
        self._troubled: dict[TopicPartition, ProduceBatch] = {}
        # the leader and its epoch when it refused a batch, or did not answer
        self._astray: dict[TopicPartition, tuple[Node | None, int]] = {}
        self._timeout_ms = int(config.request_timeout_s * 1000)
        self._losses = client.losses
        self.transactions = Transactions(self) if config.transactional_id is not None else None
        self._channels = ProduceChannels(
            accumulator,
            self.metrics,
            cluster.names,
            config.request_timeout_s,
            Pending,
            ProduceRequest,
            self._answered,
        )
        self.loop = SenderLoop(self._channels, config, client.poller, client.wake_reader)
        accumulator.callers_send = config.linger_s == 0 and config.acks != 0 and config.compression == 0
        accumulator.wake_descriptor = client.wake_descriptor
        self.thread = threading.Thread(target=self._run, name="bowstring-producer", daemon=True)

    @property
    def transactions_doomed(self) -> bool:
        """Whether a transaction is open that can only be aborted."""
        return self.transactions is not None and self.transactions.doomed

    @property
    def closing(self) -> bool:
        """Whether the producer accepts no more records: closed, failed or forked."""
        return self.accumulator.halted

    def in_callback(self) -> bool:
        """Whether the sender's own thread calls: a callback, which must not wait for the thread's work."""
        return threading.current_thread() is self.thread

    def requests_in_flight(self) -> int:
        """Requests that are sent or wait to be sent, to all brokers."""
        return sum(self.client.in_flight(node) for node in list(self.cluster.brokers.values()))

    def _notify(self) -> None:
        if self.accumulator.waiters:
            with self.lock:
                self.changed.notify_all()

    # ------------------------------------------------------------ passes

    def _run(self) -> None:
        error: Exception = ClosedError("the producer was closed before this record was acknowledged")
        try:
            with self.loop.turn:
                try:
                    while not self._ended():
                        self._pass()
                except Exception as bug:
                    error = bug
                    raise
                finally:
                    self._end(error)
        finally:
            with self.lock:
                self.changed.notify_all()

    def _ended(self) -> bool:
        return self.closing and (self.abandon or not self.accumulator.unfinished)

    def _end(self, error: Exception) -> None:
        """Closing → ended: everything without an outcome fails with `error`."""
        self.abandon = True
        self.accumulator.wake_descriptor = -1
        self.accumulator.callers_send = False
        self._channels.forget()
        self._fail_all(error)  # before requests fail for another reason: that the client is closed
        try:
            self.client.close()
        finally:
            self._publish()

    def _pass(self) -> None:
        self.passes += 1
        self.accumulator.begin_pass()  # later events wake the loop below
        began = time.monotonic()
        self.client.flush_left()
        limit_s = min(self.cluster.maintain(), self.config.delivery_timeout_s)  # of batches yet to be made
        if self.cluster.resolution.error is not None and self.failure is None:
            self._fail_all(self.cluster.resolution.error)
        if self.transactions is not None:
            self.transactions.drop_doomed()
        due = float("inf")
        if self.accumulator.has_identity:
            due = self._send()
        else:
            limit_s = min(limit_s, self._identify())
        if self.transactions is not None:
            self.transactions.requests.join(self.loop.take_unjoined())
            limit_s = min(limit_s, self.transactions.requests.step())
        limit_s = min(limit_s, self._expire(), LOOK_AT_TROUBLES_S if self._troubled else limit_s)
        self._publish()
        if self._ended():
            return
        if self.client.early:
            self.client.poll(0.0)
        else:
            self._make_rounds(due, began + limit_s)
        self._publish()
        if self.client.troubles.active:
            self._end_troubles()
        self._tell_troubles()
        if (now := time.monotonic()) >= self.metrics.sample_at:
            self.metrics.sample(now)
        self._renew()
        if self.cluster.topic_errors:
            self._notify()

    def _make_rounds(self, due: float, until: float) -> None:
        """Stays in the native loop until a pass is needed."""
        self._renew()
        while True:
            event = self.loop.run(due, until)
            due = self.loop.due
            if event == Event.FULL:
                self._await_room()
            elif event == Event.UNPLACED:
                self._place(self.loop.take_unplaced())
                due = 0.0
            elif event == Event.ROOM:
                self._notify()
            else:
                break
        self._drop_broken()
        for batch in self._channels.take_unmentioned():
            self._unmentioned(batch)
        self.client.serve(self.loop.take_found())

    def _end_troubles(self) -> None:
        for partition, batch in list(self._troubled.items()):
            if batch.done:  # delivered; or given up, which `_tell` has logged
                del self._troubled[partition]
                if batch.error is None:
                    self.client.troubles.over(f"partition {partition}")
                else:
                    self.client.troubles.forget(f"partition {partition}")

    def _tell_troubles(self) -> None:
        try:
            self.client.troubles.deliver()
        except Exception:
            _log.exception("on_error failed")

    # ------------------------------------------------------------ leaders and channels

    def _renew(self) -> None:
        """Forgets the channels if a connection was lost or metadata arrived: they rely on both."""
        fresh = self.cluster.version != self.accumulator.metadata_version
        if fresh or self.client.losses != self._losses:
            self._losses = self.client.losses
            self.accumulator.metadata_version = self.cluster.version
            self._channels.forget()
        if fresh:
            if self._astray:
                self._recall()
            self._notify()

    def _drop_broken(self) -> None:
        for connection, error in self._channels.take_broken():
            self.client.lost(connection, error)

    def _await_room(self) -> None:
        for connection in self._channels.take_full():
            self.client.watch(connection)

    def _place(self, queues: list[PartitionQueue]) -> None:
        """Looks up the leaders of these partitions, and introduces their topics to the leaders' channels."""
        for queue in queues:
            topic = queue.partition.topic
            leader = self.cluster.leader(*queue.partition)
            queue.place(leader, self.cluster.version)
            if leader is not None and (channel := self._channels.by_node.get(leader)) is not None:
                self._introduce(channel, topic)

    def _introduce(self, channel: ProduceChannel, topic: str) -> None:
        if not channel.knows(topic):
            channel.introduce(topic, topic_head(topic, self.cluster.topic_id(topic), channel.version))

    def _open_channel(self, node: Node) -> None:
        """Opens a native channel to `node`: acknowledged requests then need no Python."""
        connection = self.client.ready_connection(node)
        if connection is None or self.config.acks == 0 or node in self._channels.by_node:
            return
        version = connection.version_of(ProduceRequest)
        if version is not None:
            config = self.config
            head = request_head(
                version, self.client.client_id, config.acks, self._timeout_ms, config.transactional_id
            )
            self._channels.open(node, ProduceChannel(connection, version, head))

    # ------------------------------------------------------------ sending

    def _send(self) -> float:
        """Sends everything that may go; returns when more may, in seconds of the monotonic clock."""
        losses = self.client.losses
        corked = False
        try:
            while True:
                self._renew()
                rest = self.loop.send(self._others())
                self._drop_broken()
                self._await_room()
                if rest and not corked:
                    corked = True  # collects requests, to write them with few system calls
                    self.client.cork()
                for node, taken in rest.items():
                    self._transmit(node, taken)
                unplaced = self.loop.take_unplaced()
                self._place(unplaced)
                if not rest and not unplaced:
                    break
        finally:
            if corked:
                self.client.uncork()
        # Writing may have found a connection broken: then its batches are due again, each at its time.
        due = self.loop.due if self.client.losses == losses else 0.0
        if corked and self.config.acks == 0:
            due = 0.0  # written batches are done, and no answer will show that there may be more
        unreached = self.loop.take_unreached()
        for queue in unreached:
            self.cluster.want(queue.partition.topic)
        if unreached:
            self.cluster.invalidate()
            due = min(due, time.monotonic() + self.config.retry_backoff_s)
        return due

    def _others(self) -> dict[Node, int]:
        """Requests in flight to brokers without a channel, except those to be left alone for now."""
        return {
            node: self.client.in_flight(node)
            for node in self.cluster.brokers.values()
            if node not in self._channels.by_node and not self.client.backing_off(node)
        }

    def _transmit(self, node: Node, taken: list[ProduceBatch]) -> None:
        """Sends batches to `node`, which has no channel."""
        config = self.config
        now = time.monotonic()
        self.accumulator.seal(taken, now)
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
            for name, parts in produce_requests.partitions_by_topic(taken).items()
        ]
        return ProduceFrame(self.config.acks, self._timeout_ms, topics, self.config.transactional_id)

    # ------------------------------------------------------------ answers

    def _answered(self, taken: list[ProduceBatch], pending: Pending) -> None:
        accumulator = self.accumulator
        if pending.error is not None:
            self.cluster.invalidate()
            for batch in taken:
                self._retry_or_fail(batch, pending.error)
            return
        if not pending.expects_reply:
            for batch in taken:
                accumulator.complete(batch, None)
            return
        self.metrics.answered(time.monotonic() - taken[0].sent_at)
        names = self.cluster.names
        if isinstance(pending.response, produce_requests.Acknowledgements):
            for batch in produce_requests.acknowledge(accumulator, taken, pending.response, names):
                self._unmentioned(batch)
            return
        answers = self._parts(pending.response)
        for batch in taken:
            part = answers.get((batch.partition.topic, batch.partition.partition))
            if part is None:
                self._unmentioned(batch)
            elif part.error_code in (0, Errors.DUPLICATE_SEQUENCE_NUMBER.code):
                accumulator.complete(batch, None, part.base_offset, part.log_append_time_ms)
            else:
                self._refused(batch, part)

    def _parts(self, response: ProduceResponse) -> dict[tuple[str | None, int], PartitionProduceResponse]:
        """Returns the results by topic and partition; adopts the leaders that refusals name (KIP-951)."""
        found = {}
        nodes = [Node(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
        endpoints = {node.id: node for node in nodes}
        for topic in response.responses:
            name = topic.name or self.cluster.names.get(topic.topic_id)
            for part in topic.partition_responses:
                found[(name, part.index)] = part
                if part.error_code in _LEADER_ERRORS and name is not None:
                    leader, where = part.current_leader, TopicPartition(name, part.index)
                    self.cluster.learn_leader(where, leader.leader_id, leader.leader_epoch, endpoints)
        return found

    def _unmentioned(self, batch: ProduceBatch) -> None:
        error = ClientError(f"the answer does not mention {batch.partition}")
        self._retry_or_fail(batch, error, retriable=True)

    def _refused(self, batch: ProduceBatch, part: PartitionProduceResponse) -> None:
        if part.error_code == Errors.MESSAGE_TOO_LARGE.code and batch.record_count > 1 and not self.abandon:
            self.accumulator.divide(batch)
            self.metrics.splits += 1
            return
        error = broker_error(part.error_code, f"writing to {batch.partition}", part.error_message)
        if part.error_code in _METADATA_ERRORS:
            self.cluster.invalidate()
        if self.transactions is not None and part.error_code in _TRANSACTION_ERRORS:
            self._refused_in_transaction(batch, part.error_code, error)
            return
        if part.error_code in _SEQUENCE_ERRORS and self.config.idempotent:
            queue = self.accumulator.queues[batch.partition]
            # If an earlier batch is still to come, the gap closes by itself; otherwise the producer's state
            # is lost.
            if not queue.has_earlier(batch):
                queue.bump_epoch()
                self._renew_identity(queue)
            self._retry_or_fail(batch, error, retriable=True)
            return
        self._retry_or_fail(batch, error)

    def _refused_in_transaction(self, batch: ProduceBatch, code: int, error: Exception) -> None:
        if code == Errors.CONCURRENT_TRANSACTIONS.code and not self.transactions_doomed:
            # the markers of the last transaction are on their way
            pause_s = CONCURRENT_PAUSE_S * 2 ** min(batch.attempts - 1, 10)
            self.accumulator.note_error(batch, error)
            self.accumulator.retry(batch, time.monotonic() + min(pause_s, self.config.retry_backoff_s))
            return
        # If an earlier batch is still to come, the gap closes by itself.
        gap = self.accumulator.queues[batch.partition].has_earlier(batch)
        self._retry_or_fail(batch, error, retriable=gap and code in _SEQUENCE_ERRORS)

    def _retry_or_fail(self, batch: ProduceBatch, error: Exception, retriable: bool | None = None) -> None:
        accumulator, config = self.accumulator, self.config
        accumulator.note_error(batch, error)
        if retriable is None:
            retriable = bool(getattr(error, "retriable", False))
        now = time.monotonic()
        if config.retries is not None and batch.attempts > config.retries:
            retriable = False
        if self.transactions_doomed:
            retriable = False
        if retriable and now < batch.deadline and not self.abandon:
            if isinstance(error, BrokerError):  # connections report their own problems
                self.client.troubles.note(f"partition {batch.partition}", error, grace_s=GRACE_S)
                self._troubled[batch.partition] = batch
            self.metrics.retries += batch.record_count
            accumulator.retry(batch, now + self._retry_pause_s(batch, error))
            return
        self._fail(batch, error)

    def _retry_pause_s(self, batch: ProduceBatch, error: Exception) -> float:
        """How long the batch waits before it is sent again, unless another leader is found first."""
        queue = self.accumulator.queues[batch.partition]
        factor: float = 2 ** min(batch.attempts - 1, 8)
        pause_s = min(self.config.retry_backoff_s * factor, self.config.retry_backoff_max_s)
        if isinstance(error, BrokerError) and error.code not in _METADATA_ERRORS:
            return pause_s
        leader = self.cluster.leader(*batch.partition)
        if leader is not None and queue.sent_to is not None and leader.id != queue.sent_to.id:
            return 0.0
        self._astray[batch.partition] = (leader, self.cluster.leader_epoch(*batch.partition))
        return min(pause_s, LEADER_PAUSE_S * factor) if isinstance(error, BrokerError) else pause_s

    def _recall(self) -> None:
        """Sends batches that wait for a retry and have a new leader; requests metadata for the rest."""
        for partition, before in list(self._astray.items()):
            waiting = list(self.accumulator.queues[partition].waiting)
            leader = self.cluster.leader(*partition)
            if not waiting or not waiting[0].attempts:
                del self._astray[partition]
            elif leader is None or before == (leader, self.cluster.leader_epoch(*partition)):
                self.cluster.invalidate()
            else:
                del self._astray[partition]
                for batch in waiting:
                    batch.retry_at = 0.0

    def _fail(self, batch: ProduceBatch, error: Exception) -> None:
        if self.config.idempotent and self.transactions is None and batch.base_sequence >= 0:
            queue = self.accumulator.queues[batch.partition]
            queue.skip_numbers(batch)
            self._renew_identity(queue)
        self.accumulator.complete(batch, error)

    def _renew_identity(self, queue: PartitionQueue) -> None:
        """Requests another producer id when the queue needs an epoch beyond the last one."""
        used_up = queue.epoch_bump and queue.producer[1] >= EPOCH_MAX - 1
        if used_up and queue.producer[0] == self.accumulator.producer[0]:
            self.accumulator.forget_identity()

    def _publish(self) -> None:
        """Publishes outcomes, and wakes callers that wait for room."""
        for batch in self.accumulator.failures():
            self._tell(batch)
            self.metrics.failed(batch)
            if self.transactions is not None:
                self.transactions.doom(batch.error)
        if self.accumulator.publish():
            self._notify()

    def _tell(self, batch: ProduceBatch) -> None:
        """Writes a log line, at most once a second: the futures may be ignored."""
        self.last_error = batch.error
        if isinstance(batch.error, TransactionAbortedError):
            return  # the abort and its reason are logged elsewhere
        if self.transactions is not None and self.transactions.aborting:
            return  # its caller has given up the records
        now = time.monotonic()
        if now - self._told_at >= TOLD_EVERY_S:
            self._told_at = now
            _log.warning(
                "%d records for %s were not delivered: %s", batch.record_count, batch.partition, batch.error
            )

    # ------------------------------------------------------------ time and identity

    def _expire(self) -> float:
        """Fails batches that waited for delivery_timeout_ms; returns the seconds until the next may."""
        late, nearest_s = self.accumulator.late(time.monotonic())
        for batch in late:
            self._fail(batch, self._timed_out(self.accumulator.queues[batch.partition]))
        return nearest_s

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
        """Requests a producer id; returns the seconds until the next check makes sense."""
        now = time.monotonic()
        if not self.accumulator.active or self.transactions is not None:
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
            self.accumulator.identify(response.producer_id, response.producer_epoch)
            self.client.troubles.over("producer id")
        elif not error.retriable:
            self._fail_all(error)
        elif isinstance(error, BrokerError):
            self.client.troubles.note("producer id", error, grace_s=GRACE_S)

    # ------------------------------------------------------------ closing

    def _fail_all(self, error: Exception) -> None:
        self.failure = self.failure or error
        self.accumulator.halt()
        self.accumulator.complete_all(error)
        if self.transactions is not None:
            self.transactions.requests.fail(self.failure)

    def give_up(self, error: Exception) -> None:
        """Ends the producer: a coordinator refused it for good."""
        self._fail_all(error)

    def after_fork(self, error: ForkedError) -> None:
        """In a forked child: every use fails with `error`. Waiting batches belong to the parent."""
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.failure = error
        self.abandon = True
        self.accumulator.give_up(error)

    def stop(self, timeout_s: float | None) -> bool:
        """Sends the rest and ends the thread; after `timeout_s` it fails. Returns whether all was sent."""
        if isinstance(self.failure, ForkedError):
            return False
        self.accumulator.halt()
        if self.in_callback():  # the thread ends by itself once all waiting batches have an outcome
            self.abandon = self.abandon or timeout_s == 0
            return False
        self.client.wakeup()
        self.thread.join(timeout_s)
        if not self.thread.is_alive():
            return True
        self.abandon = True
        self.client.wakeup()
        self.thread.join(self.config.request_timeout_s)
        return False
