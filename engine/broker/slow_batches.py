"""Batches that a reactor cannot finish by itself: recompressed, or searched for missing keys."""

import asyncio
import time
from typing import TYPE_CHECKING, Final

from bowstring._native.compression import CompressionError
from bowstring._native.control_request import SlowBatch
from bowstring._native.record_types import CorruptBatch
from bowstring._native.repack import recompress, validate_compressed
from bowstring.engine.broker import log_lines
from bowstring.engine.errors import Errors

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker

# Topic config that holds the effort of each codec.
_LEVELS: Final = {1: "compression.gzip.level", 3: "compression.lz4.level", 4: "compression.zstd.level"}
_DEFAULT_LEVEL: Final = -1

Finished = tuple[bytes | None, int, str | None]
"""The batch to append; or None, a Kafka error code, and the reason."""


class SlowBatches:
    """Finishes slow batches: those of one partition one after the other, so that their order stays."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._last: dict[tuple[str, int], asyncio.Future[None]] = {}

    async def finish(self, slow: SlowBatch) -> None:
        """Answers one slow batch; its codec runs on another thread, without the GIL."""
        loop = asyncio.get_running_loop()
        key = (slow.topic, slow.partition)
        before = self._last.get(key)
        answered = self._last[key] = loop.create_future()
        finished: Finished = (None, Errors.UNKNOWN_SERVER_ERROR.code, None)
        try:
            finished = await loop.run_in_executor(None, repack, slow, self._level(slow))
        finally:
            if before is not None:
                await before
            batch, error, reason = finished
            self._broker.plane.finish_batch(slow, batch, error)
            answered.set_result(None)
            if self._last[key] is answered:
                del self._last[key]
        if reason:
            log_lines.warning("batch refused", partition=f"{slow.topic}-{slow.partition}", detail=reason)

    def _level(self, slow: SlowBatch) -> int | None:
        name = _LEVELS.get(slow.wanted_codec)
        if name is None:
            return None
        level = self._broker.configs.topic_value(name, self._broker.metadata.image.topic_configs(slow.topic))
        return None if level == _DEFAULT_LEVEL else int(level)


def repack(slow: SlowBatch, level: int | None) -> Finished:
    """Checks the records inside a batch and gives it the topic's codec."""
    try:
        if slow.codec != 0:
            error, reason, _ = validate_compressed(
                slow.batch,
                now_ms=time.time_ns() // 1_000_000,
                key_required=slow.key_required,
                log_append_time=True,  # the batch's own timestamps were checked when it came
            )
            if error:
                return None, error, reason
        if slow.wanted_codec in (-1, slow.codec):
            return slow.batch, 0, None
        return recompress(slow.batch, slow.wanted_codec, level=level), 0, None
    except (CompressionError, CorruptBatch) as problem:
        return None, Errors.CORRUPT_MESSAGE.code, str(problem)
