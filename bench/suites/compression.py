"""Measures compressed batches in the broker: checked record by record, or recompressed for their topic."""

from __future__ import annotations

import time
from array import array
from typing import ClassVar

from bowstring._native.record.compression import CODECS
from bowstring._native.record.encode_columns import encode_columns
from bowstring._native.server.recompress import recompress, validate_compressed

timer = time.process_time

TIMESTAMP_MS = 1_700_000_000_000


class JsonRecords:
    """600 JSON values of about 80 bytes: one batch of 50 KB before compression."""

    param_names: ClassVar = ["codec"]
    params: ClassVar = list(CODECS[1:])

    def setup(self, codec: str) -> None:
        """The batch, and the same uncompressed."""
        form = b'{"flight":%d,"carrier":"AA","origin":"JFK","dest":"LAX","delay":%d}'
        values = [form % (number * 7919 % 9973, number % 60) for number in range(600)]
        offsets = array("i", [0])
        for value in values:
            offsets.append(offsets[-1] + len(value))
        (self.plain,) = encode_columns((b"".join(values), offsets), timestamps=TIMESTAMP_MS)
        self.codec = CODECS.index(codec)
        self.packed = recompress(self.plain, self.codec)

    def time_validate(self, codec: str) -> None:
        """Decompress and check every record."""
        error, reason, _ = validate_compressed(self.packed, now_ms=TIMESTAMP_MS)
        assert error == 0, reason

    def time_recompress(self, codec: str) -> None:
        """From uncompressed to the codec."""
        recompress(self.plain, self.codec)
