"""Gives the engine's modules another clock, and random numbers that follow a seed."""

import gc
import importlib
import pkgutil
import random
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import bowstring.engine
import bowstring.protocol
from bowstring.engine.coordinators import runtime
from bowstring.engine.dice import Dice
from bowstring.protocol import ids

KEPT_CLOCKS = ("bowstring.engine.event_log",)

_loaded: list[bool] = []


def load_everything() -> None:
    """Imports every module of the engine and the protocol, so that none is imported in the middle of a run."""
    if not _loaded:
        for package in (bowstring.protocol, bowstring.engine):
            for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                importlib.import_module(found.name)
        _loaded.append(True)
        gc.collect()
        gc.freeze()


@contextmanager
def simulated_sources(clock: Any, chance: random.Random) -> Iterator[None]:
    """Replaces time, randomness and the garbage collector's switches in the engine's modules.

    Args:
        clock: Has `time_ns` and `monotonic_ns`.
        chance: The source of all random numbers and ids.
    """
    load_everything()
    times = SimpleNamespace(
        time_ns=clock.time_ns,
        time=lambda: clock.time_ns() / 1e9,
        monotonic_ns=clock.monotonic_ns,
        monotonic=lambda: clock.monotonic_ns() / 1e9,
        strftime=time.strftime,
        gmtime=lambda: time.gmtime(clock.time_ns() // 10**9),
    )
    collector = SimpleNamespace(isenabled=lambda: False, disable=_nothing, enable=_nothing, freeze=_nothing)
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            is_engine = name.startswith("bowstring.engine.") and name not in KEPT_CLOCKS
            if is_engine and getattr(module, "time", None) is time:
                stack.enter_context(patch.object(module, "time", times))
        stack.enter_context(patch.object(runtime, "gc", collector))  # a process that ends leaves nothing
        for draws in (ids.random_uuid, Dice.__init__):
            stack.enter_context(patch.object(draws, "__defaults__", (chance.randbytes,)))
        yield


def _nothing() -> None:
    pass
