"""CPU seconds and memory of another process, and of one that is gone."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench import procfs
from tests.support.waiting import pause

BURN = """
import sys, threading, time
def burn():
    while time.thread_time() < 0.15: pass
threads = [threading.Thread(target=burn) for _ in range(2)]
[t.start() for t in threads]; [t.join() for t in threads]
data = bytearray(b'x') * (64 << 20)
print('ready', flush=True); sys.stdin.read()
"""


def test_a_process_and_its_ended_threads_are_counted():
    with subprocess.Popen(
        [sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        seconds = procfs.cpu_seconds(process.pid)
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks_seconds = (int(fields[11]) + int(fields[12])) / procfs.TICKS_PER_SECOND
        assert seconds >= 0.3 and seconds == pytest.approx(ticks_seconds, abs=0.05)
        now = procfs.memory(process.pid)
        assert now.rss_peak_bytes >= now.rss_bytes >= now.rss_anon_bytes >= 64 << 20
        assert procfs.thread_count(process.pid) == 1
        with procfs.Meter(process.pid, sample_ms=5) as meter:
            pause(0.05, "time for some samples, while it does nothing")
        assert meter.rss_peak_bytes >= 64 << 20
        assert meter.wall_seconds >= 0.05 and meter.cpu_seconds < 0.05
        process.stdin.close()
    with pytest.raises(ProcessLookupError):
        procfs.cpu_seconds(process.pid)


def test_an_exception_in_the_block_is_not_hidden_by_the_meter():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def kill_inside():
        with procfs.Meter(process.pid):
            process.kill()
            process.wait()
            raise ValueError("the reason")

    with pytest.raises(ValueError, match="the reason"):
        kill_inside()
    process.stdin.close()
