"""Replaces the reactors of a node: connections, Produce, Fetch, replicas, the queue to the control thread.

The decisions about replicas are those of `tests/simulation/cluster/plane.py`, with the native rules. This
module adds their surroundings, under the names of _native/server/data_plane.pyi and replicas.pyi.
"""

from functools import partial
from types import SimpleNamespace

from bowstring._native.log.heal import may_heal
from bowstring._native.log.partition_log import LogError
from bowstring._native.protocol.message_steps import Encoding
from bowstring._native.record.decode import batch_headers
from bowstring.protocol import decode_request, decode_request_header, encode_response
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from bowstring.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.simulation.cluster.plane import BACKOFF_MS, READ_BYTES, Fetched, SimulatedPlane
from tests.simulation.nodes.kernel import MS

PRODUCE, FETCH = 0, 1
LOOK_MS = 50
FETCHED_AT_MOST = 1 << 20


class ReceivedRequest:
    """A request for the control thread, like the native class of this kind."""

    def __init__(self, connection, slot, header, body, listener, received_ns):
        self.connection_id = connection.id
        self.slot = slot
        self.api_key = header.api_key
        self.api_version = header.api_version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id
        self.body = body
        self.body_bytes = len(body)
        self.received_ns = received_ns
        self.peer = f"127.0.0.9:{connection.id}"
        self.listener = listener
        self.principal = "User:ANONYMOUS"
        self.authenticating = False

    def drop_body(self):
        self.body = None


class VerifiedBatch:
    """A batch that waits for the verification of its transaction, like the native class of this kind."""

    needs_work = False

    def __init__(self, part, transaction, finish):
        self.topic, self.partition = part.key
        self.transaction = transaction
        self.finish = finish


class Connection:
    """A client's connection: frames come in, answers go out in the order of their requests."""

    def __init__(self, plane, number, listener, end):
        self.plane = plane
        self.id = number
        self.listener = listener
        self.end = end
        self._bytes = b""
        self._slots = 0
        self._next = 0
        self._answers: dict[int, bytes] = {}

    def received(self, data):
        self._bytes += data
        while len(self._bytes) >= 4:
            size = int.from_bytes(self._bytes[:4], "big")
            if len(self._bytes) < 4 + size:
                return
            frame, self._bytes = self._bytes[4 : 4 + size], self._bytes[4 + size :]
            self._slots += 1
            self.plane.take_frame(self, self._slots - 1, frame)

    def ended(self, error):
        self.close()
        self.plane.connection_ended(self)

    def answer(self, slot, payload):
        self._answers[slot] = payload
        while self._next in self._answers:
            payload = self._answers.pop(self._next)
            self._next += 1
            self.end.send(len(payload).to_bytes(4, "big") + payload)

    def close(self):
        self.plane.connections.pop(self.id, None)
        self.end.owner = None
        self.end.close()


class NodePlane:
    """Replaces the native DataPlane, for the node whose code creates it."""

    def __init__(self, node, *, apis, is_controller=False, **_):
        self.node = node
        self.is_controller = is_controller
        self.quotas = None
        self.control_fd = self
        self.connections: dict[int, Connection] = {}
        self.reactors = Reactors(self, node)
        self._apis = apis
        self._listeners: list[tuple[str, int]] = []
        self._requests: list = []
        self._ended: list[int] = []
        self._advanced: dict[tuple[str, int], None] = {}
        self._watched: dict[tuple[str, int], int] = {}
        self.replica_events: list[tuple] = []
        node.planes.append(self)

    # ---- listeners and connections

    def listen(self, host, port, **_):
        self._listeners.append((host, port))
        return port

    def _accept(self, listener, end):
        connection = Connection(self, self.node.kernel.number(), listener, end)
        self.connections[connection.id] = connection
        end.owner = connection

    def start(self, *, accepts=True):
        if accepts:
            self.accept()

    def accept(self):
        """Starts to accept connections; before, they are refused."""
        if not self.is_controller:
            self.node.world.tell("accepts", self.node)
        for number, (host, port) in enumerate(self._listeners):
            self.node.network.listen(host, port, self.node.name, partial(self._accept, number))

    def stop(self):
        for at in self._listeners:
            self.node.network.listeners.pop(at, None)
        for each in list(self.connections.values()):
            each.close()
        self.reactors.is_stopped = True

    def connection_ended(self, connection):
        self._ended.append(connection.id)
        self._tell()

    def disconnect(self, connection_id):
        found = self.connections.get(connection_id)
        if found is not None:
            found.close()

    def take_frame(self, connection, slot, frame):
        """A reactor has received a request."""
        header = decode_request_header(frame)
        self.node.world.asked.add((self.is_controller, header.api_key))
        body = frame[header.body_offset :]
        if not self.is_controller and header.api_key in (PRODUCE, FETCH):
            self.reactors.take_request(connection, slot, header, body)
            return
        now_ns = self.node.kernel.monotonic_ns()
        self._requests.append(ReceivedRequest(connection, slot, header, body, connection.listener, now_ns))
        self._tell()

    def _tell(self):
        self.node.loop.readable(self.control_fd)

    @property
    def is_readable(self):
        """Whether the control thread has something to take, as `control_fd` signals."""
        return bool(self._requests or self._ended or self._advanced or self.replica_events)

    # ---- the control thread

    def take_requests(self):
        taken, self._requests = self._requests, []
        return taken

    def take_batch(self, batch):
        """A reactor has a batch for the control thread."""
        self._requests.append(batch)
        self._tell()

    def finish_batch(self, slow, batch=None, error=0, reason=None):
        self.node.after(0, slow.finish, error)

    def take_events(self):
        return []

    def take_ended(self):
        ended, self._ended = self._ended, []
        return ended

    def reply(self, connection_id, slot, payload, **_):
        if isinstance(payload, Encoding):
            payload = payload.take()
        self.node.after(0, self._reply, connection_id, slot, payload)

    def hold_replies(self):
        """Does nothing: replies leave with the next event in any case."""

    def release_replies(self):
        """Does nothing."""

    def _reply(self, connection_id, slot, payload):
        found = self.connections.get(connection_id)
        if found is None:
            return
        if payload is None:
            found.close()
        else:
            found.answer(slot, payload)

    def counters(self):
        return {"produce": {"requests": self.reactors.appends}, "followed_bytes": self.reactors.appends}

    # ---- partitions

    def add_partitions(self, topic, topic_id, partitions, *, replicated=False):
        for index, log, _, least, _, _ in partitions:
            if log is not None:
                self.reactors.add(topic, topic_id, index, log, least)
            else:
                self.reactors.without_log.add((topic, index))

    def remove_topic(self, topic):
        self.reactors.without_log = {key for key in self.reactors.without_log if key[0] != topic}
        for key in [key for key in self.reactors.stored if key[0] == topic]:
            self.reactors.forget(key)

    def update_partition(self, topic, partition, **changes):
        """Only a single node calls this."""
        raise AssertionError(changes)

    def wake_by(self, wal):
        """The simulated write-ahead log already has its plane."""

    def set_durability(self, topic, partition, log, wal):
        if wal is not None and log.wal is None:
            log._durable = log.log_end_offset
        log.wal = wal

    def notify(self, topic, partition, appended_bytes=0):
        part = self.reactors.parts.get((topic, partition))
        if part is not None:
            self.reactors.wake(part)

    # ---- access control

    def set_access(self, table):
        self.access = table

    def change_access(self, added, removed):
        for rule in removed:
            self.access.remove(rule)
        for rule in added:
            self.access.add(rule)

    def recheck_access(self):
        """Clients are super users: none loses a permission."""

    def take_access(self):
        return [], 0

    def verify_transactions(self, enabled):
        self.reactors.verifies = enabled

    # ---- coordinators

    def led_epoch(self, topic, partition):
        return self.reactors.led_epoch(topic, partition)

    def append(self, topic, partition, batch, **options):
        return self.reactors.append(topic, partition, batch, **options)

    def durable(self, topic, partition):
        part = self.reactors.parts.get((topic, partition))
        if part is not None and part.is_leader:
            self.reactors.advance(part)

    def watch(self, topic, partition, offset):
        part = self.reactors.parts.get((topic, partition))
        if part is None or part.log.high_watermark >= offset:
            return False
        key = (topic, partition)
        self._watched[key] = min(offset, self._watched.get(key, offset))
        return True

    def watched(self, part, *, ended=False):
        """A high watermark has moved, or another broker leads now."""
        offset = self._watched.get(part.key)
        if offset is not None and (ended or part.log.high_watermark >= offset):
            del self._watched[part.key]
            self._advanced[part.key] = None
            self._tell()

    def take_advanced(self):
        advanced, self._advanced = self._advanced, {}
        return list(advanced)


class LogWaiters:
    """Waits for partitions to have more to read, like the native class of this name; its own descriptor."""

    def __init__(self, plane):
        self._plane = plane
        self._waiting: dict[int, tuple[str, int]] = {}
        self._woken: list[int] = []
        self._number = 0
        plane.reactors.log_waiters.append(self)

    @property
    def fd(self):
        return self

    @property
    def is_readable(self):
        return bool(self._woken)

    def __len__(self):
        return len(self._waiting)

    def add(self, topic, partition):
        if (topic, partition) not in self._plane.reactors.parts:
            raise KeyError(topic)
        self._number += 1
        self._waiting[self._number] = (topic, partition)
        return self._number

    def remove(self, number):
        self._waiting.pop(number, None)

    def wake(self, key):
        due = [number for number, each in self._waiting.items() if each == key]
        for number in due:
            del self._waiting[number]
        self._woken += due
        if due:
            self._plane.node.loop.readable(self)

    def take(self):
        woken, self._woken = self._woken, []
        return set(woken)

    def close(self):
        self._plane.reactors.log_waiters.remove(self)


class _Broker:
    """The broker's interface for `SimulatedPlane`."""

    def __init__(self, plane, node):
        self.plane = plane
        self.node = node
        self.epoch = -1

    def role_changed(self, part):
        self.plane.watched(part, ended=True)

    def advanced(self, part):
        self.plane.watched(part)

    def log_moved(self, part):
        for waiters in self.plane.reactors.log_waiters:
            waiters.wake(part.key)

    def on_event(self, event):
        self.plane.replica_events.append(event)
        self.plane._tell()

    @property
    def coordinator(self):
        return self

    def verify(self, part, transaction, finish):
        self.plane.take_batch(VerifiedBatch(part, transaction, finish))


class _World:
    """The world's interface for it."""

    def __init__(self, reactors, node):
        self.plan = SimpleNamespace(lag_max_ms=node.world.plan.lag_max_ms, commit_mode=True)
        self.min_in_sync = reactors.min_in_sync
        self.send = reactors.send
        self.control_ms = node.world.control_ms
        self.sync_ms = node.world.sync_ms
        self._node = node

    @property
    def now(self):
        return self._node.kernel.now / MS

    def say(self, _, words, what=None):
        self._node.say(f"{words} {what}")

    def tell(self, hook, *args):
        self._node.world.tell(hook, self._node, *args[1:])


class _Node:
    """The node's interface for it."""

    def __init__(self, reactors, node):
        self.id = node.id
        self.kernel = node.kernel
        self.loop = node.loop
        self.world = _World(reactors, node)
        self.logs = SimpleNamespace(logs=reactors.stored)
        self._node = node
        self._reactors = reactors

    def now_ms(self):
        return self.kernel.now / MS

    def after(self, delay_ms, call, *args):
        self._node.after(delay_ms * MS, call, *args)

    def after_sync(self, part, call):
        log = part.log
        if log.wal is None:
            call()
        else:
            log.wal.after(log, call)

    def changed(self, part):
        """A batch was appended."""
        self._reactors.appends += 1
        log = part.log
        if log.wal is not None:
            log.wal.stage(log)
        elif not part.is_leader:
            self._reactors.synced(part)


class StoredLog:
    """A log, as `SimulatedPlane` sees it."""

    def __init__(self, topic_id, log):
        self.topic_id = topic_id
        self.log = log

    @property
    def durable(self):
        return self.log.durable

    def truncate_to(self, offset):
        self.log.truncate_to(offset)

    def start_again_at(self, offset):
        self.log.truncate_fully_and_start_at(offset)


class Reactors(SimulatedPlane):
    """The replicas of one life of a node.

    Attributes:
        without_log: Partitions whose directory is offline: in any role, they serve nothing.
    """

    def __init__(self, plane, node):
        self.plane = plane
        self.owner = node
        self.stored: dict[tuple[str, int], StoredLog] = {}
        self.without_log: set[tuple[str, int]] = set()
        self.log_waiters: list = []
        self.is_stopped = False
        self.verifies = True
        self.appends = 0
        self._least: dict[tuple[str, int], int] = {}
        self._looks = False
        self.broker = _Broker(plane, None)
        self.node = self.broker.node = _Node(self, node)
        self.world = self.node.world
        self.parts = {}
        self.numbers = 0

    @property
    def is_commit_mode(self):
        return True  # each log has its own durability: in os mode, all of it is durable

    # ---- partitions

    def add(self, topic, topic_id, index, log, least):
        self.stored[topic, index] = StoredLog(topic_id, log)
        self._least[topic, index] = least
        self.parts.pop((topic, index), None)
        if not self._looks:
            self._looks = True
            self.node.after(LOOK_MS, self._look)

    def forget(self, key):
        self.stored.pop(key, None)
        self._least.pop(key, None)
        if key in self.parts:
            super().stop(*key)

    def _look(self):
        if not self.is_stopped:
            self.end_waits()
            self.node.after(LOOK_MS, self._look)

    def min_in_sync(self, topic, partition):
        return self._least.get((topic, partition), 1)

    def set_min_in_sync(self, topic, partition, least):
        if (topic, partition) in self.stored:
            self._least[topic, partition] = least

    def stop(self, topic, partition):
        self.stored.pop((topic, partition), None)
        self._least.pop((topic, partition), None)
        if (topic, partition) in self.parts:
            super().stop(topic, partition)
        self.without_log.discard((topic, partition))

    def lead(self, topic, partition, **role):
        if (topic, partition) not in self.without_log:
            super().lead(topic, partition, **role)

    def set_isr(self, topic, partition, isr, **change):
        if (topic, partition) not in self.without_log:
            super().set_isr(topic, partition, isr, **change)

    def try_join(self, topic, partition, *replica, **epoch):
        return (topic, partition) not in self.without_log and super().try_join(
            topic, partition, *replica, **epoch
        )

    def follow(self, topic, partition, **role):
        if (topic, partition) not in self.without_log:
            super().follow(topic, partition, **role)

    def produce(self, key, *batch, **options):
        if key in self.without_log:
            batch[2](Errors.KAFKA_STORAGE_ERROR.code, -1)
        else:
            super().produce(key, *batch, **options)

    def client_fetch(self, request):
        try:
            return super().client_fetch(request)
        except LogError as refused:
            return Fetched(refused.code)

    def look(self, fetch, **how):
        try:
            return super().look(fetch, **how)
        except LogError as refused:
            return Fetched(refused.code)

    def log_synced(self, log):
        """A log's appended records are on the medium."""
        for part in list(self.parts.values()):
            if part.log is log:
                self.synced(part)

    def written(self, part, waiting, acks):
        if part.log.wal is not None and part.log.wal.failure is not None:
            return waiting.answer(Errors.KAFKA_STORAGE_ERROR.code, -1)
        return super().written(part, waiting, acks)

    def fail(self, part, error):
        super().fail(part, error)
        if part.log.failed and not may_heal(part.log):
            part.state = "failed"  # like the native follower, until the next role

    def again(self, part, term):
        if part.log.failed:
            self.node.after(BACKOFF_MS, self.again, part, term)
        else:
            super().again(part, term)

    def cut(self, part, *args):
        try:
            super().cut(part, *args)
        except LogError as refused:
            self.fail(part, refused.code)

    def appended(self, part, before):
        super().appended(part, before)
        if part.log.wal is None:
            self.advance(part)

    # ---- between brokers

    def send(self, _, destination, what, args):
        node = self.owner
        other = node.world.nodes.get(destination)
        if other is None:
            return
        topic_id = None
        if what in ("on_fetch", "on_range"):
            key = args[0].key if what == "on_fetch" else args[1]
            topic_id = self.stored[key].topic_id if key in self.stored else None
        node.network.send(node.name, other.name, _arrive, other, what, args, topic_id, node, node.life)

    def on_fetch(self, fetch, topic_id, source, life):
        stored = self.stored.get(fetch.key)

        def answer(found):
            self.owner.network.send(
                self.owner.name, source.name, _arrive_in_life, source, life, "fetched", (fetch, found)
            )

        if fetch.key in self.without_log:
            answer(Fetched(Errors.KAFKA_STORAGE_ERROR.code))
        elif stored is None or stored.topic_id != topic_id:
            answer(Fetched(Errors.UNKNOWN_TOPIC_ID.code))
        elif fetch.key not in self.parts:
            answer(Fetched(Errors.NOT_LEADER_OR_FOLLOWER.code))
        else:
            self.take_fetch(fetch, answer)

    def on_range(self, _, key, leader_epoch, number, topic_id, source, life):
        stored = self.stored.get(key)
        found = None
        if stored is not None and stored.topic_id == topic_id:
            found = self.range_of(key, leader_epoch)
        self.owner.network.send(
            self.owner.name, source.name, _arrive_in_life, source, life, "range_found", (key, number, found)
        )

    # ---- clients

    def take_request(self, connection, slot, header, body):
        request = decode_request(header.api_key, header.api_version, body)
        if header.api_key == PRODUCE:
            _Produce(self, connection, slot, header, request)
        else:
            self._fetch(connection, slot, header, request)

    def _fetch(self, connection, slot, header, request):
        topics = []
        for topic in request.topics:
            parts = []
            for each in topic.partitions:
                asked = SimpleNamespace(
                    key=(topic.topic, each.partition),
                    offset=each.fetch_offset,
                    committed=request.isolation_level == 1,
                )
                found = self.client_fetch(asked)
                parts.append(
                    PartitionData(
                        partition_index=each.partition,
                        error_code=found.error,
                        high_watermark=found.high_watermark,
                        records=found.data[:FETCHED_AT_MOST],
                    )
                )
            topics.append(FetchableTopicResponse(topic=topic.topic, partitions=parts))
        answer = FetchResponse(responses=topics)
        connection.answer(
            slot, encode_response(header.api_key, header.api_version, header.correlation_id, answer)
        )


class _Produce:
    """A Produce request: answered when each of its batches is."""

    def __init__(self, reactors, connection, slot, header, request):
        self.connection, self.slot, self.header, self.request = connection, slot, header, request
        self.left = 0
        self.answers: dict[tuple[str, int], tuple[int, int]] = {}
        batches = [
            ((topic.name, each.index), each.records)
            for topic in request.topic_data
            for each in topic.partition_data
        ]
        self.left = len(batches)
        for key, batch in batches:
            self._append(reactors, key, bytes(batch))

    def _append(self, reactors, key, batch):
        stored = reactors.stored.get(key)

        def answer(error, base):
            if error == 0 and self.request.acks == -1:
                reactors.world.tell("acknowledged", None, stored.topic_id, key[1], base, batch)
            self.answers[key] = (error, base)
            self.left -= 1
            if self.left == 0:
                self._answer()

        transactional_id = self.request.transactional_id
        if not transactional_id or not reactors.verifies:
            reactors.produce(key, batch, self.request.acks, answer)
            return
        first = batch_headers(batch)[0]
        reactors.produce_transactional(
            SimpleNamespace(
                key=key,
                version=self.header.api_version,
                producer=(first.producer_id, first.producer_epoch),
                sequence=first.base_sequence,
                batch=batch,
                transactional_id=transactional_id,
            ),
            answer,
        )

    def _answer(self):
        topics: dict[str, list[PartitionProduceResponse]] = {}
        for (topic, index), (error, base) in self.answers.items():
            topics.setdefault(topic, []).append(
                PartitionProduceResponse(index=index, error_code=error, base_offset=base)
            )
        answer = ProduceResponse(
            responses=[
                TopicProduceResponse(name=name, partition_responses=parts) for name, parts in topics.items()
            ]
        )
        header = self.header
        if self.request.acks != 0:
            self.connection.answer(
                self.slot,
                encode_response(header.api_key, header.api_version, header.correlation_id, answer),
            )


def _arrive(node, what, args, topic_id, source, life):
    reactors = node.reactors
    if reactors is None:
        return
    if what == "on_fetch":
        reactors.on_fetch(*args, topic_id, source, life)
    elif what == "on_range":
        reactors.on_range(*args, topic_id, source, life)


def _arrive_in_life(node, life, what, args):
    if node.life == life and node.reactors is not None:
        getattr(node.reactors, what)(*args)


class NodeReplicas:
    """Replaces the native Replicas."""

    def __init__(self, plane, *, broker_id, lag_max_ms=30000, **_):
        self._plane = plane
        self._reactors = plane.reactors
        self.lead = self._reactors.lead
        self.set_isr = self._reactors.set_isr
        self.try_join = self._reactors.try_join
        self.follow = self._reactors.follow
        self.stop = self._reactors.stop
        self.set_min_in_sync = self._reactors.set_min_in_sync
        self.check_lag = self._reactors.check_lag

    def set_broker_epoch(self, broker_epoch):
        self._reactors.broker.epoch = broker_epoch

    def set_fetchers(self, fetchers):
        """One is enough."""

    def set_endpoints(self, endpoints):
        """Clients here find leaders by Metadata."""

    def set_rack_aware(self, rack_aware):
        """There are no racks."""

    def set_quota(self, *, leader_rate=None, follower_rate=None):
        """There are no quotas."""

    def set_throttled(self, topic, partition, *, leader, follower):
        """There are no quotas."""

    def change_roles(self, changes):
        for call, args, options in changes:
            call(*args, **options)

    def take_events(self):
        taken, self._plane.replica_events = self._plane.replica_events, []
        return taken

    def low_watermark(self, topic, partition):
        part = self._reactors.parts[topic, partition]
        if not part.is_leader:
            raise KeyError(topic)
        return part.log.log_start_offset


__all__ = ["READ_BYTES", "NodePlane", "NodeReplicas", "VerifiedBatch"]
