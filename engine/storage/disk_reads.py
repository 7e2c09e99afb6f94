"""Runs disk reads of requests on separate threads, so that a stalled disk does not block the control
thread.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_THREADS: Final = 2


class DiskReads:
    """A few threads, started by the first read."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[P, R], *arguments: P.args, **keywords: P.kwargs) -> R:
        """Runs `work` on one of the threads."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="disk-read")
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, lambda: work(*arguments, **keywords)
        )

    def stop(self) -> None:
        """Accepts no more work and waits for the work in progress."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
