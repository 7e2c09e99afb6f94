"""Apache Kafka's cleaner and ours on the same segment files, round after round.

Both leave the same records, in the same batches, with the same delete horizons, in the same segments.
"""

import random
import shutil
import subprocess
import time

import pytest

from bench.peers.install import java_program
from tests.support.compacted_logs import batches_of, clean, compacted, end_transaction, put
from tests.support.log_batches import TRANSACTIONAL
from tests.support.waiting import HANG_S

SEGMENT_BYTES = 1 << 20
RETENTION_MS = 50_000
ROUNDS = 4


@pytest.fixture(scope="module")
def kafka_clean():
    """Runs Kafka's cleaner over a closed log's directory; returns where it came to."""
    classpath = java_program("CleanerTool")

    def run(directory, first_dirty: int, now: int) -> int:
        command = [
            "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath, "CleanerTool",
            str(directory), str(first_dirty), str(now), str(RETENTION_MS), str(SEGMENT_BYTES), str(1 << 20),
        ]  # fmt: skip
        ran = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
        assert ran.returncode == 0, ran.stderr[-3000:]
        return int(ran.stdout.split()[0])

    return run


def write_round(log, rng: random.Random, sequences: dict[int, int], now: int) -> None:
    """Plain, idempotent and transactional batches of every codec, tombstones, records without keys, and markers."""
    for i in range(150):
        pairs = [
            (
                rng.choice([None, b"", *(b"key%d" % k for k in range(60))]),
                rng.choice([None, rng.randbytes(rng.randrange(80))]),
            )
            for _ in range(rng.randrange(1, 9))
        ]
        producer = {}
        who = rng.choice([-1, -1, 1, 2, 5, 6, 7])
        if who >= 0:
            sequence = sequences.get(who, 0)
            sequences[who] = sequence + len(pairs)
            attributes = TRANSACTIONAL if who >= 5 else 0
            producer = {"producer_id": who, "epoch": 0, "sequence": sequence, "attributes": attributes}
        put(log, pairs, codec=rng.choice([0, 0, 1, 2, 3, 4]), timestamp=now + i, **producer)
        if rng.random() < 0.25:
            end_transaction(log, rng.choice([5, 6, 7, 8]), abort=rng.random() < 0.5, timestamp=now + i)
        if rng.random() < 0.1:
            log.roll()
    log.roll()


@pytest.mark.parametrize("seed", [1, 2])
def test_leaves_what_kafkas_cleaner_leaves(tmp_path, kafka_clean, seed):
    rng = random.Random(seed)
    sequences: dict[int, int] = {}
    ours, theirs = tmp_path / "ours" / "table-0", tmp_path / "kafka" / "table-0"
    ours.parent.mkdir()
    theirs.parent.mkdir()
    now = time.time_ns() // 1_000_000
    dirty = 0
    log = compacted(ours, segment_bytes=SEGMENT_BYTES)
    for _ in range(ROUNDS):
        write_round(log, rng, sequences, now)
        now += rng.choice([1000, RETENTION_MS + 1000])
        log.close()
        shutil.rmtree(theirs, ignore_errors=True)
        shutil.copytree(ours, theirs)
        their_end = kafka_clean(theirs, dirty, now)
        log = compacted(ours, segment_bytes=SEGMENT_BYTES)
        log.advance_high_watermark(log.log_end_offset)
        before = len(batches_of(log))
        dirty = clean(log, dirty, now=now, retention_ms=RETENTION_MS)["end_offset"]
        assert dirty == their_end
        other = compacted(theirs, segment_bytes=SEGMENT_BYTES)
        other.advance_high_watermark(other.log_end_offset)
        assert batches_of(log) == batches_of(other)
        assert len(batches_of(log)) < before
        assert [base for base, *_ in log.segments()] == [base for base, *_ in other.segments()]
        assert log.aborted_transactions(0, log.log_end_offset) == other.aborted_transactions(
            0, log.log_end_offset
        )
