"""A connection's requests take effect one by one, in order; the number of unstarted ones is bounded."""

import random
import socket
import struct
import threading

import pytest

from bowstring._native.log.durability import join
from bowstring.protocol.messages import metadata as md
from bowstring.protocol.messages import produce as p
from tests.support.joined_wal import wal_on
from tests.support.log_batches import TRANSACTIONAL
from tests.support.log_batches import batch as batch_of
from tests.support.plane_requests import batch, fetch, fetched, only, produce, records_of
from tests.support.served_plane import TOPIC, TOPIC_ID
from tests.support.slow_batches import take, zipped
from tests.support.taken_requests import Taken
from tests.support.waiting import FOR_EVER_MS, pause, wait_until

ALL_TOPICS = md.MetadataRequest(topics=None)
ANSWER = b"\x00\x00\x00\x01"


def quiet(taken) -> bool:
    pause(0.05, "nothing may come")
    return not taken.plane.take_requests()


def test_the_control_thread_has_one_request_of_a_connection_at_a_time(served):
    """Kafka mutes a connection until its request is answered: pipelined requests take effect in order."""
    client, other = served.client(), served.client()
    for _ in range(3):
        client.send(ALL_TOPICS, 8)
    taken = Taken(served)
    taken.come(1)
    assert quiet(taken)
    first = taken[0].connection_id
    other.send(ALL_TOPICS, 8)
    taken.come(2)
    for _ in range(2):
        taken.answer([each.connection_id for each in taken].index(first))
        taken.come(2)
    assert quiet(taken)
    for _ in range(2):
        taken.answer(0)
    for _ in range(3):
        assert client.read_frame() == ANSWER


# ---------------------------------------------------------------- pairs


def test_produce_waits_for_a_request_of_the_control_thread(served):
    client = served.client()
    client.send(ALL_TOPICS, 8)
    client.send(produce(batch(b"v"), 9), 9)
    taken = Taken(served)
    taken.come(1)
    pause(0.05, "the batch may not come into the log")
    assert served.logs[TOPIC, 0].log_end_offset == 0
    taken.answer(0)
    assert client.read_frame() == ANSWER
    assert only(client.receive(0, 9)).error_code == 0


def test_fetch_waits_for_a_request_of_the_control_thread(served):
    client, other = served.client(), served.client()
    client.send(ALL_TOPICS, 8)
    client.send(fetch(12), 12)
    taken = Taken(served)
    taken.come(1)
    pause(0.05, "the Fetch may not be evaluated")
    other.call(produce(batch(b"v"), 9), 9)
    taken.answer(0)
    assert client.read_frame() == ANSWER
    assert records_of(fetched(client.receive(1, 12)).records) == [(0, b"v")]


def test_everything_waits_for_a_waiting_fetch(served):
    """Java's consumer sends ListOffsets behind its Fetch: an end older than the Fetch's moves it back."""
    client, other = served.client(), served.client()
    client.send(fetch(12, max_wait_ms=FOR_EVER_MS), 12)
    client.send(produce(batch(b"behind"), 9, partition=1), 9)
    client.send(fetch(12, partition=1), 12)
    client.send(ALL_TOPICS, 8)
    taken = Taken(served)
    served.await_waiting()
    assert quiet(taken) and served.logs[TOPIC, 1].log_end_offset == 0
    other.call(produce(batch(b"first"), 9, partition=1), 9)
    other.call(produce(batch(b"v"), 9), 9)
    assert records_of(fetched(client.receive(1, 12)).records) == [(0, b"v")]
    assert only(client.receive(0, 9)).base_offset == 1
    assert [value for _, value in records_of(fetched(client.receive(1, 12)).records)] == [b"first", b"behind"]
    taken.come(1)
    taken.answer(0)
    assert client.read_frame() == ANSWER


def test_a_fetch_that_waits_is_not_extended_by_those_behind_it(served):
    client = served.client()
    for _ in range(3):
        client.send(fetch(12, max_wait_ms=100), 12)
    for _ in range(3):
        assert fetched(client.receive(1, 12)).error_code == 0
    pause(0.15, "timers of answered requests are over")
    assert served.plane.counters()["timers"] == 0


def test_reads_wait_for_acknowledgements_and_produces_do_not(served):
    """With acks=all, a Produce waits for replicas. Requests that would read its batch wait for it."""
    client = served.client()
    served.add_topic("followed", b"\7" * 16, 1, serve={"replicated": True, "in_sync_replicas": 2})
    log = served.logs["followed", 0]
    for value in (b"a", b"b"):
        client.send(produce(batch(value), 9, acks=-1, topic="followed"), 9)
    client.send(fetch(12, topic="followed"), 12)
    client.send(ALL_TOPICS, 8)
    taken = Taken(served)
    wait_until(lambda: log.log_end_offset == 2, "the second does not wait for the first")
    for acknowledged in (1, 2):
        assert quiet(taken)
        log.advance_high_watermark(acknowledged)
        served.plane.notify("followed", 0)
        assert only(client.receive(0, 9)).base_offset == acknowledged - 1
    assert records_of(fetched(client.receive(1, 12)).records) == [(0, b"a"), (1, b"b")]
    taken.come(1)


def test_reads_see_what_the_connection_sent_with_acks_0(served, tmp_path):
    """It is answered before it is on the medium, but not shown before: a read behind it waits."""
    wal = wal_on(tmp_path, segments=4)
    served.plane.wake_by(wal)
    served.plane.set_durability(TOPIC, 0, served.logs[TOPIC, 0], wal)
    client, taken = served.client(), Taken(served)
    try:
        for request in (fetch(12, max_wait_ms=0), ALL_TOPICS):
            version = 12 if request is not ALL_TOPICS else 8
            staged = wal.staged_frame
            client.send(produce(batch(b"a"), 9, acks=0), 9)
            wait_until(lambda staged=staged: wal.staged_frame > staged, "the batch is staged")
            client.send(request, version)
            client.send(produce(batch(b"b"), 9, acks=1, partition=1), 9)
            assert quiet(taken)
            before = served.logs[TOPIC, 0].high_watermark
            assert wal.commit()
            if request is ALL_TOPICS:
                taken.come(1)
                taken.answer(0)
                client.read_frame()
            else:
                assert len(records_of(fetched(client.receive(1, 12)).records)) == before + 1
            assert served.logs[TOPIC, 0].high_watermark == before + 1
            assert only(client.receive(0, 9)).error_code == 0
    finally:
        served.plane.stop()
        wal.stop()
        join(served.logs[TOPIC, 0], None, TOPIC_ID, 0)


def transactional(producer_id: int, partition: int = 0) -> p.ProduceRequest:
    records = batch_of(producer_id=producer_id, epoch=0, sequence=0, attributes=TRANSACTIONAL)
    request = produce(records, 12, acks=-1, partition=partition)
    request.transactional_id = f"t{producer_id}"
    return request


def test_a_produce_does_not_overtake_one_whose_transaction_is_verified(served):
    client = served.client()
    client.send(transactional(9), 12)
    client.send(produce(batch(b"plain"), 12), 12)
    client.send(transactional(10, partition=1), 12)
    (first,) = take(served, 1)
    pause(0.05, "the others may not begin")
    assert served.logs[TOPIC, 0].log_end_offset == 0 and not served.plane.take_requests()
    served.plane.finish_batch(first)
    (second,) = take(served, 1)
    served.plane.finish_batch(second)
    assert [only(client.receive(0, 12)).base_offset for _ in range(3)] == [0, 1, 0]


def test_a_produce_does_not_overtake_a_recompressed_one(served):
    """Batches of the same partition queue behind it; those of another would enter their log first."""
    client = served.client()
    zipped(served, partitions=2)
    for partition in (0, 0, 1):
        client.send(produce(batch(b"v"), 9, topic="zipped", partition=partition), 9)
    client.send(produce(batch(b"v"), 9), 9)
    first, second = take(served, 2)
    pause(0.05, "the others may not begin")
    assert served.logs[TOPIC, 0].log_end_offset == 0 and not served.plane.take_requests()
    for slow in (first, second):
        served.plane.finish_batch(slow, slow.batch)
    (third,) = take(served, 1)
    assert third.partition == 1 and served.logs["zipped", 0].log_end_offset == 2
    served.plane.finish_batch(third, third.batch)
    assert [only(client.receive(0, 9)).base_offset for _ in range(4)] == [0, 1, 0, 0]


# ---------------------------------------------------------------- ends


@pytest.mark.parametrize("how", ["close", "shut down"])
def test_what_is_behind_a_waiting_fetch_ends_with_the_connection(served, how):
    client, other = served.client(), served.client()
    client.send(fetch(12, max_wait_ms=FOR_EVER_MS), 12)
    client.send(produce(batch(b"late"), 9, partition=1), 9)
    client.send(ALL_TOPICS, 8)
    served.await_waiting()
    other.call(fetch(12), 12)
    assert served.plane.counters()["connections"] == 2
    if how == "close":
        client.close()
    else:
        client.socket.shutdown(socket.SHUT_WR)
        assert client.closed()
    wait_until(lambda: served.plane.counters()["connections"] == 1, "its end")
    other.call(produce(batch(b"v"), 9), 9)
    assert quiet(Taken(served)) and served.logs[TOPIC, 1].log_end_offset == 0


@pytest.mark.parametrize("stops", [False, True])
def test_ends_with_requests_that_wait(served, stops):
    client = served.client()
    for _ in range(3):
        client.send(ALL_TOPICS, 8)
    taken = Taken(served)
    taken.come(1)
    if stops:
        served.plane.stop()
        assert client.closed()
        return
    client.close()
    taken.answer(0)
    wait_until(lambda: taken.plane.take_requests() or not served.plane.counters()["connections"], "its end")


# ---------------------------------------------------------------- many


def test_a_client_that_takes_no_answers_gets_no_more_of_them(served):
    client = served.client()
    for _ in range(500):
        client.send(ALL_TOPICS, 8)
    taken = Taken(served)
    answered, before = 0, -1
    while answered < 60:
        found = taken.plane.take_requests()
        if not found:
            pause(0.05, "time for more to come, if it may")
            if answered == before:
                break
            before = answered
            continue
        for request in found:
            taken.plane.reply(request.connection_id, request.slot, bytes(256 << 10))
            answered += 1
    # The contents of the socket buffers come on top.
    assert answered < 60
    for number in range(500):
        while number >= answered:
            for request in taken.plane.take_requests():
                taken.plane.reply(request.connection_id, request.slot, ANSWER)
                answered += 1
        client.read_frame()


class Control(threading.Thread):
    """A control thread that answers with the high watermarks at the time of each request; it also commits."""

    def __init__(self, served, wal, seed: int) -> None:
        super().__init__()
        self.served, self.wal, self.random, self.over = served, wal, random.Random(seed), False

    def run(self) -> None:
        while not self.over:
            for request in self.served.plane.take_requests():
                ends = [self.served.logs[TOPIC, index].high_watermark for index in range(2)]
                self.served.plane.reply(
                    request.connection_id, request.slot, ANSWER + struct.pack(">qq", *ends)
                )
            if self.wal is not None and self.random.randrange(3) == 0:
                self.wal.commit()
            pause(self.random.choice((0, 0, 0.0005)), "answers come at random moments")


class Pipeline:
    """One connection with random requests, and the offsets that its next answer may not fall behind."""

    def __init__(self, client, seed: int) -> None:
        self.client, self.random = client, random.Random(seed)
        self.sent: list[tuple[str, int]] = []
        self.known = [0, 0]

    def send(self) -> None:
        partition = self.random.randrange(2)
        kind = self.random.choice(["acks 1", "acks 1", "acks 0", "fetch", "wait", "control"])
        if kind == "control":
            self.client.send(ALL_TOPICS, 8)
        elif kind in ("fetch", "wait"):
            wait_ms = 3 if kind == "wait" else 0
            request = fetch(12, partition=partition, max_wait_ms=wait_ms, min_bytes=1 << 30, max_bytes=1)
            self.client.send(request, 12)
        else:
            self.client.send(produce(batch(b"v"), 9, partition=partition, acks=int(kind[-1])), 9)
        self.sent.append((kind, partition))

    def check(self) -> None:
        for kind, partition in self.sent:
            if kind == "acks 0":
                self.known[partition] += 1
                continue
            for index, end in self.ends(kind, partition):
                assert end >= self.known[index], (self.sent, kind, index)
                self.known[index] = end
        self.sent.clear()

    def ends(self, kind: str, partition: int) -> list[tuple[int, int]]:
        if kind == "control":
            return list(enumerate(struct.unpack(">4xqq", self.client.read_frame())))
        if kind == "acks 1":
            part = only(self.client.receive(0, 9))
            assert part.error_code == 0
            return [(partition, part.base_offset + 1)]
        return [(partition, fetched(self.client.receive(1, 12)).high_watermark)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mode", ["os", "commit"])
def test_no_answer_falls_behind_one_before_it(served, tmp_path, mode, seed):
    """Four connections with random, interleaved reads, writes and requests to the control thread."""
    wal = wal_on(tmp_path, segments=4) if mode == "commit" else None
    if wal is not None:
        served.plane.wake_by(wal)
        for index in range(2):
            served.plane.set_durability(TOPIC, index, served.logs[TOPIC, index], wal)
    control = Control(served, wal, seed)
    control.start()
    try:
        pipelines = [Pipeline(served.client(), 10 * seed + number) for number in range(4)]
        for _ in range(10):
            for _ in range(60):
                control.random.choice(pipelines).send()
            for each in pipelines:
                each.check()
    finally:
        control.over = True
        control.join()
        served.plane.stop()
        if wal is not None:
            wal.stop()
            for index in range(2):
                join(served.logs[TOPIC, index], None, TOPIC_ID, index)


def test_connections_that_end_while_their_next_request_may_begin(served):
    """The answer to the preceding Fetch and the disconnect come in one pass, many times."""
    other, control = served.client(), Control(served, None, 0)
    control.start()
    try:
        for _ in range(20):
            clients = [served.client() for _ in range(10)]
            for client in clients:
                end = served.logs[TOPIC, 0].high_watermark
                client.send(fetch(12, offset=end, max_wait_ms=FOR_EVER_MS), 12)
                client.send(ALL_TOPICS, 8)
            served.await_waiting(10)
            other.send(produce(batch(b"v"), 9), 9)
            for client in clients[::2]:
                client.close()
            for client in clients[1::2]:
                client.receive(1, 12)
                client.read_frame()
                client.close()
            other.receive(0, 9)
            wait_until(lambda: served.plane.counters()["connections"] == 1, "their ends")
    finally:
        control.over = True
        control.join()
