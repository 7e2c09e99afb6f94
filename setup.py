"""Builds the native extensions and the jar of the Spark engine; everything else is in pyproject.toml.

    python setup.py build_ext --inplace     the extensions, beside their sources
    python setup.py build_jar               the jar (JAR below), when its sources changed

Environment:
    BOWSTRING_ONLY      comma-separated extension names: build just these (a shortcut); "none": none of them.
    BOWSTRING_QUICK     "1" builds in half the time what runs at half the speed.
    BOWSTRING_SANITIZE  "1" builds with AddressSanitizer and UndefinedBehaviorSanitizer.
    BOWSTRING_SPARK_JARS  the folder of Spark's jars to compile against, if not PySpark's or SPARK_HOME's.
"""

import hashlib
import importlib.util
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import ClassVar

from Cython.Build import cythonize
from setuptools import Command, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import ExecError

PACKAGE = Path("python/bowstring/_native")
SANITIZE = os.environ.get("BOWSTRING_SANITIZE") == "1"
# Those that this process may use.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
ONLY = set(filter(None, os.environ.get("BOWSTRING_ONLY", "").split(",")))

JAVA_SOURCES = Path("python/bowstring/spark/java")
JAR = Path("python/bowstring/spark/jars/bowstring-spark.jar")
# Of Spark's own jars: manifests that name jars which are not there, annotations that are not there.
JAVAC = ["javac", "--release", "17", "-encoding", "UTF-8", "-g", "-proc:none", "-Xlint:all,-path,-classfile"]
# What the jar was built from stands in it: it is current if this agrees.
JAR_DIGEST = "META-INF/bowstring-sources.sha256"


def spark_jars() -> Path | None:
    """The folder of Spark's jars, or None where there is no Spark."""
    if given := os.environ.get("BOWSTRING_SPARK_JARS"):
        return Path(given)
    found = importlib.util.find_spec("pyspark")
    if (
        found is not None
        and found.origin is not None
        and (jars := Path(found.origin).parent / "jars").is_dir()
    ):
        return jars
    home = os.environ.get("SPARK_HOME")
    return Path(home, "jars") if home and Path(home, "jars").is_dir() else None


class BuildJar(Command):
    """Compiles the Java sources against Spark's own jars; the same sources give the same bytes."""

    description = "build the jar of the Spark engine (needs javac 17 and PySpark's jars)"
    user_options: ClassVar[list[tuple[str, str | None, str]]] = [
        ("force", "f", "build it even if its sources have not changed")
    ]
    boolean_options: ClassVar[list[str]] = ["force"]

    def initialize_options(self) -> None:
        """Begins with the options' defaults."""
        self.force = False

    def finalize_options(self) -> None:
        """`build --force` builds the jar anew, too."""
        self.set_undefined_options("build", ("force", "force"))

    def run(self) -> None:
        """Compiles and packs; raises ExecError when it cannot."""
        sources = sorted(JAVA_SOURCES.rglob("*.java"))
        digest = hashlib.sha256("\n".join(JAVAC).encode())
        for source in sources:
            content = source.read_bytes()
            digest.update(f"{source.relative_to(JAVA_SOURCES).as_posix()} {len(content)}\n".encode())
            digest.update(content)
        if not sources or (not self.force and self._built_from() == digest.hexdigest()):
            return
        libraries = spark_jars()
        if libraries is None or shutil.which(JAVAC[0]) is None:
            lacking = "Spark (pip install pyspark)" if libraries is None else "javac (a JDK of 17 or newer)"
            raise ExecError(f"the jar of the Spark engine needs {lacking}")
        with tempfile.TemporaryDirectory(prefix="bowstring-jar-") as folder:
            classes = Path(folder)
            command = [*JAVAC, "-cp", f"{libraries}/*", "-d", folder, *map(str, sources)]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            print(ran.stdout + ran.stderr, file=sys.stderr, end="")
            if ran.returncode != 0:
                raise ExecError(f"javac could not compile {JAVA_SOURCES} against {libraries}")
            self._write(classes, digest.hexdigest())

    def _built_from(self) -> str | None:
        if not JAR.exists():
            return None
        with zipfile.ZipFile(JAR) as jar:
            return jar.read(JAR_DIGEST).decode() if JAR_DIGEST in jar.namelist() else None

    def _write(self, classes: Path, digest: str) -> None:
        entries = {"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\n\r\n", JAR_DIGEST: digest.encode()}
        for path in sorted(classes.rglob("*.class")):
            entries[path.relative_to(classes).as_posix()] = path.read_bytes()
        JAR.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place and then moved there: a JVM that has the old one open keeps it whole.
        partial = JAR.with_name(f".{JAR.name}.{os.getpid()}")
        with zipfile.ZipFile(partial, "w") as jar:
            for name, content in entries.items():
                entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                jar.writestr(entry, content)
        os.replace(partial, JAR)


class BuildPy(build_py):
    """The Python files, and the jar with them where it can be built."""

    def run(self) -> None:
        """Builds the jar, or says why there is none, and goes on."""
        try:
            self.run_command("build_jar")
        except ExecError as error:
            self.warn(f"{error}; built without it: the columnar Spark engine will not be there")
        super().run()


class BuildExt(build_ext):
    """The extensions, as many at once as there are cores; `--parallel` asks for another number."""

    def finalize_options(self) -> None:
        """`build --parallel` counts, too."""
        super().finalize_options()
        if self.parallel is None:
            self.parallel = CORES


compile_args = ["-O3", "-g1", "-fno-strict-aliasing", "-fno-plt", "-Wall", "-Wno-unused-function"]
link_args: list[str] = []
if os.environ.get("BOWSTRING_QUICK") == "1":
    compile_args[:2] = ["-O1", "-g0"]
if SANITIZE:
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
    # Lines are enough for what a sanitizer reports, and take a third less time than all of -g.
    compile_args = ["-O1", "-g1", "-fno-strict-aliasing", *flags]
    link_args = flags

extensions = [
    Extension(
        f"bowstring._native.{source.stem}",
        [str(source)],
        include_dirs=[str(PACKAGE)],
        depends=[str(path) for path in sorted(PACKAGE.glob("*.h"))],
        extra_compile_args=compile_args,
        extra_link_args=link_args,
        libraries=["pthread"],
    )
    for source in sorted(PACKAGE.glob("*.pyx"))
    if not ONLY or source.stem in ONLY
]

# `setup.py --version`, sdist metadata and the like need no C at all.
building = any(
    word in sys.argv for word in ("build_ext", "bdist_wheel", "editable_wheel", "build", "install", "develop")
)
if building:
    # Cython's processes must not run this file again, as those of another method of starting would.
    multiprocessing.set_start_method("fork", force=True)
setup(
    cmdclass={"build_ext": BuildExt, "build_jar": BuildJar, "build_py": BuildPy},
    ext_modules=cythonize(
        extensions,
        include_path=["python"],
        nthreads=CORES,
        language_level=3,
        compiler_directives={
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "embedsignature": True,
            "freethreading_compatible": False,
        },
    )
    if building
    else extensions,
)
