"""The thread of the metadata log."""

import asyncio
import subprocess
import sys
import threading

import pytest

from bowstring.engine.quorum.disk_thread import DiskThread
from tests.support.waiting import HANG_S


@pytest.fixture
def disk():
    made = DiskThread()
    yield made
    made.shutdown()


def test_one_thread_works_in_order(disk):
    done = []
    futures = [disk.submit(done.append, number) for number in range(100)]
    who = disk.submit(threading.current_thread).result(HANG_S)
    assert who.name == "quorum-disk" and who is not threading.current_thread()
    assert all(future.done() for future in futures)
    assert done == list(range(100))


def test_an_error_is_the_callers_and_the_thread_goes_on(disk):
    def fail():
        raise OSError(28, "No space left on device")

    failed, after = disk.submit(fail), disk.submit(int, "7")
    with pytest.raises(OSError, match="No space left"):
        failed.result(HANG_S)
    assert after.result(HANG_S) == 7


def test_work_that_was_cancelled_is_left_out(disk):
    begun, goes_on, done = threading.Event(), threading.Event(), []

    def wait():
        begun.set()
        goes_on.wait(HANG_S)

    disk.submit(wait)
    assert begun.wait(HANG_S)
    cancelled = disk.submit(done.append, 1)
    assert cancelled.cancel()
    last = disk.submit(done.append, 2)
    goes_on.set()
    last.result(HANG_S)
    assert done == [2]


def test_a_loop_waits_for_it(disk):
    async def run():
        return await asyncio.get_running_loop().run_in_executor(disk, lambda: 5)

    assert asyncio.run(run()) == 5


def test_the_thread_ends_behind_all_work():
    disk, done = DiskThread(), []
    for number in range(50):
        disk.submit(done.append, number)
    thread = disk.submit(threading.current_thread).result(HANG_S)
    disk.shutdown()
    assert not thread.is_alive() and done == list(range(50))
    DiskThread().shutdown()  # without work there is no thread


def test_it_works_while_the_interpreter_ends():
    """Threads of concurrent.futures take nothing any more then."""
    code = (
        "import atexit\n"
        "from bowstring.engine.quorum.disk_thread import DiskThread\n"
        "disk = DiskThread()\n"
        "disk.submit(int).result()\n"
        "atexit.register(lambda: print(disk.submit(int, '7').result()))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "7\n", "")
