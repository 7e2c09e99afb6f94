"""The tree is checked like the code: import direction, sizes, formatting, types."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    path
    for folder in ("engine", "python/bowstring", "bench", "tests")
    for path in (ROOT / folder).rglob("*.py")
]
SOURCES = [path for path in SOURCES if not ({"_native", "engine"} & set(path.relative_to(ROOT).parts[1:]))]
NATIVE = sorted([*(ROOT / "_native").glob("*.pyx"), *(ROOT / "_native").glob("*.pxd")])
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
# A core takes time, I/O and randomness as arguments.
PURE = ("engine/groups", "engine/metadata", "engine/protocol")
IMPURE_MODULES = {"asyncio", "socket", "time", "random", "threading", "selectors", "uvloop"}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
    return found


def test_imports_point_one_way():
    wrong = []
    for path in SOURCES:
        if relative(path).startswith("engine/"):
            for module in imports(path):
                if module.startswith("bowstring") and not re.match(r"bowstring\.(engine|_native)\b", module):
                    wrong.append(f"{relative(path)} imports {module}")
    for path in NATIVE:
        for module in re.findall(r"^(?:from|import|cimport) (bowstring\S*)", path.read_text(), re.M):
            if not module.startswith("bowstring._native"):
                wrong.append(f"{relative(path)} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_cores_are_pure():
    wrong = [
        f"{relative(path)} imports {sorted(bad)}"
        for path in SOURCES
        if relative(path).startswith(PURE)
        and (bad := {m.split(".")[0] for m in imports(path)} & IMPURE_MODULES)
    ]
    assert not wrong, "\n".join(wrong)


def test_file_lengths():
    long = [
        f"{relative(path)}: {count} lines"
        for path in [*SOURCES, *NATIVE]
        if (count := len(path.read_text().splitlines())) > FILE_LINES_MAX
    ]
    assert not long, f"files over {FILE_LINES_MAX} lines; split them by subject:\n" + "\n".join(long)


def native_functions(path: Path):
    """Name, first line and length of each top-level or method definition in a Cython file."""
    lines = path.read_text().splitlines()
    start = None
    for number, line in enumerate([*lines, "end"]):
        if start is not None and line.strip() and not line.startswith((" " * (start[2] + 1), ")", "#")):
            yield start[0], start[1] + 1, number - start[1]
            start = None
        match = re.match(r"( *)(?:cdef|cpdef|def)\b(?! class\b)[^=]*?(\w+)\(.*", line)
        if match and start is None and (line.rstrip().endswith((":", ",", "(")) or "noexcept" in line):
            start = (match[2], number, len(match[1]))


def test_function_lengths():
    long = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    long.append(f"{relative(path)}:{node.lineno} {node.name} {length}")
    for path in NATIVE:
        long += [
            f"{relative(path)}:{line} {name} {length}"
            for name, line, length in native_functions(path)
            if length > FUNCTION_LINES_MAX
        ]
    assert not long, f"functions over {FUNCTION_LINES_MAX} lines:\n" + "\n".join(long)


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy", "python/bowstring"],
    ],
    ids=["ruff-check", "ruff-format", "mypy"],
)
def test_tools_agree(command):
    ran = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]


def test_broker_start_imports_are_light():
    code = (
        "import sys, bowstring.serve\n"
        "heavy = {'pyarrow', 'numba', 'pyspark', 'typer', 'rich', 'prometheus_client', 'numpy', 'pandas'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.strip() == "[]"
