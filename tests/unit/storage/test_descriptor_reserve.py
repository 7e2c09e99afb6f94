"""Descriptors that are kept for files: their users, and the log lines about them."""

import errno
import subprocess
import sys

import pytest

from bowstring._native.disk import descriptors
from bowstring._native.disk.descriptors import size
from bowstring.engine.storage.descriptor_reserve import DescriptorReserve
from tests.support.waiting import HANG_S


def run(code: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_the_reserve_is_a_part_of_the_limit():
    assert [size(limit) for limit in (64, 256, 1024, 1 << 20)] == [16, 32, 128, 1024]


SHORT = """
import asyncio, logging, os, resource, sys
from bowstring._native.disk import descriptors
from bowstring.engine.storage.descriptor_reserve import DescriptorReserve
from bowstring.engine.storage.open_files import open_file
from tests.support.waiting import pause_async
logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)
logging.getLogger("bowstring").setLevel(logging.INFO)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))

async def scenario():
    watch, over = DescriptorReserve(), asyncio.Event()
    watch.when_over = over.set
    watch.keep()
    watch.start()
    taken = []
    while True:
        try:
            taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            break
    files = [open_file("/dev/null", os.O_RDONLY) for _ in range(25)]
    print("files", len(files), "held", descriptors.stats()["held"])
    try:
        open_file("/dev/null", os.O_RDONLY)
    except OSError as error:
        print("then", error.errno)
    await pause_async(0.6, "the watch looks meanwhile")
    while taken:
        os.close(taken.pop())
    await over.wait()
    while True:
        try:
            taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            break
    open_file("/dev/null", os.O_RDONLY)
    for fd in taken[-50:]:
        os.close(fd)
    while watch._timer is not None:
        await pause_async(0.1, "the watch looks meanwhile")
    print("short", descriptors.stats()["short"], "held", descriptors.stats()["held"])
    watch.stop()
    watch.give_back()
    print("at the end", descriptors.stats()["held"], "shortages", descriptors.stats()["shortages"])

asyncio.run(scenario())
"""


def test_files_are_opened_when_no_descriptor_is_left():
    """A shortage that comes back within seconds is the same one in the log."""
    lines = run(SHORT)
    assert [line for line in lines if not line.startswith(("ERROR", "INFO"))] == [
        "files 25 held 0",
        "then 24",
        "short False held 25",
        "at the end 0 shortages 2",
    ]
    assert [line.split(" ")[0] for line in lines if line.startswith(("ERROR", "INFO"))] == ["ERROR", "INFO"]


LOWERED = """
import os, resource
from bowstring._native.disk import descriptors
from bowstring.engine.storage.open_files import open_file
event = os.eventfd(0, os.EFD_NONBLOCK)
first = [os.open("/dev/null", os.O_RDONLY) for _ in range(30)]
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
assert descriptors.reserve(event)
highest = [os.open("/dev/null", os.O_RDONLY) for _ in range(30)]
resource.setrlimit(resource.RLIMIT_NOFILE, (45, 45))
print(len([open_file("/dev/null", os.O_RDONLY) for _ in range(5)]))
"""


def test_a_limit_that_is_lowered_leaves_the_lowest_of_the_reserve():
    """Only a descriptor below the limit can be opened again."""
    assert run(LOWERED) == ["5"]


BESIDE = """
import os, resource, select
import bowstring
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
with bowstring.Broker():
    held = len(os.listdir("/proc/self/fd"))
    reader, writer = os.pipe()
    print(held > 400, writer < 300, select.select([reader], [writer], [], 10)[1] == [writer])
"""


def test_others_in_the_process_may_wait_with_select():
    """select(2) takes descriptors below 1,024 only, and PySpark's gateway waits with it."""
    assert run(BESIDE) == ["True True True"]


RAISED_AND_LOWERED = """
import os, resource
from bowstring._native.disk import descriptors
event = os.eventfd(0, os.EFD_NONBLOCK)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
for limit in (2000, 300, 100, 2000):
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    assert descriptors.reserve(event) if limit == 2000 else descriptors.refill()
    others = [os.open("/dev/null", os.O_RDONLY)]
    highest = max(map(int, os.listdir("/proc/self/fd")))
    print(descriptors.stats()["held"] == descriptors.size(limit), highest < limit, others[0] < 100)
    os.close(others[0])
"""


def test_the_reserve_moves_below_a_lowered_limit():
    assert run(RAISED_AND_LOWERED) == ["True True True"] * 4


PARTITIONS = """
import os, resource, sys, tempfile
from pathlib import Path
from bowstring._native.disk import descriptors
from bowstring._native.log.partition_log import LogError
from bowstring.engine.storage.descriptor_reserve import DescriptorReserve
from bowstring.engine.storage.open_files import open_file
from tests.support.log_batches import fill, open_log
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
watch = DescriptorReserve()
watch.keep()
logs = []
for index in range(250):
    directory = Path(tempfile.mkdtemp())
    logs.append(open_log(directory))
refused = 0
for log in logs:
    try:
        fill(log, 1)
    except LogError:
        assert log.refuses and not log.failed
        refused += 1
print("refused", 50 < refused < 150, "held", descriptors.stats()["held"])
assert not {"bowstring.engine.api.metadata", "decimal"} & set(sys.modules)
import decimal
import bowstring.engine.api.metadata
print("a checkpoint", open_file("/dev/null", os.O_RDONLY) > 0)
"""


def test_files_of_partitions_leave_the_last_descriptors_to_the_node():
    """Code is imported on first use, and checkpoints are written, while partitions have taken all that they may."""
    assert run(PARTITIONS) == ["refused True held 8", "a checkpoint True"]


@pytest.fixture(scope="module", name="kept")
def a_reserve_that_outlives_tests():
    """That of a node which several tests of this process use."""
    reserve = DescriptorReserve()
    reserve.keep()
    yield
    reserve.give_back()


@pytest.mark.parametrize("turn", ["first", "next"])
def test_what_a_test_uses_up_the_next_one_has(kept, turn):
    """An injected EMFILE, as of `test_a_snapshot_that_cannot_be_read_now_gives_way_to_no_older_one`, uses it up."""
    assert not descriptors.stats()["short"] and descriptors.stats()["held"] >= 16
    while descriptors.lend(errno.EMFILE):
        pass
    assert descriptors.stats()["short"] and descriptors.stats()["held"] == 0
