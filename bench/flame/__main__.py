"""Runs `python -m bench.flame`: writes perf_reports/<date>-<machine>-flame/, a flame graph per process and a
report.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from bench import machine, report
from bench.flame import costs, picture
from bench.flame.loads import LOADS, Load
from bench.lab import RECORD_BYTES, Lab, log
from bench.peers.bowstring import Bowstring
from bench.sizes import SIZES

REPORTS = report.ROOT / "perf_reports"


def scene(lab: Lab, load: Load, records: int, directory: Path) -> costs.Scene:
    """Samples one load and draws its pictures."""
    peer = lab.peer(Bowstring.name)
    sampled = load.run(lab, peer, records)
    found = costs.Scene(load.name, load.title, sampled.records_per_second)
    gigabytes = records * RECORD_BYTES / 1e9
    for role, stacks in sampled.stacks.items():
        name = f"{load.name}-{role}.svg"
        drawn = picture.draw(stacks, f"{load.title}: {role}", role)
        (directory / name).write_text(drawn)
        per_gb = sampled.cpu_seconds[role] / gigabytes
        found.processes.append(costs.Profiled(role, Counter(stacks), per_gb, name))
    log(f"{load.name}: {sampled.records_per_second:,.0f} records/s")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Samples every requested load; prints where the report is."""
    options = _options(arguments)
    started = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    directory: Path = options.output / f"{started[:10]}-{machine.slug(machine.facts())}-flame"
    directory.mkdir(parents=True, exist_ok=True)
    size = replace(SIZES["short"], warm_memory=False)
    loads = [load for load in LOADS if not options.only or load.name in options.only]
    with (
        tempfile.TemporaryDirectory(prefix="bowstring-flame-", dir=options.work) as work,
        Lab(Path(work), size) as lab,
    ):
        scenes = [scene(lab, load, options.records, directory) for load in loads]
        lab.stop_peers()
    (directory / "report.md").write_text(costs.report(scenes, started))
    print(directory / "report.md")
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.flame", description=__doc__)
    names = [load.name for load in LOADS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="LOAD", help=", ".join(names))
    parser.add_argument("--records", type=int, default=10_000_000, help="of 100 bytes, in each load")
    parser.add_argument("--output", type=Path, default=REPORTS, help="where the report's directory goes")
    parser.add_argument("--work", type=Path, help="a directory with 5 GB free; default: TMPDIR")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
