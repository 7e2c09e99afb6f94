"""Bounds of numbers, for annotations of arguments: `Annotated[int, Range(1, 10)]`."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple


class Range(NamedTuple):
    """Bounds of a number, both inclusive."""

    lowest: float
    highest: float


Natural = Annotated[int, Range(0, math.inf)]
PartitionNumber = Annotated[int, Range(0, 0x7FFF_FFFF)]
