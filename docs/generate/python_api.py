"""Renders the page of the Python API: what mkdocstrings is to document, from the packages' `__all__`."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from types import ModuleType

HEAD = """\
# Python API

Every public name. What is not listed here may change without notice.
"""
PACKAGES = {
    "bowstring": "The broker, the clients, and reading topics as tables.",
    "bowstring.aio": "The clients for asyncio.",
    "bowstring.values": "Typed values: JSON, Avro and Protobuf.",
    "bowstring.spark": "Spark sessions and reads.",
}
FIXTURES = "bowstring.pytest_plugin"


def render() -> str:
    """The page as Markdown; mkdocstrings expands the lines that begin with `:::`."""
    lines = [HEAD]
    shown: set[object] = set()
    for package, what in PACKAGES.items():
        lines += [f"## {package}", "", what, ""]
        for name in names(package):
            value = getattr(import_module(package), name)
            if isinstance(value, ModuleType):
                continue  # has a section of its own
            if callable(value) and value in shown:
                lines += [f"`{package}.{name}` is [`bowstring.{name}`][bowstring.{name}].", ""]
                continue
            if isinstance(value, str):
                lines += [f"`{package}.{name}` is the version, such as `{value!r}`.", ""]
                continue
            if callable(value):
                shown.add(value)
            lines += [f"::: {package}.{name}", ""]
    lines += ["## pytest fixtures", "", "They are there as soon as the package is installed.", ""]
    for name in fixtures():
        lines += [f"::: {FIXTURES}.{name}", ""]
    return "\n".join(lines)


def names(package: str) -> list[str]:
    """The public names of a package."""
    found: list[str] = import_module(package).__all__
    return found


def fixtures() -> list[str]:
    """The fixtures of the pytest plugin, found in its source: pytest wraps them in objects of its own."""
    source = Path(import_module(FIXTURES).__file__ or "").read_text(encoding="utf-8")
    return [
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and any("pytest.fixture" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]
