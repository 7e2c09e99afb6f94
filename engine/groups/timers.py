"""Keeps timers by key, on a clock that the caller reads."""

import heapq
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from bowstring.engine.groups.effects import TimerKey

# A heap of this many entries may be of cancelled keys alone.
_SPARE_ENTRIES: Final = 64

K = TypeVar("K", TimerKey, int)


class TimerQueue(Generic[K]):
    """Deadlines by key. Moving a deadline later, as every heartbeat does, costs one dict store.

    Each key has at most one live heap entry (`_entries`). An entry that reaches the top before its key's
    deadline is put back with the later deadline; an entry of a cancelled key is dropped.
    """

    __slots__ = ("_deadlines", "_entries", "_heap")

    def __init__(self) -> None:
        self._deadlines: dict[K, int] = {}
        self._entries: dict[K, int] = {}
        self._heap: list[tuple[int, K]] = []

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: K) -> bool:
        return key in self._deadlines

    def deadline_ms(self, key: K) -> int | None:
        """Returns the deadline of `key`, or None."""
        return self._deadlines.get(key)

    def set(self, key: K, deadline_ms: int) -> None:
        """Adds the timer, or moves it."""
        self._deadlines[key] = deadline_ms
        entry_ms = self._entries.get(key)
        if entry_ms is None or deadline_ms < entry_ms:
            self._entries[key] = deadline_ms
            heapq.heappush(self._heap, (deadline_ms, key))
            self._tidy()

    def cancel(self, key: K) -> None:
        """Removes the timer if there is one."""
        self._deadlines.pop(key, None)
        if self._deadlines:
            self._tidy()
        else:
            self._heap.clear()
            self._entries.clear()

    def _tidy(self) -> None:
        """Rebuilds the heap when most entries are of cancelled keys: their deadlines may be days away."""
        if len(self._heap) > 2 * len(self._deadlines) + _SPARE_ENTRIES:
            self._heap = [(deadline_ms, key) for key, deadline_ms in self._deadlines.items()]
            heapq.heapify(self._heap)
            self._entries = dict(self._deadlines)

    def next_deadline_ms(self) -> int | None:
        """Returns a lower bound for the next deadline; None when there are no timers."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Iterator[K]:
        """Removes the keys that are due and yields them, earliest first.

        The caller may move or cancel another due key while it handles one. That key is then not yielded, so
        that a session that has just been restarted does not end by its old timer.
        """
        due: list[tuple[int, K]] = []
        while self._heap and self._heap[0][0] <= now_ms:
            entry_ms, key = heapq.heappop(self._heap)
            if self._entries.get(key) != entry_ms:
                continue
            deadline_ms = self._deadlines.get(key)
            if deadline_ms is not None and deadline_ms > now_ms:
                self._entries[key] = deadline_ms
                heapq.heappush(self._heap, (deadline_ms, key))
                continue
            del self._entries[key]
            if deadline_ms is not None:
                due.append((deadline_ms, key))
        for deadline_ms, key in due:
            if self._deadlines.get(key) == deadline_ms:
                del self._deadlines[key]
                yield key
