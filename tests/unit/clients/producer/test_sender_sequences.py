"""Sequence numbers (KIP-98, KIP-360): despite refusals and losses, records are stored once and in order."""

import contextlib
import socket
import threading

import pytest

from bowstring.clients.producer.producer import Producer
from bowstring.clients.producer.sender import EPOCH_MAX
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from bowstring.protocol.messages.metadata import MetadataRequest
from bowstring.protocol.messages.produce import ProduceRequest
from tests.support.assembled_sender import assembled
from tests.support.fake_broker import CLOSE, SILENCE, FakeBroker, batches_of, produced
from tests.support.offline_producer import OfflineProducer
from tests.support.produce_cluster import PartitionLog
from tests.support.produced_batches import identity
from tests.support.waiting import FOR_EVER_MS, HANG_S, wait_until

PATIENT = {
    "linger_ms": 0,
    "retry_backoff_ms": 1,
    "request_timeout_ms": FOR_EVER_MS,
    "delivery_timeout_ms": 2 * FOR_EVER_MS,
}


class Scripted:
    """A broker with one partition as Kafka stores it; `says(number, request)` decides about requests, from 1 on."""

    def __init__(self, broker, says=lambda number, request: None):
        self.log, self.says, self.number = PartitionLog(), says, 0
        broker.handlers[ProduceRequest] = self.produce

    def produce(self, version, request):
        self.number += 1
        said = self.says(self.number, request)
        return self.store(request) if said is None else said

    def store(self, request):
        (batch,) = batches_of(request)
        error, offset = self.log.append(bytes(batch))
        return produced(request, error=error, base_offset=offset)


def hold_back_identity(broker):
    """Nothing is sent until the returned event is set; then everything is."""
    held = threading.Event()

    def identify(version, request):
        held.wait(HANG_S)
        return InitProducerIdResponse(producer_id=7, producer_epoch=0)

    broker.handlers[InitProducerIdRequest] = identify
    return held


def refusal(error):
    return lambda number, request: produced(request, error=error) if number == 1 else None


def too_large(number, request):
    if identity(batches_of(request)[0])[3] > 2:
        return produced(request, error=Errors.MESSAGE_TOO_LARGE.code)
    return None


@pytest.mark.parametrize(
    "says", [too_large, refusal(Errors.NOT_ENOUGH_REPLICAS.code)], ids=["too large", "refused"]
)
def test_the_first_batch_is_not_overtaken(says):
    """Brokers accept any first sequence number of a producer that is new to them."""
    with FakeBroker() as broker:
        kept = Scripted(broker, says)
        held = hold_back_identity(broker)
        with Producer(broker.bootstrap, **{**PATIENT, "linger_ms": 60_000}, batch_size=300) as producer:
            for number in range(5):  # three in the first batch, two in the second
                producer.send("t", b"%d" % number + b"." * 60)
            held.set()
            producer.flush(HANG_S)
    assert [value[:1] for value in kept.log.values] == [b"0", b"1", b"2", b"3", b"4"]


def test_what_may_be_stored_keeps_its_number_when_one_before_it_fails():
    """With a new number it would be stored twice."""

    def says(number, request):
        if number in (2, 3):  # stored, but the answer is lost
            kept.store(request)
            return SILENCE if number == 2 else CLOSE
        return produced(request, error=Errors.TOPIC_AUTHORIZATION_FAILED.code) if number == 4 else None

    with FakeBroker() as broker:
        kept = Scripted(broker, says)
        with Producer(broker.bootstrap, **PATIENT, batch_size=80) as producer:
            producer.send("t", b"first").result(HANG_S)
            second, third = producer.send("t", b"second" * 10), producer.send("t", b"third" * 10)
            assert "TOPIC_AUTHORIZATION_FAILED" in str(second.exception(HANG_S))
            assert third.result(HANG_S).offset == 2
            assert producer.send("t", b"last").result(HANG_S).offset == 3
    assert kept.log.values == [b"first", b"second" * 10, b"third" * 10, b"last"]


def test_what_may_be_stored_keeps_its_number_when_one_after_it_fails():
    def says(number, request):
        if number == 2:
            kept.store(request)
            return produced(request, error=Errors.REQUEST_TIMED_OUT.code)
        return produced(request, error=Errors.TOPIC_AUTHORIZATION_FAILED.code) if number == 3 else None

    with FakeBroker() as broker:
        kept = Scripted(broker, says)
        with Producer(broker.bootstrap, **{**PATIENT, "retry_backoff_ms": 100}, batch_size=80) as producer:
            producer.send("t", b"first").result(HANG_S)
            taken = [producer.send("t", b"second" * 10), producer.send("t", b"third" * 10)]
            outcomes = [future.exception(HANG_S) for future in taken]
            producer.send("t", b"last").result(HANG_S)
    assert len(set(kept.log.values)) == len(kept.log.values), "stored twice"
    assert outcomes[0] is None and kept.log.values[-1] == b"last"


def test_a_gap_after_failures_begins_the_next_epoch():
    with FakeBroker() as broker:
        kept = Scripted(broker, lambda number, request: CLOSE if number in (2, 3) else None)
        with Producer(broker.bootstrap, **PATIENT, retries=1) as producer:
            producer.send("t", b"first").result(HANG_S)
            assert producer.send("t", b"lost").exception(HANG_S) is not None
            producer.send("t", b"last").result(HANG_S)
    assert kept.log.values == [b"first", b"last"]


def test_epochs_that_failures_use_up():
    ids = [(7, EPOCH_MAX - 2), (8, 0)]
    with FakeBroker() as broker:
        broker.handlers[InitProducerIdRequest] = lambda version, request: InitProducerIdResponse(
            producer_id=ids[0][0], producer_epoch=ids.pop(0)[1]
        )
        kept = Scripted(
            broker,
            lambda number, request: (
                produced(request, error=Errors.INVALID_RECORD.code) if number < 6 else None
            ),
        )
        with Producer(broker.bootstrap, **PATIENT) as producer:
            for _ in range(5):
                assert "INVALID_RECORD" in str(producer.send("t", b"bad").exception(HANG_S))
            producer.send("t", b"good").result(HANG_S)
    assert kept.log.values == [b"good"] and not ids


def test_another_producer_id_waits_for_what_is_in_flight():
    """The broker sees no order between batches of two producer ids."""
    producer = OfflineProducer(batch_size=200)
    shared = producer.accumulator
    queue = shared.queue("t", 0)

    def sent():
        producer.send("t", b"x", partition=0)
        batch = shared.take(queue)
        shared.seal([batch], 1.0)
        return batch

    shared.identify(7, 0)
    shared.complete(sent(), None, 0)
    first, second = sent(), sent()
    producer.send("t", b"y", partition=0)
    assert queue.due_in_s(2.0, 0.0, 200, True) == 0.0
    shared.forget_identity()
    shared.identify(8, 0)
    assert queue.due_in_s(2.0, 0.0, 200, True) == float("inf")
    shared.complete(first, None, 1)
    assert queue.due_in_s(2.0, 0.0, 200, True) == float("inf")
    shared.complete(second, None, 2)
    assert queue.due_in_s(2.0, 0.0, 200, True) == 0.0
    batch = shared.take(queue)
    shared.seal([batch], 3.0)
    assert (batch.producer, batch.base_sequence) == ((8, 0), 0)


@pytest.mark.parametrize("linger_ms", [0, 1])
def test_the_next_leader_gets_nothing_before_the_last_has_answered(linger_ms):
    """Otherwise more than five batches, a broker's limit, could be in flight, or one overtake another."""
    leader = [1]

    def metadata(version, request):
        answer = FakeBroker.metadata(one, version, request)
        answer.brokers = [
            type(answer.brokers[0])(node_id=number, host=broker.host, port=broker.port)
            for number, broker in ((1, one), (2, other))
        ]
        for topic in answer.topics:
            topic.partitions[0].leader_id = leader[0]
        return answer

    with FakeBroker() as one, FakeBroker() as other:
        kept = Scripted(one, lambda number, request: SILENCE if number == 2 else None)
        other.handlers[ProduceRequest] = kept.produce
        for broker in (one, other):
            broker.handlers[MetadataRequest] = metadata
        producer, sender = assembled(one, **{**PATIENT, "linger_ms": linger_ms})
        try:
            producer.send("t", b"first").result(HANG_S)
            queue = producer.accumulator.queue("t", 0)
            futures = [producer.send("t", b"second")]
            wait_until(lambda: kept.number == 2, "the second is not sent")
            leader[0] = 2
            version = producer.accumulator.metadata_version
            sender.cluster.invalidate()
            producer.accumulator.ask()
            wait_until(lambda: producer.accumulator.metadata_version > version, "no metadata")
            futures.append(producer.send("t", b"third"))
            wait_until(
                lambda: queue.leader is not None and queue.leader.id == 2 and producer.loop.asleep,
                "the queue is not placed",
            )
            assert other.seen(ProduceRequest) == []
            for each in one.sockets:
                with contextlib.suppress(OSError):  # it is closed already
                    each.shutdown(socket.SHUT_RDWR)
            for future in futures:
                future.result(HANG_S)
        finally:
            producer.close(0)
    assert kept.log.values == [b"first", b"second", b"third"]


@pytest.mark.parametrize("error", [Errors.INVALID_RECORD, Errors.NONE])
def test_callers_go_on_when_there_is_room_again(error):
    """Whether the batch that freed the memory was delivered or failed."""
    released = threading.Event()

    def answer(version, request):
        released.wait(HANG_S)
        return produced(request, error=error.code)

    with FakeBroker() as broker:
        broker.handlers[ProduceRequest] = answer
        producer = Producer(broker.bootstrap, **PATIENT, buffer_memory=2_000, max_block_ms=FOR_EVER_MS)
        try:
            producer.send("t", b"x" * 1_900)
            caller = threading.Thread(target=producer.send, args=("t", b"x" * 1_900), daemon=True)
            caller.start()
            wait_until(lambda: producer.accumulator.room_waiters == 1, "there is room")
            released.set()
            caller.join(HANG_S)
            assert not caller.is_alive(), "nobody tells of room"
        finally:
            released.set()
            producer.close(0)
