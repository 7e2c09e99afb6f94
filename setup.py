"""Builds the native extensions and the jar of the Spark engine; everything else is in pyproject.toml.

    python setup.py build_ext --inplace     the extensions, beside their sources
    python setup.py build_jar               the jar (JAR below), when its sources changed

Environment:
    BOWSTRING_ONLY      comma-separated modules of _native (`server.produce`) to build; "none": none.
    BOWSTRING_QUICK     "1" builds in half the time what runs at half the speed.
    BOWSTRING_COVERAGE  "1" builds for `make coverage`: modules note in build/lines which of their lines ran.
    BOWSTRING_SANITIZE  "1" builds with AddressSanitizer and UndefinedBehaviorSanitizer, "thread" with
                        ThreadSanitizer.
    BOWSTRING_SPARK_JARS  the folder of Spark's jars to compile against, if not PySpark's or SPARK_HOME's.
"""

import importlib.util
import multiprocessing
import os
import sys
import sysconfig
from pathlib import Path
from typing import ClassVar

from Cython.Build import cythonize
from setuptools import Command, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import ExecError

PACKAGE = Path("python/bowstring/_native")
COVERAGE = os.environ.get("BOWSTRING_COVERAGE") == "1"
SANITIZE = {"1": "address,undefined", "thread": "thread"}.get(os.environ.get("BOWSTRING_SANITIZE", ""))
# Those that this process may use.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
ONLY = set(filter(None, os.environ.get("BOWSTRING_ONLY", "").split(",")))

JAR = Path("python/bowstring/spark/jars/bowstring-spark.jar")
# By its path: the package cannot be imported before it is built.
_found = importlib.util.spec_from_file_location("jar_build", "python/bowstring/spark/jar_build.py")
jar_build = importlib.util.module_from_spec(_found)
_found.loader.exec_module(jar_build)


def spark_jars() -> Path | None:
    """The folder of Spark's jars, or None where there is no Spark.

    An isolated build does not see the packages beside it. Where the environment that it is for has PySpark
    already, its jars are taken all the same: they are only compiled against.
    """
    if given := os.environ.get("BOWSTRING_SPARK_JARS"):
        return Path(given)
    found = importlib.util.find_spec("pyspark")
    places = [Path(found.origin).parent] if found is not None and found.origin is not None else []
    places.append(Path(sysconfig.get_path("purelib"), "pyspark"))
    if home := os.environ.get("SPARK_HOME"):
        places.append(Path(home))
    folders = (place / "jars" for place in places)
    return next((folder for folder in folders if jar_build.spark_version(folder) is not None), None)


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
        if not self.force and jar_build.built_from(JAR) == jar_build.sources_digest():
            return
        libraries, javac = spark_jars(), jar_build.find_javac()
        if libraries is None or javac is None:
            lacking = "Spark (pip install pyspark)" if libraries is None else "javac (a JDK of 17 or newer)"
            raise ExecError(f"the jar of the Spark engine needs {lacking}")
        try:
            print(jar_build.build(JAR, libraries, javac), file=sys.stderr, end="")
        except jar_build.JarBuildError as error:
            raise ExecError(f"{javac} could not compile against {libraries}:\n{error}") from error


class BuildPy(build_py):
    """The Python files, and the jar with them where it can be built."""

    def run(self) -> None:
        """Builds the jar, or says why there is none, and goes on."""
        try:
            self.run_command("build_jar")
        except ExecError as error:
            if jar_build.built_from(JAR) != jar_build.sources_digest():
                JAR.unlink(missing_ok=True)  # left from before the sources changed
            self.warn(f"{error}; built without it: the first Spark session will build it, if it finds a JDK")
        super().run()


class BuildExt(build_ext):
    """The extensions, as many at once as there are cores; `--parallel` asks for another number."""

    def finalize_options(self) -> None:
        """`build --parallel` counts, too."""
        super().finalize_options()
        if self.parallel is None:
            self.parallel = CORES
        self.built = 0

    def build_extension(self, ext: Extension) -> None:
        """Builds one, and says how far the build is; `pip install -v` shows it."""
        super().build_extension(ext)
        self.built += 1
        if self.distribution.verbose:
            print(f"compiled {self.built} of {len(self.extensions)}: {ext.name}", file=sys.stderr, flush=True)


compile_args = ["-O3", "-g1", "-fno-strict-aliasing", "-fno-plt", "-Wall", "-Wno-unused-function"]
link_args: list[str] = []
if os.environ.get("BOWSTRING_QUICK") == "1":
    compile_args[:2] = ["-O1", "-g0"]
if COVERAGE:
    header, folder = Path("tests/coverage_lines.h").resolve(), Path("build/lines").resolve()
    traced = ["-include", str(header), f'-DBOWSTRING_LINES="{folder}"']
    compile_args = ["-O1", "-g0", "-fno-strict-aliasing", "-Wno-unused-function", *traced]
if SANITIZE:
    flags = [f"-fsanitize={SANITIZE}", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
    # Lines are enough for what a sanitizer reports, and take a third less time than all of -g. -Og takes half
    # as long as -O1.
    compile_args = ["-Og", "-g1", "-fno-strict-aliasing", *flags]
    link_args = flags


def note_lines(generated: Path) -> None:
    """Makes a module note its lines itself (tests/coverage_lines.h), not by Python's tracer."""
    text = generated.read_text(encoding="utf-8")
    macro = "#define __Pyx_TraceLine(line, offset, nogil, goto_error)   "
    note = "BOWSTRING_LINE(__pyx_f, #goto_error, line) "
    if macro + note not in text:
        assert text.count(macro + "if") == 1, f"{generated}: this Cython traces lines in another way"
        generated.write_text(text.replace(macro, macro + note), encoding="utf-8")


def module_name(source: Path) -> str:
    """`server.produce` for _native/server/produce.pyx."""
    return ".".join(source.relative_to(PACKAGE).with_suffix("").parts)


SOURCES = sorted(PACKAGE.rglob("*.pyx"))
unknown = ONLY - {"none"} - {module_name(source) for source in SOURCES}
if unknown:
    sys.exit(
        f"BOWSTRING_ONLY: no such module: {', '.join(sorted(unknown))}; it takes names like server.produce"
    )

extensions = [
    Extension(
        f"bowstring._native.{module_name(source)}",
        [str(source)],
        include_dirs=[str(PACKAGE)],
        depends=[str(path) for path in sorted(PACKAGE.rglob("*.h"))],
        extra_compile_args=compile_args,
        extra_link_args=link_args,
        libraries=["pthread"],
    )
    for source in SOURCES
    if not ONLY or module_name(source) in ONLY
]

# `setup.py --version`, sdist metadata and the like need no C at all.
building = any(
    word in sys.argv for word in ("build_ext", "bdist_wheel", "editable_wheel", "build", "install", "develop")
)
modules = extensions
if building:
    # Cython's processes must not run this file again, as those of another method of starting would.
    multiprocessing.set_start_method("fork", force=True)
    modules = cythonize(
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
            "linetrace": COVERAGE,
        },
    )
if building and COVERAGE:
    for module in modules:
        note_lines(Path(module.sources[0]))
setup(cmdclass={"build_ext": BuildExt, "build_jar": BuildJar, "build_py": BuildPy}, ext_modules=modules)
