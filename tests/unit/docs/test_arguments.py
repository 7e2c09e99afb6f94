"""Each argument of the public Python API stands in the docstring of its function, class or method."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from typing import Any

import pytest

import bowstring
from bowstring import pytest_plugin
from bowstring.clients.consumer.local_reader import LocalReader
from bowstring.clients.consumer.partition_reader import PartitionReader
from bowstring.clients.consumer.range_reader import RangeReader
from bowstring.kernels.function import Kernel
from bowstring.pipeline import check, declaration, job
from docs.generate import python_api

# What the guides name beside the packages' public names.
MORE = (
    *(LocalReader, PartitionReader, RangeReader, Kernel),
    *(declaration.load, declaration.declared, check.check_topics, check.check_plan),
    *(job.start_session, job.frames, job.source_frame, job.sink_frame, job.writer, job.start),
)


def documented(docstring: str | None) -> set[str]:
    """The names in the sections `Args:` and `Attributes:`."""
    text = inspect.cleandoc(docstring or "") + "\n"
    entries = "".join(re.findall(r"^(?:Args|Attributes):\n((?: +.*\n|\n)+)", text, re.M))
    names = re.findall(r"^ {4}([*\w][*\w, ]*): ", entries, re.M)
    return {name.strip().lstrip("*") for entry in names for name in entry.split(",")}


def public_objects() -> Iterator[tuple[str, Any]]:
    for package in python_api.PACKAGES:
        module = import_module(package)
        for name in python_api.names(package):
            value = getattr(module, name)
            if callable(value) and not (inspect.isclass(value) and issubclass(value, Enum)):
                yield f"{package}.{name}", value
    yield from ((f"{each.__module__}.{each.__qualname__}", each) for each in MORE)


def methods(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in dir(cls):
        value = inspect.getattr_static(cls, name)
        value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        own = (getattr(value, "__module__", None) or "").startswith("bowstring")
        if not name.startswith("_") and own and inspect.isroutine(value):
            yield name, value


def twin(cls: type) -> type | None:
    """The class without asyncio whose arguments one of bowstring.aio takes, as its docstring says."""
    taken = re.search(r"[Aa]rguments of `bowstring\.(\w+)`", cls.__doc__ or "")
    return getattr(bowstring, taken[1]) if taken else None


def undocumented(function: Any, *docstrings: str | None) -> list[str]:
    known = set().union(*map(documented, docstrings))
    return [
        name
        for name in inspect.signature(function).parameters
        if name not in ("self", "cls", *known) and not name.startswith("_")
    ]


def lacking(where: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        yield from (f"{where}({name})" for name in undocumented(value, value.__doc__))
        return
    other = twin(value)
    # An exception without a constructor of its own takes a message.
    if not (issubclass(value, BaseException) and "__init__" not in vars(value)):
        constructor = value.__new__ if issubclass(value, tuple) else value.__init__
        for name in undocumented(constructor, value.__doc__, other.__doc__ if other else None):
            yield f"{where}({name})"
    for method, function in methods(value):
        inherited = getattr(other, method).__doc__ if hasattr(other, method) else None
        for name in undocumented(function, function.__doc__, inherited):
            yield f"{where}.{method}({name})"


@pytest.mark.parametrize(("where", "value"), list(public_objects()))
def test_each_argument_is_documented(where, value):
    found = list(lacking(where, value))
    assert not found, "no entry under `Args:` for:\n" + "\n".join(found)


def test_fixtures_say_what_they_give():
    for name in python_api.fixtures():
        assert inspect.getdoc(vars(pytest_plugin)[name]), name


def test_entries_are_read():
    text = """Does it.

    Args:
        one, two: numbers.
            More words: with a colon.
        *rest: others.

    Raises:
        ValueError: never.
    """
    assert documented(text) == {"one", "two", "rest"}
