"""Replay of very many keys: those decoded on the way equal those decoded at the end."""

import random

import pytest

from bowstring.engine.groups import records
from bowstring.engine.groups.classic.group import ClassicGroup
from bowstring.engine.groups.config import GroupConfig
from bowstring.engine.groups.offsets.store import CommittedOffset
from bowstring.engine.groups.replay import Replay
from bowstring.engine.groups.state import ShardState

GROUPS = ("a", "b", "c")


def history(chance):
    """Returns batches as a coordinator writes them, and the offsets and generations that are left of them."""
    offsets: dict[str, dict[int, int]] = {group: {} for group in GROUPS}
    generations: dict[str, int] = {}
    batches = []
    for step in range(60):
        group, partition = chance.choice(GROUPS), chance.randrange(4)
        what = chance.random()
        if what < 0.6:
            committed = CommittedOffset(step, -1, "", 0, -1, bytes(16), -1)
            batches.append([records.offset_commit(group, "t", partition, committed)])
            offsets[group][partition] = step
        elif what < 0.8:
            joined = ClassicGroup(group, 0)
            joined.generation = generations[group] = step
            batches.append([records.group_metadata(joined, {})])
        else:
            gone = offsets[group]
            batches.append([records.offset_tombstone(group, "t", each) for each in gone])
            batches[-1].append(records.group_tombstone(group))
            offsets[group] = {}
            generations.pop(group, None)
    return batches, offsets, generations


@pytest.mark.parametrize("collected_max", [1, 3, 100_000])
@pytest.mark.parametrize("seed", range(20))
def test_any_number_of_keys_is_collected(seed, collected_max):
    batches, offsets, generations = history(random.Random(seed))
    state = ShardState(GroupConfig(), str)
    replay = Replay(state, collected_max)
    place = 0
    for batch in batches:
        keys, values = zip(*batch, strict=True)
        replay.add(range(place, place + len(batch)), keys, values)
        place += len(batch)
    replay.finish(0)
    for group in GROUPS:
        left = state.offsets.of_group(group).get("t", {})
        assert {partition: each.offset for partition, each in left.items()} == offsets[group]
        found = state.classic(group)
        assert (found is not None) == bool(offsets[group] or group in generations)
        assert found is None or found.generation == generations.get(group, 0)
