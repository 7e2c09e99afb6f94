"""Runs cython-lint over the native sources: `make lint`. Its style settings are in pyproject.toml.

cython-lint has no switch for one of its findings, so it is sorted out here: an index that a C loop only counts with is
fine.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COUNTING = "Loop control variable"


def main() -> int:
    """Prints the findings that count; returns 1 if there are any."""
    script = "import sys; from cython_lint.cython_lint import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "--no-pycodestyle", "_native"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    wrong = [line for line in (ran.stdout + ran.stderr).splitlines() if COUNTING not in line]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
