"""Names the values of settings that are words, so that type checkers refuse others.

Annotations of public arguments use them; arguments.py checks them at run time.
"""

from typing import Literal

Acks = Literal["all", 1, 0, -1, "1", "0", "-1"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Partitioner = Literal[
    "default",
    "uniform_sticky",
    "round_robin",
    "random",
    "murmur2",
    "murmur2_random",
    "consistent",
    "consistent_random",
    "fnv1a",
    "fnv1a_random",
]
AutoOffsetReset = Literal["earliest", "latest", "none"]
GroupProtocol = Literal["auto", "consumer", "classic"]
Assignor = Literal["range", "cooperative-sticky"]
IsolationLevel = Literal["read_uncommitted", "read_committed"]
AcknowledgementMode = Literal["implicit", "explicit"]
AcquireMode = Literal["batch_optimized", "record_limit"]
Layout = Literal["binary", "binary_view"]
TimestampUnit = Literal["ms", "us"]
