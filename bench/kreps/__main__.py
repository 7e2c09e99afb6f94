"""Runs the 2014 test of Kafka, "2 million writes a second on three machines", with Bowstring and Apache
Kafka.

On one machine brokers and clients are processes. With --hosts, brokers and clients run on other machines,
and with --load-hosts the clients on yet others. Each of them needs a checkout of this revision, built by
`make ext`, and for Apache Kafka or Java clients a JDK and Maven; nothing is copied. They are driven over
SSH, or, with --print-commands, by a command for each that you run there. Ctrl-C ends everything and writes
the results so far.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from bench.kreps import report
from bench.kreps.catalogue import ARTICLE, TESTS
from bench.kreps.live import Live
from bench.kreps.loads import CLIENTS
from bench.kreps.machines import Here, Machine
from bench.kreps.remote import SSH, Checkout, Remote, Switchboard, Target, over_ssh
from bench.kreps.results import from_json, merge
from bench.kreps.run import Plan, Sites, run
from bench.peers.install import PeerError

ROOT = Path(__file__).resolve().parents[2]
REPORTS = ROOT / "perf_reports"
# Values for --quick, unless given: minutes instead of an hour.
QUICK = {"records": 2_000_000, "warm_up": 5.0, "stored_gb": 2.0}
FULL = {"records": 20_000_000, "warm_up": 30.0, "stored_gb": 10.0}
INTERRUPTED = 130


def options(arguments: list[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="bowstring bench kreps", description=__doc__, formatter_class=raw)
    what = parser.add_argument_group("what is measured")
    what.add_argument("--list", action="store_true", help="list the tests and end")
    what.add_argument("--test", action="append", choices=list(TESTS), help="may be repeated; default: all")
    what.add_argument("--article", action="store_true", help="only the tests of the article")
    what.add_argument(
        "--peer", action="append", choices=("kafka",), default=[], help="measured beside Bowstring"
    )
    what.add_argument("--only-peer", action="store_true", help="leave Bowstring out")
    what.add_argument("--client", choices=CLIENTS, default="native", help="default: native")
    what.add_argument(
        "--brokers",
        type=int,
        help="of a cluster, where a test asks for replicas; default: 3, or one for each host",
    )
    size = parser.add_argument_group("how much")
    size.add_argument("--quick", action="store_true", help="minutes: fewer records, shorter warm-up")
    size.add_argument("--records", type=int, help="of a full test; default: 20,000,000, --quick 2,000,000")
    size.add_argument("--rounds", type=int, default=3, help="of each test; default: 3")
    size.add_argument(
        "--warm-up", type=float, metavar="SECONDS", help="of each cluster; default: 30, --quick 5"
    )
    size.add_argument(
        "--stored-gb",
        type=float,
        help="of values in the test of stored data; default: 10, --quick 2; 30 in full",
    )
    size.add_argument("--no-warm-memory", action="store_true", help="do not fill memory before each test")
    size.add_argument("--no-loops", action="store_true", help="do not run the bare loops (bench/limits)")
    size.add_argument("--no-calm", action="store_true", help="do not wait for the machine to be idle")
    where = parser.add_argument_group("where")
    where.add_argument("--work", type=Path, metavar="DIR", help="with room for the records; default: TMPDIR")
    where.add_argument("--output", type=Path, default=REPORTS, metavar="DIR", help="default: perf_reports/")
    where.add_argument(
        "--collect", type=Path, nargs="+", metavar="DIR", help="run nothing: one report of those in DIR …"
    )
    _add_far(parser)
    return _completed(parser.parse_args(arguments), parser)


def _add_far(parser: argparse.ArgumentParser) -> None:
    far = parser.add_argument_group(
        "other machines",
        "H is DESTINATION or DESTINATION=ADDRESS, as ssh knows it and as the others reach it",
    )
    far.add_argument("--hosts", metavar="H,H,H", help="for brokers")
    far.add_argument("--load-hosts", metavar="H,H,H", help="for clients; default: those of --hosts")
    far.add_argument("--print-commands", action="store_true", help="print what to run there and wait for it")
    far.add_argument(
        "--listen", default=":0", metavar="HOST:PORT", help="of this machine, for --print-commands"
    )
    far.add_argument(
        "--wait", type=float, default=600, metavar="SECONDS", help="for --print-commands; default: 600"
    )
    far.add_argument("--ssh", default=SSH, metavar="COMMAND", help=f"default: {SSH}")
    far.add_argument(
        "--remote-directory", default=str(ROOT), metavar="DIR", help="of the checkout; default: as here"
    )
    far.add_argument(
        "--remote-python", default=".venv/bin/python", metavar="PATH", help="default: .venv/bin/python"
    )
    far.add_argument(
        "--remote-work", default="", metavar="DIR", help="with room for records; default: TMPDIR there"
    )


def _completed(asked: argparse.Namespace, parser: argparse.ArgumentParser) -> argparse.Namespace:
    for name, value in (QUICK if asked.quick else FULL).items():
        if getattr(asked, name) is None:
            setattr(asked, name, value)
    asked.hosts = [Target.parse(each) for each in (asked.hosts or "").split(",") if each]
    asked.load_hosts = [Target.parse(each) for each in (asked.load_hosts or "").split(",") if each]
    if asked.load_hosts and not asked.hosts:
        parser.error("--load-hosts needs --hosts")
    if asked.only_peer and not asked.peer:
        parser.error("--only-peer needs --peer")
    if min(asked.records, asked.rounds) < 1 or asked.stored_gb <= 0:
        parser.error("--records, --rounds and --stored-gb must be greater than 0")
    if asked.brokers is None:
        asked.brokers = len(asked.hosts) or 3
    if asked.brokers < 1:
        parser.error("--brokers must be at least 1")
    return asked


def _plan(asked: argparse.Namespace) -> Plan:
    chosen = asked.test or [test.name for test in (ARTICLE if asked.article else TESTS.values())]
    return Plan(
        tests=[TESTS[name] for name in chosen],
        peers=[*dict.fromkeys(asked.peer), *([] if asked.only_peer else ["bowstring"])],
        client=asked.client,
        brokers=asked.brokers,
        rounds=asked.rounds,
        records=asked.records,
        warm_up_seconds=asked.warm_up,
        stored_bytes=int(asked.stored_gb * 1e9),
        settle=not asked.no_calm,
        fill_memory=not asked.no_warm_memory,
        loops=not asked.no_loops,
        # Options that explain the figures, without names of machines and directories.
        options={
            **({"--peer": "kafka"} if asked.peer else {}),
            **({"--only-peer": ""} if asked.only_peer else {}),
            "--client": asked.client,
            "--brokers": str(asked.brokers),
            "--records": str(asked.records),
            "--rounds": str(asked.rounds),
            "--warm-up": f"{asked.warm_up:g}",
            "--stored-gb": f"{asked.stored_gb:g}",
            **({"--no-warm-memory": ""} if asked.no_warm_memory else {}),
            **({"--no-calm": ""} if asked.no_calm else {}),
            **({"--no-loops": ""} if asked.no_loops else {}),
        },
    )


def _sites(asked: argparse.Namespace, work: Path, ends: ExitStack) -> Sites:
    """Returns machines with their agents; `ends` ends them."""
    if not asked.hosts:
        here = Here(work)
        ends.callback(here.close)
        return Sites([here], [here])
    targets = list(dict.fromkeys([*asked.hosts, *asked.load_hosts]))
    checkout = Checkout(asked.remote_directory, asked.remote_python, asked.remote_work)
    came: list[Remote] = []
    if asked.print_commands:
        board = Switchboard(asked.listen)
        print("Run on", file=sys.stderr)
        for target in targets:
            print(f"{target.destination}:\n  {board.command(target, checkout)}", file=sys.stderr, flush=True)
        came = board.wait(targets, asked.wait)
        for each in came:
            ends.callback(each.close)
    else:
        for target in targets:
            came.append(over_ssh(target, checkout, asked.ssh))
            ends.callback(came[-1].close)
    found: dict[Target, Machine] = dict(zip(targets, came, strict=True))
    brokers = [found[target] for target in asked.hosts]
    return Sites(brokers, [found[target] for target in asked.load_hosts] or brokers)


def _list() -> None:
    for test in TESTS.values():
        then = " / ".join(f"{each:,.0f}" for each in test.figure_2014 or ())
        sizes = f" ({', '.join(f'{each:,}' for each in test.values)})" if test.values else ""
        print(f"{test.name:<20}{test.title}{sizes}{f'; 2014: {then}' if then else ''}")


def _collect(asked: argparse.Namespace) -> int:
    found = []
    for directory in asked.collect:
        path = directory / "report.json"
        if not path.exists():
            raise PeerError(f"{path} is missing: name directories that runs have written")
        found.append(from_json(json.loads(path.read_text())))
    print(report.write(merge(found), asked.output) / "report.md")
    return 0


def _ignore_signals() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _end_once(number: int, frame: FrameType | None) -> None:
    """Ends the run on the first Ctrl-C; a second one must not interrupt the clean-up of its processes."""
    _ignore_signals()
    raise KeyboardInterrupt


def _measure(asked: argparse.Namespace) -> int:
    plan = _plan(asked)
    with ExitStack() as ends:
        work = ends.enter_context(tempfile.TemporaryDirectory(prefix="bowstring-kreps-", dir=asked.work))
        sites = _sites(asked, Path(work), ends)
        live = ends.enter_context(Live(plan))
        result = run(plan, sites, live.progress, lambda so_far: report.keep(so_far, asked.output))
        _ignore_signals()  # the rest takes seconds
    print(report.write(result, asked.output) / "report.md")
    outcomes = [*result.loops.values(), *(o for each in result.outcomes.values() for o in each.values())]
    failed = {outcome.failure for outcome in outcomes if outcome.failure}
    for failure in failed:
        print(failure, file=sys.stderr)
    return INTERRUPTED if result.interrupted else int(bool(failed))


def main(arguments: list[str] | None = None) -> int:
    """Runs and writes the report; returns 1 when a test failed, 2 when nothing could be run."""
    asked = options(arguments)
    if asked.list:
        _list()
        return 0
    before = {each: signal.signal(each, _end_once) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        return _collect(asked) if asked.collect else _measure(asked)
    except PeerError as error:
        print(f"bowstring bench kreps: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted before anything was measured", file=sys.stderr)
        return INTERRUPTED
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
