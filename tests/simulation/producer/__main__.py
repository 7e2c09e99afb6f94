"""`python -m tests.simulation.producer`: tries seeds, and prints the settings of each that fails."""

import argparse
import logging
import sys
import time

from tests.simulation.producer.lives import ProducerLife


def main() -> int:
    """1 when a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.producer", description=__doc__)
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--repeat", type=int, default=1, help="how often each: threads do not follow seeds")
    parser.add_argument("--until-found", action="store_true", help="end with the first that fails")
    parser.add_argument("--verbose", action="store_true", help="let the producers' log through")
    chosen = parser.parse_args()
    if not chosen.verbose:
        logging.disable()
    failed = number = 0
    begin = said = time.monotonic()
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        for _ in range(chosen.repeat):
            number += 1
            try:
                ProducerLife(seed).run()
            except AssertionError as error:
                failed += 1
                print(error, flush=True)
                if chosen.until_found:
                    return 1
        if time.monotonic() - said > 10:
            said = time.monotonic()
            print(f"{number} lives, {failed} failed, {number / (said - begin):.1f} a second", flush=True)
    print(f"{number} lives in {time.monotonic() - begin:.0f} s, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
