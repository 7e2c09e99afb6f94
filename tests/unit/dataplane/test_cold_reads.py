"""Reads of what is not in memory: parked, read by a storage thread, checked, and then served."""

import errno
import os
import threading
import time
import uuid

import pytest

from bowstring._native.log_checked import recent_bytes
from tests.unit.dataplane.conftest import TOPIC, Served
from tests.unit.dataplane.requests_for_tests import batch, fetch, fetch_topic, produce, records_of
from tests.unit.dataplane.test_fetch_sessions import at, open_session
from tests.unit.log import faults

KAFKA_STORAGE_ERROR, UNKNOWN_TOPIC_ID = 56, 100
VALUE = b"x" * 900


@pytest.fixture
def always_ask():
    """No range counts as being in memory because it was written lately."""
    before = recent_bytes(0)
    yield
    recent_bytes(before)


def fill(client, batches: int, partition: int = 0) -> None:
    for i in range(batches):
        client.call(
            produce(batch(*(b"%d-%d" % (i, k) + VALUE for k in range(10))), 9, partition=partition), 9
        )


def evict(directory) -> None:
    for path in directory.iterdir():
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def written(tmp_path, batches: int = 400) -> None:
    """A topic of several closed segments, left by a plane that was stopped in order."""
    served = Served(tmp_path)
    fill(served.client(), batches)
    served.close()
    evict(tmp_path / f"{TOPIC}-0")


def reopened(tmp_path, reactors: int = 1) -> Served:
    served = Served(tmp_path, reactors=reactors)
    log = served.logs[TOPIC, 0]
    log.advance_high_watermark(log.log_end_offset)
    return served


def read_all(client, offset: int, **how) -> list[int]:
    """Offsets of everything from `offset` on."""
    found = []
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
    """A session that goes through 4 MB in steps of 64 KiB parks a few times, not at each step."""
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
    """What was read for a reader is given to it, even if the kernel says that it has gone again."""
    written(tmp_path, 100)
    served = reopened(tmp_path)
    try:
        with faults.replaced("cached", lambda original: lambda *_: 0):
            assert read_all(served.client(), 0, partition_max_bytes=20_000) == list(range(1000))
    finally:
        served.close()


class Gate:
    """A pread that waits when it is told to, for reads of .log files as large as storage threads make."""

    def __init__(self):
        self.entered = threading.Event()
        self.go = threading.Event()
        self.error = 0

    def make(self, original):
        def pread(fd, data, size_bytes, position):
            if size_bytes > 100_000:
                self.entered.set()
                self.go.wait(20)
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
    """Same reactor, same connection even: only who wants the cold range waits, whatever its max_wait."""
    written(tmp_path)
    served = reopened(tmp_path)
    try:
        cold, other = served.client(), served.client()
        cold.send(fetch(17, max_wait_ms=0), 17)
        assert gate.entered.wait(10)
        started = time.monotonic()
        for _ in range(5):
            fill(other, 1, partition=1)
        assert read_all(other, 0, partition=1) == list(range(50))
        parts = other.call(two_partitions(0, max_wait_ms=30_000), 17).responses[0].partitions
        assert {part.partition_index: len(part.records or b"") > 0 for part in parts} == {0: False, 1: True}
        assert time.monotonic() - started < 25
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
        client.send(fetch(17, max_wait_ms=20_000), 17)
        assert gate.entered.wait(10)
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
        client.send(fetch(17, max_wait_ms=20_000), 17)
        assert gate.entered.wait(10)
        log.delete_records(log.segments()[2][0])
        assert len(log.apply_retention(1_700_000_000_000)) == 2
        log.delete_expired_files(1 << 60)
        gate.go.set()
        assert client.receive(1, 17).responses[0].partitions[0].error_code == 1  # OFFSET_OUT_OF_RANGE
    finally:
        gate.go.set()
        served.close()


def test_truncation_under_a_running_read(tmp_path, gate):
    """What was read is not what is there any more: it is read again."""
    written(tmp_path, 60)
    served = reopened(tmp_path)
    try:
        client, log = served.client(), served.logs[TOPIC, 0]
        client.send(fetch(17, max_wait_ms=20_000), 17)
        assert gate.entered.wait(10)
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
        client.send(fetch(17, offset=i * 500, max_wait_ms=20_000), 17)
    assert gate.entered.wait(10)
    threading.Timer(0.3, gate.go.set).start()
    served.close()
    assert all(client.socket.fileno() == -1 for client in clients)


def test_a_client_that_leaves_while_its_read_is_under_way(tmp_path, gate):
    written(tmp_path)
    served = reopened(tmp_path)
    try:
        for leaves in range(3):
            client = served.client()
            client.send(fetch(17, offset=leaves, max_wait_ms=20_000), 17)
            assert gate.entered.wait(10)
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
        answer = served.client().call(fetch(17, max_wait_ms=20_000, min_bytes=1 << 19), 17)
        assert len(answer.responses[0].partitions[0].records) > 1 << 19
        assert time.monotonic() - started < 15
    finally:
        served.close()
