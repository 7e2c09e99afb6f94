"""Builds the native extensions; everything else about the package is in pyproject.toml.

Environment:
    BOWSTRING_ONLY      comma-separated extension names: build just these (a developer's shortcut).
    BOWSTRING_QUICK     "1" builds in half the time what runs at half the speed.
    BOWSTRING_SANITIZE  "1" builds with AddressSanitizer and UndefinedBehaviorSanitizer.
"""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

PACKAGE = Path("python/bowstring/_native")
SANITIZE = os.environ.get("BOWSTRING_SANITIZE") == "1"
ONLY = set(filter(None, os.environ.get("BOWSTRING_ONLY", "").split(",")))

compile_args = ["-O3", "-g1", "-fno-strict-aliasing", "-fno-plt", "-Wall", "-Wno-unused-function"]
link_args: list[str] = []
if os.environ.get("BOWSTRING_QUICK") == "1":
    compile_args[:2] = ["-O1", "-g0"]
if SANITIZE:
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
    compile_args = ["-O1", "-g", "-fno-strict-aliasing", *flags]
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
setup(
    ext_modules=cythonize(
        extensions,
        include_path=["python"],
        nthreads=0,
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
