"""Aborted transactions in fetches: an answer lists all that touch its records, however many there are."""

import os
import random
import threading

import pytest

from bowstring._native.log.transaction_index import aborted_max
from bowstring.engine.local import requests as local_requests
from bowstring.protocol.local_reads import SegmentsRequest
from tests.support import faults
from tests.support.log_batches import CONTROL, NOW_MS, TRANSACTIONAL, batch, headers, marker
from tests.support.plane_requests import fetch
from tests.support.plane_requests import produce as produce_request
from tests.support.served_plane import TOPIC, Served
from tests.support.waiting import HANG_S

ABORT_MARKER = b"\x00\x00\x00\x00"


class Transactions:
    """Writes transactions into a log and remembers which offsets a read_committed reader may see."""

    def __init__(self, log):
        self.log = log
        self.sequences: dict[int, int] = {}
        self.open: dict[int, list[int]] = {}
        self.visible: list[int] = []
        self.aborted = 0

    def write(self, producer: int, records: int = 1) -> None:
        sequence = self.sequences.get(producer, 0)
        values = [b"t%d" % i for i in range(records)]
        data = batch(values, producer_id=producer, epoch=0, sequence=sequence, attributes=TRANSACTIONAL)
        first = self.log.append(data, 0, NOW_MS)
        self.sequences[producer] = sequence + records
        self.open.setdefault(producer, []).extend(range(first, first + records))

    def write_plain(self) -> None:
        self.visible.append(self.log.append(batch(), 0, NOW_MS))

    def end(self, producer: int, *, abort: bool) -> None:
        written = self.open.pop(producer)
        self.log.append(marker(producer, 0, abort=abort), 0, NOW_MS)
        self.aborted += abort
        self.visible += [] if abort else written

    def finish(self) -> None:
        for producer in list(self.open):
            self.end(producer, abort=True)
        self.log.advance_high_watermark(self.log.log_end_offset)
        self.visible.sort()


def seen(data: bytes, aborted: list[tuple[int, int]]) -> list[int]:
    """What Kafka's consumer returns: offsets of the data batches that no aborted transaction covers."""
    waiting = sorted(aborted, key=lambda each: each[1])
    out: set[int] = set()
    offsets: list[int] = []
    for each in headers(data):
        producer = int.from_bytes(each.data[43:51], "big", signed=True)
        while waiting and waiting[0][1] <= each.last_offset:
            out.add(waiting.pop(0)[0])
        if each.attributes & CONTROL:
            if ABORT_MARKER in each.data[61:]:
                out.discard(producer)
        elif not (each.attributes & TRANSACTIONAL and producer in out):
            offsets += range(each.base_offset, each.last_offset + 1)
    return offsets


def read_committed(client, end: int, **how) -> tuple[list[int], list[int]]:
    """Everything a read_committed reader sees, and how many aborted transactions each answer listed."""
    offset, found, told = 0, [], []
    while offset < end:
        part = client.call(fetch(17, offset=offset, isolation=1, **how), 17).responses[0].partitions[0]
        assert part.error_code == 0 and part.records
        aborted = [(each.producer_id, each.first_offset) for each in part.aborted_transactions]
        assert len(set(aborted)) == len(aborted)
        found += [n for n in seen(part.records, aborted) if n >= offset]
        told.append(len(aborted))
        offset = headers(part.records)[-1].last_offset + 1
    return found, told


@pytest.fixture
def few():
    """A fetch lists at most twenty for a partition."""
    before = aborted_max(20)
    yield 20
    aborted_max(before)


@pytest.fixture
def one_reactor(tmp_path):
    served = Served(tmp_path)
    yield served
    served.close()


def aborted_one_by_one(served, count: int) -> Transactions:
    written = Transactions(served.logs[TOPIC, 0])
    for i in range(count):
        written.write(i % 10)
        written.end(i % 10, abort=i % 20 != 7)
    written.finish()
    return written


def interleaved(log, steps: int, seed: int) -> Transactions:
    """Transactions of thirty producers, some of them open for long, with plain records between them."""
    chance = random.Random(seed)
    written = Transactions(log)
    for _ in range(steps):
        producer = chance.randrange(30)
        if chance.random() < 0.1:
            written.write_plain()
        elif producer in written.open and chance.random() < (0.1 if producer < 25 else 0.01):
            written.end(producer, abort=chance.random() < 0.8)
        else:
            written.write(producer, chance.randrange(1, 4))
    written.finish()
    return written


def test_more_than_4096_aborted_transactions_in_one_slice(one_reactor):
    written = aborted_one_by_one(one_reactor, 6000)
    end = one_reactor.logs[TOPIC, 0].log_end_offset
    found, told = read_committed(one_reactor.client(), end, partition_max_bytes=64 << 20)
    assert max(told) > 4096
    assert sum(told) == written.aborted
    assert found == written.visible


def test_a_slice_that_too_many_touch_gets_shorter(one_reactor, few):
    written = aborted_one_by_one(one_reactor, 500)
    end = one_reactor.logs[TOPIC, 0].log_end_offset
    found, told = read_committed(one_reactor.client(), end, partition_max_bytes=64 << 20)
    assert found == written.visible
    assert max(told) <= few < len(told)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("max_bytes", [1, 3000, 1 << 20])
def test_interleaved_transactions_against_a_model(tmp_path, few, seed, max_bytes):
    served = Served(tmp_path)
    try:
        served.add_topic("model", bytes(15) + b"m", 1, segment_bytes=30_000, index_interval_bytes=500)
        log = served.logs["model", 0]
        written = interleaved(log, 1500, seed)
        assert len(log.segments()) > 3
        how = {"topic_id": bytes(15) + b"m", "partition_max_bytes": max_bytes}
        found, told = read_committed(served.client(), log.log_end_offset, **how)
        assert found == written.visible
        assert max(told) > 10
    finally:
        served.close()


def test_one_batch_that_more_touch_is_told_of_all(one_reactor, few):
    written = Transactions(one_reactor.logs[TOPIC, 0])
    for producer in range(3 * few):
        written.write(producer)
    written.finish()
    found, told = read_committed(one_reactor.client(), 6 * few, partition_max_bytes=64 << 20)
    assert found == written.visible == []
    assert max(told) == 3 * few


@pytest.mark.parametrize("most", [20, 1 << 18])
def test_local_readers_are_told_of_all(tmp_path, most):
    served = Served(tmp_path)
    try:
        served.add_topic("model", bytes(15) + b"m", 1, segment_bytes=30_000, index_interval_bytes=500)
        log = served.logs["model", 0]
        written = interleaved(log, 1500, 5)
        offset, found, answers = 0, [], 0
        while offset < log.last_stable_offset:
            request = SegmentsRequest("model", 0, offset, isolation=1)
            answer = local_requests.look_at(log, request, most)
            data = b"".join(
                os.pread(each.fd, each.end_position - each.start_position, each.start_position)
                for each in answer.segments
            )
            local_requests.close_segments(answer)
            found += [n for n in seen(data, answer.aborted) if n >= offset]
            assert answer.next_offset > offset
            offset = answer.next_offset
            answers += 1
        assert found == written.visible
        assert answers > 5 if most == 20 else answers == 1
    finally:
        served.close()


def test_an_index_that_is_not_in_memory_holds_up_nobody_else(one_reactor):
    """Neither the reactor's other connections nor appends to the same log wait for the disk read."""
    written = aborted_one_by_one(one_reactor, 300)
    entered, go, read = threading.Event(), threading.Event(), threading.Event()

    def make(original):
        def pread(fd, data, size_bytes, position):
            if os.readlink(f"/proc/self/fd/{fd}").endswith(".txnindex"):
                entered.set()
                go.wait(HANG_S)
                read.set()
            return original(fd, data, size_bytes, position)

        return pread

    def cached(original):
        return lambda fd, *range: int(
            read.is_set() or not os.readlink(f"/proc/self/fd/{fd}").endswith(".txnindex")
        )

    client, other = one_reactor.client(), one_reactor.client()
    try:
        with faults.all_replaced({"pread": make, "cached": cached}):
            client.send(fetch(17, isolation=1, partition_max_bytes=64 << 20), 17)
            assert entered.wait(HANG_S)
            for partition in (0, 1):
                answer = other.call(produce_request(batch(), 9, partition=partition), 9)
                assert answer.responses[0].partition_responses[0].error_code == 0
            assert not read.is_set()
            go.set()
            part = client.receive(1, 17).responses[0].partitions[0]
    finally:
        go.set()
    aborted = [(each.producer_id, each.first_offset) for each in part.aborted_transactions]
    assert len(aborted) == written.aborted
    assert seen(part.records, aborted)[: len(written.visible)] == written.visible
