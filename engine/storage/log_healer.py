"""Returns logs to service after errors that pass, such as a lack of file descriptors or memory. Has logs
given up that get no room on their disk.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring.engine import background, event_log
from bowstring.engine.storage.log_directory import partition_directory

RETRY_FIRST_S: Final = 0.1
RETRY_MOST_S: Final = 5.0
GIVE_UP_S: Final = 10.0
"""A partition without service for this long is given up: another replica may lead."""
OVER_S: Final = 5.0
"""A shortage is over, in the log, when no partition was out of service for this long."""

_Found = tuple[str, int, PartitionLog]


def next_pause_s(pause_s: float) -> float:
    """Returns the pause before the next attempt."""
    return min(2 * pause_s, RETRY_MOST_S)


class LogHealer:
    """Looks for logs that may return to service, and tries until they do. Used on the control loop.

    Args:
        logs: All logs.
        without_room: Returns those whose records wait for room for their write-ahead log, which tries itself.

    Attributes:
        when_stuck: Called with all partitions that have had no service for `GIVE_UP_S`, at each attempt:
            whether another replica may lead changes. They are tried further.
        when_healed: Called with partitions that are in service again.
    """

    def __init__(
        self, logs: Iterable[_Found], without_room: Callable[[], Collection[PartitionLog]] = tuple
    ) -> None:
        self._logs = logs
        self._without_room = without_room
        self._task: asyncio.Task[None] | None = None
        self._again = asyncio.Event()
        self.when_stuck: Callable[[Sequence[tuple[str, int]]], None] = lambda partitions: None
        self.when_healed: Callable[[Sequence[tuple[str, int]]], None] = lambda partitions: None

    def look(self) -> None:
        """Begins to heal, if there is anything. Call it when a log directory signals, when descriptors are
        back, and when the logs without room change.
        """
        if self._task is not None:
            self._again.set()
            return
        if self._waiting() or self._without_room():
            self._task = background.spawn(self._heal(), "healing logs")
            self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Ends the attempts; the next start recovers the logs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _waiting(self) -> list[_Found]:
        failed = [each for each in self._logs if each[2].failed or each[2].refuses]
        if not failed:
            return failed
        # Not at start: few brokers need it.
        from bowstring._native.log.heal import may_heal

        return [each for each in failed if may_heal(each[2])]

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if not task.cancelled() and task.exception() is None and self._again.is_set():
            self._again.clear()
            self.look()

    async def _heal(self) -> None:
        loop = asyncio.get_running_loop()
        began_s, pause_s, told = time.monotonic(), RETRY_FIRST_S, False
        last_s = began_s
        since_s: dict[tuple[str, int], float] = {}
        while True:
            self._again.clear()
            found = self._waiting()
            for topic, index, _ in found + self._roomless():
                since_s.setdefault((topic, index), time.monotonic())
            detail = await loop.run_in_executor(None, heal_all, [log for _, _, log in found])
            rest, roomless = self._waiting(), self._roomless()
            self._report(since_s, rest + roomless)
            now_s = time.monotonic()
            if rest:
                last_s = now_s
                if not told:
                    told = True
                    _tell_of_shortage(rest, detail)
            elif not roomless and (not told or now_s - last_s >= OVER_S):
                break
            late = sorted(key for key, each_s in since_s.items() if now_s - each_s >= GIVE_UP_S)
            if late:
                self.when_stuck(late)
            try:
                await asyncio.wait_for(self._again.wait(), pause_s)
                pause_s = RETRY_FIRST_S
                await asyncio.sleep(RETRY_FIRST_S)  # a recurring error is not retried without a pause
            except TimeoutError:
                pause_s = next_pause_s(pause_s)
        if told:
            event_log.info("all partitions accept records again", after_s=round(last_s - began_s, 1))

    def _roomless(self) -> list[_Found]:
        without = set(self._without_room())
        return [each for each in self._logs if each[2] in without and not each[2].failed] if without else []

    def _report(self, since_s: dict[tuple[str, int], float], rest: list[_Found]) -> None:
        """Forgets logs that no longer wait, also by their own append, and reports those in service."""
        still = {(topic, index) for topic, index, _ in rest}
        gone = [key for key in since_s if key not in still]
        for key in gone:
            del since_s[key]
        failed = {(topic, index) for topic, index, log in self._logs if log.failed} if gone else set()
        healed = [key for key in gone if key not in failed]
        if healed:
            self.when_healed(healed)


def _tell_of_shortage(rest: list[_Found], detail: str) -> None:
    event_log.error(
        "partitions refuse records for want of descriptors or memory; the broker tries to return them to "
        "service until it works",
        partitions=len(rest),
        example=partition_directory(*rest[0][:2]),
        detail=detail,
        cure="raise the limit on open files or on memory (ulimit, LimitNOFILE)",
    )


def heal_all(logs: Iterable[PartitionLog]) -> str:
    """Tries each log once; returns why the last one failed again. Slow: not for the control thread."""
    from bowstring._native.log.heal import heal

    detail = ""
    for log in logs:
        try:
            heal(log)
        except LogError as error:
            detail = str(error)
    return detail
