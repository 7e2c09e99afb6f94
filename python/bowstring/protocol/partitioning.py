"""Maps a key to the partition of an internal topic that coordinates it, with Java's String.hashCode like
Kafka.
"""

from functools import lru_cache

_MASK = 0xFFFFFFFF
_SIGN = 0x80000000


def java_string_hash(text: str) -> int:
    """Returns Java's ``String.hashCode`` of `text`: the base-31 polynomial over its UTF-16 code units, as a
    signed int32.
    """
    value = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        value = (value * 31 + unit) & _MASK
    return value - (_MASK + 1) if value & _SIGN else value


@lru_cache(maxsize=65536)
def coordinator_partition(key: str, partitions: int) -> int:
    """Returns the partition of ``__consumer_offsets`` (or another internal topic with `partitions`
    partitions) for `key`.
    """
    value = java_string_hash(key)
    # Kafka's Utils.abs maps Integer.MIN_VALUE, whose absolute value does not fit int32, to 0
    return 0 if value == -_SIGN else abs(value) % partitions
