"""Merging states of records, beside a map of every offset."""

import random
from itertools import pairwise

import pytest

from bowstring.protocol.share_batches import StateBatch, combine

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def batches(*rows: tuple[int, int, int, int]) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(*row) for row in rows)


def by_offset(rows, start_offset):
    """The strongest state of each offset: by delivery count, then by state."""
    found: dict[int, tuple[int, int]] = {}
    for each in rows:
        for offset in range(max(each.first_offset, start_offset), each.last_offset + 1):
            found[offset] = max(found.get(offset, (-1, -1)), (each.delivery_count, each.delivery_state))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_each_offset_keeps_its_strongest_state(seed):
    chance = random.Random(seed)

    def some(most):
        rows = []
        for _ in range(chance.randrange(most)):
            first = chance.randrange(40)
            state = chance.choice((AVAILABLE, ACKNOWLEDGED, ARCHIVED))
            rows.append((first, first + chance.randrange(8), state, chance.randrange(1, 4)))
        return batches(*rows)

    held, changed, start_offset = some(8), some(8), chance.choice((-1, 0, 5, 17))
    found = combine(held, changed, start_offset)
    assert by_offset(found, -1) == by_offset((*held, *changed), start_offset)
    for one, other in pairwise(found):
        assert one.last_offset < other.first_offset
        assert one.last_offset + 1 < other.first_offset or one[2:] != other[2:], "equal neighbours are one"
    assert combine(found, changed, start_offset) == found


def test_a_batch_that_is_alone_stays():
    assert combine((), batches((5, 3, 2, 1)), -1) == batches((5, 3, 2, 1))
    assert combine(batches((5, 9, 2, 1)), (), 7) == batches((7, 9, 2, 1))
    assert combine(batches((5, 9, 2, 1)), (), 10) == ()
