"""`python -m tests.simulation.storage`: runs seeds, and prints the story of each that fails."""

import argparse
import contextlib
import io
import sys
import time

from tests.simulation.storage.lives import Lives


def main() -> int:
    """Runs the seeds; returns 1 when one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.storage", description=__doc__)
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=5000, help="how many")
    parser.add_argument("--until-found", action="store_true", help="end with the first that fails")
    parser.add_argument("--verbose", action="store_true", help="let the broker's log through")
    chosen = parser.parse_args()
    failed = 0
    begin = said = time.monotonic()
    for number, seed in enumerate(range(chosen.first, chosen.first + chosen.seeds), 1):
        lives = Lives(seed)
        heard = contextlib.nullcontext() if chosen.verbose else contextlib.redirect_stderr(io.StringIO())
        try:
            with heard:
                lives.run()
        except AssertionError as error:
            failed += 1
            print(error, flush=True)
            if chosen.until_found:
                break
        if time.monotonic() - said > 10:
            said = time.monotonic()
            print(f"{number} seeds, {failed} failed, {number / (said - begin):.0f} a second", flush=True)
    print(f"{number} seeds in {time.monotonic() - begin:.0f} s, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
