"""Collects answers about very many partitions in little memory, without objects for the garbage collector."""

from array import array
from collections.abc import Callable, Iterator
from typing import Any

from bowstring._native.protocol.message_steps import PAUSE

_PAUSE_EVERY = 1000


class Answers:
    """Partitions and error codes by topic, in the order in which topics were first answered."""

    def __init__(self) -> None:
        # A 16-byte id followed by the name: the garbage collector does not track bytes and int.
        self._numbers: dict[bytes, int] = {}
        self._topics = array("i")
        self._indexes = array("i")
        self._codes = array("h")

    def add(self, name: str, topic_id: bytes, index: int, code: int) -> None:
        """Adds the answer for one partition."""
        number = self._numbers.setdefault(topic_id + name.encode(), len(self._numbers))
        self._topics.append(number)
        self._indexes.append(index)
        self._codes.append(code)

    def topics(self, make: Callable[[str, bytes, Iterator[tuple[int, int]]], Any]) -> Iterator[Any]:
        """Yields `make(name, id, partitions with their error codes)` for each topic."""
        begins = array("i", bytes(4 * (len(self._numbers) + 1)))
        for count, number in enumerate(self._topics):
            begins[number + 1] += 1
            if count % _PAUSE_EVERY == 0:
                yield PAUSE
        for number in range(len(self._numbers)):
            begins[number + 1] += begins[number]
            if number % _PAUSE_EVERY == 0:
                yield PAUSE
        order = array("i", bytes(4 * len(self._topics)))
        free = begins[:]
        for place, number in enumerate(self._topics):
            order[free[number]] = place
            free[number] += 1
            if place % _PAUSE_EVERY == 0:
                yield PAUSE
        for key, number in self._numbers.items():
            partitions = self._of(order, begins[number], begins[number + 1])
            yield make(key[16:].decode(), key[:16], partitions)

    def _of(self, order: "array[int]", begin: int, end: int) -> Iterator[tuple[int, int]]:
        for at in range(begin, end):
            place = order[at]
            yield self._indexes[place], self._codes[place]
