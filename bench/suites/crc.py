"""Measures CRC-32C, the checksum of every record batch."""

from __future__ import annotations

import random
import time
from typing import ClassVar

from bowstring._native.base.crc import crc32c

timer = time.process_time


class Crc32c:
    """The kernel in use, over sizes from one small record to a full produce request."""

    param_names: ClassVar = ["size_bytes"]
    params: ClassVar = [64, 1024, 8196, 65536, 1 << 20]

    def setup(self, size_bytes: int) -> None:
        """Always uses the same random bytes: a CRC above 2**30 is a longer int, which costs more."""
        self.data = random.Random(size_bytes).randbytes(size_bytes)

    def time_crc32c(self, size_bytes: int) -> None:
        """One checksum, the call from Python included."""
        crc32c(self.data)
