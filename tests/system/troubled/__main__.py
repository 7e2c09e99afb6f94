"""Leads a cluster through random trouble: `python -m tests.system.troubled --seed 1 --seconds 120 DIRECTORY`."""

import argparse
import os
import sys
import traceback
from pathlib import Path

from tests.system.troubled.life import Life, Plan


def main() -> None:
    """Leads one life; the exit status is 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=1, help="also chooses brokers, controllers and durability"
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("directory", type=Path, help="for the nodes; it stays")
    options = parser.parse_args()
    plan = Plan.of(options.seed, options.seconds)
    print(plan, flush=True)
    life = Life(plan, options.directory)
    try:
        life.run()
    except BaseException as error:
        life.notes.fail(f"the life ended: {error!r}")
        traceback.print_exc(file=sys.stdout)
    print("wrong:", *life.notes.wrong, sep="\n  ")
    sys.stdout.flush()
    os._exit(bool(life.notes.wrong))  # clients that hang stay behind


if __name__ == "__main__":
    main()
