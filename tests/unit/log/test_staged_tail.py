"""Logs with staged last bytes: what can be read, what is in the files, and what outlives the process."""

import ctypes
import errno
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from bowstring._native.disk.directory_health import DirectoryHealth
from bowstring._native.disk.staged_tail import write_rested
from bowstring._native.disk.tail_pool import TailMemory, restore
from bowstring._native.log.checkpoint import flush_logs
from bowstring._native.log.partition_log import LogError, PartitionLog
from tests.support.examples import examples
from tests.support.faults import failing, replaced
from tests.support.log_batches import CONFIG, NOW_MS, batch, everything, headers
from tests.support.log_machine import CONFIG as SMALL
from tests.support.log_machine import LogMachine
from tests.support.waiting import HANG_S

POOL_BYTES = 256 << 10
# Also the first batch is staged, and one after a pause of the machine.
NEVER_AT_REST_MS = 1 << 40


class Home:
    """A log directory whose logs stage their tails, as of os mode or of commit mode."""

    def __init__(
        self, path: Path, *, mapped: bool = True, from_bytes: int = 0, rest_ms: int = NEVER_AT_REST_MS
    ) -> None:
        self.from_bytes, self.rest_ms = from_bytes, rest_ms
        self.path = path
        self.file = path / ".tails"
        self.mapped = mapped
        self.start()

    def start(self) -> None:
        self.restored = restore(self.file, self.path) if self.mapped else 0
        self.pool = TailMemory(
            POOL_BYTES, self.file if self.mapped else None, from_bytes=self.from_bytes, rest_ms=self.rest_ms
        )
        self.health = DirectoryHealth(str(self.path))
        self.health.stage_tails(self.pool, None)

    def open(
        self, name: str = "t-0", *, clean: bool = True, recovery_point=0, start=0, **config
    ) -> PartitionLog:
        (self.path / name).mkdir(exist_ok=True)
        return PartitionLog(
            str(self.path / name),
            CONFIG | config,
            recovery_point=recovery_point,
            clean_shutdown=clean,
            log_start_offset=start,
            health=self.health,
        )

    def kill(self, *logs: PartitionLog) -> None:
        """Ends the process, as kill -9: its open files are never written or closed."""
        for each in (*logs, self.pool, self.health):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))

    def size(self, base_offset: int = 0, name: str = "t-0") -> int:
        return (self.path / name / f"{base_offset:020d}.log").stat().st_size


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def staged(log: PartitionLog, batches: int = 5, value: bytes = b"v" * 100) -> bytes:
    """Appends batches, all but the first of which are staged; returns the log's bytes."""
    for _ in range(batches):
        log.append(batch([value]), 0, NOW_MS)
    return everything(log)


def test_a_partition_at_rest_costs_no_chunk(tmp_path):
    home = Home(tmp_path, rest_ms=0)
    log = home.open()
    staged(log)
    assert home.size() == log.size_bytes and home.pool.taken_bytes == 0


def test_batches_are_staged_and_read(home):
    log = home.open()
    data = staged(log)
    assert home.size() == 0
    assert len(data) == log.size_bytes == 5 * len(batch([b"v" * 100]))
    assert len(headers(data)) == 5
    assert home.pool.taken_bytes == 16 << 10


@pytest.mark.parametrize("what", ["flush", "roll", "close", "rest", "move", "truncate"])
def test_what_needs_the_file_writes_the_tail_out(home, what):
    from bowstring._native.log.future_replica import move_directory

    log = home.open()
    data = staged(log)
    name = "t-0"
    if what == "flush":
        assert log.flush() == 5
    elif what == "roll":
        log.roll()
    elif what == "close":
        log.close(sync=False)
    elif what == "rest":
        assert write_rested(home.pool, 0) == (0, 0)
    elif what == "move":
        name = "u-0"
        move_directory(log, str(home.path / name))
    else:
        log.truncate_to(3)
        data = data[: log.size_bytes]
    assert home.size(name=name) == len(data)
    assert (home.path / name / f"{0:020d}.log").read_bytes() == data
    assert home.pool.taken_bytes == 0


def test_a_tail_grows_with_the_rate_and_keeps_its_chunk_when_it_is_full(home):
    log = home.open()
    value = b"x" * 8000
    for _ in range(200):
        log.append(batch([value]), 0, NOW_MS)
    assert home.pool.taken_bytes == 256 << 10
    assert 0 < log.size_bytes - home.size() <= 256 << 10
    assert [h.base_offset for h in headers(everything(log))] == list(range(200))


def test_a_file_below_from_bytes_has_no_tail(tmp_path):
    """Also where blocks are reserved, which begins at 1 MiB."""
    home = Home(tmp_path, from_bytes=3 << 20)
    log = home.open()
    value = b"x" * 60_000
    while log.size_bytes + 61_000 < 3 << 20:
        log.append(batch([value]), 0, NOW_MS)
        assert home.size() == log.size_bytes and home.pool.taken_bytes == 0
    staged(log, 3)
    log.append(batch([value]), 0, NOW_MS)
    staged(log, 3)
    assert home.size() < log.size_bytes


def test_only_bytes_whose_blocks_are_reserved_are_staged(tmp_path):
    """Otherwise a full disk could refuse acknowledged bytes later, also of a batch beyond the reserved end."""
    home = Home(tmp_path, from_bytes=200_000)
    log = home.open()
    ranges: list[tuple[int, int]] = []

    def make(original):
        def call(fd, position, size):
            ranges.append((position, position + size))
            return original(fd, position, size)

        return call

    steps, was_staged = 0, False
    with replaced("reserve", make):
        while steps < 4:
            before = len(ranges)
            log.append(batch([b"x" * 30_000]), 0, NOW_MS)
            steps += len(ranges) - before
            reached = home.size()
            was_staged = was_staged or reached < log.size_bytes
            for start, end in ranges:  # they are in order
                if start <= reached:
                    reached = max(reached, end)
            assert reached >= log.size_bytes, (
                f"{reached} to {log.size_bytes} of {ranges} are staged, not reserved"
            )
    assert was_staged


def test_a_pool_that_is_used_up_sends_batches_to_the_file(home):
    logs = [home.open(f"t-{i}") for i in range(20)]
    for log in logs:
        staged(log, 3)
    assert home.pool.taken_bytes == POOL_BYTES
    assert sum(home.size(name=f"t-{i}") == log.size_bytes for i, log in enumerate(logs)) == 4
    for log in logs:
        assert len(headers(everything(log))) == 3


def test_a_large_batch_goes_to_the_file_behind_what_is_staged(home):
    log = home.open()
    staged(log)
    log.append(batch([b"x" * 100_000]), 0, NOW_MS)
    assert home.size() == log.size_bytes and len(headers(everything(log))) == 6


def test_what_was_acknowledged_outlives_the_process(home):
    log = home.open()
    data = staged(log, 50)
    assert home.size() < len(data)
    home.kill(log)
    home.start()
    assert home.restored == 1
    again = home.open(clean=False)
    assert everything(again) == data
    home.kill(again)
    home.start()
    assert home.restored == 0, "the chunks are given back once they are written"


def test_a_chunk_is_not_restored_into_another_file(home):
    """A topic was deleted and made again, and the killed process had staged bytes of the first one."""
    log = home.open()
    staged(log)
    home.kill(log)
    path = home.path / "t-0" / f"{0:020d}.log"
    content = path.read_bytes()
    path.rename(home.path / "kept")
    path.write_bytes(content)
    home.start()
    assert home.restored == 0
    assert path.read_bytes() == content


def test_a_checkpoint_of_all_logs_writes_out_the_tail_of_a_log_that_failed(home):
    """The write-ahead log may then release its batches."""
    log = home.open(index_interval_bytes=1)
    staged(log)
    with failing("open", errno.EACCES), pytest.raises(LogError):
        while True:
            log.append(batch(), 0, NOW_MS)
    assert log.failed and home.size() < log.size_bytes
    assert flush_logs([log], bulk_from=1)["file_systems"] == 1
    assert home.size() == log.size_bytes


def test_what_a_closed_log_could_not_write_is_there_at_the_next_start(home):
    log = home.open()
    data = staged(log)
    with failing("pwritev", errno.EIO), pytest.raises(LogError):
        log.close()
    assert home.size() < len(data)
    home.kill(log)
    home.start()
    assert home.restored == 1
    assert home.size() == len(data)


def test_a_chunk_is_not_restored_over_what_others_appended(home):
    """After the kill, a broker without staged tails appended to the log: the staged bytes are void."""
    log = home.open()
    staged(log)
    home.kill(log)
    path = home.path / "t-0" / f"{0:020d}.log"
    content = path.read_bytes() + b"of others" * 100
    path.write_bytes(content)
    home.start()
    assert home.restored == 0
    assert path.read_bytes() == content


def test_a_chunk_that_was_written_in_part_is_restored(home):
    log = home.open()
    data = staged(log)
    home.kill(log)
    path = home.path / "t-0" / f"{0:020d}.log"
    with open(path, "r+b") as file:
        file.write(data[: home.size() + 99])
    home.start()
    assert home.restored == 1
    assert path.read_bytes() == data


def test_the_blocks_of_a_recycled_pool_are_there(home):
    """A write to a hole of the mapping would end the process when the disk is full."""
    log = home.open()
    home.kill(log)
    size = home.file.stat().st_size
    home.file.unlink()
    with open(home.file, "wb") as file:
        file.truncate(size)
    home.start()
    assert home.file.stat().st_blocks * 512 >= size


@pytest.mark.parametrize("damage", ["another boot", "torn header", "cut", "empty"])
def test_a_pool_that_cannot_be_trusted_restores_nothing(home, damage):
    log = home.open()
    staged(log)
    before = home.size()
    home.kill(log)
    with open(home.file, "r+b") as file:
        if damage == "another boot":
            file.write(b"0" * 36)
        elif damage == "torn header":
            file.seek(4096 + 20)
            file.write(b"\xff")
        elif damage == "cut":
            file.truncate(5000)
        else:
            file.truncate(0)
    home.start()
    assert home.restored == 0
    assert home.size() == before


def test_tails_are_written_out_beside_appends(home):
    """In any order, the file gets each batch once."""
    logs = [home.open(f"t-{i}") for i in range(3)]
    ended = threading.Event()

    def append(log):
        for i in range(1000):
            log.append(batch([b"%d" % i + b"x" * 7000]), 0, NOW_MS)

    def write_out():
        while not ended.wait(0.0005):  # a thread that spins would make the others wait for Python's lock
            assert write_rested(home.pool, 0) == (0, 0)

    appending = [threading.Thread(target=append, args=(log,), daemon=True) for log in logs]
    writing = threading.Thread(target=write_out, daemon=True)
    for thread in (writing, *appending):
        thread.start()
    for thread in appending:
        thread.join(HANG_S)
        assert not thread.is_alive(), "an append hangs"
    ended.set()
    writing.join(HANG_S)
    assert not writing.is_alive()
    for log in logs:
        assert [h.base_offset for h in headers(everything(log))] == list(range(1000))


def test_who_writes_out_rested_tails_does_not_wait_for_one_in_use(home):
    """He has the pool's lock, which the append that writes its chunk to the file wants next."""
    log = home.open()
    staged(log)
    waited = []

    def make(original):
        def call(*arguments):
            writing = threading.Thread(target=write_rested, args=(home.pool, 0), daemon=True)
            writing.start()
            writing.join(HANG_S)
            waited.append(writing.is_alive())
            return original(*arguments)

        return call

    with replaced("pwritev", make):
        log.append(batch([b"x" * 15_000]), 0, NOW_MS)
        log.append(batch([b"x" * 15_000]), 0, NOW_MS)
    assert waited and not any(waited)
    assert len(headers(everything(log))) == 7


class StagedMachine(LogMachine):
    """The model's log with a staged tail, in a process that may be killed: nothing that was acknowledged is lost."""

    mapped = True

    def start_directory(self):
        self.home = Home(Path(tempfile.mkdtemp(prefix="log-model-")), mapped=self.mapped)
        return self.home.path / "t-0"

    def opened(self, *, clean):
        return self.home.open(clean=clean, start=self.start_offset, recovery_point=self.flushed, **SMALL)

    def killed(self):
        self.home.kill(self.log)
        self.home.start()

    @rule()
    def rest(self):
        assert write_rested(self.home.pool, 0) == (0, 0)

    @rule()
    def no_wait_for_a_rest(self):
        """The next append is staged, whatever the machine did meanwhile."""
        self.log.append(batch([b"a"]), self.epoch, NOW_MS)
        self.appended(self.end_offset, [b"a"], NOW_MS)


class LargeStagedMachine(StagedMachine):
    """The same with batches that fill chunks, and segments that have several of them."""

    def opened(self, *, clean):
        return self.home.open(
            clean=clean,
            start=self.start_offset,
            recovery_point=self.flushed,
            **SMALL | {"segment_bytes": 300_000},
        )

    @rule(sizes=st.lists(st.integers(1, 70_000), min_size=1, max_size=9))
    def append_large(self, sizes):
        for size in sizes:
            value = bytes([size & 255]) * size
            base = self.log.append(batch([value]), self.epoch, NOW_MS)
            self.appended(base, [value], NOW_MS)


TestStagedTailModel = StagedMachine.TestCase
TestStagedTailModel.settings = settings(max_examples=examples(100), stateful_step_count=50)
TestLargeStagedTailModel = LargeStagedMachine.TestCase
TestLargeStagedTailModel.settings = settings(max_examples=examples(60), stateful_step_count=40)
