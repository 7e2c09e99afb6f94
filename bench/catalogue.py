"""Every micro bench there is: the asv classes of bench/suites, flattened into calls that can be timed.

asv, pytest-benchmark (bench/test_micro.py), the report and the smoke test all take them from here.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import bench.suites


# Little is imported here: it is what every child that is counted begins with (bench/instructions.py).
class MicroBench(NamedTuple):
    """One `time_` method of a suite with one set of its parameters."""

    suite: type
    method: str
    parameters: tuple[Any, ...]

    @property
    def name(self) -> str:
        """E.g. `crc.Crc32c.time_crc[65536]`."""
        parameters = f"[{', '.join(map(str, self.parameters))}]" if self.parameters else ""
        return f"{self.suite.__module__.rpartition('.')[2]}.{self.suite.__name__}.{self.method}{parameters}"

    @contextmanager
    def ready(self) -> Iterator[Callable[[], object]]:
        """Sets the suite up, gives the call to time, and tears it down."""
        instance = self.suite()
        getattr(instance, "setup", _nothing)(*self.parameters)
        try:
            call = getattr(instance, self.method)
            parameters = self.parameters
            yield lambda: call(*parameters)
        finally:
            getattr(instance, "teardown", _nothing)(*self.parameters)


def micro_benches() -> list[MicroBench]:
    """All that take microseconds to milliseconds, by module and in the order in which they are written.

    A suite with `of_seconds = True` is asv's alone.
    """
    import pkgutil

    return [
        micro
        for module_info in pkgutil.iter_modules(bench.suites.__path__)
        for micro in _benches_of(module_info.name)
        if not getattr(micro.suite, "of_seconds", False)
    ]


def micro_bench(name: str) -> MicroBench:
    """The one of that name; imports its module only.

    Raises:
        KeyError: there is none.
    """
    for micro in _benches_of(name.partition(".")[0]):
        if micro.name == name:
            return micro
    raise KeyError(f"there is no micro bench {name}")


def _benches_of(module_name: str) -> list[MicroBench]:
    module = importlib.import_module(f"bench.suites.{module_name}")
    found = []
    for suite in vars(module).values():
        if isinstance(suite, type) and suite.__module__ == module.__name__:
            methods = [name for name in vars(suite) if name.startswith("time_")]
            found += [
                MicroBench(suite, method, parameters)
                for method, parameters in itertools.product(methods, _parameter_sets(suite))
            ]
    return found


def _parameter_sets(suite: type) -> list[tuple[Any, ...]]:
    # As asv has it: a list of values, or one list for each of several parameters.
    params = getattr(suite, "params", [])
    if not params:
        return [()]
    if all(isinstance(values, (list, tuple)) for values in params):
        return list(itertools.product(*params))
    return [(value,) for value in params]


def _nothing(*_parameters: Any) -> None:
    pass
