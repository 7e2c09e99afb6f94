"""Wakes an event loop from other threads, once for all that happened meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable


class LoopWakeup:
    """Calls a function on the loop that is running now.

    Args:
        function: sees all that was there before a `post`, which may be one of several.
    """

    def __init__(self, function: Callable[[], None]):
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._posted = False

    def post(self) -> None:
        """Has the function called soon. Any thread may call; what it is about is stored before."""
        if not self._posted:
            self._posted = True
            with contextlib.suppress(RuntimeError):  # the loop has ended, and everybody with it
                self._loop.call_soon_threadsafe(self._call)

    def _call(self) -> None:
        self._posted = (
            False  # first: a thread that posts from now on is seen, or has the function called again
        )
        self._function()
