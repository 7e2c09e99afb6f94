"""Commits that reactors lead: with io_uring they begin writes themselves, and the log's thread does what may block."""

import errno
import fcntl
import os
import shutil
import threading
from contextlib import closing, contextmanager

import pytest

from bowstring._native.log.durability import join, staged_frame
from bowstring._native.log.wal_replay import replay
from bowstring._native.wal.write_ahead_log import CONTROL
from tests.support.faults import replaced
from tests.support.joined_wal import BLOCK, append, contents, wal_on
from tests.support.joined_wal import TOPIC_ID as OWN_ID
from tests.support.log_batches import open_log
from tests.support.plane_requests import batch, only, produce
from tests.support.served_plane import TOPIC, TOPIC_ID, Served
from tests.support.waiting import HANG_S, wait_until

KAFKA_STORAGE_ERROR = 56
F_ADD_SEALS, F_SEAL_GROW = 1033, 4


@contextmanager
def serving(tmp_path, reactors=1, segments=4):
    """Serves two partitions in commit mode; the write-ahead log's thread runs."""
    served = Served(tmp_path, reactors=reactors)
    wal = wal_on(tmp_path, io="io_uring", segments=segments)
    served.plane.wake_by(wal)
    wal.start()
    for index in range(2):
        served.plane.set_durability(TOPIC, index, served.logs[TOPIC, index], wal)
    try:
        yield served, wal
    finally:
        served.plane.stop()
        wal.stop()
        for index in range(2):
            join(served.logs[TOPIC, index], None, TOPIC_ID, index)
        served.close()


def files_of(directory):
    """Descriptors of the write-ahead log's segments."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{name}"
        if os.path.islink(path) and os.readlink(path).startswith(f"{directory}/bowstring.wal."):
            found.append(int(name))
    return found


def replace_files(directory, other):
    """Lets all writes to the write-ahead log go to another file."""
    for fd in files_of(directory):
        os.dup2(other, fd)


@pytest.mark.parametrize("reactors", [1, 3])
def test_what_is_answered_is_in_frames(tmp_path, reactors):
    """Threads that are no reactors stage and wait at the same time; no one is left waiting."""
    rounds = 300
    with serving(tmp_path, reactors) as (served, wal):
        (tmp_path / "t-0").mkdir()
        own = open_log(tmp_path / "t-0")
        join(own, wal, OWN_ID, 0)
        control = os.eventfd(0)
        wal.wake_by(CONTROL, control)

        def stage():
            for _ in range(rounds):
                append(own)
                frame = staged_frame(own)
                while wal.durable_frame < frame:
                    wal.control_waits()
                    if wal.durable_frame < frame:
                        os.eventfd_read(control)

        def send(client):
            for i in range(rounds):
                answer = only(client.call(produce(batch(b"%d" % i * 50), 9, partition=i % 2), 9))
                assert answer.error_code == 0

        threads = [threading.Thread(target=stage, daemon=True)]
        threads += [threading.Thread(target=send, args=(served.client(),), daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG_S)
            assert not thread.is_alive(), "somebody waits for ever"
        join(own, None, OWN_ID, 0)
        own.close()
        os.close(control)
        assert wal.durable_frame == wal.staged_frame
        assert sum(served.logs[TOPIC, index].high_watermark for index in range(2)) == 4 * rounds


@pytest.mark.parametrize(("batches", "size"), [(720, 30_000), (60, 400_000)])
def test_segments_that_are_full_are_changed_by_the_thread(tmp_path, batches, size):
    """A reactor must not wait for a segment, nor for a trailer. Large groups are the thread's from the start."""
    value = os.urandom(size)
    with serving(tmp_path, segments=2) as (served, wal):
        ended = threading.Event()

        def supply():
            while not ended.wait(0.001):
                if wal.take_wants_segment():
                    for log in served.logs.values():
                        log.flush()
                    wal.released(wal.closed_frame)

        supplier = threading.Thread(target=supply)
        supplier.start()
        try:
            clients = [served.client() for _ in range(3)]
            for _ in range(batches // 3):
                for index, client in enumerate(clients):
                    client.send(produce(batch(value), 9, partition=index % 2), 9)
                for client in clients:
                    assert only(client.receive(0, 9)).error_code == 0
        finally:
            ended.set()
            supplier.join()
        assert wal.stats()["payload_bytes"] > batches * len(value) > 5 * 4 << 20
        assert wal.durable_frame == wal.staged_frame


def test_the_end_of_a_reactor_leaves_nothing_on_its_way(tmp_path):
    with serving(tmp_path) as (served, wal):
        client = served.client()
        for i in range(100):
            client.send(produce(batch(b"%d" % i * 500), 9), 9)
        wait_until(lambda: served.logs[TOPIC, 0].log_end_offset > 0)
        served.plane.stop()
        wal.stop()
        assert wal.durable_frame == wal.staged_frame and wal.failure is None


def test_a_write_that_fails_is_answered(tmp_path):
    with serving(tmp_path) as (served, wal):
        client = served.client()
        assert only(client.call(produce(batch(b"a"), 9), 9)).error_code == 0
        null = os.open("/dev/null", os.O_RDONLY)
        replace_files(tmp_path, null)
        os.close(null)
        assert only(client.call(produce(batch(b"b"), 9), 9)).error_code == KAFKA_STORAGE_ERROR
        assert wal.failure is not None
        assert served.logs[TOPIC, 0].high_watermark == 1


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_short_write_is_finished_by_the_thread(tmp_path, goes_on):
    """A sealed memfd takes the bytes up to its end only."""
    with serving(tmp_path) as (served, _):
        client = served.client()
        assert only(client.call(produce(batch(b"a"), 9), 9)).error_code == 0
        short = os.memfd_create("short", os.MFD_ALLOW_SEALING)
        os.truncate(short, 2 * BLOCK)  # the first block is used
        fcntl.fcntl(short, F_ADD_SEALS, F_SEAL_GROW)
        replace_files(tmp_path, short)
        os.close(short)
        written = []

        def make(original):
            def write(fd, data, size, position):
                written.append((size, position))
                return size if goes_on else -errno.EIO

            return write

        with replaced("write_durable", make):
            answer = only(client.call(produce(batch(bytes(2 * BLOCK)), 9), 9))
        assert written == [(2 * BLOCK, 2 * BLOCK)]
        assert answer.error_code == (0 if goes_on else KAFKA_STORAGE_ERROR)
        assert served.logs[TOPIC, 0].high_watermark == (2 if goes_on else 1)


def test_replay_puts_back_what_reactors_wrote(tmp_path):
    with serving(tmp_path, reactors=2) as (served, _):
        client = served.client()
        for i in range(50):
            assert only(client.call(produce(batch(b"%d" % i * 100), 9), 9)).error_code == 0
        wanted = contents(served.logs[TOPIC, 0])
        saved = tmp_path.parent / f"{tmp_path.name}-saved"
        shutil.copytree(tmp_path, saved)
    for path in saved.glob(f"{TOPIC}-0/*.log"):
        os.truncate(path, 0)
    with closing(open_log(saved / f"{TOPIC}-0", clean=False)) as log:
        replay(saved, {(TOPIC_ID, 0): log})
        assert contents(log) == wanted
