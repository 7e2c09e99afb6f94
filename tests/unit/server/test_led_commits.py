"""Commits led by reactors: with io_uring they begin writes; the log's thread does what may block."""

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
from tests.support.plane_requests import batch, fetch, only, produce
from tests.support.readable import readable
from tests.support.served_plane import TOPIC, TOPIC_ID, Served
from tests.support.waiting import HANG_S, wait_until

KAFKA_STORAGE_ERROR = 56
F_ADD_SEALS, F_SEAL_GROW, F_SETPIPE_SZ = 1033, 4, 1031


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


class Files:
    """Redirects later writes to the segments of a write-ahead log; writes in flight keep their target."""

    def __init__(self, directory):
        self.saved = {fd: os.dup(fd) for fd in files_of(directory)}

    def replace(self, other):
        for fd in self.saved:
            os.dup2(other, fd)
        os.close(other)

    def put_back(self):
        for fd, own in self.saved.items():
            os.dup2(own, fd)

    def close(self):
        for own in self.saved.values():
            os.close(own)


class FullPipe:
    """A write to it stays in flight until `drain`, which admits one block at a time."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        self.bytes = fcntl.fcntl(self.writer, F_SETPIPE_SZ, BLOCK)
        assert os.write(self.writer, bytes(self.bytes)) == BLOCK

    def copy(self):
        return os.dup(self.writer)

    def drain(self):
        assert len(os.read(self.reader, BLOCK)) == BLOCK

    def close(self):
        for fd in (self.reader, self.writer):
            if fd >= 0:
                os.close(fd)
        self.reader = self.writer = -1

    def fail(self):
        os.close(self.reader)
        self.reader = -1


def sealed(blocks):
    """A memfd that accepts bytes up to this end only."""
    short = os.memfd_create("short", os.MFD_ALLOW_SEALING)
    os.truncate(short, blocks * BLOCK)
    fcntl.fcntl(short, F_ADD_SEALS, F_SEAL_GROW)
    return short


class Groups:
    """Begins groups by requests of one batch each, sent by clients of one reactor or of several."""

    def __init__(self, served, wal, directory, reactors=1):
        self.served, self.wal, self.reactors = served, wal, reactors
        self.clients = [served.client() for _ in range(2 * reactors)]  # connections go to reactors in turn
        for client in self.clients:
            assert only(client.call(produce(batch(b"first"), 9), 9)).error_code == 0
        self.before = served.logs[TOPIC, 0].high_watermark
        self.files = Files(directory)
        self.begun = 0

    def begin(self, to=None, size=500):
        """Begins a group that is written to `to`, and returns its client; the write is in flight."""
        if to is not None:
            self.files.replace(to)
        client = self.clients[self.begun % self.reactors]
        probe = self.clients[self.begun % self.reactors + self.reactors]
        client.send(produce(batch(bytes(size)), 9), 9)
        self.begun += 1
        wait_until(lambda: self.served.logs[TOPIC, 0].log_end_offset == self.before + self.begun)
        probe.call(fetch(12), 12)  # the pass that has appended has ended
        return client

    def stop(self):
        """Hangs if a group is left."""
        self.served.plane.stop()
        self.wal.stop()

    def nothing_answered(self, *clients):
        for probe in self.clients[self.reactors :]:  # each reactor has made a pass since
            probe.call(fetch(12), 12)
        for client in clients:
            assert not readable(client.socket, 0)
        assert self.served.logs[TOPIC, 0].high_watermark == self.before


@contextmanager
def two_groups(tmp_path, reactors=1, segments=4):
    """Serves, and closes the test's files before it stops, so that a failure does not hang."""
    with serving(tmp_path, reactors, segments) as (served, wal):
        groups, pipes = Groups(served, wal, tmp_path, reactors), [FullPipe(), FullPipe()]
        try:
            yield groups, pipes
        finally:
            for pipe in pipes:
                pipe.close()
            groups.files.close()


@contextmanager
def slow_thread():
    """Blocks the thread's writes: yields an event set by the first write, and one that lets them continue."""
    writing, go_on = threading.Event(), threading.Event()

    def make(original):
        def write(*arguments):
            writing.set()
            assert go_on.wait(HANG_S)
            return original(*arguments)

        return write

    with replaced("write_durable", make):
        yield writing, go_on


def plain_file(tmp_path):
    return os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)


def error_of(client):
    return only(client.receive(0, 9)).error_code


@pytest.mark.parametrize("reactors", [1, 3])
def test_what_is_answered_is_in_frames(tmp_path, reactors):
    """Threads other than reactors stage and wait at the same time; all waiters end."""
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
    """A reactor must not wait for a segment or a trailer. Large groups are the thread's from the start."""
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
        with closing(Files(tmp_path)) as files:
            files.replace(os.open("/dev/null", os.O_RDONLY))
        assert only(client.call(produce(batch(b"b"), 9), 9)).error_code == KAFKA_STORAGE_ERROR
        assert wal.failure is not None
        assert served.logs[TOPIC, 0].high_watermark == 1


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_short_write_is_finished_by_the_thread(tmp_path, goes_on):
    with serving(tmp_path) as (served, _):
        client = served.client()
        assert only(client.call(produce(batch(b"a"), 9), 9)).error_code == 0
        with closing(Files(tmp_path)) as files:
            files.replace(sealed(2))  # the first block is used
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
        replay([saved], {(TOPIC_ID, 0): log})
        assert contents(log) == wanted


# ---------------------------------------------------------------- two groups in flight


@pytest.mark.parametrize("reactors", [1, 2])
def test_the_younger_group_waits_for_the_older(tmp_path, reactors):
    with two_groups(tmp_path, reactors) as (groups, (pipe, _)):
        frame = groups.wal.durable_frame
        first = groups.begin(pipe.copy())
        second = groups.begin(plain_file(tmp_path))
        wait_until(lambda: os.stat(tmp_path / "other").st_size > 0)
        assert groups.wal.stats()["groups_under_way"] == 2
        groups.nothing_answered(first, second)
        assert groups.wal.durable_frame == frame
        third = groups.begin()  # it gathers: two are in flight, though one has ended
        assert groups.wal.stats()["groups_under_way"] == 2
        pipe.drain()
        assert error_of(first) == error_of(second) == error_of(third) == 0
        assert groups.wal.durable_frame == frame + 3 == groups.wal.staged_frame


@pytest.mark.parametrize("reactors", [1, 2])
@pytest.mark.parametrize("failed", ["older", "younger"])
def test_an_error_in_one_of_two_groups_answers_everything(tmp_path, failed, reactors):
    """The other group is still in flight."""
    with two_groups(tmp_path, reactors) as (groups, pipes):
        clients = [groups.begin(pipe.copy()) for pipe in pipes]
        assert groups.wal.stats()["groups_under_way"] == 2
        clients.append(groups.begin())  # gathers
        other, one = pipes if failed == "younger" else reversed(pipes)
        one.fail()
        assert [error_of(client) for client in clients] == [KAFKA_STORAGE_ERROR] * 3
        assert groups.wal.failure == errno.EPIPE
        other.drain()
        last = produce(batch(b"late"), 9)
        assert only(groups.clients[0].call(last, 9)).error_code == KAFKA_STORAGE_ERROR
        groups.stop()
        assert groups.served.logs[TOPIC, 0].high_watermark == groups.before
        assert groups.wal.stats()["groups_under_way"] == 0


def test_an_error_in_the_older_group_after_the_younger_ended(tmp_path):
    with two_groups(tmp_path) as (groups, (pipe, _)):
        clients = [groups.begin(pipe.copy()), groups.begin(plain_file(tmp_path))]
        wait_until(lambda: os.stat(tmp_path / "other").st_size > 0)
        groups.nothing_answered(*clients)
        pipe.fail()
        assert [error_of(client) for client in clients] == [KAFKA_STORAGE_ERROR] * 2
        groups.stop()
        assert groups.served.logs[TOPIC, 0].high_watermark == groups.before


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("short", ["older", "younger"])
def test_a_short_write_in_one_of_two_groups(tmp_path, short, goes_on):
    """The thread finishes it. The younger group waits for that; the older one does not."""
    with two_groups(tmp_path) as (groups, pipes):
        finishing, finish = threading.Event(), threading.Event()

        def make(original):
            def write(fd, data, size, position):
                finishing.set()
                assert finish.wait(HANG_S)
                return size if goes_on else -errno.EIO

            return write

        with replaced("write_durable", make):
            clients = [
                groups.begin(pipe.copy(), size=BLOCK if short == name else 500)
                for name, pipe in zip(["older", "younger"], pipes, strict=True)
            ]
            older, younger = pipes
            (older if short == "older" else younger).drain()  # admits one block of two
            assert finishing.wait(HANG_S)
            groups.nothing_answered(*clients)
            (younger if short == "older" else older).drain()
            if short == "older":
                groups.nothing_answered(*clients)
            else:
                assert error_of(clients[0]) == 0
            finish.set()
            expected = 0 if goes_on else KAFKA_STORAGE_ERROR
            assert error_of(clients[1]) == expected
            if short == "older":
                assert error_of(clients[0]) == expected
            groups.stop()
        durable = 2 if goes_on else 0 if short == "older" else 1
        assert groups.served.logs[TOPIC, 0].high_watermark == groups.before + durable


@pytest.mark.parametrize("reactors", [1, 2])
@pytest.mark.parametrize("first", ["older", "younger"])
def test_a_stop_waits_for_both_groups(tmp_path, first, reactors):
    with two_groups(tmp_path, reactors) as (groups, pipes):
        for pipe in pipes:
            groups.begin(pipe.copy())
        groups.begin()  # gathers: the thread writes it at the end
        groups.files.put_back()
        stopping = threading.Thread(target=groups.stop, daemon=True)
        stopping.start()
        for pipe in pipes if first == "older" else reversed(pipes):
            assert stopping.is_alive()
            pipe.drain()
        stopping.join(HANG_S)
        assert not stopping.is_alive(), "the stop hangs"
        assert groups.wal.failure is None
        assert groups.wal.durable_frame == groups.wal.staged_frame
        stats = groups.wal.stats()
        assert (stats["groups_under_way"], stats["staged_bytes"]) == (0, 0)


LARGE_BYTES = 900_000  # four of these, and no fifth, fit into a segment


def test_a_segment_is_not_freed_while_its_last_frame_is_on_its_way(tmp_path):
    with two_groups(tmp_path, segments=2) as (groups, (pipe, _)):
        wal, large = groups.wal, produce(batch(bytes(LARGE_BYTES)), 9, partition=1)
        for _ in range(4):
            assert only(groups.clients[1].call(large, 9)).error_code == 0
        client = groups.begin(pipe.copy())
        groups.files.put_back()
        for _ in range(3):
            groups.clients[1].send(large, 9)  # on to the other segment
        wait_until(lambda: wal.stats()["full_segments"] == 1)
        for log in groups.served.logs.values():
            log.flush()
        wal.released(wal.closed_frame)
        assert wal.stats()["checkpoint_frame"] > wal.durable_frame
        assert (wal.stats()["full_segments"], wal.stats()["free_segments"]) == (1, 0)
        pipe.drain()
        assert error_of(client) == 0
        wait_until(
            lambda: wal.stats()["free_segments"] == 1, "the checkpoint covers it since its frame is durable"
        )
        for _ in range(3):
            assert error_of(groups.clients[1]) == 0


def test_the_thread_finishes_a_short_write_while_it_waits_for_a_segment(tmp_path):
    """Only the end of this write frees the segment that the thread waits for."""
    with two_groups(tmp_path, segments=2) as (groups, (pipe, _)):
        wal, log = groups.wal, groups.served.logs[TOPIC, 1]
        client, other = groups.clients
        large = produce(batch(bytes(LARGE_BYTES)), 9, partition=1)
        for _ in range(3):
            assert only(other.call(large, 9)).error_code == 0
        groups.begin(pipe.copy(), size=BLOCK)
        groups.files.put_back()
        with slow_thread() as (writing, go_on):
            other.send(large, 9)
            assert writing.wait(HANG_S)
            for _ in range(5):  # they gather: four fill the other segment
                other.send(large, 9)
            wait_until(lambda: log.log_end_offset == 9)
            go_on.set()
            wait_until(lambda: wal.stats()["waited_for_segment"] > 0)
        for each in groups.served.logs.values():
            each.flush()
        wal.released(wal.closed_frame)
        pipe.drain()  # admits one block of two
        assert error_of(client) == 0
        for _ in range(6):
            assert error_of(other) == 0


# ---------------------------------------------------------------- several logs


@contextmanager
def serving_two_logs(tmp_path):
    """Serves a partition of a log with io_uring, and one of a log without it."""
    with serving(tmp_path) as (served, _):
        (tmp_path / "plain").mkdir()
        plain = wal_on(tmp_path / "plain", io="pwrite")
        served.plane.wake_by(plain)
        plain.start()
        served.plane.set_durability(TOPIC, 1, served.logs[TOPIC, 1], plain)
        try:
            yield served, plain
        finally:
            served.plane.stop()
            plain.stop()
            join(served.logs[TOPIC, 1], None, TOPIC_ID, 1)


def test_a_log_without_io_uring_beside_one_that_has_it(tmp_path):
    rounds = 200
    with serving_two_logs(tmp_path) as (served, plain):
        clients = [served.client() for _ in range(3)]

        def send(client):
            for i in range(rounds):
                for partition in (0, 1):
                    client.send(produce(batch(b"%d" % i * 50), 9, partition=partition), 9)
                for _ in range(2):
                    assert error_of(client) == 0

        threads = [threading.Thread(target=send, args=(client,), daemon=True) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG_S)
            assert not thread.is_alive(), "somebody waits for ever"
        assert plain.durable_frame == plain.staged_frame
        assert [served.logs[TOPIC, index].high_watermark for index in range(2)] == [len(clients) * rounds] * 2


def test_no_reactor_promises_to_lead_a_log_without_io_uring(tmp_path):
    """Although it has a ring for the other log: the thread continues with what was staged while it wrote."""
    with serving_two_logs(tmp_path) as (served, _):
        first, second = served.client(), served.client()
        assert only(first.call(produce(batch(b"a"), 9), 9)).error_code == 0
        with slow_thread() as (writing, go_on):
            first.send(produce(batch(b"b"), 9, partition=1), 9)
            assert writing.wait(HANG_S)
            second.send(produce(batch(b"c"), 9, partition=1), 9)
            wait_until(lambda: served.logs[TOPIC, 1].log_end_offset == 2)
            served.client().call(fetch(12), 12)  # the pass that has appended has ended
            go_on.set()
            assert error_of(first) == error_of(second) == 0
