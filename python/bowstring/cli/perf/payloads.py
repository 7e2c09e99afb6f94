"""Generates values for `perf produce`, a column at a time."""

from __future__ import annotations

import random
from array import array
from itertools import accumulate
from pathlib import Path
from typing import Any

from bowstring.clients.errors import ConfigError

LETTERS = bytes(range(65, 91))
# Random payloads are generated once and reused at different positions: generating them costs more than
# sending them.
POOL_BYTES = 4 << 20


class Payloads:
    """Columns of values: random letters of one size, lines of a file, or ascending numbers."""

    def __init__(self, record_size: int | None, lines: list[bytes] | None):
        self._size = record_size
        self._lines = lines
        self._rng = random.Random(0)
        self._next = 0
        if record_size is not None:
            letters = self._rng.choices(LETTERS, k=max(POOL_BYTES, record_size) + record_size)
            self._pool = memoryview(bytes(letters))

    def take(self, count: int) -> tuple[Any, Any]:
        """Returns data and offsets of `count` values, in Arrow's large_binary layout."""
        if self._size is not None:
            count_bytes = count * self._size
            start = self._rng.randrange(max(1, len(self._pool) - count_bytes))
            offsets = (
                array("q", range(0, count_bytes + 1, self._size))
                if self._size
                else array("q", [0] * (count + 1))
            )
            return self._pool[start : start + count_bytes], offsets
        if self._lines is not None:
            values = self._rng.choices(self._lines, k=count)
        else:
            values = [str(number).encode() for number in range(self._next, self._next + count)]
            self._next += count
        return b"".join(values), array("q", accumulate(map(len, values), initial=0))

    def mean_bytes(self) -> int:
        """Returns the approximate length of a value in bytes."""
        if self._size is not None:
            return self._size
        return max(1, sum(map(len, self._lines)) // len(self._lines)) if self._lines else 8

    def fits(self, count: int) -> int:
        """Returns how many values can be taken at once, at most `count`."""
        return max(1, min(count, POOL_BYTES // max(1, self._size or 1)))


def lines_of(path: Path, delimiter: str, quiet: bool) -> list[bytes]:
    """Reads the values in a file, like ProducerPerformance.

    Raises:
        ConfigError: the file is empty.
    """
    if not quiet:
        print(f"Reading payloads from: {path.absolute()}")
    separator = delimiter.replace("\\n", "\n").encode()
    lines = path.read_bytes().removesuffix(separator).split(separator)
    if not any(lines):
        raise ConfigError(f"{path} is empty; give a file with at least one value")
    if not quiet:
        print(f"Number of records read: {len(lines)}")
    return lines
