"""Merges the states of records of a share partition."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class StateBatch(NamedTuple):
    """Records from `first_offset` to `last_offset` in one state: 0 available, 2 acknowledged, 3 on the way
    to the dead-letter topic, 4 archived.
    """

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


def combine(
    held: Sequence[StateBatch], changed: Sequence[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """Returns the states of all records from `start_offset` on (-1: of all), in order and without overlaps.

    Where batches overlap, the higher delivery count wins, and then the higher state: a record never goes back
    to an earlier one. Neighbours in the same state become one batch.
    """
    batches = [
        each if each.first_offset >= start_offset else each._replace(first_offset=start_offset)
        for each in (*held, *changed)
        if start_offset == -1 or each.last_offset >= start_offset
    ]
    if len(batches) < 2:
        return tuple(batches)
    batches.sort()
    bounds = sorted({bound for each in batches for bound in (each.first_offset, each.last_offset + 1)})
    found: list[StateBatch] = []
    covering: list[tuple[int, int, int]] = []  # the batches over the present bound, the strongest first
    next_batch = 0
    for first, after in pairwise(bounds):
        while next_batch < len(batches) and batches[next_batch].first_offset == first:
            each = batches[next_batch]
            heapq.heappush(covering, (-each.delivery_count, -each.delivery_state, each.last_offset))
            next_batch += 1
        while covering and covering[0][2] < first:
            heapq.heappop(covering)
        if covering:
            count, state = -covering[0][0], -covering[0][1]
            last = found[-1] if found else None
            if last is not None and last[1:] == (first - 1, state, count):
                found[-1] = last._replace(last_offset=after - 1)
            else:
                found.append(StateBatch(first, after - 1, state, count))
    return tuple(found)
