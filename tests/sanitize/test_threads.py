"""The native code that threads share, built with ThreadSanitizer."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import HANG_S

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / ".sanitize" / "thread"
BUILD_TIMEOUT_S = 1_800
LOAD_S = 4
# The modules that threads share, and their imports. The rest of the native code belongs to one thread at a
# time.
PACKAGES = ("access", "base", "disk", "log", "record", "replica", "server", "tls", "wal", "protocol")
LOADS = ("commits", "modes", "closes", "logs")
EXIT_CODE = 66
# Addresses that ThreadSanitizer does not expect (vm.mmap_rnd_bits above 28) are avoided without randomization.
FIXED_ADDRESSES = ["setarch", "-R"] if shutil.which("setarch") else []


def run(
    command: list[str], environment: dict[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
    )


@pytest.fixture(scope="module")
def threaded():
    """The environment of a Python with the instrumented modules; skips where ThreadSanitizer cannot run."""
    found = run(["gcc", "-print-file-name=libtsan.so"], dict(os.environ), HANG_S).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip("gcc has no libtsan.so (Debian: libgcc-12-dev)")
    preloaded = os.environ | {"LD_PRELOAD": str(Path(found).resolve())}
    probe = run([*FIXED_ADDRESSES, sys.executable, "-c", "print('runs')"], preloaded, HANG_S)
    if probe.returncode != 0 or "runs" not in probe.stdout:
        pytest.skip(f"ThreadSanitizer does not run here: {(probe.stderr or probe.stdout)[-500:]}")
    command = [
        sys.executable, "setup.py", "--quiet", "build", "--build-base", str(BUILD), "--build-lib", str(BUILD / "lib"),
        "--build-temp", str(BUILD / "temp"), "--parallel", str(os.cpu_count() or 1),
    ]  # fmt: skip
    asked = {"BOWSTRING_SANITIZE": "thread", "BOWSTRING_ONLY": ",".join(PACKAGES)}
    built = run(command, os.environ | asked, BUILD_TIMEOUT_S)
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-4000:]
    environment = preloaded | {"PYTHONPATH": str(BUILD / "lib"), "PYTHONMALLOC": "malloc"}
    where = "import bowstring._native.wal.write_ahead_log as m; print(m.__file__)"
    probe = run([*FIXED_ADDRESSES, sys.executable, "-c", where], environment, HANG_S)
    assert str(BUILD) in probe.stdout, probe.stdout + probe.stderr
    yield environment
    shutil.rmtree(BUILD / "temp", ignore_errors=True)


@pytest.mark.timeout(BUILD_TIMEOUT_S + 2 * HANG_S)
@pytest.mark.parametrize("load", LOADS)
def test_no_data_races(threaded, tmp_path, load):
    """Every part of a load does its work at least once, however long that takes."""
    reports = tmp_path / "reports"
    reports.mkdir()
    (tmp_path / "data").mkdir()
    options = {
        "exitcode": EXIT_CODE,
        "log_path": reports / "report",
        "history_size": 4,
        "second_deadlock_stack": 1,
    }
    environment = threaded | {"TSAN_OPTIONS": ":".join(f"{name}={value}" for name, value in options.items())}
    command = [sys.executable, "-m", "tests.sanitize.thread_loads", load, str(tmp_path / "data"), str(LOAD_S)]
    ran = run([*FIXED_ADDRESSES, *command], environment, HANG_S)
    told = "\n".join(path.read_text(errors="replace") for path in sorted(reports.iterdir()))
    assert (ran.returncode, told) == (0, ""), f"{ran.stderr[-4000:]}\n{told[:20_000]}"
