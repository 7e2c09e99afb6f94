"""Measures zig-zag varints of one to ten bytes, in bulk."""

from __future__ import annotations

import random
import time
from array import array
from typing import ClassVar

from bowstring._native.base.varint import decode_varlongs, encode_varlongs

timer = time.process_time


class Varlong:
    """Values that fit `bits` bits, uniform: 6 is one byte each, 13 one or two, 63 nine or ten."""

    param_names: ClassVar = ["bits"]
    params: ClassVar = [6, 13, 63]

    def setup(self, bits: int) -> None:
        """10,000 values and their encoding."""
        rng = random.Random(bits)
        self.values = array("q", (rng.randrange(-(1 << bits), 1 << bits) for _ in range(10_000)))
        self.encoded = encode_varlongs(self.values)
        self.decoded = array("q", bytes(8 * len(self.values)))

    def time_write(self, bits: int) -> None:
        """int64s to bytes."""
        encode_varlongs(self.values)

    def time_read(self, bits: int) -> None:
        """Bytes to int64s."""
        decode_varlongs(self.encoded, self.decoded)
