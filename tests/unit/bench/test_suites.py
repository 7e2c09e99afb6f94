"""What asv is given: every suite can be set up and called, counts repeat, and a comparison judges by them."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
from asv.config import Config
from asv.runner import BENCHMARK_RUN_SCRIPT

from bench import instructions, regressions
from bench.asv_worktrees import STAMP, BuildFailed, Trees, WorkTrees
from bench.catalogue import MicroBench, micro_bench, micro_benches
from bench.regressions import NOT_COMPARED, PASSED, REGRESSED
from bench.suites import arrow
from bench.suites import instructions as counted

ROOT = Path(__file__).resolve().parents[3]


def test_what_takes_seconds_runs_with_small_sizes(monkeypatch):
    # The others run in test_catalogue.py, Spark's in tests/spark/test_bench_suite.py.
    monkeypatch.setattr(arrow, "ROWS", 500)
    for suite, method in ((arrow.Produce, "time_send_arrow"), (arrow.Consume, "time_read")):
        with MicroBench(suite, method, (True,)).ready() as call:
            call()


def test_what_is_counted_exists():
    known = {micro.name for micro in micro_benches()}
    assert {bench for bench, _ in counted.COUNTED.values()} <= known
    assert all(callable(getattr(counted, f"track_instructions_{name}")) for name in counted.COUNTED)
    with pytest.raises(KeyError, match=r"crc\.Crc32c\.time_it"):
        micro_bench("crc.Crc32c.time_it")


def test_every_module_measures_processor_time():
    modules = {sys.modules[micro.suite.__module__] for micro in micro_benches()}
    assert {module.timer.__name__ for module in modules} == {"process_time"}


# ---------------------------------------------------------------- counting


@pytest.mark.skipif(instructions.counter() is None, reason="needs valgrind or perf")
def test_counts_repeat():
    name, calls = "crc.Crc32c.time_crc32c[1024]", 2000
    first, second = (instructions.count(name, calls) for _ in range(2))
    assert 20 < first < 20_000
    assert abs(first - second) / first < 0.005


def test_without_a_counter_nothing_is_applicable(monkeypatch):
    monkeypatch.setattr(instructions.shutil, "which", lambda _: None)
    instructions.counter.cache_clear()
    try:
        with pytest.raises(NotImplementedError, match="install valgrind"):
            counted.setup()
        with pytest.raises(instructions.CountError, match="install valgrind"):
            instructions.count("crc.Crc32c.time_crc32c[64]", 1)
    finally:
        instructions.counter.cache_clear()


def test_a_bench_that_fails_says_so():
    with pytest.raises(instructions.CountError, match=r"there is no micro bench crc\.Nothing"):
        instructions.count("crc.Nothing", 1)


# ---------------------------------------------------------------- judging


@pytest.mark.parametrize(
    ("base", "head", "code"),
    [
        (100.0, 100.0, PASSED),
        (100.0, 110.0, PASSED),
        (100.0, 111.0, REGRESSED),
        (100.0, 50.0, PASSED),
        (100.0, None, REGRESSED),
        (None, 100.0, NOT_COMPARED),
        (math.nan, math.nan, NOT_COMPARED),
    ],
)
def test_verdicts(capsys, base, head, code):
    name = "instructions.track_instructions_crc_1k"
    assert regressions.verdict({name: base}, {name: head}) == code
    said = capsys.readouterr().out
    assert (f"REGRESSION {name}" in said) == (code == REGRESSED)


def test_what_only_one_revision_has():
    one, two = "instructions.track_instructions_one", "instructions.track_instructions_two"
    assert regressions.verdict({one: 1.0}, {one: 1.0, two: 5.0}) == PASSED
    assert regressions.verdict({one: 1.0, two: 5.0}, {one: 1.0}) == REGRESSED


def test_an_unknown_revision(capsys):
    assert regressions.main(["compare", "no-such-revision"]) == NOT_COMPARED
    assert "no-such-revision" in capsys.readouterr().err


# ---------------------------------------------------------------- builds of revisions

SETUP = """
import pathlib, sys
for target in pathlib.Path("_native").rglob("*.so"):
    if not target.with_name(target.name.split(".")[0] + ".pyx").exists():
        target.unlink()
for source in pathlib.Path("_native").rglob("*.pyx"):
    if "error" in source.read_text():
        sys.exit("it does not compile")
    target = source.with_name(source.stem + ".cpython.so")
    if not target.exists():
        target.write_text(source.read_text())
"""


def commit(repository: Path, **files: str | None) -> str:
    for name, content in files.items():
        path = repository / "_native" / "package" / f"{name}.pyx"
        if content is None:
            path.unlink()
        else:
            path.write_text(content)
    for words in (["add", "--all"], ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "more"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    return subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=repository, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    made = tmp_path / "repository"
    (made / "_native" / "package").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=made, check=True)
    (made / "setup.py").write_text(SETUP)
    (made / ".gitignore").write_text("*.so\n")
    return made


def built(tree: Path) -> set[str]:
    return {path.name.split(".")[0] for path in (tree / "_native" / "package").glob("*.so")}


def test_revisions_are_built_once_and_from_each_other(repository, tmp_path, monkeypatch):
    monkeypatch.setattr("bench.asv_worktrees.shutil.which", lambda _: None)  # no jar
    first = commit(repository, one="1", two="2")
    second = commit(repository, two=None, three="3")
    trees = Trees(tmp_path / "builds", str(repository), keep=2)
    assert built(trees.built(first)) == {"one", "two"}
    marked = trees.built(first) / "_native" / "package" / "one.cpython.so"
    marked.write_text("from the first build")
    tree = trees.built(second)
    assert built(tree) == {"one", "three"}
    assert (tree / "_native" / "package" / "one.cpython.so").read_text() == "from the first build"
    assert trees.built(first).name == first
    broken = commit(repository, four="error")
    with pytest.raises(BuildFailed, match="it does not compile"):
        trees.built(broken)
    assert not (tmp_path / "builds" / broken).exists()
    third = commit(repository, four="4")
    trees.built(third)
    assert {path.parent.name for path in (tmp_path / "builds").glob(f"*/{STAMP}")} == {first, third}


def test_other_flags_build_everything_anew(repository, tmp_path, monkeypatch):
    monkeypatch.setattr("bench.asv_worktrees.shutil.which", lambda _: None)
    trees = Trees(tmp_path / "builds", str(repository), keep=2)
    (trees.built(commit(repository, one="1")) / "_native" / "package" / "one.cpython.so").write_text(
        "with old flags"
    )
    (repository / "setup.py").write_text(SETUP + "# -O3\n")
    tree = trees.built(commit(repository, two="2"))
    assert (tree / "_native" / "package" / "one.cpython.so").read_text() == "1"


def test_asv_imports_the_tree_and_nothing_installed(repository, tmp_path, monkeypatch):
    monkeypatch.setattr("bench.asv_worktrees.shutil.which", lambda _: None)
    monkeypatch.chdir(tmp_path)
    revision = commit(repository, one="1")
    config = Config.from_json({"repo": str(repository), "env_dir": str(tmp_path / "builds")})
    made = WorkTrees(config, "{}.{}".format(*sys.version_info[:2]), {}, {})
    made.create()
    made.install_project(config, None, revision)
    package = tmp_path / "builds" / revision / "python" / "bowstring"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    suites = tmp_path / "suites"
    suites.mkdir()
    (suites / "__init__.py").write_text("")
    (suites / "one.py").write_text(
        f"import bowstring\nassert bowstring.__file__.startswith({str(package)!r})\n"
    )
    found = tmp_path / "found.json"
    made.run([BENCHMARK_RUN_SCRIPT, "discover", str(suites), str(found)], cwd=str(tmp_path), dots=False)
    assert found.read_text() == "[]"
