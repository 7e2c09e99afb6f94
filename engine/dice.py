"""Draws random numbers from the operating system. The module `random` would make each start dearer."""

import os
from collections.abc import Callable, MutableSequence
from typing import Any


class Dice:
    """What few decisions need of ``random.Random``."""

    def __init__(self, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._random_bytes = random_bytes

    def randrange(self, below: int, /) -> int:
        """Returns a number from 0 up to, and without, `below`, which is far below 2^64."""
        return int.from_bytes(self._random_bytes(8), "big") % below

    def shuffle(self, items: MutableSequence[Any], /) -> None:
        """Shuffles in place."""
        for last in range(len(items) - 1, 0, -1):
            other = self.randrange(last + 1)
            items[last], items[other] = items[other], items[last]
