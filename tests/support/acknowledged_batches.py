"""What a log acknowledged before an operation failed, and what it holds."""

import random
from typing import Any

from bowstring._native.log.partition_log import LogError
from tests.support.log_batches import NOW_MS, batch, headers


def acknowledged_until_it_fails(log, seed) -> list[tuple[int, bytes]]:
    """(base offset, value) of what append() took, idempotent producers and all that housekeeping does mixed in."""
    chance = random.Random(seed)
    taken: list[Any] = []
    sequences: dict[int, int] = {}
    for n in range(60):
        try:
            producer = chance.choice([-1, -1, 5, 6])
            value = b"%d-" % n + b"x" * chance.randrange(900)
            if producer > 0:
                data = batch([value], producer_id=producer, epoch=0, sequence=sequences.get(producer, 0))
            else:
                data = batch([value])
            taken.append((log.append(data, 0, NOW_MS), value))
            if producer > 0:
                sequences[producer] = sequences.get(producer, 0) + 1
            match chance.randrange(12):
                case 0:
                    log.flush()
                case 1:
                    log.roll()
                case 2:
                    log.apply_retention(NOW_MS)
                case 3:
                    log.read(chance.randrange(log.log_end_offset), 3000, "log_end")
        except LogError as error:
            assert error.code == 56
    return taken


def values(log) -> list[tuple[int, bytes]]:
    found, position = [], log.log_start_offset
    while position < log.log_end_offset:
        for header in headers(log.read(position, 1 << 16, "log_end")):
            found.append((header.base_offset, header.data))
            position = header.last_offset + 1
    return found
