"""Keys land where Kafka's Java producer puts them; the vectors are those of its UtilsTest.testMurmur2."""

import random

import pytest

from bowstring._native.client import murmur2
from bowstring.clients.partitioner import Partitioner

VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", VECTORS)
def test_murmur2_is_javas(key):
    assert murmur2(key) == VECTORS[key] % 2**32


def test_murmur2_of_every_length_matches_a_slow_reference():
    rng = random.Random(1)
    for length in range(40):
        data = rng.randbytes(length)
        assert murmur2(data) == slow_murmur2(data)


def slow_murmur2(data):
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def test_key_ignores_the_sign_bit():
    assert Partitioner(100).for_key(b"21", 3) == (VECTORS[b"21"] & 0x7FFFFFFF) % 3


def test_null_keys_stick_for_a_batch_and_then_move():
    partitioner = Partitioner(100, random.Random(3))
    first = [partitioner.for_null_key([0, 1, 2], 25) for _ in range(4)]
    assert len(set(first)) == 1
    assert partitioner.for_null_key([0, 1, 2], 25) != first[0]


def test_null_keys_leave_a_partition_that_lost_its_leader():
    partitioner = Partitioner(1_000_000)
    stuck = partitioner.for_null_key([0, 1], 1)
    assert partitioner.for_null_key([1 - stuck], 1) == 1 - stuck
