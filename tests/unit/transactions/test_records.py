"""Records of __transaction_state, which Kafka reads as well."""

import pytest

from bowstring.engine.transactions.records import read_key, read_value, tombstone, transaction_record
from bowstring.engine.transactions.transaction import Status, Transaction

ONGOING = Transaction(
    "x",
    5,
    epoch=3,
    timeout_ms=60_000,
    status=Status.ONGOING,
    partitions=frozenset({("a", 0), ("a", 2), ("b", 1)}),
    started_ms=10,
    updated_ms=20,
    client_version=2,
    previous_producer_id=4,
    next_producer_id=6,
)


@pytest.mark.parametrize("level", [1, 2])
def test_flexible_values_keep_everything(level):
    key, value = transaction_record(ONGOING, level)
    assert value is not None and value[:2] == b"\0\1"
    assert read_key(key) == "x"
    assert read_value("x", value) == ONGOING


def test_level_0_writes_what_kafka_before_4_reads():
    _, value = transaction_record(ONGOING, 0)
    assert value is not None and value[:2] == b"\0\0"
    read = read_value("x", value)
    assert (read.producer_id, read.epoch, read.partitions) == (5, 3, ONGOING.partitions)
    assert (read.client_version, read.previous_producer_id, read.next_producer_id) == (0, -1, -1)


def test_keys():
    assert tombstone("x") == (b"\0\0\0\1x", None)
    assert read_key(b"\0\7\0\1x") is None


def test_kafkas_bytes():
    """An empty transaction as Kafka 4 writes it: no partitions is null."""
    value = bytes.fromhex("0000000000000000000700000000ea6000ffffffff") + (1).to_bytes(8, "big")
    value += (2**64 - 1).to_bytes(8, "big")
    empty = Transaction("x", 7, epoch=0, timeout_ms=60_000, updated_ms=1)
    assert transaction_record(empty, 0)[1] == value
    assert read_value("x", value) == empty
