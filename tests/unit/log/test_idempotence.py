"""Idempotent producers: Kafka's rules one by one, on a log in use, after a restart, and after a crash."""

import struct
import time

import pytest

from bowstring._native.base.crc import crc32c
from bowstring._native.log.partition_log import LogError
from tests.support.log_batches import NOW_MS, batch, crash, fill, names, open_log, segment_name

LAST = (1 << 31) - 1
OUT_OF_ORDER, STALE_EPOCH, INVALID_TXN_STATE = 45, 47, 48


def send(log, sequence, records=1, *, epoch=0, producer_id=7, timestamp=NOW_MS, attributes=0):
    """The base offset, or the error code as a negative number."""
    data = batch(
        [b"v"] * records, producer_id=producer_id, epoch=epoch, sequence=sequence, timestamp=timestamp,
        attributes=attributes,
    )  # fmt: skip
    try:
        return log.append(data, 0, NOW_MS)
    except LogError as error:
        return -error.code


# Each row: the batches sent, as (sequence, records, epoch), and the answer to each.
TABLE = {
    "in order": [((0, 2, 0), 0), ((2, 1, 0), 2), ((3, 1, 0), 3)],
    "a duplicate gets its first offset": [((0, 2, 0), 0), ((2, 3, 0), 2), ((0, 2, 0), 0), ((2, 3, 0), 2), ((5, 1, 0), 5)],
    "the fifth batch back is still known": [*[((i, 1, 0), i) for i in range(6)], ((1, 1, 0), 1), ((5, 1, 0), 5)],
    "the sixth is not": [*[((i, 1, 0), i) for i in range(6)], ((0, 1, 0), -OUT_OF_ORDER)],
    "a gap": [((0, 1, 0), 0), ((2, 1, 0), -OUT_OF_ORDER), ((1, 1, 0), 1)],
    "the same first sequence with another length": [((0, 2, 0), 0), ((0, 1, 0), -OUT_OF_ORDER)],
    "an unknown producer may begin anywhere": [((17, 1, 3), 0), ((18, 1, 3), 1)],
    "a new epoch begins at 0": [((0, 3, 0), 0), ((3, 1, 1), -OUT_OF_ORDER), ((0, 1, 1), 3), ((1, 1, 1), 4)],
    "a new epoch forgets the batches of the old": [((0, 1, 0), 0), ((0, 1, 1), 1), ((0, 1, 1), 1), ((0, 1, 0), -STALE_EPOCH)],
    "a stale epoch": [((0, 1, 5), 0), ((0, 1, 4), -STALE_EPOCH), ((1, 1, 5), 1)],
    "sequences wrap to 0": [((LAST, 1, 0), 0), ((0, 1, 0), 1), ((1, 1, 0), 2)],
    "sequences wrap inside a batch": [((LAST - 1, 4, 0), 0), ((2, 1, 0), 4), ((LAST - 1, 4, 0), 0)],
    "0 does not follow anything else": [((LAST - 1, 1, 0), 0), ((0, 1, 0), -OUT_OF_ORDER)],
}  # fmt: skip


@pytest.mark.parametrize("steps", TABLE.values(), ids=TABLE.keys())
def test_sequences(tmp_path, steps):
    log = open_log(tmp_path)
    for (sequence, records, epoch), answer in steps:
        assert send(log, sequence, records, epoch=epoch) == answer


def test_producers_do_not_mix(tmp_path):
    log = open_log(tmp_path)
    for producer_id in range(1000, 1300):
        assert send(log, 0, producer_id=producer_id) == producer_id - 1000
    for producer_id in range(1299, 999, -1):
        assert send(log, 1, producer_id=producer_id) >= 300
        assert send(log, 0, producer_id=producer_id) == producer_id - 1000
    assert len(log.active_producers()) == 300
    log.append(batch(), 0, NOW_MS)  # nor do those without an id
    assert len(log.active_producers()) == 300


def test_a_duplicate_writes_nothing(tmp_path):
    log = open_log(tmp_path)
    send(log, 0, 3)
    size = log.size_bytes
    assert send(log, 0, 3) == 0
    assert (log.size_bytes, log.log_end_offset, log.stats()["appended_batches"]) == (size, 3, 1)


def test_active_producers(tmp_path):
    log = open_log(tmp_path)
    send(log, 0, 3, epoch=2, timestamp=NOW_MS + 5)
    assert log.active_producers() == [(7, 2, 2, NOW_MS + 7, -1, -1)]


def test_expiry(tmp_path):
    log = open_log(tmp_path, producer_id_expiration_ms=1000)
    for i in range(50):
        send(log, 0, producer_id=i, timestamp=NOW_MS + i)
    assert log.expire_producers(NOW_MS + 999) == 0
    assert log.expire_producers(NOW_MS + 1019) == 20
    assert [p[0] for p in log.active_producers()] == list(range(20, 50))
    assert send(log, 5, producer_id=3) == 50
    assert send(log, 0, producer_id=30) == 30
    assert log.expire_producers(NOW_MS + 10_000) == 31
    assert log.active_producers() == [] and send(log, 9) == 51


@pytest.mark.parametrize("end", ["close", "crash"])
def test_state_survives(tmp_path, end):
    log = open_log(tmp_path, segment_bytes=1000)
    for i in range(30):
        send(log, i)
        send(log, 0, producer_id=100 + i)
    producers = log.active_producers()
    log.close() if end == "close" else crash(log)
    log = open_log(tmp_path, segment_bytes=1000, clean=end == "close")
    assert log.active_producers() == producers
    # Kafka's snapshots hold the last batch only; a crash replays the segments above the last snapshot.
    assert send(log, 29) == 58
    assert send(log, 31) == -OUT_OF_ORDER
    assert send(log, 30) == 60


def test_expired_producers_are_not_loaded(tmp_path):
    log = open_log(tmp_path)
    send(log, 0, timestamp=1000)
    send(log, 0, producer_id=8, timestamp=(1 << 62))
    log.close()
    assert [p[0] for p in open_log(tmp_path, producer_id_expiration_ms=86400000).active_producers()] == [8]


def read_snapshot(path):
    data = path.read_bytes()
    version, crc, count = struct.unpack_from(">hIi", data)
    assert version == 1 and crc == crc32c(data[6:]) and len(data) == 10 + 46 * count
    return sorted(struct.iter_unpack(">qhiqiqiq", data[10:]))


def test_snapshot_bytes(tmp_path):
    log = open_log(tmp_path)
    send(log, 0, 3, epoch=2, timestamp=NOW_MS)
    send(log, 3, 2, epoch=2, timestamp=NOW_MS + 10)
    send(log, 40, 1, epoch=0, producer_id=9, timestamp=NOW_MS + 5)
    log.close()
    assert read_snapshot(tmp_path / segment_name(6, ".snapshot")) == [
        (7, 2, 4, 4, 1, NOW_MS + 11, -1, -1),
        (9, 0, 40, 5, 0, NOW_MS + 5, -1, -1),
    ]


def test_snapshots_at_rolls_and_their_deletion(tmp_path):
    log = open_log(tmp_path, segment_bytes=1000)
    for i in range(40):
        send(log, i)
    bases = [base for base, _, _ in log.segments()]
    snapshots = {name for name in names(tmp_path) if name.endswith(".snapshot")}
    assert snapshots == {segment_name(base, ".snapshot") for base in bases[1:]}
    assert read_snapshot(tmp_path / segment_name(bases[2], ".snapshot"))[0][2] == bases[2] - 1
    log.close()
    log = open_log(tmp_path, segment_bytes=1000)
    send(log, 40)
    log.close()
    open_log(tmp_path, segment_bytes=1000)
    assert {int(name[:20]) for name in names(tmp_path) if name.endswith(".snapshot")} == {*bases[1:], 41}


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "version"])
def test_a_damaged_snapshot_is_dropped_and_the_log_replayed(tmp_path, damage):
    log = open_log(tmp_path)
    for i in range(6):
        send(log, i)
    log.roll()
    send(log, 6)
    log.close()
    path = tmp_path / segment_name(7, ".snapshot")
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[20] ^= 1
    elif damage == "version":
        data[1] = 9
    path.write_bytes(data[:30] if damage == "cut" else b"" if damage == "empty" else data)
    log = open_log(tmp_path)
    assert log.active_producers() == [(7, 0, 6, NOW_MS, -1, -1)]
    assert send(log, 7) == 7


def test_a_clean_log_without_any_snapshot_starts_without_producers(tmp_path):
    """Kafka's rule: such a log is older than idempotent producers, and is not scanned."""
    log = open_log(tmp_path)
    for i in range(3):
        send(log, i)
    log.close()
    (tmp_path / segment_name(3, ".snapshot")).unlink()
    log = open_log(tmp_path)
    assert log.active_producers() == [] and log.log_end_offset == 3


def test_a_duplicate_tells_the_time_it_was_written(tmp_path):
    log = open_log(tmp_path, log_append_time=1)
    fill(log, 1)
    assert send(log, 0) == 10
    assert send(log, 0) == 10


def send_now(log, sequence, **of):
    """Sends with the current time: only producers that wrote recently are expected to retry."""
    return send(log, sequence, timestamp=time.time_ns() // 1_000_000, **of)


@pytest.mark.parametrize("ending", ["closed", "crashed", "checkpointed, then crashed"])
def test_a_restart_remembers_five_batches(tmp_path, ending):
    """Kafka's snapshot has one batch; the others are read from the log. Retries are not written twice."""
    log, point = open_log(tmp_path), 0
    for sequence in range(7):
        assert send_now(log, sequence, producer_id=7) == 2 * sequence
        assert send_now(log, sequence, producer_id=8, epoch=3) == 2 * sequence + 1
        if sequence == 5 and ending.startswith("checkpointed"):
            point = log.flush()
    if ending == "closed":
        log.close()
        log = open_log(tmp_path)
    else:
        crash(log)
        log = open_log(tmp_path, clean=False, recovery_point=point)
    for producer_id, epoch, nth in ((7, 0, 0), (8, 3, 1)):
        for sequence in range(2, 7):
            assert send_now(log, sequence, producer_id=producer_id, epoch=epoch) == 2 * sequence + nth
        assert send_now(log, 1, producer_id=producer_id, epoch=epoch) == -OUT_OF_ORDER
        assert send_now(log, 8, producer_id=producer_id, epoch=epoch) == -OUT_OF_ORDER
    assert send_now(log, 7, producer_id=7) == 14
    assert send_now(log, 3, producer_id=7) == 6
    assert send_now(log, 2, producer_id=7) == -OUT_OF_ORDER  # the eighth has pushed it out


@pytest.mark.parametrize("ending", ["closed", "crashed", "truncated"])
@pytest.mark.parametrize("rolled_at", [(3,), (4, 5, 6), (7,)])
def test_five_batches_are_remembered_across_segments(tmp_path, ending, rolled_at):
    """A roll takes a snapshot, which has one batch: the others are in segments before the active one."""
    log = open_log(tmp_path)
    for sequence in range(8):
        if sequence in rolled_at:
            log.roll()
        if sequence < 7:
            assert send_now(log, sequence) == sequence
    if ending == "truncated":
        send_now(log, 7)
        log.flush()
        log.truncate_to(7)
    elif ending == "closed":
        log.close()
        log = open_log(tmp_path)
    else:
        crash(log)
        log = open_log(tmp_path, clean=False)
    for sequence in range(2, 7):
        assert send_now(log, sequence) == sequence
    assert send_now(log, 1) == -OUT_OF_ORDER
    assert send_now(log, 7) == 7


def test_batches_of_another_epoch_are_not_remembered(tmp_path):
    log = open_log(tmp_path)
    for sequence in range(3):
        send_now(log, sequence, epoch=0)
    assert send_now(log, 0, epoch=1) == 3
    log.close()
    log = open_log(tmp_path)
    assert send_now(log, 0, epoch=1) == 3
    assert send_now(log, 2, epoch=0) == -STALE_EPOCH and send_now(log, 1, epoch=1) == 4
