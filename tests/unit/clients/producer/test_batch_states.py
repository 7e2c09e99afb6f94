"""Only the accumulator's methods change the state of batches and queues, as its table allows."""

import re
from pathlib import Path

import pytest

from bowstring.clients.errors import ClientError
from tests.support.offline_producer import OfflineProducer

SOURCES = Path(__file__).resolve().parents[4]
# From the callers down: each may use those behind it in this list.
LAYERS = [
    "producer/producer",
    "client/record_sender",
    "producer/sender",
    "client/sender_loop",
    "client/produce_channel",
    "client/produce_requests",
    "client/accumulator",
    "client/producer_batch",
]


@pytest.fixture
def producer():
    return OfflineProducer(batch_size=200)


@pytest.fixture
def shared(producer):
    return producer.accumulator


def open_batch(producer, value=b"x"):
    producer.send("t", value, partition=0)
    return producer.accumulator.queue("t", 0).waiting[-1]


def taken(producer, records=1):
    for _ in range(records):
        open_batch(producer)
    return producer.accumulator.take(producer.accumulator.queue("t", 0))


def test_a_batch_that_is_delivered(producer, shared):
    batch = open_batch(producer)
    assert batch.stage == "open"
    assert open_batch(producer, b"y" * 150) is not batch
    assert batch.stage == "waiting"
    assert shared.take(shared.queue("t", 0)) is batch
    assert batch.stage == "in flight"
    shared.seal([batch], 1.0)
    shared.complete(batch, None, 7)
    assert batch.stage == "completed" and not batch.done and shared.completed == [batch]
    assert batch not in shared.queue("t", 0).in_flight
    before = shared.buffered_bytes
    shared.publish()
    assert batch.stage == "done" and batch.base_offset == 7 and shared.completed == []
    assert shared.buffered_bytes == before - batch.size_bytes and batch not in shared.unfinished


def test_an_open_batch_may_be_taken(producer, shared):
    batch = taken(producer)
    assert batch.stage == "in flight"
    assert open_batch(producer) is not batch


def test_a_batch_that_is_sent_again_goes_before_those_after_it(producer, shared):
    queue = shared.queue("t", 0)
    batch = taken(producer)
    shared.seal([batch], 1.0)
    later = open_batch(producer)
    shared.retry(batch, 5.0)
    assert batch.stage == "retrying" and list(queue.waiting) == [batch, later]
    assert queue.due_in_s(2.0, 0.0, 200, True) == 3.0
    assert shared.take(queue) is batch and batch.stage == "in flight"
    shared.seal([batch], 6.0)
    assert queue.due_in_s(6.0, 0.0, 200, True) == float("inf"), "nothing newer goes beside it"


def test_a_batch_that_is_divided(producer, shared):
    batch = taken(producer, 4)
    buffered = shared.buffered_bytes
    shared.divide(batch)
    halves = list(shared.queue("t", 0).waiting)
    assert batch.stage == "divided" and batch not in shared.unfinished
    assert [half.record_count for half in halves] == [2, 2] and shared.unfinished == set(halves)
    for half in halves:
        shared.complete(half, None, 0)
    shared.publish()
    assert batch.stage == "done" and shared.buffered_bytes == buffered - batch.size_bytes


def test_a_batch_has_one_outcome(producer, shared):
    """Its request may be answered after it was given up because the producer failed or was closed."""
    batch, error = taken(producer), ClientError("given up")
    shared.complete_all(error)
    shared.complete(batch, None, 7)
    shared.retry(batch, 0.0)
    assert shared.completed == [batch] and shared.failures() == [batch]
    shared.publish()
    shared.retry(batch, 0.0)
    shared.divide(batch)
    shared.complete(batch, None, 7)
    assert batch.stage == "done" and batch.error is error
    assert not shared.completed and not shared.active and not shared.unfinished


def test_what_is_late(producer, shared):
    batch = open_batch(producer)
    found, nearest_s = shared.late(batch.created_at)
    assert found == [] and nearest_s == pytest.approx(batch.deadline - batch.created_at)
    assert shared.late(batch.deadline) == ([batch], float("inf"))


def test_who_waits_for_room_is_told_when_there_is_enough(producer, shared):
    first, second = taken(producer), taken(producer)
    with shared.waiting(True):
        assert not shared.publish(), "nothing is new"
        shared.buffered_bytes = shared.buffer_memory
        shared.complete(first, None)
        assert not shared.publish()
        shared.buffered_bytes = shared.buffer_memory // 2
        shared.complete(second, None)
        assert shared.publish()
    assert (shared.waiters, shared.room_waiters) == (0, 0)


def source(name, ending):
    folder = SOURCES / ("_native" if name.startswith("client/") else "python/bowstring/clients")
    path = folder / f"{name}{ending}"
    return path.read_text() if path.exists() else ""


def test_calls_go_one_way():
    for at, name in enumerate(LAYERS):
        text = "".join(source(name, ending) for ending in (".py", ".pyx", ".pxd"))
        assert text, name
        imported = set(
            re.findall(r"^(?:from|import) bowstring\S*?\b((?:client|producer)\.\w+) c?import", text, re.M)
        )
        above = {layer.replace("/", ".") for layer in LAYERS[:at]}
        assert not imported & above, f"{name} knows modules above it"
