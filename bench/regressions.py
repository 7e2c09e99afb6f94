"""Runs the micro benches over revisions with asv: compares two, or records one.

    python -m bench.regressions compare BASE [HEAD]  fails when HEAD takes over 10 % more instructions
    python -m bench.regressions record REVISION      writes bench/results/, for a tag
    python -m bench.regressions publish              builds the site of the recorded results

Both revisions are measured with the suites of this checkout. Only instruction counts are judged. Times depend
on other load and are only shown.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench import machine
from bench.instructions import NO_COUNTER, ROOT, counter

BENCH = ROOT / "bench"
SCRATCH = ROOT / ".asv" / "compare"
COUNTS = "instructions."
REGRESSION_RATIO = 1.10
PASSED, REGRESSED, NOT_COMPARED = 0, 1, 2


class NotMeasuredError(RuntimeError):
    """Nothing can be measured or compared; the message says what to do."""


@dataclass(frozen=True)
class Change:
    """The results of one benchmark for two revisions; None is a failure, nan not applicable."""

    name: str
    base: float | None
    head: float | None

    @property
    def regressed(self) -> bool:
        """Whether it takes over 10 % more, or is no longer measured."""
        if not self.base or math.isnan(self.base):
            return False
        return self.head is None or self.head / self.base > REGRESSION_RATIO

    def __str__(self) -> str:
        if self.head is None or not self.base:
            return f"{self.name}: failed"
        return f"{self.name}: {self.base:,.0f} -> {self.head:,.0f} ({self.head / self.base - 1:+.1%})"


def compare(base: str, head: str, pattern: str | None) -> int:
    """Measures both and prints asv's table, then the verdict; returns the exit code."""
    if counter() is None:
        raise NotMeasuredError(NO_COUNTER)
    hashes = [_hash(base), _hash(head)]
    if head == "HEAD" and _git("status", "--porcelain", "--untracked-files=no"):
        print("There are changes that are not committed: HEAD is compared without them.", file=sys.stderr)
    config = _scratch_config()
    name = _know_machine(config)
    for revision in set(hashes):
        (SCRATCH / "results" / name / f"{revision[:8]}-{_environment()}.json").unlink(missing_ok=True)
    chosen = [] if pattern is None else ["--bench", pattern]
    factor = ["--factor", str(REGRESSION_RATIO), "--split", "--show-stderr"]
    # Its exit code also counts times, so the verdict is computed from the results.
    _asv(config, "continuous", "--machine", name, *factor, *chosen, *hashes)
    return verdict(*(_results(SCRATCH / "results" / name, revision) for revision in hashes))


def verdict(base: dict[str, float | None], head: dict[str, float | None]) -> int:
    """Compares results by bench; returns the exit code."""
    changes = [Change(name, base[name], head.get(name)) for name in base if name.startswith(COUNTS)]
    counted = [change for change in changes if change.base and not math.isnan(change.base)]
    if not counted:
        print("No instruction count was made of the first revision: nothing is judged.", file=sys.stderr)
        return NOT_COMPARED
    regressed = [change for change in counted if change.regressed]
    for change in regressed:
        print(f"REGRESSION {change}")
    over = f"over {REGRESSION_RATIO - 1:.0%} more instructions or failed"
    print(f"{len(counted)} instruction counts compared, {len(regressed)} {over}.")
    return REGRESSED if regressed else PASSED


def record(revision: str, pattern: str | None) -> int:
    """Measures one revision into bench/results/, to be committed."""
    config = BENCH / "asv.conf.json"
    name = _know_machine(config)
    chosen = [] if pattern is None else ["--bench", pattern]
    return _asv(config, "run", "--machine", name, "--show-stderr", *chosen, f"{_hash(revision)}^!")


def publish() -> int:
    """Builds the site into .asv/html."""
    return _asv(BENCH / "asv.conf.json", "publish")


def _results(folder: Path, revision: str) -> dict[str, float | None]:
    from asv.results import Results

    path = folder / f"{revision[:8]}-{_environment()}.json"
    if not path.exists():
        raise NotMeasuredError(f"asv has no results of {revision[:8]}; what it printed says why")
    found = Results.load(str(path))
    values = {}
    for key in found.get_all_result_keys():
        got = found.get_result_value(key, [])
        if key.startswith(COUNTS):
            values[key] = got[0] if isinstance(got, list) else got
    return values


def _scratch_config() -> Path:
    # Comparisons must not write to bench/results.
    lines = (BENCH / "asv.conf.json").read_text().splitlines()
    given = json.loads("\n".join(line for line in lines if not line.strip().startswith("//")))
    for key in ("repo", "benchmark_dir", "env_dir"):
        given[key] = str((BENCH / given[key]).resolve())
    given["results_dir"] = str(SCRATCH / "results")
    # asv looks up HEAD among the branches.
    given["branches"] = ["HEAD"]
    SCRATCH.mkdir(parents=True, exist_ok=True)
    config = SCRATCH / "asv.conf.json"
    config.write_text(json.dumps(given, indent=4))
    return config


def _know_machine(config: Path) -> str:
    # Not the host's name, asv's default.
    facts = machine.facts()
    name = machine.slug(facts)
    # asv drops facts that it detects itself, so the processor is described in other words.
    told = {"machine": name, "cpu": f"{facts['CPU']}, {facts['cores']} cores", "ram": facts["memory"]}
    options = [f"--{key}={value}" for key, value in told.items()]
    if _asv(config, "machine", "--yes", *options) != 0:
        raise NotMeasuredError("asv does not take this machine; what it printed says why")
    return name


def _environment() -> str:
    return f"worktree-py{sys.version_info.major}.{sys.version_info.minor}"


def _asv(config: Path, *arguments: str) -> int:
    # The plugin is beside asv.conf.json.
    variables = {**os.environ, "PYTHONPATH": str(BENCH)}
    command = [sys.executable, "-m", "asv", *arguments, "--config", str(config)]
    return subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode


def _hash(revision: str) -> str:
    return _git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")


def _git(*arguments: str) -> str:
    ran = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise NotMeasuredError(f"git {' '.join(arguments)}: {ran.stderr.strip()}")
    return ran.stdout.strip()


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; 1 when instructions regressed, 2 when nothing could be compared."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.regressions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    comparing = commands.add_parser("compare", help="fails on more instructions")
    comparing.add_argument("base")
    comparing.add_argument("head", nargs="?", default="HEAD")
    recording = commands.add_parser("record", help="writes bench/results/")
    recording.add_argument("revision")
    for each in (comparing, recording):
        each.add_argument("--bench", metavar="REGEX", help="only benchmarks whose name it matches")
    commands.add_parser("publish", help="makes the site of what was recorded")
    options = parser.parse_args(arguments)
    try:
        if options.command == "compare":
            return compare(options.base, options.head, options.bench)
        if options.command == "record":
            return record(options.revision, options.bench)
        return publish()
    except NotMeasuredError as error:
        print(error, file=sys.stderr)
        return NOT_COMPARED


if __name__ == "__main__":
    sys.exit(main())
