"""Apache Kafka's own DumpLogSegments reads every file that the log writes, and finds nothing to complain about."""

import re
import subprocess

import pytest

from bench.peers.install import kafka_classpath
from tests.support.log_batches import (
    NOW_MS,
    TRANSACTIONAL,
    batch,
    crash,
    fill,
    index_entries,
    marker,
    open_log,
    segment_name,
    time_entries,
)
from tests.support.waiting import HANG_S

# Kafka 4.3.1's tool reports the first record of any segment that does not begin at 0 as following -1.
HARMLESS = re.compile(r"\s*$|SLF4J|.*StatusLogger|.*log4j|Non-consecutive offsets in |  -1 is followed by ")


@pytest.fixture(scope="module")
def dump():
    """Runs the tool on files and returns its lines; anything on stderr fails the test."""
    classpath = kafka_classpath()

    def run(files, *options):
        command = [
            "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath,
            "org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(str(path) for path in files),
        ]  # fmt: skip
        ran = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
        complaints = [line for line in ran.stderr.splitlines() if not HARMLESS.match(line)]
        assert ran.returncode == 0 and not complaints, ran.stderr[-3000:] + ran.stdout[-1000:]
        assert not re.search(r"Mismatch|corrupt|not found|out of order", ran.stdout, re.I)
        return ran.stdout.splitlines()

    return run


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Many segments, of plain, idempotent and transactional batches, with epochs; closed in order."""
    directory = tmp_path_factory.mktemp("flights") / "flights-0"
    directory.mkdir()
    log = open_log(directory, segment_bytes=30_000, index_interval_bytes=1000)
    for i in range(60):
        fill(log, 4, epoch=i // 20)
        now = NOW_MS + i * 5000
        log.append(
            batch([b"i"] * 3, producer_id=10 + i % 4, epoch=1, sequence=i // 4 * 3, timestamp=now), 2, now
        )
        log.append(
            batch([b"t"], producer_id=90, epoch=0, sequence=i, attributes=TRANSACTIONAL, timestamp=now),
            2,
            now,
        )
        if i % 3:
            log.append(marker(90, 0, abort=i % 3 == 1, timestamp=now), 2, now)
    log.close()
    return directory


def suffixed(directory, suffix):
    return sorted(directory.glob("*" + suffix))


def test_segments(dump, directory):
    logs = suffixed(directory, ".log")
    assert len(logs) > 3
    lines = dump(logs, "--deep-iteration")
    offsets = [int(m[1]) for line in lines if (m := re.match(r"\| offset: (\d+)", line))]
    log = open_log(directory)
    assert offsets == list(range(log.log_end_offset))
    assert all("isvalid: true" in line for line in lines if line.startswith("baseOffset:"))
    assert sum("endTxnMarker: ABORT" in line for line in lines) == 20


@pytest.mark.parametrize("options", [["--index-sanity-check"], ["--verify-index-only"], []])
def test_indexes(dump, directory, options):
    for suffix in (".index", ".timeindex"):
        files = suffixed(directory, suffix)
        lines = dump(files, *options)
        if options == ["--index-sanity-check"]:
            assert sum("passed sanity check" in line for line in lines) == len(files)
    if not options:
        found = [tuple(map(int, re.findall(r"\d+", line))) for line in lines if line.startswith("timestamp:")]
        expected = [entry for path in files for entry in time_entries(directory, int(path.name[:20]))]
        assert found == expected
        assert all(index_entries(directory, int(path.name[:20])) for path in files[:-1])


def test_transaction_indexes(dump, directory):
    lines = dump(suffixed(directory, ".txnindex"))
    aborted = [line for line in lines if line.startswith("version: 0 producerId: 90")]
    assert len(aborted) == 20


def test_producer_snapshots(dump, directory):
    snapshots = suffixed(directory, ".snapshot")
    assert len(snapshots) > 3
    lines = dump(snapshots[-1:])
    found = {int(m[1]): line for line in lines if (m := re.match(r"producerId: (\d+)", line))}
    assert set(found) == {10, 11, 12, 13, 90}
    for producer in open_log(directory).active_producers():
        assert f"producerEpoch: {producer[1]} coordinatorEpoch: {producer[4]}" in found[producer[0]]
        assert f"lastSequence: {producer[2]}" in found[producer[0]]
    dump(snapshots)


def test_after_recovery(dump, tmp_path):
    """Indexes that recovery made are as good as those that appends made."""
    log = open_log(tmp_path, segment_bytes=30_000, index_interval_bytes=1000)
    fill(log, 100, records=7)
    crash(log)
    for path in [*tmp_path.glob("*.index"), *tmp_path.glob("*.timeindex")]:
        path.unlink()
    path = tmp_path / segment_name(log_end := max(int(p.name[:20]) for p in tmp_path.glob("*.log")), ".log")
    path.write_bytes(path.read_bytes()[:-10])
    log = open_log(tmp_path, clean=False, segment_bytes=30_000, index_interval_bytes=1000)
    assert log.log_end_offset > log_end
    log.close()
    dump(suffixed(tmp_path, ".log"), "--deep-iteration")
    for suffix in (".index", ".timeindex"):
        dump(suffixed(tmp_path, suffix), "--index-sanity-check")
        dump(suffixed(tmp_path, suffix), "--verify-index-only")
