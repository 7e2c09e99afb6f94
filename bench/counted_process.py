"""Runs the child process whose instructions are counted: `python -S -m bench.counted_process NAME CALLS`; see
instructions.py.
"""

import gc
import os
import sys

WARM_UP_CALLS = 2
PACKAGES_VARIABLE = "BOWSTRING_BENCH_PACKAGES"


def main(name: str, calls: int) -> None:
    """Makes `calls` calls of the micro bench `name`, after everything that only the first calls do."""
    from bench.catalogue import micro_bench

    with micro_bench(name).ready() as call:
        for _ in range(WARM_UP_CALLS):
            call()
        gc.collect()
        gc.disable()
        for _ in range(calls):
            call()


if __name__ == "__main__":
    sys.path += os.environ[PACKAGES_VARIABLE].split(os.pathsep)
    main(sys.argv[1], int(sys.argv[2]))
