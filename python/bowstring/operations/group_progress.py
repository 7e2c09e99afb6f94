"""Measures how far groups are behind: in records, and in seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from bowstring.clients.errors import ClientError
from bowstring.clients.records import TopicInfo, TopicPartition

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.results import GroupDescription, GroupLag, GroupListing


class GroupProgress(NamedTuple):
    """One group. `seconds`: age of the oldest record that it has not read; None if it is not known."""

    group: str
    type: str
    state: str
    partitions: int
    lag: int
    seconds: float | None


class GroupsNow(NamedTuple):
    """What some groups are and how far they are behind, at one time.

    Attributes:
        described: descriptions by group, or why there is none; groups that are gone are left out.
        lags: rows by group, or why there are none.
        seconds: how old the next record to read is, by group and partition; partitions without a lag or
            whose time is unknown are left out.
    """

    described: Mapping[str, GroupDescription | ClientError]
    lags: Mapping[str, list[GroupLag] | ClientError]
    seconds: Mapping[str, Mapping[TopicPartition, float]]

    def oldest_s(self, group: str) -> float | None:
        """Returns the age of the oldest record that a group has not read, in seconds; 0 without a lag; None
        if it is not known.
        """
        rows, found = self.lags.get(group), self.seconds.get(group, {})
        if isinstance(rows, ClientError) or rows is None:
            return None
        if found:
            return max(found.values())
        return None if any(row.lag or row.lag is None for row in rows) else 0.0

    def lag(self, group: str) -> int | None:
        """Returns the records that a group has not read; None if they are not known."""
        rows = self.lags.get(group)
        if rows is None or isinstance(rows, ClientError):
            return None
        return sum(row.lag or 0 for row in rows)


def look_at_groups(
    admin: Admin,
    listed: Iterable[GroupListing],
    *,
    topics: Mapping[str, TopicInfo] | None = None,
    times: bool = True,
) -> GroupsNow:
    """Returns what groups are now, with few requests however many they are.

    Args:
        admin: client of the cluster.
        listed: the groups.
        topics: what `Admin.topics` returned not long ago; None asks for them.
        times: also find out how old what they have not read is, with a small Fetch for each partition.
    """
    described = admin.describe_groups(listed)
    known = [each for each in described.values() if not isinstance(each, ClientError)]
    lags = admin.group_lags_of(known, topics)
    rows = {group: each for group, each in lags.items() if not isinstance(each, ClientError)}
    return GroupsNow(described, lags, seconds_behind(admin, rows) if times else {})


def seconds_behind(
    admin: Admin, lags: Mapping[str, Iterable[GroupLag]]
) -> dict[str, dict[TopicPartition, float]]:
    """Returns how old the next record of groups is in each partition where they have a lag, in seconds.

    Partitions whose records have no time, or cannot be read with the user's rights, are left out.

    Args:
        admin: client of the cluster.
        lags: rows by group.
    """
    places = {
        group: [(row.partition, max(row.committed or 0, row.log_start_offset)) for row in rows if row.lag]
        for group, rows in lags.items()
    }
    times = admin.batch_timestamps({place for each in places.values() for place in each})
    now_ms = time.time() * 1000
    return {
        group: {place[0]: max(0.0, (now_ms - times[place]) / 1000) for place in of_group if place in times}
        for group, of_group in places.items()
    }


def progress_of_groups(admin: Admin, wanted: Iterable[str]) -> list[GroupProgress]:
    """Returns a row for each group (of `wanted`, if given), those most behind first.

    Args:
        admin: client of the cluster.
        wanted: names of groups; none for all.

    Raises:
        ClientError: a group could not be described, or its offsets could not be read.
    """
    names = set(wanted)
    listed = [each for each in admin.list_groups() if not names or each.group_id in names]
    described = admin.describe_groups(listed)
    found = admin.group_lags_of(each for each in described.values() if not isinstance(each, ClientError))
    lags = {group: rows for group, rows in found.items() if not isinstance(rows, ClientError)}
    # One by one, with retries: a coordinator may have moved meanwhile.
    lags |= admin.group_lags(group for group in described if group not in lags)
    now = GroupsNow(described, lags, seconds_behind(admin, lags))
    rows = [
        GroupProgress(
            each.group_id,
            each.group_type,
            each.state,
            len(lags[each.group_id]),
            now.lag(each.group_id) or 0,
            now.oldest_s(each.group_id),
        )
        for each in listed
        if each.group_id in lags
    ]
    return sorted(rows, key=lambda row: (-row.lag, row.group))
