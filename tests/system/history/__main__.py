"""Tries lives, one after the other: `python -m tests.system.history --seconds 60 --seed 1`."""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.system.history.life import Life, Plan


def main() -> int:
    """Leads lives until the time is over; 1 when a promise was broken, whose directory stays."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for all lives together")
    parser.add_argument("--life", type=float, default=15.0, help="seconds of one life")
    parser.add_argument("--seed", type=int, default=1, help="of the first life")
    parser.add_argument("--brokers", type=int, default=0, help="1 or 3; by default in turn")
    parser.add_argument("--durability", default="", help="commit or os; by default in turn")
    parser.add_argument("--broken", default="", help="a fault of breaks/sitecustomize.py")
    options = parser.parse_args()
    ends_s = time.monotonic() + options.seconds
    seed, failed = options.seed, 0
    while seed == options.seed or time.monotonic() < ends_s:
        brokers = options.brokers or (3, 1)[seed % 2]
        if options.broken:
            brokers = 1
        directory = Path(tempfile.mkdtemp(prefix="history-"))
        durability = options.durability or ("commit", "os")[seed // 2 % 2]
        plan = Plan(
            seed, min(options.life, options.seconds), brokers, broken=options.broken, durability=durability
        )
        print(plan, flush=True)
        life = Life(plan, directory, tells=True)
        problems = life.run()
        print(life.counts, *problems[:20], sep="\n  ", flush=True)
        if problems:
            failed += 1
            print("left in", directory, flush=True)
        else:
            shutil.rmtree(directory)
        seed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
