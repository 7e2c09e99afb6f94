"""Finds new offsets for a group without members, and stores them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bowstring.clients.errors import ConfigError, broker_error
from bowstring.clients.records import TopicPartition
from bowstring.protocol.errors import Errors

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

Offsets = dict[TopicPartition, int]


class OffsetWay(NamedTuple):
    """How new offsets are found; one field is set.

    Attributes:
        earliest: the first record.
        latest: the end, after the last record.
        current: the stored offset, moved into the log if necessary.
        offset: this offset.
        at_ms: the first record at this time, in ms since 1970.
        shift: the stored offset and so many records; negative: back.
        named: these offsets.
    """

    earliest: bool = False
    latest: bool = False
    current: bool = False
    offset: int | None = None
    at_ms: int | None = None
    shift: int | None = None
    named: Mapping[TopicPartition, int] | None = None


class OffsetChange:
    """Finds and stores the offsets of one group, of any type that has offsets."""

    def __init__(self, admin: Admin, group: str):
        self._admin = admin
        self._group = group
        listed = {each.group_id: each for each in admin.list_groups()}.get(group)
        description = admin.describe_group(group) if listed is not None else None
        self.members = len(description.members) if description is not None else 0
        self._is_share = description is not None and description.group_type == "share"

    def stored(self) -> Offsets:
        """Returns the present offsets."""
        if self._is_share:
            found = self._admin.describe_share_offsets(self._group)
            return {partition: each.start_offset for partition, each in found.items()}
        return {p: each.offset for p, each in self._admin.committed_offsets(self._group).items()}

    def find(
        self, old: Offsets, topics: Iterable[tuple[str, Sequence[int] | None]], way: OffsetWay
    ) -> Offsets:
        """Returns the new offsets, each within its log.

        Args:
            old: the present offsets.
            topics: topics with partition numbers, None for all of a topic; empty for partitions of `old`.
            way: how the offsets are found.

        Raises:
            ConfigError: the group has no offsets, and no topics are given.
        """
        named = dict(way.named or {})
        wanted = sorted(named) if way.named is not None else self._wanted(topics) or sorted(old)
        if not wanted:
            raise ConfigError(f"group {self._group!r} has no stored offsets: name topics with --topic")
        first, end = self._admin.beginning_offsets(wanted), self._admin.end_offsets(wanted)
        if way.at_ms is not None:
            found = self._admin.list_offsets(dict.fromkeys(wanted, way.at_ms))
            named = {p: answer.offset if (answer := found[p]) is not None else end[p] for p in wanted}
        choose: Callable[[TopicPartition], int] = lambda p: named.get(p, old.get(p, first[p]))  # noqa: E731
        if way.earliest or way.latest:
            ends = first if way.earliest else end
            choose = ends.__getitem__
        elif way.offset is not None:
            choose = lambda p: way.offset or 0  # noqa: E731
        elif way.shift is not None:
            choose = lambda p: old.get(p, first[p]) + (way.shift or 0)  # noqa: E731
        elif way.current:
            choose = lambda p: old.get(p, end[p])  # noqa: E731 - as Kafka's tool
        return {p: min(max(choose(p), first[p]), end[p]) for p in wanted}

    def _wanted(self, topics: Iterable[tuple[str, Sequence[int] | None]]) -> list[TopicPartition]:
        return [
            TopicPartition(name, number)
            for name, numbers in topics
            for number in sorted(self._admin.describe_topic(name).partitions if numbers is None else numbers)
        ]

    def make(self, offsets: Offsets) -> None:
        """Stores the offsets.

        Raises:
            GroupError: the group has members.
        """
        if self.members:
            raise broker_error(
                Errors.NON_EMPTY_GROUP.code,
                f"group {self._group!r}",
                f"it has {self.members} members, which would overwrite the offsets",
            )
        if self._is_share:
            self._admin.alter_share_offsets(self._group, offsets)
        else:
            self._admin.alter_offsets(self._group, offsets)


def read_offsets(path: Path, group: str) -> Offsets:
    """Reads a file as Kafka's tool exports it: topic,partition,offset; or group,topic,partition,offset, of
    which the lines of `group` count.

    Raises:
        ConfigError: the file cannot be read, or a line is something else.
    """
    found: Offsets = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for number, row in enumerate(csv.reader(file), 1):
                if not row:
                    continue
                if len(row) == 4 and row[0] != group:
                    continue
                try:
                    topic, partition, offset = row[1:] if len(row) == 4 else row
                    found[TopicPartition(topic, int(partition))] = int(offset)
                except ValueError:
                    raise ConfigError(f"{path}, line {number}: {row} is not topic,partition,offset") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path} is not CSV in UTF-8: {error}") from error
    if not found:
        raise ConfigError(f"{path} has no offsets of group {group!r}")
    return found
