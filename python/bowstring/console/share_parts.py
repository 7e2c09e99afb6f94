"""Makes what the page of a share group shows of single records: states, delivery counts, batches."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bowstring.clients.admin.results import GroupLag
from bowstring.clients.records import TopicInfo, TopicPartition
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.parts import Part, part
from bowstring.console.share_watch import ShareWatch
from bowstring.operations.share_progress import STATE_NAMES, STATE_TOPIC, SharePlace
from bowstring.protocol.share_batches import StateBatch

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.console.share_watch import ShareLook

LOOK_S = 3.0
COST_MAX = 0.02
WATCHES_MAX = 20
BATCHES_MAX = 200
"""Rows of a page."""
RIGHT = f"READ on the topic {STATE_TOPIC}"


class ShareRow(NamedTuple):
    """A partition of a share group. `end`: -1 if it is not known."""

    partition: TopicPartition
    place: SharePlace
    end: int

    @property
    def counts(self) -> str:
        """How many records were delivered how often, in words."""
        return ", ".join(f"{records} × {count}" for count, records in self.place.by_count().items())


class BatchRow(NamedTuple):
    """Records of a partition that are in one state."""

    partition: TopicPartition
    batch: StateBatch
    state: str


class ShareParts(NamedTuple):
    """What a page shows of a share group.

    Attributes:
        rows: by partition.
        states: records by the name of their state.
        counts: records by how often they were delivered.
        batches: the first BATCHES_MAX.
        batches_all: how many there are.
        note: why something is missing; empty if nothing is.
    """

    rows: Sequence[ShareRow]
    states: Mapping[str, int]
    counts: Mapping[int, int]
    batches: Sequence[BatchRow]
    batches_all: int
    note: str


async def share_parts(
    access: ClusterAccess, group: str, topics: Mapping[str, TopicInfo], lags: Sequence[GroupLag]
) -> Part[ShareParts]:
    """Returns the states of records of a share group; or why they cannot be seen.

    Raises:
        ClientError: the cluster does not answer.
    """
    watch = _watch(access, group)
    partitions = [each.partition for each in lags]

    def look(admin: Admin) -> ShareLook:
        return watch.look(admin, topics, partitions)

    found = await part(access.cached(("share states", group), LOOK_S, look, cost_max=COST_MAX), RIGHT)
    if found.value is None:
        return Part(None, found.missing)
    return Part(_parts(found.value, {each.partition: each.log_end_offset for each in lags}), "")


def _watch(access: ClusterAccess, group: str) -> ShareWatch:
    """Returns the watch of a group; of the groups that were looked at, the last WATCHES_MAX are kept."""
    watches: OrderedDict[str, ShareWatch] = access.shared("share watches", OrderedDict)
    if group not in watches:
        watches[group] = ShareWatch(access.settings, group)
    watches.move_to_end(group)
    while len(watches) > WATCHES_MAX:
        watches.popitem(last=False)
    return watches[group]


def _parts(look: ShareLook, ends: Mapping[TopicPartition, int]) -> ShareParts:
    rows = [ShareRow(each, place, ends.get(each, -1)) for each, place in sorted(look.places.items())]
    states, counts = Counter[str](), Counter[int]()
    for row in rows:
        states.update(row.place.by_state())
        counts.update(row.place.by_count())
    batches = [
        BatchRow(
            row.partition, batch, STATE_NAMES.get(batch.delivery_state, f"in state {batch.delivery_state}")
        )
        for row in rows
        for batch in row.place.batches[: BATCHES_MAX + 1]
    ]
    note = ""
    if not look.visible:
        note = f"The topic {STATE_TOPIC} does not exist yet, or you lack the right {RIGHT}."
    elif not look.complete:
        note = "The states are still being read: they are complete in a moment."
    return ShareParts(
        rows,
        dict(sorted(states.items())),
        dict(sorted(counts.items())),
        batches[:BATCHES_MAX],
        sum(len(row.place.batches) for row in rows),
        note,
    )
