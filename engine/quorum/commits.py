"""Resolves the futures of records that are committed and applied on this node, or that may never be."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple


class Append(NamedTuple):
    """Records of this node that are not committed yet."""

    end_offset: int
    epoch: int
    done: "asyncio.Future[int]"
    since_ns: int


class Commits:
    """The waiting futures: for appends of this node, and for offsets.

    Attributes:
        count, total_ns: Appends that were committed, and the time that they took together.
    """

    def __init__(self) -> None:
        self.count = 0
        self.total_ns = 0
        self._appends: deque[Append] = deque()
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []

    def appended(self, end_offset: int, epoch: int, done: "asyncio.Future[int]") -> None:
        """Ends the future with `end_offset` when the records below are applied; calls come in that order."""
        self._appends.append(Append(end_offset, epoch, done, time.monotonic_ns()))

    def watch(self, offset: int, reached: "asyncio.Future[None]") -> None:
        """Ends the future when the records below the offset are applied."""
        self._watchers.append((offset, reached))

    def applied(self, end_offset: int) -> None:
        """Resolves the futures that wait for records below."""
        while self._appends and self._appends[0].end_offset <= end_offset:
            append = self._appends.popleft()
            self.count += 1
            self.total_ns += time.monotonic_ns() - append.since_ns
            if not append.done.done():
                append.done.set_result(append.end_offset)
        if self._watchers:
            for offset, reached in self._watchers:
                if offset <= end_offset and not reached.done():
                    reached.set_result(None)
            self._watchers = [each for each in self._watchers if not each[1].done()]

    def fail(
        self, why: Callable[[], Exception], concerns: Callable[[Append], bool] = lambda each: True
    ) -> None:
        """Fails the concerned appends with an error."""
        kept: deque[Append] = deque()
        for each in self._appends:
            if not concerns(each):
                kept.append(each)
            elif not each.done.done():
                each.done.set_exception(why())
        self._appends = kept

    def end(self) -> None:
        """Cancels the futures that wait for an offset: no more is applied."""
        for _, reached in self._watchers:
            reached.cancel()
