"""When a coordinator begins to answer for a partition of ``__transaction_state``."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring._native.log.partition_log import LogError
from bowstring._native.record.encode import encode_batch
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import PartitionImage
from bowstring.engine.metadata.names import TRANSACTIONS_TOPIC as TOPIC
from bowstring.engine.transactions.init import InitRequest
from bowstring.engine.transactions.marker_writer import Marker
from bowstring.engine.transactions.records import transaction_record
from bowstring.engine.transactions.service import TransactionCoordinatorService
from bowstring.engine.transactions.shard import TransactionShard
from bowstring.engine.transactions.transaction import Status, Transaction
from bowstring.protocol.errors import Errors, KafkaError
from tests.support.group_service import MemoryLog, MemoryPlane
from tests.support.waiting import pause_async, wait_until_async

DECIDED = Transaction("x", 7, 1, 60_000, Status.PREPARE_COMMIT, frozenset({("gone", 0)}), 1, 1, 2)
"""Its only partition is deleted, so it is complete as soon as its markers are sent."""


class FakeBroker:
    """What the coordinator needs of a broker that leads one partition of the topic."""

    def __init__(self, *logs, durability=None, settings=None):
        self.configs = BrokerConfigs(settings or {})
        self.open_logs = list(logs)
        partitions = [PartitionImage((1,), (1,), 1, 3, 0, ()) for _ in logs]
        self.topics = {TOPIC: SimpleNamespace(id=b"t" * 16, partitions=partitions)}
        image = SimpleNamespace(topics=self.topics, features={}, topic_configs=lambda name: {})
        self.plane = MemoryPlane(self)
        self.plane.led = dict.fromkeys(range(len(logs)), 3)
        self.plane.durable = lambda topic, partition: None  # followers lag
        self.coordinator = TransactionCoordinatorService(
            self.configs,
            SimpleNamespace(image=image),
            SimpleNamespace(of_topic=lambda name: self.open_logs, control_writes=0, durability=durability),
            self.plane,
            changes=None,
            producer_ids=None,
            node_id=1,
            peers=None,
            mark_group=None,
        )


@pytest.fixture
def log():
    return decided()


def decided():
    made = MemoryLog()
    key, value = transaction_record(DECIDED, 2)
    made.append(encode_batch([(key, value, 0, ())]), 3, 0)
    return made


def status(broker):
    return Status(broker.coordinator.shard_of("x").state.entries["x"].committed.status)


def test_a_marker_in_its_own_log_hides_no_transaction(log):
    """An admin client can have one written (WriteTxnMarkers). Records read together with it count as well."""

    async def run():
        marker = Marker(producer_id=70, epoch=1, commit=True, coordinator_epoch=1, version=2)
        log.append(marker.batch(0), 3, 0)
        log.advance_high_watermark(2)
        broker = FakeBroker(log)
        broker.coordinator.start()
        assert status(broker) is Status.COMPLETE_COMMIT
        await broker.coordinator.stop()

    asyncio.run(run())


def test_markers_wait_until_the_decision_is_committed(log):
    """Another broker that lacks the decision may be elected until then, and decide otherwise."""

    async def run():
        broker = FakeBroker(log)
        broker.coordinator.start()
        with pytest.raises(KafkaError) as refused:
            broker.coordinator.shard_of("x")
        assert refused.value.error is Errors.COORDINATOR_LOAD_IN_PROGRESS
        assert broker.plane.watched == {0: 1}
        broker.coordinator.advanced(0)  # not yet
        assert broker.plane.appended == []
        log.advance_high_watermark(1)
        broker.coordinator.advanced(0)
        assert status(broker) is Status.COMPLETE_COMMIT
        await broker.coordinator.stop()

    asyncio.run(run())


def test_a_committed_log_is_answered_for_at_once(log):
    async def run():
        log.advance_high_watermark(1)
        broker = FakeBroker(log)
        broker.coordinator.start()
        assert status(broker) is Status.COMPLETE_COMMIT
        await broker.coordinator.stop()

    asyncio.run(run())


def test_who_leads_no_more_does_not_begin(log):
    """The high watermark may be above records of the next leader."""

    async def run():
        broker = FakeBroker(log)
        broker.coordinator.start()
        broker.plane.led = {}
        log.advance_high_watermark(1)
        broker.coordinator.advanced(0)
        assert broker.plane.appended == []
        broker.coordinator.role_changed(0)
        assert not broker.coordinator.coordinates("x")
        await broker.coordinator.stop()

    asyncio.run(run())


# ---------------------------------------------------------------- without a task


class Answer:
    """The token of a request, with the answer that it got."""

    def __init__(self):
        self.got = None

    def done(self):
        return self.got is not None

    def set_result(self, result):
        assert self.got is None
        self.got = (Errors.of(result.error_code), result.producer_id, result.producer_epoch)

    def set_exception(self, exception):
        assert self.got is None
        self.got = (exception.error, -1, -1)


def resting(**settings):
    """Returns a broker that has begun, with a transactional id whose producer is 7 in epoch 1."""
    log = MemoryLog()
    key, value = transaction_record(Transaction("x", 7, 1, 60_000), 2)
    log.append(encode_batch([(key, value, 0, ())]), 3, 0)
    log.advance_high_watermark(1)
    log.held = True
    broker = FakeBroker(log, settings=settings)
    broker.coordinator.start()
    return broker, log


BUMP = InitRequest("x", 60_000, None)


def resigns(broker, log):
    broker.plane.led = {}
    broker.coordinator.role_changed(0)


def commits(broker, log):
    broker.coordinator.advanced(0)  # not yet
    log.held = False
    log.advance_high_watermark(log.log_end_offset)
    broker.coordinator.advanced(0)


@pytest.mark.parametrize(
    ("happens", "answer"),
    [(commits, (Errors.NONE, 7, 2)), (resigns, (Errors.NOT_COORDINATOR, -1, -1))],
)
def test_a_producer_gets_its_epoch_when_it_is_committed(happens, answer):
    async def run():
        broker, log = resting()
        first, second = Answer(), Answer()
        assert broker.coordinator.begin_producer(BUMP, first)
        assert broker.coordinator.begin_producer(BUMP, second)
        assert (first.got, second.got) == (None, (Errors.CONCURRENT_TRANSACTIONS, -1, -1))
        happens(broker, log)
        assert first.got == answer
        await broker.coordinator.stop()

    asyncio.run(run())


def test_a_producer_whose_epoch_cannot_be_written():
    async def run():
        broker, log = resting()
        log.error = LogError(Errors.NOT_ENOUGH_REPLICAS.code, "too few")
        refused, again = Answer(), Answer()
        assert broker.coordinator.begin_producer(BUMP, refused)
        assert refused.got == (Errors.COORDINATOR_NOT_AVAILABLE, -1, -1)
        log.error, log.held = None, False
        assert broker.coordinator.begin_producer(BUMP, again)
        assert again.got == (Errors.NONE, 7, 2), "the failed one has raised nothing"
        await broker.coordinator.stop()

    asyncio.run(run())


def test_a_producer_whose_epoch_is_not_committed_in_time():
    async def run():
        broker, log = resting(**{"request.timeout.ms": "50"})
        late, answered, behind = Answer(), Answer(), Answer()
        assert broker.coordinator.begin_producer(BUMP, late)
        assert broker.coordinator.begin_producer(BUMP, answered)  # refused at once
        await pause_async(0.02, "the other request is due later")
        broker.coordinator._answer_in_time(behind, 0.05)
        await wait_until_async(lambda: late.done() and behind.done())
        assert late.got == behind.got == (Errors.COORDINATOR_NOT_AVAILABLE, -1, -1)
        commits(broker, log)  # nobody is answered twice
        await broker.coordinator.stop()

    asyncio.run(run())


def test_what_has_to_wait_for_more_than_a_write_is_not_begun():
    async def run():
        broker, _ = resting()
        answer = Answer()
        assert not broker.coordinator.begin_producer(InitRequest("new", 60_000, None), answer), "needs an id"
        broker.plane.led = {}
        assert not broker.coordinator.begin_producer(BUMP, answer), "the other way has the error"
        assert broker.plane.appended == [] and not answer.done()
        await broker.coordinator.stop()

    asyncio.run(run())


# ---------------------------------------------------------------- commit mode


class AtOnce:
    """Records that are on the medium: a waiter is called back before the registration returns."""

    def __init__(self):
        self.asked = 0

    def when_durable(self, log, done, failed):
        self.asked += 1
        done()


class Later(AtOnce):
    """It is called back in the next turn of the loop."""

    def when_durable(self, log, done, failed):
        self.asked += 1
        asyncio.get_running_loop().call_soon(done)


class Failing(AtOnce):
    """The write-ahead log has failed."""

    def when_durable(self, log, done, failed):
        self.asked += 1
        failed()


class Manual(AtOnce):
    """It is called back when the test says."""

    def __init__(self):
        super().__init__()
        self.waiting = []

    def when_durable(self, log, done, failed):
        self.asked += 1
        self.waiting.append((done, failed))


@pytest.fixture(params=["at the start", "on another thread"])
def at_once_bytes(request, monkeypatch):
    most = 1 << 20 if request.param == "at the start" else 0
    monkeypatch.setattr("bowstring.engine.coordinators.runtime.REPLAYED_AT_ONCE_BYTES", most)


@pytest.mark.parametrize("kind", [AtOnce, Later])
@pytest.mark.usefixtures("at_once_bytes")
def test_a_log_that_is_durable_here_while_followers_lag(log, kind):
    """The callback of the durable end leads back to where it was registered."""

    async def run():
        log.in_commit_mode = True
        durability = kind()
        broker = FakeBroker(log, durability=durability)
        broker.coordinator.start()
        await wait_until_async(lambda: durability.asked)
        for _ in range(5):
            await asyncio.sleep(0)
            broker.coordinator.advanced(0)
        assert durability.asked == 1
        with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            broker.coordinator.shard_of("x")
        log.advance_high_watermark(1)
        broker.coordinator.advanced(0)
        log.advance_high_watermark(log.log_end_offset)
        broker.coordinator.advanced(0)
        assert status(broker) is Status.COMPLETE_COMMIT
        await broker.coordinator.stop()

    asyncio.run(run())


@pytest.mark.parametrize("kind", [AtOnce, Later])
@pytest.mark.usefixtures("at_once_bytes")
def test_followers_have_all_when_the_log_becomes_durable(log, kind):
    async def run():
        log.in_commit_mode = True
        broker = FakeBroker(log, durability=kind())
        broker.plane.durable = lambda topic, partition: log.advance_high_watermark(log.log_end_offset)
        broker.coordinator.start()
        await wait_until_async(lambda: not broker.coordinator.is_loading)
        await wait_until_async(lambda: log.high_watermark == log.log_end_offset == 2)
        assert status(broker) is Status.COMPLETE_COMMIT
        await broker.coordinator.stop()

    asyncio.run(run())


@pytest.mark.usefixtures("at_once_bytes")
def test_a_write_ahead_log_that_has_failed_before_the_shard_begins(log, caplog):
    async def run():
        log.in_commit_mode = True
        broker = FakeBroker(log, durability=Failing())
        broker.coordinator.start()
        await wait_until_async(lambda: not broker.coordinator.is_loading)
        with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
            broker.coordinator.shard_of("x")
        await broker.coordinator.stop()

    asyncio.run(run())
    assert "accepts no more writes" in caplog.text


@pytest.mark.parametrize("outcome", ["done", "failed"])
@pytest.mark.usefixtures("at_once_bytes")
def test_the_log_becomes_durable_while_the_broker_stops(log, outcome):
    async def run():
        log.in_commit_mode = True
        durability = Manual()
        broker = FakeBroker(log, durability=durability)
        broker.coordinator.start()
        await wait_until_async(lambda: durability.asked)
        stopping = asyncio.ensure_future(broker.coordinator.stop())
        await asyncio.sleep(0)
        log.advance_high_watermark(1)
        for done, failed in durability.waiting:
            (done if outcome == "done" else failed)()
        await stopping
        assert broker.plane.appended == []

    asyncio.run(run())


def logged_failures(caplog):
    """The exceptions that were logged with their traceback."""
    return [each.exc_info[1] for each in caplog.records if each.exc_info]


def test_one_shard_that_fails_does_not_stop_the_others(monkeypatch, caplog):
    """It is tried again, and the traceback is logged."""
    monkeypatch.setattr("bowstring.engine.coordinators.runtime.REPLAYED_AT_ONCE_BYTES", 0)
    monkeypatch.setattr("bowstring.engine.coordinators.runtime._FIRST_PAUSE_S", 0.01)
    logs = [decided() for _ in range(4)]
    for each in logs:
        each.advance_high_watermark(1)
    began = []
    loaded = TransactionShard.loaded

    def fails_first(shard, now_ms):
        began.append(shard)
        if len(began) <= 2:
            raise RecursionError("a bug in a shard")
        return loaded(shard, now_ms)

    monkeypatch.setattr(TransactionShard, "loaded", fails_first)

    async def run():
        broker = FakeBroker(*logs)
        broker.coordinator.start()
        await wait_until_async(lambda: not broker.coordinator.is_loading)
        await wait_until_async(lambda: len(list(broker.coordinator.ready())) == 4)
        await broker.coordinator.stop()

    asyncio.run(run())
    assert [type(each) for each in logged_failures(caplog)] == [RecursionError] * 2


def test_a_bug_in_what_is_done_from_time_to_time_does_not_end_it(log, monkeypatch, caplog):
    calls = []

    def expire(shard, now_ms):
        calls.append(now_ms)
        raise ValueError("a bug in expiry")

    monkeypatch.setattr(TransactionShard, "expire", expire)
    interval = "transaction.remove.expired.transaction.cleanup.interval.ms"

    async def run():
        log.advance_high_watermark(1)
        broker = FakeBroker(log, settings={interval: "1"})
        broker.coordinator.start()
        await wait_until_async(lambda: len(calls) >= 3)
        await broker.coordinator.stop()

    asyncio.run(run())
    assert {type(each) for each in logged_failures(caplog)} == {ValueError}
