"""Runs `python -m bench.limits`: the bare loops alone, in turn, and prints their medians as a table.

In reports the loops stand beside brokers, measured in the same rounds. This is for a look at a machine, or at
one parameter of a loop: `python -m bench.limits --loop stage chunk_kib=512 --loop stage chunk_kib=1024`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from bench.lab import log, wait_until_calm
from bench.limits.catalogue import IN_FLIGHT, LATENCY, REQUEST_KIB, WARM_MIB
from bench.limits.loops import LoopResult, run_loop
from bench.peers.install import PeerError
from bench.report_text import number
from bench.warm_memory import WarmMemory

Row = tuple[str, Mapping[str, int]]
COMMIT = {"request_kib": REQUEST_KIB, "in_flight": IN_FLIGHT}
ROWS: tuple[Row, ...] = (
    ("fetch", {"piece_kib": 1024}),
    ("fetch", {"piece_kib": 256}),
    ("fetch-sealed", {"piece_kib": 128}),
    ("produce", {"piece_kib": 1024}),
    ("produce", {"piece_kib": 256}),
    ("produce", {"piece_kib": 32}),
    ("stage", {"staged": 0, "batch_kib": 8}),
    ("stage", {"staged": 0, "batch_kib": 256}),
    *(("stage", {"batch_kib": 8, "chunk_kib": chunk_kib}) for chunk_kib in (256, 512, 1024, 2048)),
    ("produce-staged", {"batch_kib": 8, "chunk_kib": 256}),
    ("produce-staged", {"batch_kib": 16, "chunk_kib": 256}),
    ("commit", COMMIT),
    ("commit", COMMIT | {"frame_kib": 256}),
    ("commit", COMMIT | {"in_flight": 20}),
    ("commit", COMMIT | {"staged": 1, "batch_kib": 16}),
    ("commit", LATENCY),
)


def main(arguments: list[str] | None = None) -> int:
    """Runs the loops and prints the table; returns 2 when one could not be run."""
    options = _options(arguments)
    rows = [_row(words) for words in options.loop] if options.loop else list(ROWS)
    results: list[list[LoopResult]] = [[] for _ in rows]
    with tempfile.TemporaryDirectory(prefix="bowstring-limits-", dir=options.work) as directory:
        memory = WarmMemory(Path(directory) / "memory")
        try:
            for number_of_round in range(1, options.rounds + 1):
                for (loop, given), found in zip(rows, results, strict=True):
                    if not options.no_warm_memory:
                        memory.fill()
                        wait_until_calm()
                    size = {"mib": options.mib, "warm_mib": min(WARM_MIB, options.mib)}
                    found.append(run_loop(loop, size | dict(given), Path(directory)))
                    log(f"round {number_of_round} {loop}: {found[-1].cpu_s_per_gb:.3f} CPU-s/GB")
        except PeerError as error:
            print(f"python -m bench.limits: {error}", file=sys.stderr)
            return 2
        finally:
            memory.give_back()
    if options.json:
        print("\n".join(json.dumps(asdict(each)) for found in results for each in found))
    else:
        print(_table(rows, results))
    return 0


def _table(rows: list[Row], results: list[list[LoopResult]]) -> str:
    lines = [["loop", "options", "CPU-s/GB", "GB/s", "p50 / p99 / p99.9, ms"], ["---"] * 5]
    for (loop, given), found in zip(rows, results, strict=True):
        cuts = [
            number(statistics.median(each.others[name] for each in found))
            for name in ("p50_ms", "p99_ms", "p999_ms")
            if name in found[0].others
        ]
        lines.append(
            [
                loop,
                " ".join(f"{name}={value}" for name, value in given.items()),
                _spread([each.cpu_s_per_gb for each in found]),
                _spread([each.gb_per_s for each in found]),
                " / ".join(cuts) or "–",
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _spread(values: list[float]) -> str:
    return f"{number(statistics.median(values))} [{number(min(values))} – {number(max(values))}]"


def _row(words: list[str]) -> Row:
    loop, *options = words
    try:
        return loop, {name: int(value) for name, _, value in (each.partition("=") for each in options)}
    except ValueError:
        raise SystemExit(
            f"--loop {' '.join(words)}: options are name=value, and values are numbers"
        ) from None


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.limits", description=__doc__)
    parser.add_argument(
        "--loop",
        nargs="+",
        action="append",
        metavar="LOOP [NAME=VALUE]",
        help="may be repeated; default: a table of all",
    )
    parser.add_argument("--rounds", type=int, default=3, help="of each, in turn; default: 3")
    parser.add_argument("--mib", type=int, default=2048, help="that a loop moves; default: 2048")
    parser.add_argument("--work", type=Path, metavar="DIR", help="on the disk to measure; default: TMPDIR")
    parser.add_argument("--no-warm-memory", action="store_true", help="do not fill memory before each loop")
    parser.add_argument("--json", action="store_true", help="print each result as a line of JSON")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
