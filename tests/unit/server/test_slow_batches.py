"""Batches that the control thread must process, those behind them, and their memory."""

import socket
import struct
import threading
import time

import pytest

from bowstring.protocol.messages import produce as p
from tests.support.memory import resident_bytes, resident_slack
from tests.support.plane_requests import batch, fetch, produce, records_of
from tests.support.served_plane import TOPIC, Served
from tests.support.slow_batches import Crowd, await_none_counted, counts, take, values_in, zipped
from tests.support.waiting import pause, wait_until

UNKNOWN_TOPIC_OR_PARTITION, INVALID_RECORD = 3, 87
# Bytes a connection may have waiting before it is no longer read, and a batch's overhead (native constants).
HELD_MAX_BYTES, BATCH_BYTES = 4 << 20, 2048


def test_recompressed_batches_keep_their_order(served, client):
    zipped(served)
    for value in (b"a", b"b", b"c"):
        client.send(produce(batch(value), 9, topic="zipped"), 9)
    slow = take(served, 3)
    assert [(s.topic, s.partition, s.codec, s.wanted_codec, s.key_required) for s in slow] == [
        ("zipped", 0, 0, 1, False)
    ] * 3
    assert served.logs["zipped", 0].log_end_offset == 0
    for one in slow:
        served.plane.finish_batch(one, one.batch)
    for offset in range(3):
        assert client.receive(0, 9).responses[0].partition_responses[0].base_offset == offset
    answer = client.call(fetch(12, topic="zipped"), 12)
    assert [value for _, value in records_of(answer.responses[0].partitions[0].records)] == [b"a", b"b", b"c"]
    await_none_counted(served)


def test_refused_slow_batch(served, client):
    zipped(served)
    client.send(produce(batch(b"a"), 9, topic="zipped"), 9)
    (slow,) = take(served, 1)
    served.plane.finish_batch(slow, error=INVALID_RECORD, reason="not this one")
    part = client.receive(0, 9).responses[0].partition_responses[0]
    assert (part.error_code, part.error_message, part.record_errors) == (INVALID_RECORD, "not this one", [])
    assert served.logs["zipped", 0].log_end_offset == 0
    await_none_counted(served)


def test_a_batch_that_is_not_one_is_to_be_sent_again(served, client):
    """A bug in a codec loses nothing and does not leave the producer waiting."""
    zipped(served)
    client.send(produce(batch(b"a"), 9, topic="zipped"), 9)
    (slow,) = take(served, 1)
    with pytest.raises(ValueError, match=r"recompressed batch is not valid: .*CRC"):
        served.plane.finish_batch(slow, slow.batch[:-1] + b"!")
    assert client.receive(0, 9).responses[0].partition_responses[0].error_code == 7
    with pytest.raises(ValueError, match="already answered"):
        served.plane.finish_batch(slow, batch(b"a"))
    await_none_counted(served)


def test_connection_gone_before_the_batch_is_done(served, client):
    zipped(served)
    client.send(produce(batch(b"a"), 9, topic="zipped"), 9)
    (slow,) = take(served, 1)
    client.close()
    wait_until(lambda: served.plane.counters()["connections"] == 0, "the connection is closed")
    served.plane.finish_batch(slow, slow.batch)
    wait_until(lambda: served.logs["zipped", 0].log_end_offset == 1, "the batch is in the log")
    await_none_counted(served)


def test_topic_removed_before_the_batch_is_done(served, client):
    zipped(served)
    client.send(produce(batch(b"a"), 9, topic="zipped"), 9)
    (slow,) = take(served, 1)
    served.plane.remove_topic("zipped")
    served.plane.finish_batch(slow, slow.batch)
    assert client.receive(0, 9).responses[0].partition_responses[0].error_code == UNKNOWN_TOPIC_OR_PARTITION
    await_none_counted(served)


# ---------------------------------------------------------------- memory


def test_what_waits_is_counted_until_it_is_in_the_log(served, client):
    zipped(served)
    data = batch(b"x" * 10_000)
    for _ in range(3):
        client.send(produce(data, 9, topic="zipped"), 9)
    slow = take(served, 3)
    cost = len(data) + BATCH_BYTES
    assert counts(served) == (3 * cost, 0, 0)
    assert served.plane.begin_batch(slow[0], 50_000)
    assert counts(served) == (3 * cost, 50_000, 0)
    served.plane.finish_batch(slow[0], error=INVALID_RECORD)
    served.plane.finish_batch(slow[1], slow[1].batch)
    client.receive(0, 9)
    client.receive(0, 9)
    wait_until(lambda: counts(served) == (cost, 0, 0), "the second is in the log")
    with pytest.raises(ValueError, match="already freed"):
        slow[1].batch  # noqa: B018
    del slow
    await_none_counted(served)


def test_a_job_without_room_is_told_of(served, client):
    """The control thread waits for memory and is woken: also by a reactor that has appended a result."""
    zipped(served)
    served.plane.take_requests()
    for _ in range(3):
        client.send(produce(batch(b"x" * 1000), 9, topic="zipped"), 9)
    first, second, third = take(served, 3)
    room = 64 << 20
    assert served.plane.begin_batch(first, 100 * room)  # alone, it always fits
    assert not served.plane.begin_batch(second, 1)
    served.plane.finish_batch(first, first.batch)
    client.receive(0, 9)
    wait_until(lambda: served.plane.begin_batch(second, room - 1), "there is room again")
    assert not served.plane.begin_batch(third, 2)
    assert served.plane.begin_batch(third, 1)
    for slow in (second, third):
        served.plane.finish_batch(slow, error=INVALID_RECORD)


def test_a_connection_with_many_waiting_batches_is_not_read_from(served, client):
    zipped(served, max_message_bytes=1 << 20)
    count, data = 40, batch(b"x" * 500_000)

    def send():
        for _ in range(count):
            client.send(produce(data, 9, topic="zipped"), 9)

    sender = threading.Thread(target=send)
    sender.start()
    most = HELD_MAX_BYTES + 2 * (len(data) + BATCH_BYTES)
    wait_until(lambda: counts(served)[0] >= HELD_MAX_BYTES, "it is no longer read from")
    answered = 0
    while answered < count:
        for slow in served.plane.take_requests():
            pause(0.005, "recompressing takes longer than receiving")
            assert counts(served)[0] <= most
            served.plane.finish_batch(slow, slow.batch)
            answered += 1
    sender.join()
    assert [
        client.receive(0, 9).responses[0].partition_responses[0].base_offset for _ in range(count)
    ] == list(range(count))
    await_none_counted(served)


@pytest.mark.parametrize("reactors", [1, 3])
def test_many_producers_stay_below_the_bound_and_all_are_answered(tmp_path, reactors):
    most = 1 << 20
    served = Served(tmp_path, reactors=reactors, slow_max_bytes=most)
    try:
        zipped(served)
        crowd = Crowd(served, clients=24, requests=12, size=60_000)
        wait_until(lambda: counts(served)[2] >= 12, "half of them wait for room")
        assert most - 24 * 63_000 < counts(served)[0] <= most
        other = served.client()
        for _ in range(20):  # other topics continue
            part = other.call(produce(batch(b"plain"), 9), 9).responses[0].partition_responses[0]
            assert part.error_code == 0
        crowd.finish_all(most)
        crowd.check()
        await_none_counted(served)
    finally:
        served.close()


def test_memory_stays_where_it_is_while_nobody_recompresses(tmp_path):
    """Forty connections with 80 MB to send: the broker holds the limit, and a receive buffer of each."""
    served = Served(tmp_path, slow_max_bytes=4 << 20)
    try:
        zipped(served)
        before = resident_bytes()
        crowd = Crowd(served, clients=40, requests=100, size=20_000)
        wait_until(lambda: counts(served)[2] >= 36, "nearly all of them wait for room")
        assert resident_bytes() - before < (4 << 20) + 40 * (600 << 10) + resident_slack()
        crowd.finish_all(4 << 20)
        crowd.check()
    finally:
        served.close()


def test_a_large_request_gets_its_turn(tmp_path):
    """Room for it is kept free, although small ones always fit; alone, it may exceed the limit."""
    most = 300_000
    served = Served(tmp_path, reactors=3, slow_max_bytes=most)
    try:
        zipped(served, partitions=2)
        crowd = Crowd(served, clients=12, requests=60, size=30_000)
        wait_until(lambda: counts(served)[2] == 12, "there is no room")
        large = served.client()
        data = [p.PartitionProduceData(index=1, records=batch(bytes(most + 1)))]
        topics = [p.TopicProduceData(name="zipped", partition_data=data)]
        large.send(p.ProduceRequest(acks=1, timeout_ms=60_000, topic_data=topics), 9)
        wait_until(lambda: counts(served)[2] == 13, "it waits for room")
        seen, left = [], 12 * 60 + 1
        while left:
            for slow in served.plane.take_requests():
                seen.append(slow.partition)
                served.plane.finish_batch(slow, slow.batch)
                left -= 1
                refilled = time.monotonic() + 0.01  # time enough for another to take the room, if it may
                while counts(served)[0] < most - 40_000 and time.monotonic() < refilled:
                    time.sleep(0)
        # Those that waited before it, and hardly any of the many later ones.
        assert seen.index(1) < 120
        for thread in crowd.threads:
            thread.join()
        crowd.check()
        assert large.receive(0, 9).responses[0].partition_responses[0].error_code == 0
        await_none_counted(served)
    finally:
        served.close()


@pytest.mark.parametrize("reactors", [1, 3])
def test_who_waits_for_room_may_go(tmp_path, reactors):
    """Parked connections that close hold up none of the others, the first in line included."""
    served = Served(tmp_path, reactors=reactors, slow_max_bytes=100_000)
    try:
        zipped(served)
        first = served.client()
        first.send(produce(batch(bytes(90_000)), 9, topic="zipped"), 9)
        (slow,) = take(served, 1)
        waiting = []
        for size in (80_000, 20_000, 20_000, 20_000, 20_000, 20_000):
            waiting.append(served.client())
            waiting[-1].send(produce(batch(bytes(size)), 9, topic="zipped"), 9)
            wait_until(lambda: counts(served)[2] == len(waiting), "it waits for room")
        connections = served.plane.counters()["connections"]
        for gone in (waiting.pop(0), waiting.pop(1)):
            # A reset with unread data before it: the broker gets the event at once, not when it next reads.
            gone.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            gone.close()
        wait_until(lambda: served.plane.counters()["connections"] == connections - 2, "they are gone")
        assert counts(served)[2] == 4
        served.plane.finish_batch(slow, slow.batch)
        first.receive(0, 9)
        for slow in take(served, 4):
            served.plane.finish_batch(slow, slow.batch)
        for client in waiting:
            assert client.receive(0, 9).responses[0].partition_responses[0].error_code == 0
        await_none_counted(served)
    finally:
        served.close()


def test_a_topic_removed_while_requests_for_it_wait(tmp_path):
    served = Served(tmp_path, slow_max_bytes=100_000)
    try:
        zipped(served)
        clients = [served.client() for _ in range(4)]
        for client in clients:
            client.send(produce(batch(bytes(60_000)), 9, topic="zipped"), 9)
        wait_until(lambda: counts(served)[2] == 3, "three wait for room")
        (slow,) = take(served, 1)
        served.plane.remove_topic("zipped")
        served.plane.finish_batch(slow, slow.batch)
        for client in clients:
            part = client.receive(0, 9).responses[0].partition_responses[0]
            assert part.error_code == UNKNOWN_TOPIC_OR_PARTITION
        await_none_counted(served)
        assert clients[0].call(produce(batch(b"v"), 9), 9).responses[0].partition_responses[0].error_code == 0
    finally:
        served.close()


def test_requests_behind_a_waiting_one_keep_their_place(tmp_path):
    """One connection: a slow topic's request that waits for room holds back those behind it, in order."""
    served = Served(tmp_path, slow_max_bytes=50_000)
    try:
        zipped(served)
        blocking, client = served.client(), served.client()
        blocking.send(produce(batch(bytes(40_000)), 9, topic="zipped"), 9)
        (slow,) = take(served, 1)
        client.send(produce(batch(b"0"), 9), 9)
        client.receive(0, 9)
        client.send(produce(batch(b"1" + bytes(20_000)), 9, topic="zipped"), 9)
        client.send(produce(batch(b"2"), 9), 9)
        client.send(produce(batch(b"3"), 9, topic="zipped"), 9)
        wait_until(lambda: counts(served)[2] == 1, "it waits for room")
        assert served.logs[TOPIC, 0].log_end_offset == 1
        served.plane.finish_batch(slow, slow.batch)
        (slow,) = take(served, 1)
        pause(0.05, "those behind it may not begin")
        assert served.logs[TOPIC, 0].log_end_offset == 1 and not served.plane.take_requests()
        served.plane.finish_batch(slow, slow.batch)
        (slow,) = take(served, 1)
        wait_until(lambda: served.logs[TOPIC, 0].log_end_offset == 2, "the pass that began it ends")
        served.plane.finish_batch(slow, slow.batch)
        for _ in range(3):
            assert client.receive(0, 9).responses[0].partition_responses[0].error_code == 0
        assert [value[:1] for value in values_in(served)] == [b"\0", b"1", b"3"]
        await_none_counted(served)
    finally:
        served.close()


def test_acks_zero_gives_its_memory_back(served, client):
    """No reply is due; the connection is read again all the same."""
    zipped(served, max_message_bytes=1 << 20)
    for each in range(30):
        client.send(produce(batch(b"x" * 500_000), 9, topic="zipped", acks=0), 9)
        (slow,) = take(served, 1)
        served.plane.finish_batch(slow, slow.batch)
        wait_until(lambda each=each: served.logs["zipped", 0].log_end_offset == each + 1, "it is in the log")
    await_none_counted(served)


def test_a_second_refused_batch_with_acks_zero_lets_the_connection_end(served, client):
    """A later request already ends the connection; the earlier one fails later and must not prevent that."""
    zipped(served)
    data = batch(b"x" * 1000)
    client.send(produce(data, 9, topic="zipped"), 9)
    client.send(produce(data, 9, topic="zipped", acks=0), 9)
    client.send(produce(data[:-1] + b"?", 9, topic="zipped", acks=0), 9)
    answered, refused = take(served, 2)
    events = []

    def failures():
        events.extend(event[1] for event in served.plane.take_events())
        return events.count("produce-failed")

    wait_until(lambda: failures() == 1, "the later one is refused")
    served.plane.finish_batch(refused, error=INVALID_RECORD)
    wait_until(lambda: failures() == 2, "each of them is told")
    served.plane.finish_batch(answered, answered.batch)
    assert client.receive(0, 9).responses[0].partition_responses[0].error_code == 0
    assert client.closed()
    await_none_counted(served)
