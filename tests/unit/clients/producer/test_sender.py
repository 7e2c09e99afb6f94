"""What the producer does when brokers answer with trouble: retried in order, numbered right, never silent."""

import threading
import time

import pytest

from bowstring._native.record.decode import decode_records
from bowstring.clients.errors import (
    AuthorizationError,
    BufferFullError,
    ClientError,
    ClientTimeoutError,
    ClosedError,
    ConfigError,
    NoBrokerError,
    RecordTooLargeError,
)
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import Record
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from bowstring.protocol.messages.metadata import MetadataRequest
from bowstring.protocol.messages.produce import ProduceRequest
from tests.support.fake_broker import CLOSE, SILENCE, FakeBroker, batches_of, produced
from tests.support.known_topic import await_topic
from tests.support.memory import resident_bytes, resident_slack
from tests.support.produced_batches import Log, identity
from tests.support.waiting import FOR_EVER_MS, HANG_S, error_in_time


@pytest.fixture
def broker():
    with FakeBroker() as made:
        yield made


def producer_for(broker, **options):
    options = {"linger_ms": 0, "retry_backoff_ms": 10, "request_timeout_ms": FOR_EVER_MS, **options}
    return Producer(broker.bootstrap, **options)


@pytest.mark.parametrize(
    "trouble",
    [
        [Errors.NOT_LEADER_OR_FOLLOWER.code],
        [Errors.NOT_ENOUGH_REPLICAS.code, Errors.REQUEST_TIMED_OUT.code],
        [CLOSE],
        [SILENCE],
    ],
)
def test_what_may_be_repeated_is_repeated_with_the_same_sequence(broker, trouble):
    log = Log(broker, trouble)
    patience = {"request_timeout_ms": 1000} if SILENCE in trouble else {}
    with producer_for(broker, **patience) as producer:
        assert producer.send("t", b"x").result(HANG_S).offset == 0
        assert producer.send("t", b"y").result(HANG_S).offset == 1
    assert [identity(batch) for batch in log.stored] == [(7, 0, 0, 1), (7, 0, 1, 1)]


def test_time_for_which_a_broker_throttles_is_not_waiting(broker):
    """The broker reads nothing meanwhile (KIP-219): a retry would come back on another connection."""
    log, may_answer = Log(broker, []), threading.Event()

    def throttled(version, request):
        answer = log.produce(version, request)
        answer.throttle_time_ms = FOR_EVER_MS
        return answer

    def late(version, request):
        may_answer.wait(HANG_S)
        return log.produce(version, request)

    broker.handlers[ProduceRequest] = throttled
    with producer_for(broker, request_timeout_ms=500) as producer:
        for value in (b"x", b"y"):  # from Python, then natively
            producer.send("t", value).result(HANG_S)
        before = len(broker.seen(ProduceRequest))
        broker.handlers[ProduceRequest] = late
        sent = producer.send("t", b"z")
        try:
            with pytest.raises(ClientTimeoutError):
                sent.result(0.7)
        finally:
            may_answer.set()
        assert sent.result(HANG_S).offset == 2
        assert len(broker.seen(ProduceRequest)) == before + 1


def test_a_wrong_leader_makes_metadata_be_asked_again(broker):
    Log(broker, [Errors.NOT_LEADER_OR_FOLLOWER.code])
    with producer_for(broker) as producer:
        producer.send("t", b"x").result(HANG_S)
        assert len(broker.seen(MetadataRequest)) >= 2


def test_order_survives_a_failure_with_more_in_flight(broker):
    class Flaky(Log):
        def produce(self, version, request):
            first = identity(batches_of(request)[0])[2]
            if first == 0 and not self.stored and len(broker.seen(ProduceRequest)) < 3:
                return produced(request, error=Errors.REQUEST_TIMED_OUT.code)
            expected = sum(identity(batch)[3] for batch in self.stored)
            if first != expected:
                return produced(request, error=Errors.OUT_OF_ORDER_SEQUENCE_NUMBER.code)
            return super().produce(version, request)

    log = Flaky(broker)
    with producer_for(broker, batch_size=200) as producer:
        futures = [producer.send("t", b"%03d" % i + b"." * 60) for i in range(40)]
        offsets = [future.result(HANG_S).offset for future in futures]
    assert offsets == list(range(40))
    sequences = [identity(batch)[2] for batch in log.stored]
    assert sequences == sorted(sequences) and all(identity(batch)[:2] == (7, 0) for batch in log.stored)


def test_a_lost_producer_state_starts_the_next_epoch(broker):
    log = Log(broker, [0, Errors.UNKNOWN_PRODUCER_ID.code])
    with producer_for(broker) as producer:
        producer.send("t", b"a").result(HANG_S)
        assert producer.send("t", b"b").result(HANG_S).offset == 1
    assert [identity(batch) for batch in log.stored] == [(7, 0, 0, 1), (7, 1, 0, 1)]


def test_a_duplicate_counts_as_stored(broker):
    Log(broker, [Errors.DUPLICATE_SEQUENCE_NUMBER.code])
    with producer_for(broker) as producer:
        assert producer.send("t", b"x").exception(HANG_S) is None


def test_what_cannot_be_repeated_fails_at_once(broker, caplog):
    Log(broker, [Errors.TOPIC_AUTHORIZATION_FAILED.code])
    with producer_for(broker) as producer:
        with pytest.raises(AuthorizationError, match=r"writing to t-0.*TOPIC_AUTHORIZATION_FAILED"):
            producer.send("t", b"x").result(HANG_S)
        assert producer.send("t", b"y").result(HANG_S).offset == 0, "the next records go on"
    assert "1 records for t-0 were not delivered" in caplog.text


def test_after_a_failed_batch_the_next_starts_a_new_epoch(broker):
    log = Log(broker, [Errors.INVALID_RECORD.code])
    with producer_for(broker) as producer:
        assert producer.send("t", b"x").exception(HANG_S) is not None
        producer.send("t", b"y").result(HANG_S)
    assert identity(log.stored[0]) == (7, 1, 0, 1)


def test_delivery_timeout_names_the_last_error(broker):
    log = Log(broker, [Errors.NOT_ENOUGH_REPLICAS.code])

    def produce(version, request):
        log.trouble = [Errors.NOT_ENOUGH_REPLICAS.code]
        return Log.produce(log, version, request)

    broker.handlers[ProduceRequest] = produce
    with producer_for(broker, delivery_timeout_ms=300) as producer:
        # The first time may be over before the broker has answered.
        error_in_time(
            lambda _: producer.send("t", b"x").result(HANG_S), ClientError, Errors.NOT_ENOUGH_REPLICAS.name
        )


def test_a_broker_that_went_away(broker):
    Log(broker, [CLOSE] * 1000)
    producer = producer_for(broker, delivery_timeout_ms=500)
    future = producer.send("t", b"x")
    broker.__exit__()
    assert future.exception(HANG_S) is not None
    producer.close()


def test_no_broker_at_all():
    producer = Producer("127.0.0.1:1", max_block_ms=300)
    with pytest.raises(NoBrokerError, match=r"within 0.3 s .*127.0.0.1:1"):
        producer.send("t", b"x")
    producer.close()


def test_without_idempotence_no_id_is_asked_for(broker):
    log = Log(broker)
    with producer_for(broker, acks=1) as producer:
        producer.send("t", b"x").result(HANG_S)
    assert broker.seen(InitProducerIdRequest) == []
    assert identity(log.stored[0]) == (-1, -1, -1, 1)


def test_acks_0_expects_no_answer(broker):
    broker.handlers[ProduceRequest] = lambda version, request: SILENCE
    with producer_for(broker, acks=0) as producer:
        assert producer.send("t", b"x").result(HANG_S).offset == -1


def test_a_refused_producer_id_fails_everything(broker):
    broker.handlers[InitProducerIdRequest] = lambda version, request: InitProducerIdResponse(
        error_code=Errors.CLUSTER_AUTHORIZATION_FAILED.code
    )
    producer = producer_for(broker)
    with pytest.raises(AuthorizationError):
        producer.send("t", b"x").result(HANG_S)
    with pytest.raises(ClientError, match=r"has failed"):
        producer.send("t", b"y")
    producer.close()


def test_close_gives_up_after_its_timeout(broker):
    broker.handlers[ProduceRequest] = lambda version, request: SILENCE
    producer = producer_for(broker, request_timeout_ms=FOR_EVER_MS, delivery_timeout_ms=2 * FOR_EVER_MS)
    future = producer.send("t", b"x")
    began = time.monotonic()
    producer.close(timeout=0.3)
    assert time.monotonic() - began < HANG_S  # not the request's time
    assert "closed" in str(future.exception(HANG_S))
    with pytest.raises(ClosedError):
        producer.send("t", b"y")


def test_flush_has_a_timeout(broker):
    broker.handlers[ProduceRequest] = lambda version, request: SILENCE
    producer = producer_for(broker)
    producer.send("t", b"x")
    with pytest.raises(ClientTimeoutError):
        producer.flush(0.2)
    producer.close(timeout=0)


def test_a_full_buffer_waits_and_then_says_so(broker):
    broker.handlers[ProduceRequest] = lambda version, request: SILENCE
    producer = producer_for(broker, buffer_memory=2000, max_block_ms=200)
    await_topic(producer, "t")
    with pytest.raises(BufferFullError, match=r"buffer_memory=2000"):
        for _ in range(100):
            producer.send("t", b"x" * 500)
    producer.close(timeout=0)


def test_a_record_above_the_limit_is_refused_before_it_is_sent(broker):
    Log(broker)
    with (
        producer_for(broker, max_request_size=1000) as producer,
        pytest.raises(RecordTooLargeError, match=r"max_request_size=1000"),
    ):
        producer.send("t", b"x" * 1000)


def test_a_callback_that_fails_is_logged_and_nothing_else(broker, caplog):
    Log(broker)
    with producer_for(broker) as producer:
        producer.send("t", b"x", on_delivery=lambda future: 1 / 0).result(HANG_S)
        assert producer.send("t", b"y").result(HANG_S).offset == 1
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    "options", [{"acks": 2}, {"acks": 1, "idempotent": True}, {"compression": "brotli"}, {"max_in_flight": 6}]
)
def test_settings_that_make_no_sense(options):
    with pytest.raises(ConfigError):
        Producer("127.0.0.1:1", **options)


@pytest.mark.parametrize("value", [1, 1.5, ["x"], object()])
def test_values_are_bytes_or_text(broker, value):
    with producer_for(broker) as producer, pytest.raises(ConfigError, match=r"give bytes, text or None"):
        producer.send("t", value)


def test_partition_that_is_not_there(broker):
    Log(broker)
    with producer_for(broker) as producer, pytest.raises(ConfigError, match=r"partitions 0 to 0, not 5"):
        producer.send("t", b"x", partition=5)


class Small(Log):
    """A topic that takes batches of at most `records` records."""

    def __init__(self, broker, records):
        super().__init__(broker)
        self.records = records

    def produce(self, version, request):
        (batch,) = batches_of(request)
        _, _, first, count = identity(batch)
        if count > self.records:
            return produced(request, error=Errors.MESSAGE_TOO_LARGE.code)
        assert first == sum(identity(stored)[3] for stored in self.stored), "numbered on without a gap"
        return super().produce(version, request)


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_a_batch_that_the_topic_finds_too_large_is_divided(broker, compression):
    log = Small(broker, 10)
    with producer_for(broker, linger_ms=60_000, compression=compression) as producer:
        seen = []
        futures = [
            producer.send("t", b"%d" % i, headers={"n": b"1"}, timestamp=1000 - i, on_delivery=seen.append)
            for i in range(100)
        ]
        producer.flush(HANG_S)
        assert [future.result(0).offset for future in futures] == list(range(100))
        assert seen == futures and producer.metrics()["batch-split-total"] > 5
    records = [r for batch in log.stored for r in decode_records(Record, "t", 0, bytes(batch))]
    assert [(r.value, r.timestamp, r.headers) for r in records] == [
        (b"%d" % i, 1000 - i, (("n", b"1"),)) for i in range(100)
    ]


def test_a_record_that_the_topic_finds_too_large_fails_alone(broker):
    class Picky(Log):
        def produce(self, version, request):
            (batch,) = batches_of(request)
            if b"bad" in batch:
                return produced(request, error=Errors.MESSAGE_TOO_LARGE.code)
            return super().produce(version, request)

    Picky(broker)
    with producer_for(broker, linger_ms=60_000) as producer:
        futures = [producer.send("t", b"bad" if i == 5 else b"good") for i in range(16)]
        producer.flush(HANG_S)
        failed = [i for i, future in enumerate(futures) if future.exception(0) is not None]
        assert failed == [5]
        assert isinstance(futures[5].exception(0), RecordTooLargeError)


def test_retries_may_be_bounded(broker):
    log = Log(broker, [Errors.NOT_ENOUGH_REPLICAS.code] * 10)
    with producer_for(broker, retries=2) as producer:
        with pytest.raises(ClientError, match=r"NOT_ENOUGH_REPLICAS"):
            producer.send("t", b"x").result(HANG_S)
        assert len(broker.seen(ProduceRequest)) == 3
        assert log.stored == []


def test_metrics_go_by_javas_names(broker):
    Log(broker)
    with producer_for(broker) as producer:
        for _ in range(3):
            producer.send("t", b"x" * 100).result(HANG_S)
        found = producer.metrics()
    assert found["record-send-total"] == 3 and found["request-total"] == 3
    assert found["batch-size-avg"] == pytest.approx(found["batch-size-max"])
    assert found["record-send-rate"] > 0 and found["records-per-request-avg"] == 1
    assert found["buffer-total-bytes"] == 33_554_432 == found["buffer-available-bytes"]


def test_a_topic_is_a_name(broker):
    with producer_for(broker) as producer, pytest.raises(ConfigError, match=r"topic is b't'"):
        producer.send(b"t", b"x")


def test_memory_of_divided_batches_is_used_again(broker):
    def produce(version, request):
        (batch,) = batches_of(request)
        error = Errors.MESSAGE_TOO_LARGE.code if identity(batch)[3] > 5 else 0
        return produced(request, error=error)

    broker.handlers[ProduceRequest] = produce

    def send_some(producer):
        for _ in range(4_000):
            producer.send("t", b"." * 300)
        producer.flush(HANG_S)

    with producer_for(broker, linger_ms=1, batch_size=6_000, retry_backoff_ms=1) as producer:
        send_some(producer)
        before = resident_bytes()
        for _ in range(4):
            broker.requests.clear()
            send_some(producer)
        assert resident_bytes() - before < (6 << 20) + resident_slack()
