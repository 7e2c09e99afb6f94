"""Keys land where Kafka's Java producer puts them; the vectors are those of its UtilsTest.testMurmur2."""

import itertools
import random
import zlib

import pytest

from bowstring._native.client.partitioner import murmur2
from bowstring.clients.errors import ConfigError
from tests.support.offline_producer import OfflineProducer


def slow_fnv1a(data):
    h = 0x811C9DC5
    for byte in data:
        h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return (1 << 32) - h if h >= 1 << 31 else h


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


class Routed(OfflineProducer):
    """Finds the partition of a record."""

    def where(self, key=None, value=b""):
        before = {queue.partition: records(queue) for queue in self.accumulator.queues.values()}
        self.send("t", value, key)
        return next(
            queue.partition.partition
            for queue in self.accumulator.queues.values()
            if records(queue) != before.get(queue.partition, 0)
        )


def records(queue):
    return sum(batch.record_count for batch in queue.waiting)


def test_key_ignores_the_sign_bit():
    assert Routed(3).where(b"21") == (VECTORS[b"21"] & 0x7FFFFFFF) % 3


def test_null_keys_stick_for_a_batch_and_then_move():
    sender = Routed(50, batch_size=1000)
    went = [sender.where(value=b"x" * 76) for _ in range(40)]
    turns = [list(same) for _, same in itertools.groupby(went)]
    assert all(len(turn) % 10 == 0 for turn in turns[:-1]), "100 bytes each, 24 of them framing"
    assert len(turns) >= 2, "of 50 partitions, the same one may be drawn twice"


def test_null_keys_leave_a_partition_that_lost_its_leader():
    sender = Routed(2)
    stuck = sender.where()
    sender.accumulator.route("t", 0, 2, [1 - stuck])
    assert sender.where() == 1 - stuck


def test_the_longer_its_queue_the_less_a_partition_is_drawn():
    sender = Routed(2, batch_size=100)
    for _ in range(30):
        sender.send("t", b"x" * 60, partition=0)
    went = [sender.where(value=b"x" * 90) for _ in range(20)]
    assert went.count(1) > 14


@pytest.mark.parametrize(
    ("name", "key", "expected"),
    [
        ("consistent", b"hello", zlib.crc32(b"hello") % 7),
        ("consistent_random", b"hello", zlib.crc32(b"hello") % 7),
        ("consistent", None, 0),
        ("murmur2", None, (murmur2(b"") & 0x7FFFFFFF) % 7),
        ("murmur2_random", b"", (murmur2(b"") & 0x7FFFFFFF) % 7),
        ("fnv1a", b"1234", slow_fnv1a(b"1234") % 7),
        ("fnv1a_random", b"PreAmbleWillBeRemoved", slow_fnv1a(b"PreAmbleWillBeRemoved") % 7),
        ("fnv1a", None, slow_fnv1a(b"") % 7),
    ],
)
def test_librdkafkas_partitioners(name, key, expected):
    assert Routed(7, partitioner=name).where(key) == expected


def test_round_robin_takes_turns():
    sender = Routed(3, [0, 2], partitioner="round_robin")
    went = [sender.where(b"same key") for _ in range(6)]
    assert went in ([0, 2] * 3, [2, 0] * 3)


def test_random_and_ignored_keys():
    assert len({Routed(50, partitioner="random").where(b"k") for _ in range(20)}) > 1
    assert len({Routed(50, partitioner_ignore_keys=True).where(b"k") for _ in range(20)}) > 1


def test_a_function_of_the_callers():
    seen = []

    def last(key, partitions, available):
        seen.append((key, partitions, available))
        return partitions[-1]

    assert Routed(4, [1, 2], partitioner=last).where(b"k") == 3
    assert seen == [(b"k", [0, 1, 2, 3], [1, 2])]


def test_an_unknown_name():
    with pytest.raises(ConfigError, match=r"murmur2_random"):
        Routed(1, partitioner="nearest")
