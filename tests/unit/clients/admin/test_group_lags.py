"""Lag of groups: partitions without a commit, and the times of what groups have not read."""

import struct
import time

import pytest

from bowstring import Admin, Broker, Producer, TopicPartition
from bowstring.clients.admin.group_lags import batch_timestamp_ms
from bowstring.operations.group_progress import progress_of_groups

MINUTES_MS = 60_000


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def admin(broker):
    with Admin(broker.bootstrap_servers) as admin:
        yield admin


def filled(broker, admin, topic, partitions, records, size_bytes=100, at_ms=None):
    """Makes a topic whose records are ten minutes old; each is a batch of its own."""
    admin.create_topic(topic, partitions)
    at_ms = int(time.time() * 1000) - 10 * MINUTES_MS if at_ms is None else at_ms
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(partitions):
            for index in range(records):
                producer.send(
                    topic, bytes(size_bytes), partition=number, timestamp=at_ms + index * MINUTES_MS
                ).result()
    return [TopicPartition(topic, number) for number in range(partitions)]


def test_partitions_without_a_commit_have_all_records_to_read(broker, admin):
    read, other = filled(broker, admin, "never", 2, 3)
    admin.alter_offsets("some", {read: 1})
    rows = {row.partition: row for row in admin.group_lag("some")}
    assert [(rows[p].committed, rows[p].lag) for p in (read, other)] == [(1, 2), (None, 3)]
    admin.delete_records({other: 2})
    rows = {row.partition: row for row in admin.group_lag("some")}
    assert (rows[other].lag, rows[other].log_start_offset, rows[other].log_end_offset) == (1, 2, 3)


def test_top_knows_the_seconds_of_every_group_at_once(broker, admin):
    partitions = filled(broker, admin, "aged", 8, 4)
    for index in range(4):
        admin.alter_offsets(f"at-{index}", dict.fromkeys(partitions, index))
    admin.alter_offsets("done", dict.fromkeys(partitions, 4))
    began_s = time.monotonic()
    rows = {
        row.group: row for row in progress_of_groups(admin, [*(f"at-{index}" for index in range(4)), "done"])
    }
    took_s = time.monotonic() - began_s
    for index in range(4):
        row = rows[f"at-{index}"]
        assert (row.partitions, row.lag) == (8, 8 * (4 - index))
        late_s = (10 - index) * 60
        assert row.seconds is not None and late_s <= row.seconds <= late_s + 120 + took_s
    assert (rows["done"].lag, rows["done"].seconds) == (0, 0.0)


def test_large_batches_and_deleted_beginnings_have_a_time(broker, admin):
    partitions = filled(broker, admin, "large", 3, 2, size_bytes=300_000)
    admin.alter_offsets("slow", dict.fromkeys(partitions, 0))
    admin.delete_records(dict.fromkeys(partitions, 1))
    (row,) = progress_of_groups(admin, ["slow"])
    assert row.seconds is not None and row.seconds >= 9 * 60
    assert len(admin.batch_timestamps([(each, 1) for each in partitions])) == 3
    assert admin.batch_timestamps([(partitions[0], 2), (TopicPartition("gone", 0), 0)]) == {}


def head(attributes, base_ms, max_ms):
    return bytes(16) + b"\x02" + bytes(4) + struct.pack(">hiqq", attributes, 0, base_ms, max_ms)


def test_the_timestamp_of_a_batch():
    assert batch_timestamp_ms(head(0, 5, 9)) == 5
    assert batch_timestamp_ms(head(0b1000, 5, 9)) == 9, "the broker's time"
    assert batch_timestamp_ms(head(0b100_0000, 5, 9)) == 9, "a delete horizon is no timestamp"
    assert batch_timestamp_ms(head(0, -1, -1)) is None
    assert batch_timestamp_ms(bytes(16) + b"\x01" + bytes(1) + struct.pack(">q", 7)) == 7
    assert batch_timestamp_ms(bytes(16) + b"\x00" + bytes(30)) is None
    assert batch_timestamp_ms(head(0, 5, 9)[:30]) is None


def test_many_groups_are_described_together(broker, admin):
    """Same answers as one by one; groups that are gone are left out."""
    partitions = filled(broker, admin, "together", 2, 3)
    names = [f"together-{index}" for index in range(3)]
    for index, name in enumerate(names):
        admin.alter_offsets(name, dict.fromkeys(partitions, index))
    listed = [each for each in admin.list_groups() if each.group_id in names]
    gone = listed[0]._replace(group_id="no-such-group")
    as_consumer_group = listed[1]._replace(group_id="no-such-group-either", group_type="Consumer")
    found = admin.describe_groups([*listed, gone, as_consumer_group])
    assert found == {name: admin.describe_group(name) for name in names}
    assert admin.group_lags_of(found.values()) == {name: admin.group_lag(name) for name in names}
