"""The modules of a native package are one shared object: what is built, and what is imported from it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests import coverage_report
from tests.support.waiting import FOR_EVER_S, HANG_S

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


def python(code: str, tree: Path | None = None) -> str:
    """What a fresh process prints."""
    variables = {} if tree is None else {"PYTHONPATH": str(tree / "python")}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    )
    return ran.stdout.strip()


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A copy of the sources without what was built."""
    made = tmp_path / "tree"
    monkeypatch.setattr(coverage_report, "TREE", made)
    coverage_report.copy_tree()
    return made


def build(tree: Path) -> list[str]:
    """Builds one package, and returns the modules that were compiled."""
    ran = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=tree,
        env={**os.environ, "BOWSTRING_ONLY": "base", "BOWSTRING_QUICK": "1"},
        capture_output=True,
        text=True,
        timeout=FOR_EVER_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return re.findall(r"^compiled \d+ of \d+: .*/(\w+)\.c$", ran.stderr, re.M)


def test_a_module_is_initialized_when_it_is_imported():
    code = (
        "import sys\n"
        "from bowstring._native.base import varint\n"
        "print('bowstring._native.base.crc' in sys.modules, varint.__file__, varint.__spec__.name)\n"
        "from bowstring._native.base import crc\n"
        "print(crc is varint, crc.__file__ == varint.__file__)"
    )
    first, second = python(code).splitlines()
    loaded, path, name = first.split()
    assert (loaded, Path(path).name, name) == ("False", f"base{SUFFIX}", "bowstring._native.base.varint")
    assert second == "False True"


@pytest.mark.parametrize("name", ["base.none", "none", "none.none"])
def test_what_is_not_there_is_an_import_error(name):
    code = f"try:\n    import bowstring._native.{name}\nexcept ImportError as error:\n    print('none' in str(error))"
    assert python(code) == "True"


def test_only_what_changed_is_compiled(tree):
    assert sorted(build(tree)) == ["clock", "crc", "object_decoder", "varint"]
    library = tree / "_native" / f"base{SUFFIX}"
    assert build(tree) == []

    source = tree / "_native" / "base" / "varint.pyx"
    source.write_text(source.read_text() + "\nchanged = True\n")
    assert build(tree) == ["varint"]
    assert python("from bowstring._native.base import varint; print(varint.changed)", tree) == "True"

    header = tree / "_native" / "base" / "crc32c.h"
    header.write_text(header.read_text() + "\n")
    assert sorted(build(tree)) == ["clock", "crc", "object_decoder", "varint"]

    source.unlink()
    before = library.read_bytes()
    assert build(tree) == []
    assert b"PyInit_varint" in before and b"PyInit_varint" not in library.read_bytes()


def test_shared_objects_without_sources_are_removed(tree):
    build(tree)
    old = [tree / "_native" / "base" / f"varint{SUFFIX}", tree / "_native" / f"gone{SUFFIX}"]
    for path in old:
        path.write_bytes(b"")
    build(tree)
    assert not [path for path in old if path.exists()]
    assert [path.name for path in (tree / "_native").rglob("*.so")] == [f"base{SUFFIX}"]
