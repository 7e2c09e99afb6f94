"""Batches that Python must look into, and those behind them."""

import time

from tests.unit.dataplane.requests_for_tests import batch, fetch, produce, records_of


def take(served, count):
    taken, deadline = [], time.monotonic() + 5
    while len(taken) < count and time.monotonic() < deadline:
        taken += served.plane.take_requests()
    return taken


def test_recompressed_batches_keep_their_order(served, client):
    served.add_topic("zipped", b"\5" * 16, 1, compression=1)
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


def test_refused_slow_batch(served, client):
    served.add_topic("zipped", b"\5" * 16, 1, compression=1)
    client.send(produce(batch(b"a"), 9, topic="zipped"), 9)
    (slow,) = take(served, 1)
    served.plane.finish_batch(slow, error=87)
    assert client.receive(0, 9).responses[0].partition_responses[0].error_code == 87
    assert served.logs["zipped", 0].log_end_offset == 0


def test_connection_gone_before_the_batch_is_done(served, client):
    served.add_topic("zipped", b"\5" * 16, 1, compression=1)
    client.send(produce(batch(b"a"), 9, topic="zipped"), 9)
    (slow,) = take(served, 1)
    client.close()
    time.sleep(0.05)
    served.plane.finish_batch(slow, slow.batch)
    deadline = time.monotonic() + 5
    while served.logs["zipped", 0].log_end_offset == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert served.logs["zipped", 0].log_end_offset == 1


def test_topic_removed_before_the_batch_is_done(served, client):
    served.add_topic("zipped", b"\5" * 16, 1, compression=1)
    client.send(produce(batch(b"a"), 9, topic="zipped"), 9)
    (slow,) = take(served, 1)
    served.plane.remove_topic("zipped")
    served.plane.finish_batch(slow, slow.batch)
    assert client.receive(0, 9).responses[0].partition_responses[0].error_code == 3
