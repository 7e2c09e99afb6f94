"""How slow batches are worked on: memory, failures, stopping. The work itself is the tests', or stands still."""

import asyncio
import os
import threading
import uuid
from contextlib import contextmanager

import pytest

from bowstring._native.record.encode import encode_batch
from bowstring._native.server.recompress import working_bytes
from bowstring.engine.broker.slow_batches import SlowBatches, work_on
from tests.support.memory import resident_bytes, resident_slack
from tests.support.plane_requests import batch, produce
from tests.support.served_plane import Served
from tests.support.slow_batches import Crowd, await_none_counted, counts, values_in
from tests.support.waiting import HANG_S, wait_until

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
REQUEST_TIMED_OUT, MESSAGE_TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION = 7, 10, 3


async def unexpected(slow):
    raise AssertionError("no batch here has a schema to look up")


class Control:
    """A control thread that does nothing but finish slow batches."""

    def __init__(self, served, work=work_on):
        self.served = served
        self.loop = asyncio.new_event_loop()
        self.taken = 0
        self._running = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(work,))
        self._thread.start()
        self._running.wait()

    def _run(self, work):
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(self._begin, work)
        self.loop.run_forever()

    def _begin(self, work):
        self.slow = SlowBatches(self.served.plane, lambda slow: None, unexpected, work)
        self.loop.add_reader(self.served.plane.control_fd, self._take)
        self._running.set()

    def _take(self):
        for slow in self.served.plane.take_requests():
            self.slow.take(slow)
            self.taken += 1
        self.slow.begin()

    def stop(self, timeout_s=HANG_S, then=lambda: None):
        """`then` is called once it is stopping."""

        async def stopping():
            task = asyncio.create_task(self.slow.stop(timeout_s))
            await asyncio.sleep(0)
            then()
            await task

        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(stopping(), self.loop).result(timeout_s + HANG_S)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()


@contextmanager
def controlled(directory, work=work_on, codec=GZIP, **settings):
    served = Served(directory, **settings)
    served.add_topic(
        "zipped", uuid.uuid4().bytes, 2, compression=codec, max_message_bytes=64 << 20, segment_bytes=1 << 30
    )
    control = Control(served, work)
    try:
        yield served, control
    finally:
        control.stop()
        served.close()


class Gate:
    """Work that stands still until it is released; `begun` counts the started items."""

    def __init__(self, then=work_on):
        self.then, self.begun, self.open = then, 0, threading.Event()

    def __call__(self, slow, level, limit):
        self.begun += 1
        assert self.open.wait(HANG_S)
        return self.then(slow, level, limit)


def answer(client):
    return client.receive(0, 9).responses[0].partition_responses[0]


def send(client, data, partition=0):
    client.send(produce(data, 9, topic="zipped", partition=partition, timeout_ms=60_000), 9)


def test_memory_while_the_codecs_stand_still(tmp_path):
    """Everything together: 160 MB to send, and half a megabyte each for waiting and running work."""
    gate, most = Gate(), 512 << 10
    with controlled(tmp_path, gate, slow_max_bytes=most) as (served, _):
        before = resident_bytes()
        crowd = Crowd(served, clients=20, requests=200, size=40_000)
        wait_until(lambda: counts(served)[2] >= 18 and gate.begun > 0, "they wait for room")
        waiting, working, _ = counts(served)
        assert waiting <= most
        assert working <= most
        assert resident_bytes() - before < 2 * most + 20 * (600 << 10) + resident_slack()
        gate.open.set()
        for thread in crowd.threads:
            thread.join()
        crowd.check()
        await_none_counted(served)


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("wanted", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_compressed_batches_share_the_memory_there_is(tmp_path, codec, wanted):
    """Each decompresses to a megabyte, and there is room for two of them: all get through, one after the other."""
    counted, running = [], []

    def watched(slow, level, limit):
        counted.append(counts(running[0])[1])
        return work_on(slow, level, limit)

    with controlled(tmp_path, watched, wanted, slow_max_bytes=3 << 20) as (served, _):
        running.append(served)
        clients = [served.client() for _ in range(6)]
        sent = [b"%d " % number + bytes(1 << 20) for number in range(6)]
        for number, client in enumerate(clients):
            send(client, encode_batch([(None, sent[number], 1_700_000_000_000, None)], codec), number % 2)
        assert [answer(client).error_code for client in clients] == [0] * 6
        found = values_in(served) + values_in(served, partition=1)
        assert sorted(found) == sorted(sent)
        await_none_counted(served)
        if codec != wanted:
            assert min(counted) > 0


def test_a_batch_that_is_larger_than_it_says_gets_more_memory(tmp_path):
    """Lz4 does not state its size: it is tried with little memory first, then with more, then alone."""
    limits = []

    def noted(slow, level, limit):
        limits.append(limit)
        return work_on(slow, level, limit)

    with controlled(tmp_path, noted, codec=ZSTD) as (served, _):
        client = served.client()
        value = bytes(40 << 20)
        send(client, encode_batch([(None, value, 1_700_000_000_000, None)], LZ4))
        send(client, batch(b"behind"))
        assert [(part.error_code, part.base_offset) for part in (answer(client), answer(client))] == [
            (0, 0),
            (0, 1),
        ]
        assert values_in(served) == [value, b"behind"]
        assert len(limits) > 2
        assert limits[0] < 40 << 20 <= max(limits) <= 128 << 20
        await_none_counted(served)


def test_more_than_any_batch_may_hold_is_too_large(tmp_path):
    with controlled(tmp_path, codec=ZSTD) as (served, _):
        client = served.client()
        bomb = encode_batch([(None, bytes(129 << 20), 1_700_000_000_000, None)], GZIP)
        assert len(bomb) < 200_000
        send(client, bomb)
        told = answer(client)
        assert told.error_code == MESSAGE_TOO_LARGE
        assert "decompress to more than 134217728 bytes" in told.error_message
        await_none_counted(served)


def test_what_memory_is_asked_for(tmp_path):
    """By what the batch says of itself, if it does; and never without bound."""
    seen = {}

    def noted(slow, level, limit):
        seen[slow.codec] = [working_bytes(slow, tries) for tries in range(8)]
        return work_on(slow, level, 128 << 20)

    with controlled(tmp_path, noted, codec=NONE) as (served, _):
        client = served.client()
        for codec in (GZIP, SNAPPY, LZ4, ZSTD):
            send(client, encode_batch([(None, bytes(5_000_000), 1_700_000_000_000, None)], codec))
        assert [answer(client).error_code for _ in range(4)] == [0] * 4
        for codec in (GZIP, SNAPPY):  # our zstd says it, too, but not that of streaming clients
            assert 5_000_000 < seen[codec][0][0] < 5_000_100
        assert seen[LZ4][0][0] == 1 << 20
        for found in seen.values():
            assert [limit for limit, _ in found] == sorted(limit for limit, _ in found)
            assert found[-1][0] == 128 << 20
            assert all(limit < memory < 4 * limit for limit, memory in found)


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize("error", [MemoryError, RuntimeError, ZeroDivisionError, OSError, SystemExit])
def test_whatever_goes_wrong_the_producer_is_to_try_again(tmp_path, caplog, error):
    """UNKNOWN_SERVER_ERROR would make an idempotent producer give its sequence up; the batch was not stored."""
    failing = [True]

    def broken(slow, level, limit):
        if failing:
            raise error("on purpose")
        return work_on(slow, level, limit)

    with controlled(tmp_path, broken) as (served, _):
        client = served.client()
        data = encode_batch(
            [(b"k", b"v", 1_700_000_000_000, None)], producer_id=5, producer_epoch=0, base_sequence=0
        )
        send(client, data)
        told = answer(client)
        assert told.error_code == REQUEST_TIMED_OUT
        assert "nothing was stored" in told.error_message
        failing.clear()
        for _ in range(2):  # again, and once more: it is stored once
            send(client, data)
            assert (lambda part: (part.error_code, part.base_offset))(answer(client)) == (0, 0)
        assert served.logs["zipped", 0].log_end_offset == 1
        await_none_counted(served)
    if error is not SystemExit:
        assert any("gets REQUEST_TIMED_OUT" in line.getMessage() for line in caplog.records)


def test_threads_that_cannot_be_started(tmp_path, monkeypatch, caplog):
    def refused(self):
        raise RuntimeError("can't start new thread")

    with controlled(tmp_path) as (served, _):
        client = served.client()
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refused)
            send(client, batch(b"v"))
            assert answer(client).error_code == REQUEST_TIMED_OUT
        send(client, batch(b"w"))
        assert answer(client).error_code == 0
        assert values_in(served) == [b"w"]
        await_none_counted(served)
    assert len([line for line in caplog.records if "gets REQUEST_TIMED_OUT" in line.getMessage()]) == 1


def test_one_that_fails_does_not_hold_back_those_behind_it(tmp_path):
    def work(slow, level, limit):
        if b"bad" in slow.batch:
            raise ValueError("on purpose")
        return work_on(slow, level, limit)

    with controlled(tmp_path, work) as (served, _):
        client = served.client()
        for value in (b"one", b"bad", b"two"):
            send(client, batch(value))
        told = [answer(client) for _ in range(3)]
        assert [part.error_code for part in told] == [0, REQUEST_TIMED_OUT, 0]
        assert values_in(served) == [b"one", b"two"]
        await_none_counted(served)


# ---------------------------------------------------------------- ends


def test_stopping_waits_for_what_is_worked_on_and_refuses_the_rest(tmp_path):
    gate = Gate()
    with controlled(tmp_path, gate) as (served, control):
        clients = [served.client() for _ in range(30)]
        for number, client in enumerate(clients):
            send(client, batch(b"%d" % number), number % 2)
        begun = min(8, os.cpu_count())
        wait_until(lambda: control.taken == 30 and gate.begun == begun, "all of them wait")
        control.stop(then=gate.open.set)
        codes = [answer(client).error_code for client in clients]
        assert codes.count(0) == begun
        assert codes.count(REQUEST_TIMED_OUT) == 30 - begun
        await_none_counted(served)


def test_stopping_does_not_wait_for_ever(tmp_path):
    """Overdue work is answered, and its outcome dropped; its thread ends later, without harm."""
    gate = Gate()
    with controlled(tmp_path, gate) as (served, control):
        clients = [served.client() for _ in range(10)]
        for client in clients:
            send(client, batch(b"v"))
        wait_until(lambda: control.taken == 10 and gate.begun, "all of them wait")
        control.stop(timeout_s=0.05)
        assert [answer(client).error_code for client in clients] == [REQUEST_TIMED_OUT] * 10
        assert served.logs["zipped", 0].log_end_offset == 0
        gate.open.set()
        wait_until(
            lambda: not any(each.name.startswith("slow-batches") for each in threading.enumerate()),
            "its threads have ended",
        )
        await_none_counted(served)


def test_a_plane_that_stops_under_the_work(tmp_path):
    gate = Gate()
    with controlled(tmp_path, gate) as (served, control):
        client = served.client()
        for _ in range(5):
            send(client, batch(b"v"))
        wait_until(lambda: control.taken == 5 and gate.begun, "all of them wait")
        served.plane.stop()
        gate.open.set()
        control.stop()
        assert client.closed()
        assert served.logs["zipped", 0].log_end_offset == 0


def test_a_topic_removed_under_the_work(tmp_path):
    gate = Gate()
    with controlled(tmp_path, gate, slow_max_bytes=200_000) as (served, _):
        clients = [served.client() for _ in range(12)]
        for client in clients:
            send(client, batch(bytes(30_000)))
        wait_until(lambda: counts(served)[2] > 0 and gate.begun, "some wait for room")
        served.plane.remove_topic("zipped")
        gate.open.set()
        assert {answer(client).error_code for client in clients} == {UNKNOWN_TOPIC_OR_PARTITION}
        await_none_counted(served)
