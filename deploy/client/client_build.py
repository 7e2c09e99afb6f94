"""Builds the distribution bowstring-client (PEP 517).

It lays out the sources that the clients need, and setuptools builds them. What is laid out is also the source
distribution, which builds without this file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Of python/bowstring. tests/unit/project/test_distributions.py holds that they import nothing else.
PACKAGES = ("aio", "clients", "kernels", "protocol", "schemas", "security", "tracing", "values")
MODULES = ("__init__", "__main__", "distribution", "exactly_once", "tables", "version")
NATIVE_PACKAGES = ("arrow", "base", "client", "protocol", "record", "tls", "values")
SUFFIXES = (".h", ".pxd", ".py", ".pyi", ".pyx")
MANIFEST = """\
include LICENSE README.md
recursive-include python *.pyx *.pxd *.h *.pyi py.typed client_only.txt
global-exclude *.so *.c
"""


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Builds a wheel; returns its file name."""
    from setuptools import build_meta

    with _sources():
        return str(build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_sdist(sdist_directory: str, config_settings: Mapping[str, Any] | None = None) -> str:
    """Packs the sources; returns the file name."""
    from setuptools import build_meta

    with _sources():
        return str(build_meta.build_sdist(sdist_directory, config_settings))


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Mapping[str, Any] | None = None
) -> str:
    """Writes the metadata; returns the name of its folder."""
    from setuptools import build_meta

    with _sources():
        return str(build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings))


@contextmanager
def _sources() -> Iterator[None]:
    """Has the sources as the working directory. Front ends give absolute paths."""
    with tempfile.TemporaryDirectory(prefix="bowstring-client-") as folder:
        lay_out(ROOT, Path(folder))
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(HERE)


def lay_out(checkout: Path, folder: Path) -> None:
    """Copies the sources of the clients, at the places that they have in a checkout.

    Args:
        checkout: Where they are.
        folder: Receives them.

    Raises:
        FileNotFoundError: There is no checkout.
    """
    package, recipe = checkout / "python" / "bowstring", checkout / "deploy" / "client"
    if not package.is_dir():
        raise FileNotFoundError(
            f"{package} is not there: bowstring-client is built in a checkout, by pip 21.3 or newer"
        )
    target = folder / "python" / "bowstring"
    for module in MODULES:
        _copy(package / f"{module}.py", target)
    _copy(package / "py.typed", target)
    _copy(recipe / "client_only.txt", target)
    for name in PACKAGES:
        _copy_package(package / name, target / name)
    _copy(checkout / "_native" / "__init__.py", target / "_native")
    for name in NATIVE_PACKAGES:
        _copy_package(checkout / "_native" / name, target / "_native" / name)
    for path in (checkout / "setup.py", checkout / "LICENSE", recipe / "README.md"):
        _copy(path, folder)
    folder.joinpath("MANIFEST.in").write_text(MANIFEST, encoding="utf-8")
    declared = recipe.joinpath("pyproject.toml").read_text(encoding="utf-8")
    built_here = 'build-backend = "client_build"\nbackend-path = ["."]\n'
    assert built_here in declared
    declared = declared.replace(built_here, 'build-backend = "setuptools.build_meta"\n')
    folder.joinpath("pyproject.toml").write_text(declared, encoding="utf-8")


def _copy_package(source: Path, target: Path) -> None:
    for path in source.rglob("*"):
        if path.suffix in SUFFIXES:
            _copy(path, target / path.relative_to(source).parent)


def _copy(path: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, folder)
