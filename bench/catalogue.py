"""Lists every micro bench: the asv classes of bench/suites as calls that can be timed.

asv, pytest-benchmark (bench/test_micro.py), the report and the smoke test all use this list.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import bench.suites


# Imports little, because every counted child process imports it (bench/instructions.py).
class MicroBench(NamedTuple):
    """One `time_` method of a suite with one set of its parameters."""

    suite: type
    method: str
    parameters: tuple[Any, ...]

    @property
    def name(self) -> str:
        """Name, e.g. `crc.Crc32c.time_crc[65536]`."""
        parameters = f"[{', '.join(map(str, self.parameters))}]" if self.parameters else ""
        return f"{self.suite.__module__.rpartition('.')[2]}.{self.suite.__name__}.{self.method}{parameters}"

    @contextmanager
    def ready(self) -> Iterator[Callable[[], object]]:
        """Sets the suite up, yields the call to time, and tears it down."""
        instance = self.suite()
        getattr(instance, "setup", _nothing)(*self.parameters)
        try:
            call = getattr(instance, self.method)
            parameters = self.parameters
            yield lambda: call(*parameters)
        finally:
            getattr(instance, "teardown", _nothing)(*self.parameters)


def micro_benches() -> list[MicroBench]:
    """Returns all micro benches of microseconds to milliseconds, by module and in source order.

    A suite with `of_seconds = True` is for asv only.
    """
    import pkgutil

    return [
        micro
        for module_info in pkgutil.iter_modules(bench.suites.__path__)
        for micro in _benches_of(module_info.name)
        if not getattr(micro.suite, "of_seconds", False)
    ]


def micro_bench(name: str) -> MicroBench:
    """Returns the micro bench with that name; imports only its module.

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
                for method, parameters in itertools.product(methods, parameter_sets(suite))
            ]
    return found


def parameter_sets(suite: type) -> list[tuple[Any, ...]]:
    """Returns every combination of the parameters of an asv class."""
    # As in asv: a list of values, or one list for each of several parameters.
    params = getattr(suite, "params", [])
    if not params:
        return [()]
    if all(isinstance(values, (list, tuple)) for values in params):
        return list(itertools.product(*params))
    return [(value,) for value in params]


def _nothing(*_parameters: Any) -> None:
    pass
