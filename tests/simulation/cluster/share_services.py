"""A broker's services for leaders of share partitions, and their reports to the rules of share groups."""

import asyncio

from bowstring._native.share.partition import SharePartition
from bowstring.engine.share.leader.share_partition import LedSharePartition


class LogWaiters:
    """Waits for partitions to have more to read, like the native class of this name."""

    def __init__(self, plane):
        self._shells = plane.broker.coordinator
        self._parts = plane.parts
        self._waiting: dict[int, tuple[str, int]] = {}
        self._woken: list[int] = []
        self._number = 0
        self._call = None
        self._shells.log_waiters.append(self)

    @property
    def fd(self):
        """The object is its own descriptor for the simulated loop."""
        return self

    def when_readable(self, callback, *args):
        self._call = None if callback is None else (callback, *args)

    def add(self, topic, partition):
        if (topic, partition) not in self._parts:
            raise KeyError(topic)
        self._number += 1
        self._waiting[self._number] = (topic, partition)
        return self._number

    def remove(self, number):
        self._waiting.pop(number, None)

    def wake(self, key):
        due = [number for number, each in self._waiting.items() if each == key]
        for number in due:
            del self._waiting[number]
        if due and not self._woken:
            shells = self._shells
            shells.node.after(shells.world.control_ms(), shells.loop.call_soon, *self._call)
        self._woken += due

    def take(self):
        woken, self._woken = self._woken, []
        return woken

    def close(self):
        self._shells.log_waiters.remove(self)


class ToldWindow(SharePartition):
    """Reports acquired records to the rules.

    Attributes:
        led: The share partition, once it is loaded.
    """

    led: LedSharePartition

    def acquire(self, member, records, **options):
        found = super().acquire(member, records, **options)
        node = asyncio.get_running_loop().node
        node.world.tell("share_acquired", node, self.led, member, found[0], options["now_ms"])
        return found


class ToldPartition(LedSharePartition):
    """Passes itself to its window."""

    @property
    def window(self):
        found = super().window
        found.led = self
        return found
