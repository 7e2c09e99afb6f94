"""Reads of data that is not in memory: parked, read by a storage thread, checked, then served."""

import errno
import os
import threading
import time
import uuid
from pathlib import Path

import pytest

from tests.support import faults
from tests.support.cold_logs import VALUE, evict, reopened
from tests.support.fetch_sessions import at, open_session
from tests.support.plane_requests import batch, fetch, fetch_topic, produce, records_of
from tests.support.served_plane import TOPIC, Served
from tests.support.waiting import FOR_EVER_MS, HANG_S

TASKS = Path("/proc/self/task")
KAFKA_STORAGE_ERROR, UNKNOWN_TOPIC_ID = 56, 100
MANY_ID = uuid.uuid5(uuid.NAMESPACE_DNS, "many").bytes


def fill(client, batches: int, partition: int = 0) -> None:
    for i in range(batches):
        client.call(
            produce(batch(*(b"%d-%d" % (i, k) + VALUE for k in range(10))), 9, partition=partition), 9
        )


def written(tmp_path, batches: int = 400) -> None:
    """A topic of several closed segments, left by a plane that was shut down cleanly."""
    served = Served(tmp_path)
    fill(served.client(), batches)
    served.close()
    evict(tmp_path / f"{TOPIC}-0")


def read_all(client, offset: int, **how) -> list[int]:
    """Offsets of everything from `offset` on."""
    found: list[int] = []
    while True:
        part = client.call(fetch(17, offset=offset, **how), 17).responses[0].partitions[0]
        assert part.error_code == 0
        records = records_of(part.records or b"")
        if not records:
            return found
        found += [n for n, _ in records if n >= offset]
        offset = found[-1] + 1


def storage(served) -> dict[str, int]:
    return served.plane.counters()["storage"]


def test_storage_threads_leave_processors_to_reactors(tmp_path):
    written(tmp_path, 150)
    served = reopened(tmp_path, 1)
    try:
        read_all(served.client(), 0)
        threads = {path.joinpath("comm").read_text().strip(): int(path.name) for path in TASKS.iterdir()}
        lower = {name: os.getpriority(os.PRIO_PROCESS, threads[name]) for name in ("storage", "reactor-0")}
        assert lower == {"storage": min(19, lower["reactor-0"] + 5), "reactor-0": lower["reactor-0"]}
    finally:
        served.close()


@pytest.mark.parametrize("max_bytes", [1, 30_000, 1 << 20, 50 << 20])
@pytest.mark.parametrize("reactors", [1, 3])
def test_a_cold_log_is_read_whole(tmp_path, reactors, max_bytes):
    written(tmp_path, 150)
    served = reopened(tmp_path, reactors)
    try:
        start = 0 if max_bytes > 1 else 1400
        assert read_all(served.client(), start, partition_max_bytes=max_bytes) == list(range(start, 1500))
        assert storage(served)["reads"] > 0
        assert storage(served)["corrupt_ranges"] == 0
    finally:
        served.close()


def test_a_reader_is_read_ahead_of(tmp_path):
    """A session that reads 4 MB in steps of 64 KiB parks a few times, not at each step."""
    written(tmp_path)
    served = reopened(tmp_path)
    try:
        client = served.client()
        session, epoch, offset, seen = open_session(client, 17, partitions=[0]).session_id, 1, 0, []
        while offset < 4000:
            ask = fetch(17, offset=offset, partition_max_bytes=65536, session_id=session, session_epoch=epoch)
            answer = client.call(ask, 17)
            assert answer.error_code == 0
            epoch += 1
            for topic in answer.responses:
                seen += [n for n, _ in records_of(topic.partitions[0].records)]
                offset = seen[-1] + 1
        assert seen == list(range(4000))
        assert storage(served)["reads"] < 20
    finally:
        served.close()


MANY = 30


def many_cold(tmp_path) -> Served:
    """MANY partitions of half a megabyte each, none of it in memory."""
    served = Served(tmp_path)
    served.add_topic("many", MANY_ID, MANY)
    client = served.client()
    for partition in range(MANY):
        for i in range(50):
            values = (b"%d-%d" % (i, k) + VALUE for k in range(10))
            client.call(produce(batch(*values), 9, topic="many", partition=partition), 9)
    served.close()
    for partition in range(MANY):
        evict(tmp_path / f"many-{partition}")
    served = Served(tmp_path)
    served.add_topic("many", MANY_ID, MANY)
    for partition in range(MANY):
        log = served.logs["many", partition]
        log.advance_high_watermark(log.log_end_offset)
    return served


def of_many(max_bytes: int, offset: int = 250, **session):
    """A fetch from the middle of all of them."""
    request = fetch(17, max_bytes=max_bytes, max_wait_ms=FOR_EVER_MS, topic_id=MANY_ID, **session)
    places = [at(partition, offset, 17).partitions[0] for partition in range(MANY)]
    request.topics = [fetch_topic(17, places, topic_id=MANY_ID)]
    return request


class Counted:
    """A pread that adds up what it reads."""

    def __init__(self):
        self.bytes = 0

    def make(self, original):
        def pread(fd, data, size_bytes, position):
            n = original(fd, data, size_bytes, position)
            self.bytes += max(n, 0)
            return n

        return pread


@pytest.mark.parametrize("session", [{}, {"session_id": 0, "session_epoch": 0}], ids=["without", "session"])
def test_no_more_is_read_than_the_request_can_be_answered_with(tmp_path, session):
    """100 kB requested of 30 cold partitions: one of them is read, and only that much."""
    served = many_cold(tmp_path)
    counted = Counted()
    try:
        with faults.replaced("pread", counted.make):
            answer = served.client().call(of_many(100_000, **session), 17)
            assert sum(len(p.records or b"") for p in answer.responses[0].partitions) > 80_000
            served.plane.stop()
        assert storage(served)["read_bytes"] < 250_000
        assert counted.bytes < 400_000
    finally:
        served.close()


def test_a_reader_is_read_ahead_of_only_once_it_follows(tmp_path):
    """One request predicts nothing; a reader that continues does not wait at each of its requests."""
    served = many_cold(tmp_path)
    try:
        client = served.client()
        first = client.call(
            fetch(17, topic_id=MANY_ID, partition_max_bytes=65536, max_wait_ms=FOR_EVER_MS), 17
        )
        offset = records_of(first.responses[0].partitions[0].records)[-1][0] + 1
        other = served.client()  # on the same reactor: the first request's reads are over when it is answered
        other.call(
            fetch(17, topic_id=MANY_ID, partition=1, partition_max_bytes=1, max_wait_ms=FOR_EVER_MS), 17
        )
        assert storage(served)["reads"] == 2
        while offset < 500:
            ask = fetch(
                17, offset=offset, topic_id=MANY_ID, partition_max_bytes=65536, max_wait_ms=FOR_EVER_MS
            )
            offset = records_of(client.call(ask, 17).responses[0].partitions[0].records)[-1][0] + 1
        assert storage(served)["reads"] < 8
    finally:
        served.close()


def test_the_tail_that_was_just_written_needs_no_storage_thread(tmp_path):
    served = Served(tmp_path)
    try:
        client = served.client()
        fill(client, 50)
        with faults.replaced("cached", lambda original: lambda *_: pytest.fail("asked the kernel")):
            assert read_all(client, 0) == list(range(500))
        assert storage(served)["reads"] == 0
    finally:
        served.close()


@pytest.mark.usefixtures("always_ask")
def test_what_was_evicted_is_read_again(tmp_path):
    served = Served(tmp_path)
    try:
        client = served.client()
        fill(client, 200)
        assert read_all(client, 0) == list(range(2000))
        before = storage(served)["reads"]
        evict(tmp_path / f"{TOPIC}-0")
        assert read_all(client, 0) == list(range(2000))
        assert storage(served)["reads"] > before
    finally:
        served.close()


def test_a_page_cache_that_keeps_nothing_still_serves(tmp_path):
    """Data read for a reader is served to it, even if the kernel reports that it has been evicted."""
    written(tmp_path, 100)
    served = reopened(tmp_path)
    try:
        with faults.replaced("cached", lambda original: lambda *_: 0):
            assert read_all(served.client(), 0, partition_max_bytes=20_000) == list(range(1000))
    finally:
        served.close()


class Gate:
    """A pread that waits until the test opens the gate, for .log reads of a storage thread's size."""

    def __init__(self):
        self.entered = threading.Event()
        self.go = threading.Event()
        self.error = 0

    def make(self, original):
        def pread(fd, data, size_bytes, position):
            if size_bytes > 100_000:
                self.entered.set()
                self.go.wait(HANG_S)
                if self.error:
                    return -self.error
            return original(fd, data, size_bytes, position)

        return pread


@pytest.fixture
def gate():
    gate = Gate()
    with faults.replaced("pread", gate.make):
        yield gate
        gate.go.set()


def two_partitions(offset_cold: int, **how):
    request = fetch(17, offset=offset_cold, **how)
    request.topics = [fetch_topic(17, [request.topics[0].partitions[0], at(1, 0, 17).partitions[0]])]
    return request


def test_others_are_served_while_the_disk_works(tmp_path, gate):
    """Only readers of the cold range wait, whatever their max_wait; others on the connection do not."""
    written(tmp_path)
    served = reopened(tmp_path)
    try:
        cold, other = served.client(), served.client()
        cold.send(fetch(17, max_wait_ms=0), 17)
        assert gate.entered.wait(HANG_S)
        started = time.monotonic()
        for _ in range(5):
            fill(other, 1, partition=1)
        assert read_all(other, 0, partition=1) == list(range(50))
        parts = other.call(two_partitions(0, max_wait_ms=FOR_EVER_MS), 17).responses[0].partitions
        assert {part.partition_index: len(part.records or b"") > 0 for part in parts} == {0: False, 1: True}
        assert time.monotonic() - started < HANG_S
        gate.go.set()
        assert records_of(cold.receive(1, 17).responses[0].partitions[0].records)[0][0] == 0
    finally:
        gate.go.set()
        served.close()


def test_deleting_the_topic_under_a_running_read(tmp_path, gate):
    written(tmp_path)
    served = reopened(tmp_path)
    try:
        client = served.client()
        client.send(fetch(17, max_wait_ms=FOR_EVER_MS), 17)
        assert gate.entered.wait(HANG_S)
        served.plane.remove_topic(TOPIC)
        log = served.logs.pop((TOPIC, 0))
        gone = tmp_path / f"{TOPIC}-0.{uuid.uuid4().hex}-delete"
        (tmp_path / f"{TOPIC}-0").rename(gone)
        log.mark_deleted(gone)
        del log
        for path in gone.iterdir():
            path.unlink()
        assert client.receive(1, 17).responses[0].partitions[0].error_code == UNKNOWN_TOPIC_ID
        gate.go.set()
        served.add_topic("next", uuid.uuid4().bytes, 1)
        client.call(produce(batch(b"still here"), 9, topic="next"), 9)
    finally:
        gate.go.set()
        served.close()


def test_deleting_the_segment_under_a_running_read(tmp_path, gate):
    written(tmp_path)
    served = reopened(tmp_path)
    try:
        client, log = served.client(), served.logs[TOPIC, 0]
        client.send(fetch(17, max_wait_ms=FOR_EVER_MS), 17)
        assert gate.entered.wait(HANG_S)
        log.delete_records(log.segments()[2][0])
        assert len(log.apply_retention(1_700_000_000_000)) == 2
        log.delete_expired_files(1 << 60)
        gate.go.set()
        assert client.receive(1, 17).responses[0].partitions[0].error_code == 1  # OFFSET_OUT_OF_RANGE
    finally:
        gate.go.set()
        served.close()


def test_truncation_under_a_running_read(tmp_path, gate):
    """The log no longer has the data that was read: it is read again."""
    written(tmp_path, 60)
    served = reopened(tmp_path)
    try:
        client, log = served.client(), served.logs[TOPIC, 0]
        client.send(fetch(17, max_wait_ms=FOR_EVER_MS), 17)
        assert gate.entered.wait(HANG_S)
        log.truncate_to(100)
        fill(client := served.client(), 3)
        gate.go.set()
        assert read_all(client, 0) == list(range(130))
        assert log.corrupt_ranges() == []
    finally:
        gate.go.set()
        served.close()


def test_stopping_under_a_running_read(tmp_path, gate):
    written(tmp_path)
    served = reopened(tmp_path, reactors=3)
    clients = [served.client() for _ in range(6)]
    for i, client in enumerate(clients):
        client.send(fetch(17, offset=i * 500, max_wait_ms=FOR_EVER_MS), 17)
    assert gate.entered.wait(HANG_S)
    threading.Timer(0.3, gate.go.set).start()
    served.close()
    assert all(client.socket.fileno() == -1 for client in clients)


def test_a_client_that_leaves_while_its_read_is_under_way(tmp_path, gate):
    written(tmp_path)
    served = reopened(tmp_path)
    try:
        for leaves in range(3):
            client = served.client()
            client.send(fetch(17, offset=leaves, max_wait_ms=FOR_EVER_MS), 17)
            assert gate.entered.wait(HANG_S)
            client.close()
        gate.go.set()
        assert read_all(served.client(), 3900) == list(range(3900, 4000))
    finally:
        gate.go.set()
        served.close()


def test_a_disk_that_fails_to_read_is_an_error_of_that_partition(tmp_path, gate):
    written(tmp_path)
    served = reopened(tmp_path)
    try:
        client = served.client()
        gate.error = errno.EIO
        gate.go.set()
        part = client.call(fetch(17, max_wait_ms=0), 17).responses[0].partitions[0]
        assert (part.error_code, part.records or b"") == (KAFKA_STORAGE_ERROR, b"")
        assert storage(served)["failed_reads"] == 1
        assert [(level, name) for level, name, _ in served.plane.take_events()] == [("error", "read-failed")]
        fill(client, 1, partition=1)
        assert read_all(client, 0, partition=1) == list(range(10))
        gate.error = 0
        assert read_all(client, 0) == list(range(4000))
    finally:
        served.close()


def test_min_bytes_that_only_the_disk_has_are_waited_for(tmp_path):
    written(tmp_path)
    served = reopened(tmp_path)
    try:
        started = time.monotonic()
        answer = served.client().call(fetch(17, max_wait_ms=FOR_EVER_MS, min_bytes=1 << 19), 17)
        assert len(answer.responses[0].partitions[0].records) > 1 << 19
        assert time.monotonic() - started < HANG_S
    finally:
        served.close()
