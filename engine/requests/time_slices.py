"""Shares the control thread's time: long work runs in slices, and other work runs between slices.

Handlers that iterate over many elements either return generators, which the dispatcher consumes in slices, or
check between two elements whether their slice is over:

    async for topic in time_slices.each(body.topics):
        ...
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Any, Final, TypeVar

from bowstring._native.protocol.message_codec import Elements

T = TypeVar("T")

_SLICE_NS: Final = 5_000_000
_SORTED_AT_ONCE: Final = 2000


class TimeSlices:
    """Schedules slices. In one pass of the loop all new requests and one resting request share a slice.

    Attributes:
        until_ns: End of the current slice, CLOCK_MONOTONIC.
    """

    def __init__(self) -> None:
        self.until_ns = 0
        self._resting: deque[asyncio.Future[None]] = deque()

    def begin(self) -> None:
        """Starts a slice."""
        self.until_ns = time.monotonic_ns() + _SLICE_NS

    def over(self) -> bool:
        """Returns whether the slice is over; if so, call `rest`."""
        return time.monotonic_ns() >= self.until_ns

    async def rest(self) -> None:
        """Yields to everything that is ready, and to requests that have rested for longer."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._resting.append(turn)
        if len(self._resting) == 1:
            loop.call_soon(self._next)
        await turn

    def _next(self) -> None:
        self.begin()
        turn = self._resting.popleft()
        if not turn.done():
            turn.set_result(None)
        if self._resting:
            asyncio.get_running_loop().call_soon(self._next)

    async def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Yields the items, with rests between them."""
        for item in items:
            if time.monotonic_ns() >= self.until_ns:
                await self.rest()
            yield item

    async def different(self, items: Iterable[T]) -> dict[T, int]:
        """Returns the distinct items in order of first occurrence, each with its count."""
        counts: dict[T, int] = {}
        for item in items:
            counts[item] = counts.get(item, 0) + 1
            if time.monotonic_ns() >= self.until_ns:
                await self.rest()
        return counts

    async def in_order(self, names: Iterable[str]) -> Iterator[str]:
        """Returns names in ascending order; sorts a limited number at a time."""
        runs: list[list[str]] = []
        names = iter(names)
        while run := list(islice(names, _SORTED_AT_ONCE)):
            run.sort()
            runs.append(run)
            if self.over():
                await self.rest()
        return merge(*runs) if len(runs) != 1 else iter(runs[0])


def streamed(elements: Iterator[Any] | AsyncIterator[Any]) -> Any:
    """Marks an iterator as an answer's array whose elements are created while it is encoded. Typed as the
    list it replaces.

    A generator runs in slices after its handler has returned, so the state that it reads may change
    meanwhile.
    """
    return elements


def portions(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yields the items in lists of at most `size`."""
    items = iter(items)
    while portion := list(islice(items, size)):
        yield portion


def is_large(array: object) -> bool:
    """Returns whether an array of a request is large, so that its elements are decoded only during
    iteration.
    """
    return isinstance(array, Elements)
