"""Commit mode over a socket: nothing is answered or shown before the write-ahead log has it on the medium."""

import errno
import struct

import pytest

from bowstring._native.log.durability import join
from bowstring._native.log.wal_replay import replay
from bowstring.protocol import encode_request
from tests.support.faults import failing
from tests.support.joined_wal import contents, crash, wal_on
from tests.support.log_batches import batch as idempotent_batch
from tests.support.plane_requests import batch, fetch, fetched, only, produce, records_of
from tests.support.readable import readable
from tests.support.served_plane import TOPIC, TOPIC_ID
from tests.support.waiting import FOR_EVER_MS, wait_until

KAFKA_STORAGE_ERROR = 56
UNKNOWN_TOPIC_OR_PARTITION = 3


STAGED_MAX = 50_000


@pytest.fixture
def wal(served, tmp_path, request):
    """A write-ahead log with commits called by the test; the two partitions are joined to it."""
    made = wal_on(tmp_path, segments=4, **getattr(request, "param", {}))
    served.plane.wake_by(made)
    for index in range(2):
        served.plane.set_durability(TOPIC, index, served.logs[TOPIC, index], made)
    yield made
    served.plane.stop()
    made.stop()
    for index in range(2):
        join(served.logs[TOPIC, index], None, TOPIC_ID, index)


def quiet(client, seconds=0.1):
    return not readable(client.socket, seconds)


def commit_when_staged(wal, frames=1):
    wait_until(lambda: wal.staged_frame >= wal.durable_frame + frames)
    assert wal.commit()


@pytest.mark.parametrize("acks", [1, -1])
def test_an_answer_waits_for_the_medium(client, wal, acks):
    client.send(produce(batch(b"a", b"b"), 9, acks=acks), 9)
    assert quiet(client)
    commit_when_staged(wal)
    answer = only(client.receive(0, 9))
    assert (answer.error_code, answer.base_offset) == (0, 0)


def test_readers_see_what_is_durable(served, client, wal):
    reader = served.client()
    client.send(produce(batch(b"a"), 9), 9)
    reader.send(fetch(12, max_wait_ms=FOR_EVER_MS), 12)
    assert quiet(reader)
    commit_when_staged(wal)
    answer = fetched(reader.receive(1, 12))
    assert records_of(answer.records) == [(0, b"a")] and answer.high_watermark == 1


def test_pipelined_batches_of_a_pass_share_a_commit_and_keep_their_order(served, client, wal, tmp_path):
    frames = []
    for i in range(200):
        frame = encode_request(produce(batch(b"%d" % i), 9, partition=i % 2), 9, 1000 + i, "test")
        frames.append(struct.pack(">i", len(frame)) + frame)
    client.socket.sendall(b"".join(frames))
    wait_until(lambda: sum(log.log_end_offset for log in served.logs.values()) >= 200)
    assert quiet(client)
    while wal.commit():
        pass
    for i in range(200):
        answer = only(client.receive(0, 9))
        assert (client.answered, answer.error_code, answer.base_offset) == (1000 + i, 0, i // 2)
    assert wal.stats()["frames"] < 200
    # several batches of one entry come back from it, too
    wanted = [contents(served.logs[TOPIC, index]) for index in range(2)]
    for index in range(2):
        (tmp_path / f"t-{index}").symlink_to(tmp_path / f"{TOPIC}-{index}")
    found = crash(tmp_path, tmp_path.parent / f"{tmp_path.name}-crashed", keep_bytes=0, partitions=2)
    replay([tmp_path], {(TOPIC_ID, index): log for index, log in enumerate(found)})
    assert [contents(log) for log in found] == wanted


def test_a_repetition_waits_for_what_it_repeats(client, wal):
    repeated = idempotent_batch(producer_id=9, epoch=0, sequence=0)
    client.send(produce(repeated, 9), 9)
    client.send(produce(repeated, 9), 9)
    assert quiet(client)
    commit_when_staged(wal)
    for _ in range(2):
        answer = only(client.receive(0, 9))
        assert (answer.error_code, answer.base_offset) == (0, 0)
    client.send(produce(repeated, 9), 9)
    answer = only(client.receive(0, 9))
    assert (answer.error_code, answer.base_offset) == (0, 0)


def test_acks_0_is_not_answered_and_becomes_visible(served, client, wal):
    client.send(produce(batch(b"a"), 9, acks=0), 9)
    commit_when_staged(wal)
    wait_until(lambda: served.logs[TOPIC, 0].high_watermark >= 1)
    assert served.logs[TOPIC, 0].high_watermark == 1 and quiet(client, 0.02)


def test_refusals_are_not_kept_waiting(client, wal):
    client.send(produce(batch(b"a"), 9, partition=7), 9)
    assert only(client.receive(0, 9)).error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_a_failed_device_fails_what_waits_and_all_that_comes(served, client, wal):
    client.send(produce(batch(b"a"), 9), 9)
    wait_until(lambda: wal.staged_frame != wal.durable_frame)
    with failing("write_durable", errno.EIO), pytest.raises(OSError, match="Input/output"):
        wal.commit()
    assert only(client.receive(0, 9)).error_code == KAFKA_STORAGE_ERROR
    assert only(client.call(produce(batch(b"b"), 9), 9)).error_code == KAFKA_STORAGE_ERROR
    assert served.logs[TOPIC, 0].high_watermark == 0


def test_a_topic_deleted_while_its_batches_wait(served, client, wal):
    client.send(produce(batch(b"a"), 9), 9)
    wait_until(lambda: wal.staged_frame != wal.durable_frame)
    served.plane.remove_topic(TOPIC)
    wal.commit()
    assert only(client.receive(0, 9)).error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_the_end_comes_while_batches_wait(served, client, wal):
    client.send(produce(batch(b"a"), 9), 9)
    wait_until(lambda: wal.staged_frame != wal.durable_frame)
    served.plane.stop()
    assert client.closed()


def test_back_to_the_page_cache(served, client, wal):
    client.send(produce(batch(b"a"), 9), 9)
    commit_when_staged(wal)
    assert only(client.receive(0, 9)).error_code == 0
    served.plane.set_durability(TOPIC, 0, served.logs[TOPIC, 0], None)
    assert only(client.call(produce(batch(b"b"), 9), 9)).base_offset == 1
    assert served.logs[TOPIC, 0].high_watermark == 2


def until_staged(wal, bytes_):
    wait_until(lambda: wal.stats()["staged_bytes"] > bytes_)


def commit_all(wal):
    while wal.commit():
        pass


full = pytest.mark.parametrize("wal", [{"staged_max_bytes": STAGED_MAX}], indirect=True)


@full
def test_a_full_write_ahead_log_keeps_nobody_else_waiting(served, wal):
    """Requests that find it full stay in their connections' buffers; reactors and role changes continue."""
    served.add_topic("other", bytes(range(16)), 1)
    writers = [served.client() for _ in range(3)]
    for client in writers:
        for i in range(40):
            client.send(produce(batch(b"%d" % i + bytes(5_000)), 9), 9)
    until_staged(wal, STAGED_MAX)
    log = served.logs[TOPIC, 0]
    # Nothing commits meanwhile: a thread that waited for the write-ahead log would wait for ever.
    served.plane.remove_topic("other")
    served.add_topic("more", bytes(range(1, 17)), 1)
    client = served.client()
    assert only(client.call(produce(batch(b"a"), 9, topic="more"), 9)).error_code == 0
    assert fetched(client.call(fetch(12, topic="more"), 12)).high_watermark == 1
    assert wal.stats()["staged_bytes"] < STAGED_MAX + 300_000  # what one pass appends comes on top
    assert log.log_end_offset < 120
    answered = [0] * len(writers)
    while sum(answered) < 120:
        wal.commit()
        for which, client in enumerate(writers):
            while client.received or readable(client.socket, 0.005):
                answer = only(client.receive(0, 9))
                answered[which] += 1
                assert answer.error_code == 0 and client.answered == answered[which]
    values = [int(value.rstrip(b"\0")) for _, value in records_of(contents(log))]
    assert sorted(values) == sorted(list(range(40)) * 3)


@full
def test_a_stalled_connection_that_goes_away(served, client, wal):
    others = [served.client() for _ in range(3)]
    for other in others:
        other.send(produce(batch(bytes(STAGED_MAX)), 9), 9)
        other.send(produce(batch(bytes(STAGED_MAX)), 9), 9)
    until_staged(wal, STAGED_MAX)
    client.send(produce(batch(b"last" + bytes(1000)), 9), 9)
    assert quiet(client)
    others[0].close()
    others[1].socket.shutdown(1)
    answer = None
    while answer is None:
        wal.commit()
        if readable(client.socket, 0.01):
            answer = only(client.receive(0, 9))
    assert answer.error_code == 0


@full
def test_a_full_write_ahead_log_that_fails_refuses_who_waits(served, client, wal):
    for _ in range(20):
        client.send(produce(batch(bytes(5_000)), 9), 9)
    until_staged(wal, STAGED_MAX)
    assert quiet(client)
    with failing("write_durable", errno.EIO), pytest.raises(OSError, match="Input/output"):
        wal.commit()
    for _ in range(20):
        assert only(client.receive(0, 9)).error_code == KAFKA_STORAGE_ERROR


@full
def test_the_end_comes_while_the_write_ahead_log_is_full(served, client, wal):
    for _ in range(20):
        client.send(produce(batch(bytes(5_000)), 9), 9)
    until_staged(wal, STAGED_MAX)
    served.plane.stop()
    assert client.closed()


def test_the_thread_answers_by_itself(client, wal):
    wal.start()
    for i in range(50):
        assert only(client.call(produce(batch(b"%d" % i), 9), 9)).base_offset == i
