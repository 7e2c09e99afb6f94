"""Records of ``__consumer_offsets``, byte for byte as Kafka 4.3.1's generated classes write them."""

import pytest

from bowstring.engine.groups import records
from bowstring.engine.groups.classic.group import ClassicGroup, Member
from bowstring.engine.groups.consumer_protocol import subscribed_topics
from bowstring.engine.groups.offsets.store import CommittedOffset
from bowstring.protocol.partitioning import coordinator_partition, java_string_hash
from tests.support.group_harness import subscription

TOPIC_ID = (1).to_bytes(8, "big") + (2).to_bytes(8, "big")


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (
            CommittedOffset(5, 2, "m", 1000, -1, TOPIC_ID, 9),
            "0004000000000000000500000002026d00000000000003e801001000000000000000010000000000000002",
        ),
        (
            CommittedOffset(5, -1, "", 1000, -1, bytes(16), 9),
            "00040000000000000005ffffffff0100000000000003e800",
        ),
        (
            CommittedOffset(5, 2, "m", 1000, 2000, bytes(16), 9),
            "0001000000000000000500016d00000000000003e800000000000007d0",
        ),
    ],
)
def test_offset_commit(offset, expected):
    key, value = records.offset_commit("g", "t", 3, offset)
    assert key.hex() == "000100016700017400000003"
    assert value.hex() == expected
    assert records.offset_tombstone("g", "t", 3) == (key, None)


def test_group_metadata():
    group = ClassicGroup("g", 1000)
    member = Member("c-1", "i", "c", "/127.0.0.1", 60_000, 10_000, "consumer", [("range", b"\1")])
    group.add(member)
    group.generation, group.protocol_name = 1, "range"
    key, value = records.group_metadata(group, {"c-1": b"\2\3"})
    assert key.hex() == "0002000167"
    assert value.hex() == (
        "00030008636f6e73756d657200000001000572616e67650003632d3100000000000003e8000000010003632d31000169"
        "000163000a2f3132372e302e302e310000ea60000027100000000101000000020203"
    )
    assert records.group_tombstone("g") == (key, None)


def test_empty_group():
    assert records.empty_group(ClassicGroup("g", 1000))[1].hex() == (
        "0003000000000000ffffffff00000000000003e800000000"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("hello", 99162322),
        ("polygenelubricants", -2147483648),
        ("\U00010437", 1770582),
        ("groupe-é", 506365602),
        ("my-group", -1906497762),
    ],
)
def test_java_hash(text, expected):
    assert java_string_hash(text) == expected


def test_coordinator_partition():
    assert coordinator_partition("polygenelubricants", 50) == 0, "abs(MIN_VALUE) counts as 0"
    assert coordinator_partition("my-group", 50) == 1906497762 % 50
    assert {coordinator_partition(f"group-{i}", 50) for i in range(2_000)} == set(range(50))


@pytest.mark.parametrize(
    ("metadata", "topics"),
    [
        (subscription("a", "b"), ["a", "b"]),
        (b"\x00\x00" + subscription("a")[2:], ["a"]),
        (b"\x7f\xff" + subscription("a")[2:] + b"more", ["a"]),
        (b"", None),
        (b"\x00", None),
        (b"\x00\x01\xff", None),
        (b"\x00\x01\x7f\xff\xff\xff", None),
    ],
)
def test_subscribed_topics(metadata, topics):
    assert subscribed_topics(metadata) == (None if topics is None else tuple(topics))
