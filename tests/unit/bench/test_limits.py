"""The bare loops compile without a warning, give sane figures, and write the sent bytes."""

from __future__ import annotations

import json
import os

import pytest

from bench.lab import Lab
from bench.limits import catalogue, loops
from bench.limits.__main__ import ROWS, main
from bench.limits.loops import LoopResult, StoredLoop, compiled, run_loop
from bench.peers.install import PeerError
from bench.results import CaseResult
from bench.sizes import SMOKE
from bowstring._native.base.crc import crc32c

MIB = 1 << 20
# The least that moves every part of a loop.
SMALLEST = {"mib": 4, "warm_mib": 1, "verify": 1}
PATTERN_BYTES = 1_000_000
COMMIT = {**SMALLEST, "file_mib": 16}


def stream(size: int) -> bytes:
    """What every loop moves: splitmix64, repeated."""
    words, state, mask = [], 0, (1 << 64) - 1
    for _ in range(PATTERN_BYTES // 8):
        state = (state + 0x9E3779B97F4A7C15) & mask
        word = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
        words.append((word ^ (word >> 31)).to_bytes(8, "little"))
    pattern = b"".join(words)
    return (pattern * (size // PATTERN_BYTES + 1))[:size]


def shared_out(data: bytes, unit: int, partitions: int) -> list[bytes]:
    """The stream as its units go to the partitions in turn."""
    units = [data[at : at + unit] for at in range(0, len(data), unit)]
    return [b"".join(units[number::partitions]) for number in range(partitions)]


def partition_files(directory, partitions: int) -> list[bytes]:
    return [(directory / f"partition-{number}-0.log").read_bytes() for number in range(partitions)]


def assert_sane(found: LoopResult, loop: str, size: int) -> None:
    assert found.loop == loop and found.bytes == size
    assert found.wall_s > 0 and found.cpu_s > 0
    # One thread, or two: more would be the client's time.
    assert found.cpu_s < 2.5 * found.wall_s + 0.05
    assert found.cpu_s_per_gb == pytest.approx(found.cpu_s / size * 1e9, rel=1e-3)
    assert found.gb_per_s == pytest.approx(size / 1e9 / found.wall_s, rel=1e-2)


def test_they_compile_without_a_warning():
    assert os.access(compiled(["-Werror"]), os.X_OK)


@pytest.mark.parametrize(
    ("loop", "options"),
    [
        ("fetch", {"piece_kib": 256, "file_mib": 2}),
        ("fetch", {"piece_kib": 96, "file_mib": 3}),
        ("fetch", {"file_mib": 2, "write_bytes": 16385, "receive_kib": 64}),
        ("fetch", {"file_mib": 3, "write_bytes": 2_000_000}),
        ("fetch-sealed", {"piece_kib": 64, "file_mib": 2}),
        ("produce", {"piece_kib": 256}),
        ("produce", {"piece_kib": 8, "partitions": 1, "request_kib": 100}),
        ("produce", {"piece_kib": 1024, "partitions": 2}),
        ("stage", {"staged": 0, "batch_kib": 8}),
        ("stage", {"staged": 1, "batch_kib": 8, "chunk_kib": 64}),
        ("produce-staged", {"batch_kib": 8, "chunk_kib": 64}),
        ("produce-staged", {"batch_kib": 64, "chunk_kib": 100, "partitions": 3}),
    ],
)
def test_a_loop_moves_what_it_says(tmp_path, loop, options):
    found = run_loop(loop, SMALLEST | options, tmp_path)
    assert_sane(found, loop, 4 * MIB)
    assert found.options == found.options | SMALLEST | options
    assert "crc32c" in found.others
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("io_uring", [0, 1])
@pytest.mark.parametrize("staged", [0, 1])
def test_commit_answers_and_stores(tmp_path, io_uring, staged):
    found = run_loop("commit", COMMIT | {"io_uring": io_uring, "staged": staged, "in_flight": 3}, tmp_path)
    # Records in flight when the clock started do not count.
    assert_sane(found, "commit", found.bytes)
    assert 4 * MIB - 3 * 65536 <= found.bytes <= 4 * MIB
    others = found.others
    assert 0 < others["p50_ms"] <= others["p99_ms"] <= others["p999_ms"] <= others["max_ms"]
    assert others["with_io_uring"] <= io_uring
    assert 64 <= others["mean_frame_kib"] <= 3 * 64
    assert not list(tmp_path.iterdir())


def test_frames_are_as_large_as_they_may_be(tmp_path):
    options = {"request_kib": 1, "in_flight": 64, "frame_kib": 8, "warm_mib": 0, "mib": 1}
    found = run_loop("commit", COMMIT | options, tmp_path)
    assert found.bytes == MIB and 1 <= found.others["mean_frame_kib"] <= 7


def test_the_pre_written_file_is_written_over(tmp_path):
    found = run_loop("commit", COMMIT | {"file_mib": 1, "verify": 0}, tmp_path)
    assert found.bytes > 3 * MIB and "crc32c" not in found.others


@pytest.mark.parametrize(
    ("loop", "unit", "options"),
    [
        ("produce", 32 << 10, {"piece_kib": 32}),
        ("produce-staged", 24 << 10, {"batch_kib": 24, "chunk_kib": 64}),
        ("stage", 8 << 10, {"staged": 0}),
        ("stage", 8 << 10, {"staged": 1, "chunk_kib": 20}),
    ],
)
def test_partition_files_have_the_stream(tmp_path, loop, unit, options):
    found = run_loop(loop, SMALLEST | {"keep": 1, "partitions": 5} | options, tmp_path)
    warm = -(-MIB // unit) * unit
    sent = stream(warm + found.bytes)
    assert partition_files(tmp_path, 5) == shared_out(sent, unit, 5)
    assert found.others["crc32c"] == crc32c(sent)


def test_frames_have_the_stream(tmp_path):
    found = run_loop("commit", COMMIT | {"keep": 1, "request_kib": 24}, tmp_path)
    file, at, payloads = (tmp_path / "frames").read_bytes(), 0, []
    while at < len(file):
        position, size = (int.from_bytes(file[at + i : at + i + 8], "little") for i in (0, 8))
        if size == 0:
            break
        assert position == sum(map(len, payloads))
        payloads.append(file[at + 64 : at + 64 + size])
        at += (64 + size + 4095) // 4096 * 4096
    stored = b"".join(payloads)
    assert stored == stream(len(stored)) and found.others["crc32c"] == crc32c(stored)


def test_stored_goes_on_step_by_step(tmp_path):
    loop = StoredLoop({"warm_mib": 1, "verify": 1, "keep": 1, "piece_kib": 128, "partitions": 3}, tmp_path)
    try:
        first, second = loop.step(2), loop.step(1)
    finally:
        loop.close()
    assert_sane(first, "stored", 2 * MIB)
    assert_sane(second, "stored", MIB)
    assert (first.others["stored_bytes"], second.others["stored_bytes"]) == (3 * MIB, 4 * MIB)
    assert partition_files(tmp_path, 3) == shared_out(stream(4 * MIB), 128 << 10, 3)


def test_stored_removes_its_files_and_says_why_it_ended(tmp_path):
    loop = StoredLoop({"warm_mib": 1}, tmp_path)
    loop.step(1)
    loop.close()
    loop.close()
    assert not list(tmp_path.iterdir())
    with pytest.raises(PeerError, match="stored ended with 1: unknown option pieces=1"):
        StoredLoop({"pieces": 1}, tmp_path).step(1)


@pytest.mark.parametrize(
    ("loop", "options", "says"),
    [
        ("fetch", {"pieces": 1}, "unknown option pieces=1"),
        ("produce", {"request_kib": 0}, "request_kib must be greater than 0"),
        ("fetch", {"piece_kib": 0}, "piece_kib must be greater than 0"),
        ("stage", {"mib": 0}, "mib must be greater than 0"),
        ("commit", {"request_kib": 1024}, "do not fit into a frame of 1024 KiB"),
        ("commit", {"verify": 1, "mib": 64}, "a greater file_mib"),
        ("spin", {}, "there is no loop spin"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(tmp_path, loop, options, says):
    with pytest.raises(PeerError, match=says):
        run_loop(loop, options, tmp_path)


def test_the_table_of_loops(tmp_path, capsys):
    size = ["--mib", "2", "--rounds", "2", "--no-warm-memory", "--work", str(tmp_path)]
    assert main(size) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(ROWS)
    assert lines[2].startswith("| fetch | piece_kib=1024 | ") and lines[2].endswith(" | – |")
    chosen = ["--loop", "stage", "chunk_kib=64", "--loop", "commit", "in_flight=1", "--json"]
    assert main([*size, *chosen]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["loop"] for each in found] == ["stage", "stage", "commit", "commit"]
    assert found[0]["options"]["chunk_kib"] == 64 and found[2]["others"]["p50_ms"] > 0
    assert main([*size, "--loop", "spin"]) == 2
    assert "there is no loop spin" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_loops_take_turns_with_the_peers(tmp_path):
    limits = [*catalogue.produce(100, 8), *catalogue.commit_latency()]
    with Lab(tmp_path, SMOKE) as lab:
        case = CaseResult("case", "Case", {})
        lab.alternate(case, lambda peer: {"cpu_seconds_per_gb": 1.0}, rounds=2, limits=limits)
    names = ["bowstring", *(limit.name for limit in limits)]
    assert [(each.round, each.peer) for each in case.samples] == [(n, name) for n in (1, 2) for name in names]
    assert not case.failures and case.limits == names[1:]
    assert 0 < case.limit("cpu_seconds_per_gb") == case.median(names[1], "cpu_seconds_per_gb")
    assert 0 < case.limit("p50_ms") <= case.limit("p99_ms")
    assert not list((tmp_path / "loops").iterdir())


def test_consuming_over_tls_has_a_limit_in_the_clear_beside_it():
    seen: list[str] = []

    def run(loop, options):
        seen.append(loop)
        return LoopResult(loop, 10**9, 0.25, 0.5, 0.25, 2.0, dict(options), {})

    sealed, plain = (limit.measure(8, run) for limit in catalogue.fetch_sealed(100))
    assert seen == ["fetch-sealed", "fetch"]
    assert sealed == {"cpu_seconds_per_gb": 0.25, "records_per_second": 20_000_000}
    assert plain == {f"plain_{name}": value for name, value in sealed.items()}


def test_a_loop_that_fails_is_a_failure_of_the_case(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with Lab(tmp_path, SMOKE) as lab:
        limits = catalogue.fetch(catalogue.throughput(100))
        case = lab.alternate(CaseResult("case", "Case", {}), lambda peer: {"x": 1.0}, limits=limits)
    (failure,) = case.failures
    assert failure.peer == limits[0].name and "a C compiler" in failure.message
    assert case.median("bowstring", "x") == 1.0


def test_without_a_compiler_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(PeerError, match="there is no no-such-compiler: install one"):
        run_loop("fetch", {}, tmp_path)


def test_a_compiler_that_fails_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(loops, "BUILT", tmp_path)
    with pytest.raises(PeerError, match="compiling the bare loops failed"):
        compiled(["--no-such-flag"])
    assert not list(tmp_path.iterdir())
