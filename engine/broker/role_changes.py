"""Collects roles for the data plane, which applies them piece by piece."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from bowstring._native.log.partition_log import LogError
from bowstring.engine import event_log
from bowstring.engine.storage.log_directory import partition_directory

SLICE_NS: Final = 5_000_000
"""The control thread gives roles for this long before others have their turn."""
_PIECE_NS: Final = 2_000_000  # the reactors do nothing during one piece
_PIECE_MIN: Final = 4
_PIECE_MAX: Final = 64
_RETRY_S: Final = 0.5

_Change = tuple[Callable[..., None], tuple[Any, ...], dict[str, Any]]
_Key = tuple[str, int]


class Plane(Protocol):
    """What _native/server/replicas.pyx offers for roles."""

    def change_roles(self, changes: list[_Change]) -> None: ...  # noqa: D102
    def set_min_in_sync(self, topic: str, partition: int, min_insync_replicas: int) -> None: ...  # noqa: D102
    def stop(self, topic: str, partition: int) -> None: ...  # noqa: D102
    @property
    def lead(self) -> Callable[..., None]: ...  # noqa: D102
    @property
    def set_isr(self) -> Callable[..., None]: ...  # noqa: D102
    @property
    def try_join(self) -> Callable[..., bool]: ...  # noqa: D102
    @property
    def follow(self) -> Callable[..., None]: ...  # noqa: D102


class RoleChanges:
    """The changes that the data plane has not applied yet, by partition: those of one partition stay in
    order. It applies many in one stop of its reactors.

    A change that fails delays its own partition alone: a lack of memory or a disk that fails is tried again,
    anything else is logged as a bug.

    Args:
        min_in_sync: Returns min.insync.replicas of a topic.
        now_ns: Steady time.
        retry_s: After how long a partition whose change failed is tried again.
    """

    def __init__(
        self,
        plane: Plane,
        min_in_sync: Callable[[str], int],
        now_ns: Callable[[], int] = lambda: time.monotonic_ns(),  # noqa: PLW0108
        retry_s: float = _RETRY_S,
    ) -> None:
        self._plane = plane
        self._min_in_sync = min_in_sync
        self._now_ns = now_ns
        self._retry_s = retry_s
        self._due: dict[_Key, list[_Change]] = {}
        self._failed: dict[_Key, list[_Change]] = {}
        self._epochs: dict[_Key, int] = {}
        self._is_closed = False
        self._retry: asyncio.TimerHandle | None = None
        self._piece = _PIECE_MAX
        self._made = 0  # changes of the present piece that the data plane has applied

    def __len__(self) -> int:
        """The number of partitions with changes that are due."""
        return len(self._due)

    # ------------------------------------------------------------ collecting

    def lead(self, topic: str, partition: int, **role: Any) -> None:
        """As `Replicas.lead`. A reassignment may change the number of replicas, and what acks=all needs with
        it.
        """
        self._add(self._set_least, (topic, partition, len(role["replicas"])), {})
        self._add(self._lead, (topic, partition), role)

    def _set_least(self, topic: str, partition: int, replicas: int) -> None:
        """The config is the current one: a waiting change must not undo a later one."""
        self._plane.set_min_in_sync(topic, partition, min(self._min_in_sync(topic), replicas))

    def _lead(self, topic: str, partition: int, **role: Any) -> None:
        self._plane.lead(topic, partition, **role)
        self._epochs[topic, partition] = role["leader_epoch"]

    def epoch_led(self, topic: str, partition: int) -> int | None:
        """Returns the epoch in which the data plane leads a partition; None if it does not."""
        return self._epochs.get((topic, partition))

    def set_isr(self, *isr: Any, **changing: Any) -> None:
        """As `Replicas.set_isr`."""
        self._add(self._plane.set_isr, isr, changing)

    def try_join(self, topic: str, partition: int, *replica: Any, **epoch: Any) -> bool:
        """As `Replicas.try_join`, at once; not while a change of the partition waits. After that change, the
        replica's next fetch tries again, as after a refusal by the data plane.
        """
        if (topic, partition) in self._due or (topic, partition) in self._failed:
            return False
        return self._plane.try_join(topic, partition, *replica, **epoch)

    def follow(self, *partition: Any, **role: Any) -> None:
        """As `Replicas.follow`."""
        self._add(self._follow, partition, role)

    def _follow(self, topic: str, partition: int, **role: Any) -> None:
        self._plane.follow(topic, partition, **role)
        self._epochs.pop((topic, partition), None)

    def stop(self, topic: str, partition: int) -> None:
        """As `Replicas.stop`: at once, because the log is removed next. Waiting changes are dropped."""
        self._due.pop((topic, partition), None)
        self._failed.pop((topic, partition), None)
        self._epochs.pop((topic, partition), None)
        self._plane.stop(topic, partition)

    def _add(self, method: Callable[..., None], arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        if self._is_closed:
            return
        key = arguments[0], arguments[1]
        of = self._failed if key in self._failed else self._due
        of.setdefault(key, []).append((method, arguments, named))

    # ------------------------------------------------------------ applying

    async def flush(self) -> None:
        """Has the data plane apply all due changes; others have their turn meanwhile."""
        while not self.flush_until(self._now_ns() + SLICE_NS):
            await asyncio.sleep(0)

    def flush_soon(self) -> None:
        """Begins at once, and continues after others have had their turn."""
        if not self.flush_until(self._now_ns() + SLICE_NS):
            asyncio.get_running_loop().call_soon(self.flush_soon)

    def flush_until(self, until_ns: int) -> bool:
        """Has the data plane apply at least one piece of the due changes; returns whether that is all."""
        while self._due:
            begin_ns = self._now_ns()
            piece: list[tuple[_Key, _Change]] = []
            while self._due and len(piece) < self._piece:
                key = next(iter(self._due))
                piece += [(key, change) for change in self._due.pop(key)]
            self._take_over(piece)
            end_ns = self._now_ns()
            fitting = len(piece) * _PIECE_NS // max(1, end_ns - begin_ns)
            self._piece = max(_PIECE_MIN, min(_PIECE_MAX, fitting))
            if end_ns >= until_ns:
                break
        return not self._due

    def _take_over(self, piece: list[tuple[_Key, _Change]]) -> None:
        while piece:
            self._made = 0
            try:
                self._plane.change_roles([(self._make, change, {}) for _, change in piece])
                return
            except Exception as error:
                key, _ = piece[self._made]
                left = piece[self._made :]
                piece = [each for each in left if each[0] != key]
                self._put_off(key, [change for of, change in left if of == key], error)

    def _make(self, method: Callable[..., None], arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        method(*arguments, **named)
        self._made += 1

    # ------------------------------------------------------------ failures

    def _put_off(self, key: _Key, changes: list[_Change], error: Exception) -> None:
        """Keeps changes of a partition after the first has failed. They are tried again, without the first
        if trying again cannot help.
        """
        if isinstance(error, (MemoryError, OSError, LogError)):
            event_log.error(
                "a partition cannot take its role over and is tried again until it can; fix the cause in "
                "detail",
                partition=partition_directory(*key),
                detail=f"{type(error).__name__}: {error}",
            )
        else:
            event_log.error(
                "bug: a partition cannot take its role over; report the traceback",
                traceback=error,
                partition=partition_directory(*key),
            )
            changes = changes[1:]
        if changes:
            self._failed[key] = changes + self._due.pop(key, [])
            if self._retry is None:
                self._retry = asyncio.get_running_loop().call_later(self._retry_s, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        failed, self._failed = self._failed, {}
        for key, changes in failed.items():
            self._due[key] = changes + self._due.pop(key, [])
        self.flush_soon()

    def close(self) -> None:
        """Stops all changes: the data plane ends next."""
        self._is_closed = True
        self._due.clear()
        self._failed.clear()
        if self._retry is not None:
            self._retry.cancel()
