"""Keeps many partitions in 8 bytes each: a cluster has a hundred thousand."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import overload

from bowstring.clients.records import TopicPartition


class PartitionList(Sequence[TopicPartition]):
    """A sequence of partitions, made when they are read."""

    __slots__ = ("_names", "_numbers", "_topics")

    def __init__(self) -> None:
        self._names: list[str] = []
        self._topics, self._numbers = array("i"), array("i")

    def add(self, topic: str, number: int) -> None:
        """Appends a partition. Those of one topic follow each other."""
        if not self._names or self._names[-1] != topic:
            self._names.append(topic)
        self._topics.append(len(self._names) - 1)
        self._numbers.append(number)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> TopicPartition: ...

    @overload
    def __getitem__(self, index: slice) -> list[TopicPartition]: ...

    def __getitem__(self, index: int | slice) -> TopicPartition | list[TopicPartition]:
        if isinstance(index, slice):
            pairs = zip(self._topics[index], self._numbers[index], strict=True)
            return [TopicPartition(self._names[topic], number) for topic, number in pairs]
        return TopicPartition(self._names[self._topics[index]], self._numbers[index])
