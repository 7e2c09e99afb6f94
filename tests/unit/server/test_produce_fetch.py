"""Produce and Fetch over a socket, every version, against a DataPlane with no broker around it."""

import threading
import time

import pytest

from bowstring.protocol import API_VERSIONS
from tests.support.plane_requests import batch, fetch, fetched, only, produce, records_of
from tests.support.served_plane import TOPIC, TOPIC_ID
from tests.support.waiting import FOR_EVER_MS, HANG_S, wait_until

PRODUCE = range(API_VERSIONS[0].lowest, API_VERSIONS[0].highest + 1)
FETCH = range(API_VERSIONS[1].lowest, API_VERSIONS[1].highest + 1)


@pytest.mark.parametrize("version", PRODUCE)
def test_produce_every_version(client, version):
    for base_offset in (0, 3):
        answer = only(client.call(produce(batch(b"a", b"b", b"c"), version), version))
        assert (answer.error_code, answer.base_offset, answer.index) == (0, base_offset, 0)
        assert answer.log_append_time_ms == -1


@pytest.mark.parametrize("version", FETCH)
def test_fetch_every_version(client, version):
    client.call(produce(batch(b"a", b"b"), 9), 9)
    client.call(produce(batch(b"c"), 9), 9)
    answer = fetched(client.call(fetch(version), version))
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 3, 3)
    assert records_of(answer.records) == [(0, b"a"), (1, b"b"), (2, b"c")]
    answer = fetched(client.call(fetch(version, offset=2), version))
    assert records_of(answer.records) == [(2, b"c")]


def test_large_fetch_leaves_by_sendfile_unchanged(served, client):
    values = [bytes([i % 251]) * 1000 for i in range(900)]
    for at in range(0, 900, 100):
        assert only(client.call(produce(batch(*values[at : at + 100]), 9), 9)).error_code == 0
    got, offset = [], 0
    while offset < 900:
        answer = fetched(client.call(fetch(17, offset=offset, partition_max_bytes=250_000), 17))
        assert len(answer.records) <= 250_000
        more = records_of(answer.records)
        got += [value for _, value in more]
        offset = more[-1][0] + 1
    assert got == values


def test_first_batch_larger_than_max_bytes_is_given_whole(client):
    client.call(produce(batch(b"x" * 50_000), 9), 9)
    answer = fetched(client.call(fetch(12, max_bytes=100, partition_max_bytes=100), 12))
    assert records_of(answer.records) == [(0, b"x" * 50_000)]


def test_long_poll_is_woken_by_an_append(served, client):
    reader = served.client()
    begin = time.monotonic()
    reader.send(fetch(12, max_wait_ms=FOR_EVER_MS), 12)
    served.await_waiting()
    client.call(produce(batch(b"late"), 9), 9)
    answer = fetched(reader.receive(1, 12))
    assert records_of(answer.records) == [(0, b"late")]
    assert time.monotonic() - begin < HANG_S


def test_long_poll_ends_after_max_wait(client):
    begin = time.monotonic()
    answer = fetched(client.call(fetch(12, max_wait_ms=200), 12))
    assert answer.records == b"" and answer.error_code == 0
    assert 0.15 < time.monotonic() - begin < HANG_S


def test_min_bytes_are_waited_for(served, client):
    reader = served.client()
    reader.send(fetch(12, max_wait_ms=FOR_EVER_MS, min_bytes=3_000), 12)
    for _ in range(4):
        client.call(produce(batch(b"x" * 1_000), 9), 9)
    answer = fetched(reader.receive(1, 12))
    assert len(answer.records) >= 3_000


def test_replies_keep_order_while_a_fetch_waits(served, client):
    client.send(fetch(12, max_wait_ms=400, partition=1), 12)
    client.send(produce(batch(b"behind"), 9), 9)
    first = client.receive(1, 12)
    assert client.answered == 1 and fetched(first).records == b""
    assert only(client.receive(0, 9)).error_code == 0 and client.answered == 2
    assert served.logs[TOPIC, 0].log_end_offset == 1


def test_pipelined_produces_and_acks_zero(served, client):
    for i in range(50):
        client.send(produce(batch(b"%d" % i), 9, acks=0), 9)
    for i in range(200):
        client.send(produce(batch(b"%d" % i), 9), 9)
    for i in range(200):
        assert only(client.receive(0, 9)).base_offset == 50 + i
        assert client.answered == 51 + i


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"topic": "nowhere"}, 3),
        ({"partition": 7}, 3),
        ({"partition": -1}, 3),
        ({"acks": 5}, 21),
        ({"records": None}, 87),
    ],
)
def test_produce_errors_are_per_partition(client, change, error):
    request = produce(**({"records": batch(b"a"), "version": 9} | change))
    assert only(client.call(request, 9)).error_code == error


def test_unknown_topic_ids(client):
    assert only(client.call(produce(batch(b"a"), 13, topic_id=b"\1" * 16), 13)).error_code == 100
    assert fetched(client.call(fetch(13, topic_id=b"\1" * 16), 13)).error_code == 100
    assert fetched(client.call(fetch(12, topic="nowhere"), 12)).error_code == 3


def test_fetch_errors(client):
    assert fetched(client.call(fetch(12, offset=5), 12)).error_code == 1
    assert fetched(client.call(fetch(12, leader_epoch=4), 12)).error_code == 75
    assert fetched(client.call(fetch(14, replica_id=2), 14)).error_code == 6


def test_bad_batches_are_refused_and_others_kept(served, client):
    good = batch(b"a", b"b")
    bad = bytearray(good)
    bad[-1] ^= 1
    assert only(client.call(produce(bytes(bad), 9), 9)).error_code == 2
    assert only(client.call(produce(good[:-3], 9), 9)).error_code == 87
    assert only(client.call(produce(good + good, 9), 9)).error_code == 87
    assert only(client.call(produce(good, 9), 9)).base_offset == 0
    answer = only(client.call(produce(batch(b"x" * 1_100_000), 9), 9))
    assert answer.error_code == 10 and "max.message.bytes" in answer.error_message
    assert served.logs[TOPIC, 0].log_end_offset == 2


def test_refused_batch_with_acks_zero_closes_the_connection(served, client):
    client.send(produce(batch(b"a"), 9, acks=0, topic="nowhere"), 9)
    assert client.closed()


def test_removed_topic_answers_those_who_wait(served, client):
    client.send(fetch(12, max_wait_ms=FOR_EVER_MS), 12)
    served.await_waiting()
    served.plane.remove_topic(TOPIC)
    assert fetched(client.receive(1, 12)).error_code == 3
    assert only(client.call(produce(batch(b"a"), 9), 9)).error_code == 3
    with pytest.raises(KeyError):
        served.plane.remove_topic(TOPIC)


def test_acks_all_waits_for_the_high_watermark(served, client):
    served.add_topic("followed", b"\7" * 16, 1, serve={"replicated": True, "in_sync_replicas": 2})
    client.send(produce(batch(b"a", b"b"), 9, acks=-1, topic="followed", timeout_ms=FOR_EVER_MS), 9)
    client.send(produce(batch(b"c"), 9, topic="followed"), 9)
    log = served.logs["followed", 0]
    wait_until(lambda: log.log_end_offset == 3)
    assert (log.log_end_offset, log.high_watermark) == (3, 0)  # the second did not wait for the first
    reader = served.client()
    assert fetched(reader.call(fetch(12, topic="followed"), 12)).records == b""
    log.advance_high_watermark(2)
    served.plane.notify("followed", 0)
    assert only(client.receive(0, 9)).base_offset == 0
    assert only(client.receive(0, 9)).base_offset == 2
    assert records_of(fetched(reader.call(fetch(12, topic="followed"), 12)).records) == [(0, b"a"), (1, b"b")]


def test_acks_all_times_out_and_too_few_replicas(served, client):
    served.add_topic("slow", b"\7" * 16, 1, serve={"replicated": True})
    answer = only(client.call(produce(batch(b"a"), 9, acks=-1, topic="slow", timeout_ms=150), 9))
    assert answer.error_code == 7
    served.plane.update_partition("slow", 0, min_insync_replicas=2)
    assert only(client.call(produce(batch(b"a"), 9, acks=-1, topic="slow"), 9)).error_code == 19
    assert only(client.call(produce(batch(b"a"), 9, acks=1, topic="slow"), 9)).error_code == 0


def test_many_writers_and_readers_see_one_order(served):
    writers, each = 6, 150

    def write(writer):
        client = served.client()
        for i in range(each):
            client.send(produce(batch(b"%d:%d" % (writer, i)), 9), 9)
        for _ in range(each):
            assert only(client.receive(0, 9)).error_code == 0

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    reader, got = served.client(), []
    while len(got) < writers * each:
        got += records_of(fetched(reader.call(fetch(12, offset=len(got), max_wait_ms=1_000), 12)).records)
    for thread in threads:
        thread.join()
    assert [offset for offset, _ in got] == list(range(writers * each))
    for writer in range(writers):
        mine = [value for _, value in got if value.startswith(b"%d:" % writer)]
        assert mine == [b"%d:%d" % (writer, i) for i in range(each)]


def test_produce_to_many_partitions_in_one_request(served, client):
    request = produce(batch(b"a"), 13)
    other = produce(batch(b"b"), 13, partition=1).topic_data[0].partition_data
    request.topic_data[0].partition_data += other
    (topic,) = client.call(request, 13).responses
    assert topic.topic_id == TOPIC_ID
    assert [(p.index, p.error_code, p.base_offset) for p in topic.partition_responses] == [
        (0, 0, 0),
        (1, 0, 0),
    ]


def test_zstd_is_kept_from_clients_too_old_for_it(served, client):
    zstd = batch(b"a", codec=4)
    answer = only(client.call(produce(zstd, 6), 6))
    assert answer.error_code == 76
    assert only(client.call(produce(zstd, 7), 7)).error_code == 0
    served.add_topic("zipped", b"\7" * 16, 1, compression=4)
    assert fetched(client.call(fetch(9, topic="zipped"), 9)).error_code == 76
    assert fetched(client.call(fetch(10, topic="zipped"), 10)).error_code == 0
