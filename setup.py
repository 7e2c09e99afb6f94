"""Builds the native packages and the jar of the Spark engine; everything else is in pyproject.toml.

The sources of bowstring-client (deploy/client) come with this file, and have no Spark engine.

    python setup.py build_ext --inplace     a shared object for each package of _native, beside its folder
    python setup.py build_jar               the jar (JAR below), when its sources changed

Environment:
    BOWSTRING_ONLY      comma-separated packages of _native (`log,server`) to build; "none": none.
    BOWSTRING_QUICK     "1" builds in half the time what runs at half the speed.
    BOWSTRING_COVERAGE  "1" builds for `make coverage`: modules note in build/lines which of their lines ran.
    BOWSTRING_SANITIZE  "1" builds with AddressSanitizer and UndefinedBehaviorSanitizer, "thread" with
                        ThreadSanitizer.
    CCACHE_DISABLE      "1" compiles without ccache, which is used where it is installed.
    BOWSTRING_SPARK_JARS  the folder of Spark's jars to compile against, if not PySpark's or SPARK_HOME's.
"""

import importlib.util
import itertools
import multiprocessing
import os
import shutil
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

from Cython.Build import cythonize
from setuptools import Command, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import ExecError
from setuptools.modified import newer_group

PYTHON = Path("python")
PACKAGE = PYTHON / "bowstring" / "_native"
COVERAGE = os.environ.get("BOWSTRING_COVERAGE") == "1"
SANITIZE = {"1": "address,undefined", "thread": "thread"}.get(os.environ.get("BOWSTRING_SANITIZE", ""))
# Those that this process may use.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
# The sources of each package.
MODULES = {
    name: list(sources)
    for name, sources in itertools.groupby(sorted(PACKAGE.glob("*/*.pyx")), lambda path: path.parent.name)
}
ONLY = set(filter(None, os.environ.get("BOWSTRING_ONLY", "").split(",")))

JAR = Path("python/bowstring/spark/jars/bowstring-spark.jar")
JAR_BUILD = Path("python/bowstring/spark/jar_build.py")
if JAR_BUILD.exists():
    # By its path: the package cannot be imported before it is built.
    _found = importlib.util.spec_from_file_location("jar_build", JAR_BUILD)
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
    """The shared object of each package, from the C of its modules.

    Compiles the modules that changed, as many at once as there are cores (`--parallel` asks for another
    number), and links the packages that have them.
    """

    def finalize_options(self) -> None:
        """`build --parallel` counts, too."""
        super().finalize_options()
        if self.parallel is None:
            self.parallel = CORES

    def run(self) -> None:
        """Builds, and removes shared objects that no sources are left of: they would go into wheels."""
        super().run()
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        for root in (Path(self.build_lib), *([PYTHON] if self.inplace else [])):
            folder = root / PACKAGE.relative_to(PYTHON)
            for path in set(folder.rglob(f"*{suffix}")) - {folder / f"{name}{suffix}" for name in MODULES}:
                path.unlink()

    def build_extensions(self) -> None:
        """Compiles all modules that need it, through ccache where that is installed, and then links."""
        if shutil.which("ccache") and not any("ccache" in word for word in self.compiler.compiler_so):
            # A checkout elsewhere finds what this one has compiled.
            os.environ.update(CCACHE_BASEDIR=str(Path.cwd()), CCACHE_NOHASHDIR="1")
            self.compiler.set_executable("compiler_so", ["ccache", *self.compiler.compiler_so])
        pending: list[tuple[Extension, str]] = []
        for ext in self.extensions:
            library = Path(self.get_ext_fullpath(ext.name))
            objects = self.compiler.object_filenames(ext.sources, output_dir=self.build_temp)
            if self.force or newer_group([*ext.sources, *ext.depends, self._list_modules(ext)], library):
                library.unlink(missing_ok=True)  # so that it is linked, even with older objects
                pending += [
                    (ext, source)
                    for source, compiled in zip(ext.sources, objects, strict=True)
                    if self.force or newer_group([source, *ext.depends], compiled)
                ]
            # What is left to `build_extension` is to link.
            ext.sources, ext.depends, ext.extra_objects = [], [], objects
        with ThreadPoolExecutor(self.parallel) as pool:
            for done, source in enumerate(pool.map(self._compile, pending), 1):
                if self.distribution.verbose:
                    print(f"compiled {done} of {len(pending)}: {source}", file=sys.stderr, flush=True)
        super().build_extensions()

    def _compile(self, module: tuple[Extension, str]) -> str:
        ext, source = module
        self.compiler.compile(
            [source],
            output_dir=self.build_temp,
            include_dirs=ext.include_dirs,
            debug=self.debug,
            extra_postargs=ext.extra_compile_args,
        )
        return source

    def _list_modules(self, ext: Extension) -> str:
        """Returns a file with the modules of a package, newer than its shared object when they are others."""
        path, names = Path(self.build_temp, f"{ext.name}.modules"), "\n".join(ext.sources)
        if not path.exists() or path.read_text(encoding="utf-8") != names:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(names, encoding="utf-8")
        return str(path)


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
    # as long as -O1; with -O0, immediate arguments of intrinsics are none.
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


def extension(name: str, sources: list[str]) -> Extension:
    """What is compiled from these sources, with this build's flags."""
    return Extension(
        f"bowstring._native.{name}",
        sources,
        include_dirs=[str(PACKAGE)],
        depends=[str(path) for path in sorted(PACKAGE.rglob("*.h"))],
        extra_compile_args=compile_args,
        extra_link_args=link_args,
        libraries=["pthread"],
    )


packages = {name: modules for name, modules in MODULES.items() if not ONLY or name in ONLY}
if unknown := ONLY - {"none", *MODULES}:
    sys.exit(f"BOWSTRING_ONLY: no such package of _native: {', '.join(sorted(unknown))}")

# `setup.py --version`, sdist metadata and the like need no C at all.
building = any(
    word in sys.argv for word in ("build_ext", "bdist_wheel", "editable_wheel", "build", "install", "develop")
)
if building:
    # Cython's processes must not run this file again, as those of another method of starting would.
    multiprocessing.set_start_method("fork", force=True)
    cythonize(
        [
            extension(f"{name}.{source.stem}", [str(source)])
            for name, modules in packages.items()
            for source in modules
        ],
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
    packages = {name: [source.with_suffix(".c") for source in modules] for name, modules in packages.items()}
    if COVERAGE:
        for source in itertools.chain.from_iterable(packages.values()):
            note_lines(source)
of_jar = {"build_jar": BuildJar, "build_py": BuildPy} if JAR_BUILD.exists() else {}
setup(
    cmdclass={"build_ext": BuildExt, **of_jar},
    ext_modules=[extension(name, [str(source) for source in sources]) for name, sources in packages.items()],
)
