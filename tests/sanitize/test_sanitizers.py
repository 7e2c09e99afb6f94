"""The native code once more, built with AddressSanitizer and UndefinedBehaviorSanitizer."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import HANG_S

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / ".sanitize"
# For hangs: minutes on an idle machine, many of them beside others' work.
BUILD_TIMEOUT_S, TESTS_TIMEOUT_S = 1_800, 2_400
# A test that takes this long prints the stacks of its threads.
TRACES_AFTER_S = 300
# Python keeps its allocations from startup; the flat-memory tests look for leaks.
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1:quarantine_size_mb=16",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}
SUBJECTS = [
    *(
        f"tests/unit/{name}"
        for name in (
            "access",
            "base",
            "record",
            "arrow",
            "log",
            "server",
            "client",
            "replica",
            "tls",
            "values",
            "wal",
        )
    ),
    "tests/unit/protocol/test_codec.py",
    "tests/unit/storage/test_staged_tails.py",
    "tests/unit/clients/arrow/test_arrow_format.py",
    "tests/unit/clients/producer/test_send_arrow.py",
    *sorted(
        str(path.relative_to(ROOT)) for path in ROOT.glob("tests/fuzz/test_*.py") if "spark" not in path.name
    ),
]

# Compares leader epochs with a model; it missed one once, at a sixth of the usual speed: unexplained.
LEFT_OUT = "tests/unit/server/test_replica_truncation.py::test_random_elections"


def runtime(name: str) -> str:
    """Path of a sanitizer's runtime: it must be loaded before Python's own allocations."""
    found = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    path = Path(found.stdout.strip())
    assert path.is_absolute(), f"gcc has no {name}; install its sanitizer runtimes (Debian: libgcc-12-dev)"
    return str(path.resolve())


@pytest.fixture(scope="module")
def sanitized():
    environment = os.environ | {"BOWSTRING_SANITIZE": "1", "PYTEST_ADDOPTS": ""}
    command = [
        sys.executable, "setup.py", "--quiet", "build", "--build-base", str(BUILD), "--build-lib", str(BUILD / "lib"),
        "--build-temp", str(BUILD / "temp"), "--parallel", str(os.cpu_count() or 1),
    ]  # fmt: skip
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
    yield environment | {
        "LD_PRELOAD": f"{runtime('libasan.so')} {runtime('libubsan.so')}",
        **OPTIONS,
        "PYTHONPATH": str(BUILD / "lib"),
        "PYTHONMALLOC": "malloc",
        "BOWSTRING_FUZZ_SECONDS": "3",
        "BOWSTRING_SANITIZED": "1",
    }
    shutil.rmtree(BUILD / "temp", ignore_errors=True)


def reports_in(folder: Path) -> dict[str, str]:
    """Settings that keep a sanitizer's reports: a process that aborts takes its captured stderr with it."""
    return {name: f"{OPTIONS[name]}:log_path={folder}/report" for name in OPTIONS}


def told(folder: Path) -> str:
    """Returns the last output of the sanitizers and the tests."""
    files = [*sorted(folder.glob("report.*")), folder / "output"]
    return "\n".join(f"{path.name}:\n{path.read_text(errors='replace')[-6000:]}" for path in files)


@pytest.mark.timeout(BUILD_TIMEOUT_S + TESTS_TIMEOUT_S + HANG_S)
def test_native_code_under_sanitizers(sanitized, tmp_path):
    probe = subprocess.run(
        [sys.executable, "-c", "import bowstring._native.log.partition_log as m; print(m.__file__)"],
        env=sanitized, capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert str(BUILD) in probe.stdout, probe.stdout + probe.stderr
    command = [
        sys.executable, "-m", "pytest", "-v", "-x", "-p", "no:cacheprovider", "--numprocesses", "2",
        "-o", f"faulthandler_timeout={TRACES_AFTER_S}", *SUBJECTS, "--deselect", LEFT_OUT,
        "-k", "not two-reactors",  # races are ThreadSanitizer's (test_threads.py)
    ]  # fmt: skip
    with (tmp_path / "output").open("w") as output:
        ran = subprocess.Popen(
            command,
            cwd=ROOT,
            env=sanitized | reports_in(tmp_path),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = ran.wait(TESTS_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(ran.pid, signal.SIGKILL)
            code = "hangs"
    assert code == 0, told(tmp_path)
