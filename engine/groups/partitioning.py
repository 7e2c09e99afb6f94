"""Which partition of an internal topic coordinates a key: Java's String.hashCode, as Kafka uses it."""

from functools import lru_cache

_MASK = 0xFFFFFFFF
_SIGN = 0x80000000


def java_string_hash(text: str) -> int:
    """Java's ``String.hashCode`` of `text`: 31-polynomial over its UTF-16 code units, as a signed int32."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        value = (value * 31 + unit) & _MASK
    return value - (_MASK + 1) if value & _SIGN else value


@lru_cache(maxsize=65536)
def coordinator_partition(key: str, partitions: int) -> int:
    """Partition of ``__consumer_offsets`` (or a like topic of `partitions` partitions) that owns `key`."""
    value = java_string_hash(key)
    # Kafka's Utils.abs maps Integer.MIN_VALUE, whose absolute value is no int32, to 0
    return 0 if value == -_SIGN else abs(value) % partitions
