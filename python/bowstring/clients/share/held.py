"""Keeps which records a share consumer holds, and what it says about each: one byte for each offset; pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from bowstring.clients.errors import ConfigError
from bowstring.clients.records import Node, TopicPartition
from bowstring.clients.share.records import Acknowledgement

OPEN = 255  # nothing is said about the record yet
RENEWED = 254  # its renewal is sent, and nothing is said since
RELEASED = 253  # it does not decode: it is released unless the caller says something else
_SAID = re.compile(rb"[^\xff\xfe]+")
_KEPT = bytes([OPEN, RENEWED, Acknowledgement.RENEW])
_LEFT = re.compile(rb"[\xff\xfe\x04]+")
_FINAL = (Acknowledgement.ACCEPT, Acknowledgement.RELEASE, Acknowledgement.REJECT)


class Said(NamedTuple):
    """Acknowledgements of consecutive offsets; `types` has one byte for each offset, or one for all."""

    first: int
    last: int
    types: bytes


class HeldRange:
    """Consecutive offsets that one answer delivered.

    Args:
        node: the broker that acquired them.
        first, last: the offsets, both included.
        delivery_count: of each record.
    """

    __slots__ = ("delivery_count", "first", "last", "node", "said")

    def __init__(self, node: Node, first: int, last: int, delivery_count: int):
        self.node = node
        self.first = first
        self.last = last
        self.delivery_count = delivery_count
        self.said = bytearray([Acknowledgement.GAP]) * (last - first + 1)

    def has_all(self) -> None:
        """Notes a record at every offset."""
        self.said = bytearray([OPEN]) * len(self.said)

    def has(self, offsets: Iterable[int]) -> None:
        """Notes the offsets that have a record; the others are gaps."""
        for offset in offsets:
            self.said[offset - self.first] = OPEN

    def cut(self, offset: int) -> HeldRange:
        """Ends before `offset`, and returns the part from it on."""
        rest = HeldRange(self.node, offset, self.last, self.delivery_count)
        at = offset - self.first
        rest.said, self.said = self.said[at:], self.said[:at]
        self.last = offset - 1
        return rest

    def reject(self, first: int, last: int) -> None:
        """Rejects the gaps from `first` to `last`: their batch cannot be read."""
        start, end = max(0, first - self.first), max(0, last - self.first + 1)
        part = self.said[start:end]
        gap, rejected = bytes([Acknowledgement.GAP]), bytes([Acknowledgement.REJECT])
        self.said[start:end] = part.replace(gap, rejected)


class HeldRecords:
    """The records that one consumer holds, by partition and offset."""

    def __init__(self) -> None:
        self._ranges: dict[TopicPartition, list[HeldRange]] = {}

    def __len__(self) -> int:
        return sum(len(each.said) for ranges in self._ranges.values() for each in ranges)

    def add(self, partition: TopicPartition, held: HeldRange) -> None:
        """Adds delivered records."""
        ranges = self._ranges.setdefault(partition, [])
        ranges.append(held)
        if len(ranges) > 1 and ranges[-2].first > held.first:
            ranges.sort(key=lambda each: each.first)

    def say(self, partition: TopicPartition, first: int, last: int, kind: Acknowledgement) -> None:
        """Acknowledges the records from `first` to `last`.

        Raises:
            ConfigError: the consumer does not hold one of them, or has acknowledged it already.
        """
        ranges = self._ranges.get(partition, [])
        index = bisect_right(ranges, first, key=lambda each: each.first) - 1
        while first <= last:
            held = ranges[index] if 0 <= index < len(ranges) else None
            if held is None or not held.first <= first <= held.last:
                raise ConfigError(
                    f"record {first} of {partition} is not held by this consumer: its polls did not return "
                    "it, or it is acknowledged already"
                )
            start, end = first - held.first, min(last, held.last) - held.first + 1
            part = held.said[start:end]
            if any(part.count(each) for each in _FINAL):
                raise ConfigError(f"records {first} to {last} of {partition} are acknowledged already")
            if part.count(Acknowledgement.GAP):
                held.said[start:end] = part.translate(_table(kind))
            else:
                held.said[start:end] = bytes([kind]) * len(part)
            first = held.last + 1
            index += 1

    def say_rest(self, kind: Acknowledgement) -> None:
        """Acknowledges all records about which nothing is said."""
        table = bytes(kind if each == OPEN else each for each in range(256))
        for ranges in self._ranges.values():
            for held in ranges:
                if OPEN in held.said:
                    held.said = held.said.translate(table)

    @property
    def open_count(self) -> int:
        """Number of records about which nothing is said."""
        return sum(held.said.count(OPEN) for ranges in self._ranges.values() for held in ranges)

    def first_open(self) -> tuple[TopicPartition, int] | None:
        """Returns a record about which nothing is said; None without one."""
        for partition, ranges in self._ranges.items():
            for held in ranges:
                index = held.said.find(OPEN)
                if index >= 0:
                    return partition, held.first + index
        return None

    def nodes(self) -> set[Node]:
        """Returns the brokers with unsent acknowledgements."""
        return {
            held.node
            for ranges in self._ranges.values()
            for held in ranges
            if held.said.count(OPEN) + held.said.count(RENEWED) < len(held.said)
        }

    def renews(self, node: Node) -> bool:
        """Whether a record of this broker must be renewed, which no fetch may do (KIP-1222)."""
        return any(
            held.node == node and Acknowledgement.RENEW in held.said
            for ranges in self._ranges.values()
            for held in ranges
        )

    def take(self, node: Node) -> dict[TopicPartition, list[Said]]:
        """Returns the unsent acknowledgements of this broker's records.

        Renewed records stay held; the others are no longer held.
        """
        taken: dict[TopicPartition, list[Said]] = {}
        for partition, ranges in list(self._ranges.items()):
            kept: list[HeldRange] = []
            for held in ranges:
                if held.node != node:
                    kept.append(held)
                    continue
                for run in _SAID.finditer(held.said):
                    kinds = run.group().replace(bytes([RELEASED]), bytes([Acknowledgement.RELEASE]))
                    said = Said(held.first + run.start(), held.first + run.end() - 1, _compact(kinds))
                    taken.setdefault(partition, []).append(said)
                kept += _rest(held)
            if kept:
                self._ranges[partition] = kept
            else:
                del self._ranges[partition]
        return taken

    def drop(self, keep: Iterable[TopicPartition] | None = None) -> None:
        """Forgets all records, or those of other partitions than `keep`: others may get them now."""
        kept = set(keep or ())
        self._ranges = {each: ranges for each, ranges in self._ranges.items() if each in kept}


def _table(kind: Acknowledgement) -> bytes:
    return bytes(kind if each in _KEPT else each for each in range(256))


def _compact(types: bytes) -> bytes:
    return types[:1] if types.count(types[:1]) == len(types) else types


def _rest(held: HeldRange) -> list[HeldRange]:
    """Returns what is still held after everything is sent: open records and renewed ones."""
    found = []
    for run in _LEFT.finditer(held.said):
        first, last = held.first + run.start(), held.first + run.end() - 1
        part = HeldRange(held.node, first, last, held.delivery_count)
        part.said = bytearray(run.group().replace(bytes([Acknowledgement.RENEW]), bytes([RENEWED])))
        found.append(part)
    return found
