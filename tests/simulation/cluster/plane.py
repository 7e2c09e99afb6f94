"""The reactors' work for replicas, with the shipped decisions.

Leaders take produce requests and fetches; followers fetch, append and truncate. It does what _native/server's
replica_leader, fetcher, followed_partitions, fetch and produce do, one partition at a time, with messages that the
simulated network carries.
"""

from typing import NamedTuple

from bowstring._native.log.partition_log import LogError
from bowstring._native.record.decode import batch_headers
from bowstring._native.replica import rules
from bowstring._native.replica.in_sync_replicas import Followers
from bowstring._native.replica.truncation import truncate_to
from bowstring.protocol.errors import Errors
from tests.simulation.cluster.coordinator import encoded
from tests.simulation.cluster.logs import AS_WRITTEN, ReplicaLog

NO_EPOCH = -1
BACKOFF_MS = 150
FETCH_WAIT_MS = 300
FETCH_TIMEOUT_MS = 900
PRODUCE_TIMEOUT_MS = 1500
READ_BYTES = 2000
ADDING_VERSION = 12
NOT_VERIFIED = -1


class Fetch(NamedTuple):
    """A follower's fetch of a partition; `number` names the request."""

    broker: int
    broker_epoch: int
    key: tuple[str, int]
    leader_epoch: int
    offset: int
    last_epoch: int
    told_high_watermark: int
    number: int


class Fetched(NamedTuple):
    error: int
    data: bytes = b""
    high_watermark: int = -1
    start_offset: int = 0
    diverging: tuple[int, int] | None = None
    aborted: tuple[tuple[int, int], ...] = ()


class Waiting(NamedTuple):
    """An acks=all request that waits for the high watermark."""

    required: int
    base: int
    epoch: int
    answer: object
    until: float


class Part:
    """A replica of this broker."""

    def __init__(self, key, stored: ReplicaLog):
        self.key = key
        self.stored = stored
        self.is_leader = False
        self.leader_epoch = NO_EPOCH
        self.leader_id = -1
        self.followers: Followers | None = None
        self.others: list[int] = []
        self.isr: list[int] = []
        self.epoch_start = 0
        self.waiting: list[Waiting] = []
        self.fetches: list[tuple] = []
        # as a follower: "fetching", "asking", "truncating", "delayed" or "failed"
        self.state = "failed"
        self.in_flight: int | None = None
        self.give_up_at = 0.0
        self.sent: Fetch | None = None
        self.leader_high_watermark = -1
        self.term = 0

    @property
    def log(self):
        return self.stored.log

    def __str__(self):
        return f"{self.key[0]}-{self.key[1]}"


class SimulatedPlane:
    """The data plane of one life of a broker; `ReplicaManager` sets its roles."""

    # Faults change these.
    READERS_LIMIT = "high_watermark"
    COMMITTED_LIMIT = "last_stable"
    KNOWS_EPOCH_START = True
    MIN_IN_SYNC: int | None = None

    def __init__(self, broker):
        self.broker = broker
        self.node = broker.node
        self.world = broker.node.world
        self.parts: dict[tuple[str, int], Part] = {}
        self.numbers = 0

    @property
    def is_commit_mode(self):
        return self.world.plan.commit_mode

    def part(self, topic, partition):
        key = (topic, partition)
        found = self.parts.get(key)
        if found is None:
            found = self.parts[key] = Part(key, self.node.logs.logs[key])
        return found

    # ------------------------------------------------------------ roles (replicas.pyx)

    def lead(self, topic, partition, *, leader_epoch, replicas, isr, broker_epochs, ineligible):
        part = self.part(topic, partition)
        now_ms = self.node.now_ms()
        renewed = not part.is_leader or part.leader_epoch != leader_epoch
        if renewed:
            part.epoch_start = part.log.log_end_offset
            part.log.assign_epoch(leader_epoch, part.epoch_start)
            part.term += 1
        part.others = [each for each in replicas if each != self.node.id]
        part.followers = Followers(
            part.others,
            isr,
            epoch_start_offset=part.epoch_start if self.KNOWS_EPOCH_START else 0,
            min_in_sync=self.MIN_IN_SYNC or self.world.min_in_sync(topic, partition),
            lag_max_ms=self.world.plan.lag_max_ms,
            now_ms=now_ms,
            broker_epochs=broker_epochs,
            ineligible=ineligible,
            before=None if renewed else part.followers,
        )
        part.isr = list(isr)
        part.is_leader, part.leader_epoch, part.leader_id = True, leader_epoch, self.node.id
        if renewed:
            self.world.say(self.node, f"leads {part} in epoch", leader_epoch)
            self.world.tell("leads", self.node, part)
        self.advance(part)
        self.wake(part)
        self.broker.role_changed(part)

    def set_isr(self, topic, partition, isr, *, joining, leaving, changing, ineligible):
        part = self.part(topic, partition)
        if part.followers is None:
            return
        part.followers.set_isr(isr, joining, leaving, changing)
        if ineligible is not None:
            for each in part.others:
                part.followers.set_eligible(each, each not in ineligible)
        part.isr = list(isr)
        self.advance(part)

    def try_join(self, topic, partition, broker_id, *, leader_epoch):
        part = self.part(topic, partition)
        if part.followers is None or part.leader_epoch != leader_epoch:
            return False
        return part.followers.try_join(broker_id, part.log.high_watermark)

    def follow(self, topic, partition, *, leader_epoch, leader_id, host, port):
        part = self.part(topic, partition)
        part.is_leader, part.followers = False, None
        part.leader_epoch, part.leader_id = leader_epoch, leader_id
        part.leader_high_watermark = -1
        part.term += 1
        part.in_flight = None
        waiting, part.waiting = part.waiting, []
        for each in waiting:
            each.answer(Errors.NOT_LEADER_OR_FOLLOWER.code, -1)
        self.wake(part)
        if host is None:
            part.state = "failed"
        elif part.state != "truncating":
            part.state = "fetching"
            log = part.log
            if log.leader_epoch < 0 and log.log_end_offset > log.high_watermark:
                self.truncate(part, log.high_watermark)
            else:
                self.send_fetch(part)
        self.world.say(self.node, f"follows {leader_id} with {part} in epoch", leader_epoch)
        self.broker.role_changed(part)

    def stop(self, topic, partition):
        part = self.parts.pop((topic, partition))
        part.term += 1
        part.state, part.in_flight, part.is_leader, part.followers = "failed", None, False, None
        waiting, part.waiting = part.waiting, []
        for each in waiting:
            each.answer(Errors.UNKNOWN_TOPIC_OR_PARTITION.code, -1)
        self.wake(part)
        self.broker.role_changed(part)

    # ------------------------------------------------------------ leading: the high watermark (replica_leader.pyx)

    def own_end(self, part):
        return part.stored.durable if self.is_commit_mode else part.log.log_end_offset

    def advance(self, part):
        if part.followers is not None:
            self.rise(part, part.followers.high_watermark(self.own_end(part), self.node.now_ms()))

    def rise(self, part, high_watermark):
        before = part.log.high_watermark
        if high_watermark > before and part.log.advance_high_watermark(high_watermark):
            self.world.tell("commits", self.node, part)
            self.answer_waiting(part)
            self.wake(part)
            self.broker.advanced(part)

    def answer_waiting(self, part):
        reached = part.log.high_watermark
        due = [each for each in part.waiting if each.required <= reached]
        part.waiting = [each for each in part.waiting if each.required > reached]
        for each in due:
            error = part.followers.ack_error()
            if error == 0:
                self.world.tell("acknowledges", self.node, part, each)
            each.answer(error, each.base)

    def check_lag(self):
        for part in list(self.parts.values()):
            if part.followers is not None:
                now_ms = self.node.now_ms()
                for each in part.followers.take_lags(part.log.log_end_offset, now_ms):
                    self.event("lags", part, each, part.followers.end_of(each))
                self.advance(part)

    def event(self, kind, part, a, b):
        event = (kind, part.key[0], part.key[1], part.leader_epoch, a, b)
        self.world.say(self.node, "notices", event)
        self.node.after(self.world.control_ms(), self.broker.on_event, event)

    # ------------------------------------------------------------ leading: produce (produce.pyx)

    def produce_transactional(self, request, answer):
        """Appends a transaction's batch once its coordinator has confirmed it."""
        part = self.parts.get(request.key)
        if part is None or not part.is_leader:
            return answer(Errors.NOT_LEADER_OR_FOLLOWER.code, -1)
        adds = request.version >= ADDING_VERSION
        log, (producer, epoch) = part.log, request.producer
        token = self.verification(log, request, adds)

        def finish(error):
            if part.log is log:
                log.verified(producer, token)
            if error:
                answer(error, -1)
            elif self.parts.get(part.key) is part:
                self.produce(part.key, request.batch, -1, answer, token)
            else:
                answer(Errors.UNKNOWN_TOPIC_OR_PARTITION.code, -1)

        if token > 0:
            transaction = (request.transactional_id, producer, epoch, request.version)
            self.broker.coordinator.verify(part, transaction, finish)
        else:
            self.produce(part.key, request.batch, -1, answer, token)
        return None

    def verification(self, log, request, adds):
        return log.verify(
            *request.producer, adds=adds, now_ms=self.node.now_ms(), base_sequence=request.sequence
        )

    def finish_batch(self, batch, error=0, reason=None):
        """The control thread refuses a batch."""
        batch.finish(error)

    def produce(self, key, batch, acks, answer, verification=NOT_VERIFIED):
        """Appends a batch; `answer(error, base offset)` follows."""
        part = self.parts.get(key)
        if part is None:
            return answer(Errors.UNKNOWN_TOPIC_OR_PARTITION.code, -1)
        least = self.world.min_in_sync(*key)
        error = rules.produce_error(acks, part.is_leader, len(part.isr), least)
        if error:
            return answer(error, -1)
        before = part.log.log_end_offset
        try:
            base = part.log.append(batch, part.leader_epoch, self.node.now_ms(), verification=verification)
        except LogError as refused:
            self.world.say(self.node, f"refuses a batch for {part}", Errors.of(refused.code))
            return answer(refused.code, -1)
        end = base + batch_headers(batch)[0].record_count
        if part.log.log_end_offset > before:
            self.appended(part, before)
        if acks == 0:
            return None
        waiting = Waiting(end, base, part.leader_epoch, answer, self.world.now + PRODUCE_TIMEOUT_MS)
        if self.is_commit_mode and part.stored.durable < end:
            self.node.after_sync(part, lambda: self.written(part, waiting, acks))
        else:
            self.written(part, waiting, acks)
        return None

    def appended(self, part, before):
        self.world.say(self.node, f"appends to {part}", (before, part.log.log_end_offset))
        self.world.tell("writes", self.node, part, before)
        self.wake(part)
        self.node.changed(part)
        if not self.is_commit_mode:
            self.advance(part)

    def written(self, part, waiting, acks):
        """The batch is where it must be before it counts."""
        if acks != -1:
            self.world.tell("acknowledges_one", self.node, part, waiting)
            return waiting.answer(0, waiting.base)
        if not part.is_leader or part.leader_epoch != waiting.epoch:
            return waiting.answer(Errors.NOT_LEADER_OR_FOLLOWER.code, -1)
        part.waiting.append(waiting)
        self.answer_waiting(part)
        return None

    # ------------------------------------------------------------ leading: fetches (fetch.pyx)

    def take_fetch(self, fetch, answer):
        """Takes a follower's fetch; `answer(Fetched)` follows, at once or when there are new records."""
        found = self.look(fetch, is_fresh=True)
        if found is None:
            part = self.parts[fetch.key]
            part.fetches.append((fetch, answer, self.world.now + FETCH_WAIT_MS))
        else:
            answer(found)

    def wake(self, part):
        """Checks the waiting fetches again."""
        self.broker.log_moved(part)
        for waiter in list(part.fetches):
            found = self.look(waiter[0], is_fresh=False)
            if found is not None and waiter in part.fetches:
                part.fetches.remove(waiter)
                waiter[1](found)

    def look(self, fetch, *, is_fresh, must_answer=False):
        part = self.parts.get(fetch.key)
        if part is None:
            return Fetched(Errors.UNKNOWN_TOPIC_OR_PARTITION.code)
        error = self.refuses(part, fetch)
        if error:
            return Fetched(error)
        log = part.log
        found = log.end_offset_for_epoch(fetch.last_epoch) if fetch.last_epoch >= 0 else (-1, -1)
        position = self.position(fetch, found)
        if position == "unknown":
            return Fetched(Errors.OFFSET_OUT_OF_RANGE.code)
        if position == "diverges":
            return Fetched(0, diverging=found, high_watermark=log.high_watermark)
        limit = log.log_end_offset
        if not log.log_start_offset <= fetch.offset <= limit:
            return Fetched(Errors.OFFSET_OUT_OF_RANGE.code)
        if is_fresh:
            error = self.count(part, fetch)
            if error:
                return Fetched(error)
        data = log.read(fetch.offset, READ_BYTES, "log_end") if fetch.offset < limit else b""
        if data or must_answer or log.high_watermark > fetch.told_high_watermark:
            return Fetched(0, data, log.high_watermark, log.log_start_offset)
        return None

    def refuses(self, part, fetch):
        return rules.fetch_error(
            True, part.is_leader, part.followers is not None, fetch.leader_epoch, part.leader_epoch
        )

    def position(self, fetch, found):
        return rules.position(fetch.last_epoch, fetch.offset, *found)

    def count(self, part, fetch):
        """Notes the follower's log end; returns the error."""
        error, joins, high_watermark = part.followers.take_fetch(
            fetch.broker,
            fetch.broker_epoch,
            fetch.offset,
            leader_end_offset=part.log.log_end_offset,
            own_end_offset=self.own_end(part),
            high_watermark=part.log.high_watermark,
            now_ms=self.node.now_ms(),
        )
        self.rise(part, high_watermark)
        if joins:
            self.event("may-join", part, fetch.broker, fetch.broker_epoch)
        return error

    # ------------------------------------------------------------ following (fetcher.pyx, followed_partitions.pyx)

    def send_fetch(self, part):
        """Sends the next fetch, unless one is in flight or the part waits for something else."""
        if part.is_leader or part.state != "fetching" or part.in_flight is not None:
            return
        log = part.log
        if not self.may_claim(part):
            return  # the end of the sync calls again
        self.numbers += 1
        part.in_flight = self.numbers
        part.sent = Fetch(
            self.node.id,
            self.broker.epoch,
            part.key,
            part.leader_epoch,
            log.log_end_offset,
            log.leader_epoch,
            part.leader_high_watermark,
            self.numbers,
        )
        self.world.tell("fetches", self.node, part, part.sent)
        part.give_up_at = self.world.now + FETCH_TIMEOUT_MS
        self.world.send(self.node, part.leader_id, "on_fetch", (part.sent,))

    def may_claim(self, part):
        return rules.claims(self.is_commit_mode, part.stored.durable, part.log.log_end_offset)

    def end_waits(self):
        """Ends expired waits: parked fetches, and own requests without an answer."""
        now = self.world.now
        for part in list(self.parts.values()):
            if part.in_flight is not None and part.give_up_at <= now:
                part.in_flight = None  # the connection is gone, and the answer with it
                part.state = "fetching" if part.state == "asking" else part.state
                self.send_fetch(part)
            while part.fetches and part.fetches[0][2] <= now:
                fetch, answer, _ = part.fetches.pop(0)
                answer(self.look(fetch, is_fresh=False, must_answer=True))
            while part.waiting and part.waiting[0].until <= now:
                part.waiting.pop(0).answer(Errors.REQUEST_TIMED_OUT.code, -1)

    def fetched(self, fetch, answer):
        """Handles the answer to a fetch."""
        part = self.parts.get(fetch.key)
        if part is None or part.in_flight != fetch.number:
            return
        part.in_flight = None
        if part.is_leader or part.state != "fetching" or fetch.leader_epoch != part.leader_epoch:
            self.send_fetch(part)
            return
        if answer.error == Errors.OFFSET_OUT_OF_RANGE.code:
            part.state = "asking"
            self.ask_for_range(part)
        elif answer.error:
            self.fail(part, answer.error)
        elif answer.diverging is not None:
            self.diverged(part, *answer.diverging)
        else:
            if rules.follows(fetch.offset, part.log.log_end_offset):
                error = self.take(part, answer)
                if error:
                    self.fail(part, error)
            self.send_fetch(part)

    def take(self, part, answer):
        """Appends fetched records (follower_append.pyx)."""
        before = part.log.log_end_offset
        error = self.append_batches(part, answer.data)
        part.leader_high_watermark = answer.high_watermark
        if part.log.log_end_offset > before:
            self.world.say(self.node, f"copies to {part}", (before, part.log.log_end_offset))
            self.node.changed(part)
        self.follow_high_watermark(part)
        return error

    def append_batches(self, part, data):
        for header in batch_headers(data):
            if header.leader_epoch > part.leader_epoch:
                return Errors.CORRUPT_MESSAGE.code
            batch = data[header.position : header.position + header.size_bytes]
            try:
                part.log.append(batch, AS_WRITTEN, self.node.now_ms())
            except LogError as refused:
                return refused.code
        return 0

    def follow_high_watermark(self, part):
        durable = part.stored.durable if self.is_commit_mode else part.log.log_end_offset
        if part.log.advance_high_watermark(min(part.leader_high_watermark, durable)):
            self.world.tell("hears_high_watermark", self.node, part)
            self.wake(part)

    def synced(self, part):
        """The appended records are on the medium."""
        if part.is_leader:
            self.advance(part)
        else:
            self.follow_high_watermark(part)
            self.send_fetch(part)

    def fail(self, part, error):
        self.world.say(self.node, f"cannot fetch {part}", Errors.of(error))
        part.state = "failed" if error == Errors.FENCED_LEADER_EPOCH.code else "delayed"
        if part.state == "delayed":
            self.node.after(BACKOFF_MS, self.again, part, part.term)

    def again(self, part, term):
        if part.term == term and part.state == "delayed":
            part.state = "fetching"
            self.send_fetch(part)

    # ---- truncation

    def diverged(self, part, epoch, end_offset):
        own_epoch, own_end = part.log.end_offset_for_epoch(epoch)
        offset = truncate_to(
            epoch, end_offset, own_epoch, own_end, part.log.log_end_offset, part.log.high_watermark
        )
        self.truncate(part, offset)

    def ask_for_range(self, part):
        self.numbers += 1
        part.in_flight = self.numbers
        part.give_up_at = self.world.now + FETCH_TIMEOUT_MS
        self.world.send(
            self.node, part.leader_id, "on_range", (self.node.id, part.key, part.leader_epoch, self.numbers)
        )

    def range_of(self, key, leader_epoch):
        """ListOffsets of a follower."""
        part = self.parts.get(key)
        if part is None or not part.is_leader or part.leader_epoch != leader_epoch:
            return None
        return part.log.log_start_offset, part.log.log_end_offset

    def range_found(self, key, number, found):
        part = self.parts.get(key)
        if part is None or part.in_flight != number or part.state != "asking":
            return
        part.in_flight = None
        if found is None:
            self.fail(part, Errors.NOT_LEADER_OR_FOLLOWER.code)
            return
        start, end = found
        what = rules.when_out_of_range(start, end, part.log.log_end_offset)
        if what == "truncate":
            self.truncate(part, end)
        elif what == "restart":
            self.truncate(part, start, fully=True)
        else:
            self.fail(part, Errors.OFFSET_OUT_OF_RANGE.code)

    def truncate(self, part, offset, *, fully=False):
        """A storage thread truncates the log, if the part still follows the same leader then."""
        part.state = "truncating"
        self.node.after(self.world.control_ms(), self.cut, part, part.leader_epoch, offset, fully)

    def cut(self, part, leader_epoch, offset, fully):
        if part.state != "truncating" or self.parts.get(part.key) is not part:
            return
        if not part.is_leader and part.leader_epoch == leader_epoch:
            self.world.say(self.node, f"cuts {part} to", offset)
            self.world.tell("truncates", self.node, part, offset)
            if fully:
                part.stored.start_again_at(offset)
            else:
                part.stored.truncate_to(offset)
        part.state = "fetching"
        part.leader_high_watermark = -1
        self.send_fetch(part)

    # ------------------------------------------------------------ consumers and the coordinator

    def client_fetch(self, request):
        """A consumer's fetch: up to the high watermark; also from a follower (KIP-392)."""
        part = self.parts.get(request.key)
        if part is None:
            return Fetched(Errors.UNKNOWN_TOPIC_OR_PARTITION.code)
        error = rules.fetch_error(False, part.is_leader, part.followers is not None, -1, part.leader_epoch)
        if error:
            return Fetched(error)
        log = part.log
        if not log.log_start_offset <= request.offset <= log.log_end_offset:
            return Fetched(Errors.OFFSET_OUT_OF_RANGE.code)
        limit = self.COMMITTED_LIMIT if request.committed else self.READERS_LIMIT
        end = log.log_end_offset
        if limit != "log_end":
            end = log.high_watermark if limit == "high_watermark" else log.last_stable_offset
        data = log.read(request.offset, READ_BYTES, limit) if request.offset < end else b""
        aborted = self.aborted(log, request.offset, data) if data and request.committed else ()
        return Fetched(0, data, log.high_watermark, aborted=aborted)

    def aborted(self, log, offset, data):
        return tuple(log.aborted_transactions(offset, batch_headers(data)[-1].last_offset + 1))

    def append_records(self, part, records):
        """Appends the group coordinator's records, with acks=all; returns the base offset or an error row."""
        least = self.world.min_in_sync(*part.key)
        error = rules.produce_error(-1, part.is_leader, len(part.isr), least)
        if error:
            return Errors.of(error)
        before = part.log.log_end_offset
        base = part.log.append(encoded(records, self.node.now_ms()), part.leader_epoch, self.node.now_ms())
        self.appended(part, before)
        return base

    # ------------------------------------------------------------ the shipped coordinators (data_plane.pyx)

    def led_epoch(self, topic, partition):
        part = self.parts.get((topic, partition))
        return part.leader_epoch if part is not None and part.is_leader else -1

    def append(self, topic, partition, batch, *, leader_epoch, now_ms, **options):
        part = self.parts.get((topic, partition))
        if part is None or not part.is_leader or part.leader_epoch != leader_epoch:
            raise LogError(Errors.NOT_LEADER_OR_FOLLOWER.code, "")
        if len(part.isr) < self.world.min_in_sync(topic, partition):
            raise LogError(Errors.NOT_ENOUGH_REPLICAS.code, "")
        before = part.log.log_end_offset
        base = part.log.append(batch, leader_epoch, now_ms, **options)
        self.appended(part, before)
        return base

    def watch(self, topic, partition, offset):
        part = self.parts.get((topic, partition))
        return part is not None and self.broker.coordinator.watch(part, offset)
