"""Finishes batches that a reactor cannot: recompresses them, or checks the records inside compressed
batches.
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from bowstring._native.server.control_request import SlowBatch
from bowstring._native.server.data_plane import DataPlane
from bowstring._native.server.plane_schemas import suspend_batch
from bowstring._native.server.recompress import SCHEMAS_MISSING, repack, working_bytes
from bowstring.engine import background, event_log
from bowstring.protocol.errors import Errors

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.metadata.image import Metadata

# Topic config with the compression level of each codec.
_LEVELS: Final = {1: "compression.gzip.level", 3: "compression.lz4.level", 4: "compression.zstd.level"}
_DEFAULT_LEVEL: Final = -1

Outcome = tuple[int, str | None]
"""Error code (0: none) and the reason."""

Work = Callable[[SlowBatch, int | None, int], Outcome | None]
"""Checks and recompresses a batch, given its codec's level and the most bytes that its records may have;
None: they have more.
"""

# Nothing was stored, so the producer resends the same batch with the same sequence number.
_TRY_AGAIN: Final[Outcome] = (
    Errors.REQUEST_TIMED_OUT.code,
    "The broker could not process this batch; nothing was stored. Send it again.",
)
_THREADS_MAX: Final = 8


def work_on(slow: SlowBatch, level: int | None, limit: int) -> Outcome | None:
    """Checks a batch and recompresses it; stores the result in `slow`."""
    return repack(slow, now_ms=time.time_ns() // 1_000_000, level=level, limit=limit)


def codec_level(slow: SlowBatch, *, configs: "BrokerConfigs", metadata: "Metadata") -> int | None:
    """Returns the compression level that the batch's topic sets for its codec; None for the codec's
    default.
    """
    name = _LEVELS.get(slow.wanted_codec)
    if name is None:
        return None
    level = configs.topic_value(name, metadata.image.topic_configs(slow.topic))
    return None if level == _DEFAULT_LEVEL else int(level)


class _Batch:
    """One batch in progress; `outcome` is None until the work is done."""

    __slots__ = ("outcome", "room", "slow", "tries")

    def __init__(self, slow: SlowBatch) -> None:
        self.slow = slow
        self.tries = 0
        self.room: tuple[int, int] | None = None  # `working_bytes` of this try
        self.outcome: Outcome | None = None


def _failed(slow: SlowBatch) -> Outcome:
    event_log.error(
        "a produced batch could not be recompressed; its producer gets REQUEST_TIMED_OUT and retries. "
        "Report the traceback as a bug",
        traceback=True,
        partition=f"{slow.topic}-{slow.partition}",
        bytes=slow.size_bytes,
    )
    return _TRY_AGAIN


class SlowBatches:
    """Finishes slow batches. Used on the control loop only.

    Codecs run on their own threads without the GIL, as many at once as the data plane has memory for
    (`DataPlane.begin_batch`). Batches of one partition are answered in order. Every failure is answered with
    a retriable error, because an idempotent producer would act on UNKNOWN_SERVER_ERROR.

    Args:
        plane: The data plane that hands over the batches.
        level_of: Returns the compression level of a batch; None for the default.
        resolve: Finds out about the schemas that `repack` names as missing; it is called again after that.
        work: The work on a batch; runs on a thread.
    """

    def __init__(
        self,
        plane: DataPlane,
        level_of: Callable[[SlowBatch], int | None],
        resolve: Callable[[SlowBatch], Awaitable[Outcome | None]],
        work: Work = work_on,
    ) -> None:
        self._plane = plane
        self._resolve = resolve
        self._resolving: dict[_Batch, asyncio.Task[None]] = {}
        self._level_of = level_of
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._threads = max(1, min(_THREADS_MAX, os.cpu_count() or 1))
        self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="slow-batches")
        self._waiting: deque[_Batch] = deque()
        self._running: set[_Batch] = set()
        self._by_partition: dict[tuple[str, int], deque[_Batch]] = {}
        self._idle = asyncio.Event()
        self._stopped = False

    def take(self, slow: SlowBatch) -> None:
        """Accepts a batch; it is answered when it and all batches before it are done."""
        batch = _Batch(slow)
        self._by_partition.setdefault((slow.topic, slow.partition), deque()).append(batch)
        if self._stopped:
            self._answer(batch, _TRY_AGAIN)
        elif slow.needs_work:
            self._waiting.append(batch)
            self.begin()
        else:
            self._answer(batch, (0, None))

    def begin(self) -> None:
        """Starts work on as many batches as there is memory for. Call when memory may have become free."""
        while self._waiting and len(self._running) < self._threads:
            batch = self._waiting[0]
            try:
                if batch.room is None:
                    batch.room = working_bytes(batch.slow, batch.tries)
                limit, memory = batch.room
                # Finished batches that must be answered after this one may hold all the memory: ignore the
                # limit.
                alone = batch.tries > 0 and not self._running
                if not self._plane.begin_batch(batch.slow, memory, anyway=alone):
                    return
                level = self._level_of(batch.slow)
                done = self._executor.submit(self._outcome_of, batch, level, limit)
            except Exception:
                self._waiting.popleft()
                self._answer(batch, _failed(batch.slow))
                continue
            self._waiting.popleft()
            self._running.add(batch)
            done.add_done_callback(partial(self._hand_over, batch))

    async def stop(self, timeout_s: float = 2) -> None:
        """Answers every batch; batches in progress get their outcome if it arrives within `timeout_s`."""
        self._stopped = True
        for batch, task in list(self._resolving.items()):
            task.cancel()
            self._answer(batch, _TRY_AGAIN)
        self._resolving.clear()
        while self._waiting:
            self._answer(self._waiting.popleft(), _TRY_AGAIN)
        self._executor.shutdown(wait=False)
        if self._running:
            self._idle.clear()
            try:
                await asyncio.wait_for(self._idle.wait(), timeout_s)
            except TimeoutError:
                event_log.warning(
                    "the broker stops without waiting for batches that are being recompressed; their "
                    "producers retry",
                    batches=len(self._running),
                )
                for batch in list(self._running):
                    self._answer(batch, _TRY_AGAIN)

    # ------------------------------------------------------------ outcomes

    def _outcome_of(self, batch: _Batch, level: int | None, limit: int) -> Outcome | None:
        """Works on a batch on the worker's thread. Catches every exception, because its frames may hold large
        buffers.
        """
        if batch.outcome is not None:
            return batch.outcome  # submitting failed after the batch was queued
        try:
            return self._work(batch.slow, level, limit)
        except Exception:
            return _failed(batch.slow)

    def _hand_over(self, batch: _Batch, future: "Future[Outcome | None]") -> None:
        """Passes the outcome to the control loop. On the worker's thread."""
        with suppress(RuntimeError):  # the loop has ended, so no request waits for the answer
            self._loop.call_soon_threadsafe(self._done, batch, future)

    def _done(self, batch: _Batch, future: "Future[Outcome | None]") -> None:
        self._running.discard(batch)
        if batch.outcome is None:
            outcome = _TRY_AGAIN if future.exception() is not None else future.result()
            if outcome is not None and outcome[0] == SCHEMAS_MISSING and not self._stopped:
                suspend_batch(batch.slow)
                self._resolving[batch] = background.spawn(self._find_schemas(batch), "schemas of a batch")
            elif outcome is not None and outcome[0] == SCHEMAS_MISSING:
                self._answer(batch, _TRY_AGAIN)
            elif outcome is not None or self._stopped:
                self._answer(batch, outcome or _TRY_AGAIN)
            else:  # larger than estimated: retry with more memory when that is free
                batch.tries += 1
                batch.room = None
                self._waiting.appendleft(batch)
        if not self._running:
            self._idle.set()
        self.begin()

    async def _find_schemas(self, batch: _Batch) -> None:
        """Works on a batch again once it is known which schemas its topic has."""
        try:
            outcome = await self._resolve(batch.slow)
        except Exception:
            outcome = _failed(batch.slow)
        if self._resolving.pop(batch, None) is None:
            return  # `stop` has answered it
        if outcome is not None:
            self._answer(batch, outcome)
        else:
            batch.room = None
            self._waiting.appendleft(batch)
            self.begin()

    def _answer(self, batch: _Batch, outcome: Outcome) -> None:
        """Records an outcome and answers the batches whose turn it is."""
        batch.outcome = outcome
        key = (batch.slow.topic, batch.slow.partition)
        batches = self._by_partition[key]
        while batches and (told := batches[0].outcome) is not None:
            slow = batches.popleft().slow
            try:
                self._plane.finish_batch(slow, error=told[0], reason=told[1])
            except Exception:
                event_log.error(
                    "bug: a produced batch was not answered; report the traceback",
                    traceback=True,
                    batch=repr(slow),
                )
        if not batches:
            del self._by_partition[key]
