"""`python -m tests.simulation.staged`: runs seeds, and prints the story of each that fails."""

import argparse
import sys
import time

from tests.simulation.staged.lives import Lives


def main() -> int:
    """Runs the seeds; returns 1 when one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.staged", description=__doc__)
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=5000, help="how many")
    parser.add_argument("--until-found", action="store_true", help="end with the first that fails")
    chosen = parser.parse_args()
    begin, failed, restored = time.monotonic(), 0, 0
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        lives = Lives(seed)
        try:
            lives.run()
        except AssertionError as error:
            failed += 1
            print(error, flush=True)
            if chosen.until_found:
                break
        restored += lives.restored
    print(f"seeds {chosen.first} to {seed} in {time.monotonic() - begin:.0f} s, {failed} failed, {restored} chunks restored")  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
