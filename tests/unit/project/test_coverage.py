"""`make coverage`: a module built for it notes its lines, and the report has them."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

from tests import coverage_report
from tests.support.waiting import HANG_S

# Runs lines in another thread, and ends without a chance to write what ran.
SCRIPT = """
import os, signal, threading
from bowstring._native.base.varint import encode_varlongs
thread = threading.Thread(target=encode_varlongs, args=(bytes(8),))
thread.start()
thread.join()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_lines_of_a_process_that_was_killed(tmp_path, monkeypatch, capsys):
    tree = tmp_path / "tree"
    monkeypatch.setattr(coverage_report, "TREE", tree)
    coverage_report.copy_tree()
    built = coverage_report.run(
        "setup.py",
        "--quiet",
        "build_ext",
        "--inplace",
        BOWSTRING_COVERAGE="1",
        BOWSTRING_ONLY="base",
    )
    assert built == 0
    (tree / coverage_report.LINES).mkdir(parents=True)
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={"PYTHONPATH": str(tree / "python")}, timeout=HANG_S, check=False
    )
    assert ran.returncode == -signal.SIGKILL

    coverage_report.report(tree, tmp_path)
    source = (tree / "_native/base/varint.pyx").read_text().splitlines()
    (row,) = re.findall(r"^_native/base/varint\.pyx .*%   (.*)$", (tmp_path / "report.txt").read_text(), re.M)
    missed = set()
    for part in row.split(", "):
        first, _, last = part.partition("-")
        missed |= set(range(int(first), int(last or first) + 1))
    begin = {
        name: next(n for n, line in enumerate(source, 1) if line.startswith(f"def {name}"))
        for name in ("encode_varlongs", "decode_varlongs")
    }
    assert begin["encode_varlongs"] < begin["decode_varlongs"]
    encode = set(range(begin["encode_varlongs"], begin["decode_varlongs"]))
    assert not encode & missed and missed & set(range(begin["decode_varlongs"], len(source)))
    totals = re.search(r"([\d.]+) % of Python, ([\d.]+) % of native code", capsys.readouterr().out)
    assert totals and float(totals[1]) == 0 and 0 < float(totals[2]) < 100
