"""`python -m bench.kreps`, which is `bowstring bench kreps`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.kreps import report
from bench.kreps.catalogue import ARTICLE, TESTS
from bench.kreps.live import Live
from bench.kreps.loads import CLIENTS
from bench.kreps.run import Plan, run

REPORTS = Path(__file__).resolve().parents[2] / "perf_reports"


def options(arguments: list[str] | None) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="bowstring bench kreps", description=__doc__)
    parser.add_argument("--brokers", type=int, default=3, help="of a cluster, where a test asks for replicas")
    parser.add_argument(
        "--peer", action="append", choices=("kafka",), default=[], help="measured beside Bowstring"
    )
    parser.add_argument("--only-peer", action="store_true", help="leave Bowstring out")
    parser.add_argument("--client", choices=CLIENTS, default="native")
    parser.add_argument("--records", type=int, default=20_000_000, help="of a full test")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=float, default=30.0, metavar="SECONDS")
    parser.add_argument("--stored-gb", type=float, default=10.0, help="of the test of stored data")
    parser.add_argument("--no-warm-memory", action="store_true", help="do not fill memory before each test")
    parser.add_argument("--test", action="append", choices=list(TESTS), help="may be repeated; default: all")
    parser.add_argument("--article", action="store_true", help="only the tests of the article")
    parser.add_argument("--output", type=Path, default=REPORTS)
    parser.add_argument("--work", type=Path, help="a directory with room for the records; default: TMPDIR")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Runs and writes the report; 1 when a test failed."""
    asked = options(arguments)
    tests = [TESTS[name] for name in asked.test or [t.name for t in ARTICLE if asked.article] or list(TESTS)]
    plan = Plan(
        tests=tests,
        peers=[*asked.peer, *([] if asked.only_peer else ["bowstring"])],
        client=asked.client,
        brokers=asked.brokers,
        rounds=asked.rounds,
        records=asked.records,
        warm_up_seconds=asked.warm_up,
        stored_bytes=int(asked.stored_gb * 1e9),
        warm_memory=not asked.no_warm_memory,
    )
    with tempfile.TemporaryDirectory(prefix="bowstring-kreps-", dir=asked.work) as work, Live(plan) as live:
        result = run(plan, Path(work), live.progress)
    written = report.write(result, asked.output)
    print(written / "report.md")
    failed = [o.failure for by_peer in result.outcomes.values() for o in by_peer.values() if o.failure]
    for failure in failed:
        print(failure, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
