"""A Produce to many logs without appends is spread over passes, so that other connections get answers meanwhile."""

import contextlib
import errno
import threading

import pytest

from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import metadata as md
from bowstring.protocol.messages import produce as p
from tests.support.faults import replaced
from tests.support.joined_wal import wal_on
from tests.support.plane_requests import batch, only, produce, records_of
from tests.support.served_plane import TOPIC, Served
from tests.support.slow_batches import take, zipped
from tests.support.waiting import FOR_EVER_MS, HANG_S, wait_until

FRESH, FRESH_ID = "fresh", bytes(range(16))
PARTITIONS = 100
AT_ONCE = 32  # PASS_COST_MAX / FRESH_COST
VERSION = 9


@pytest.fixture
def served(tmp_path):
    served = Served(tmp_path)
    served.add_topic(FRESH, FRESH_ID, PARTITIONS)
    yield served
    served.close()


def to_all(value=b"v", *, acks=1, partitions=PARTITIONS):
    parts = [p.PartitionProduceData(index=index, records=batch(value)) for index in range(partitions)]
    data = [p.TopicProduceData(name=FRESH, partition_data=parts)]
    return p.ProduceRequest(acks=acks, timeout_ms=FOR_EVER_MS, topic_data=data)


def errors_of(response) -> list[int]:
    return [each.error_code for each in response.responses[0].partition_responses]


def values_of(served, partition: int, topic: str = FRESH) -> list[bytes]:
    log = served.logs[topic, partition]
    return [value for _, value in records_of(log.read(0, 1 << 20, "log_end"))] if log.log_end_offset else []


def deferred(served) -> dict[str, int]:
    return served.plane.counters()["deferred_batches"]


class Held:
    """Holds the reactor in the first open of a log's file below `<topic>-<partition>/`."""

    def __init__(self, partition: int):
        self._name = b"/%s-%d/" % (FRESH.encode(), partition)
        self.reached, self.free = threading.Event(), threading.Event()

    def make(self, original):
        def held(path, flags):
            if self._name in path and path.endswith(b".log") and not self.reached.is_set():
                self.reached.set()
                assert self.free.wait(HANG_S)
            return original(path, flags)

        return held


@contextlib.contextmanager
def held_at(partition: int):
    held = Held(partition)
    with replaced("open", held.make):
        try:
            yield held
        finally:
            held.free.set()


def begun(work) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_produce_to_fresh_logs_is_spread_over_passes(served):
    client = served.client()
    assert errors_of(client.call(to_all(), VERSION)) == [0] * PARTITIONS
    assert deferred(served) == {"batches": PARTITIONS - AT_ONCE, "waiting_bytes": 0}
    assert all(values_of(served, index) == [b"v"] for index in range(PARTITIONS))


def test_a_produce_to_logs_with_records_is_not(served):
    client = served.client()
    client.call(to_all(), VERSION)
    before = deferred(served)
    client.call(to_all(b"w"), VERSION)
    assert deferred(served) == before


def test_slow_batches_keep_their_order(served):
    zipped(served)
    client, other = served.client(), served.client()
    for value in (b"first", b"second"):
        client.send(produce(batch(value), VERSION, topic="zipped"), VERSION)
    first, second = take(served, 2)
    last, next_pass = Held(PARTITIONS - 1), Held(AT_ONCE)
    with replaced("open", lambda original: last.make(next_pass.make(original))):
        try:
            other.send(produce(batch(b"v"), VERSION, topic=FRESH, partition=PARTITIONS - 1), VERSION)
            assert last.reached.wait(HANG_S)
            other.send(to_all(), VERSION)
            served.plane.finish_batch(first, first.batch)
            last.free.set()
            assert next_pass.reached.wait(HANG_S)
            served.plane.finish_batch(second, second.batch)
        finally:
            last.free.set()
            next_pass.free.set()
        for _ in range(2):
            assert only(client.receive(0, VERSION)).error_code == 0
    assert values_of(served, 0, "zipped") == [b"first", b"second"]


def test_the_next_batches_of_the_connection_follow(served):
    client = served.client()
    client.send(to_all(b"first"), VERSION)
    client.send(produce(batch(b"second"), VERSION, topic=FRESH, partition=PARTITIONS - 1), VERSION)
    client.send(produce(batch(b"other"), VERSION), VERSION)
    client.receive(0, VERSION)
    for _ in range(2):
        assert only(client.receive(0, VERSION)).error_code == 0
    assert values_of(served, PARTITIONS - 1) == [b"first", b"second"]
    assert values_of(served, 0, TOPIC) == [b"other"]


def test_another_connection_is_answered_between_slices(served):
    client, other = served.client(), served.client()
    with held_at(AT_ONCE + 1) as held:
        client.send(to_all(), VERSION)
        assert held.reached.wait(HANG_S)
        other.send(produce(batch(b"other"), VERSION), VERSION)
        held.free.set()
        assert only(other.receive(0, VERSION)).error_code == 0
    assert errors_of(client.receive(0, VERSION)) == [0] * PARTITIONS


def test_batches_without_acknowledgement_outlive_their_connection(served):
    client = served.client()
    with held_at(AT_ONCE) as held:
        client.send(to_all(acks=0), VERSION)
        assert held.reached.wait(HANG_S)
        client.close()
    wait_until(
        lambda: all(values_of(served, index) == [b"v"] for index in range(PARTITIONS)), "the last batch"
    )
    wait_until(lambda: served.plane.counters()["connections"] == 0, "the end of the connection")


def test_a_read_behind_them_waits(served):
    """Also without acknowledgements: the connection's next request takes effect after its batches."""
    client = served.client()
    with held_at(AT_ONCE) as held:
        client.send(to_all(acks=0), VERSION)
        client.send(md.MetadataRequest(topics=None), 8)
        assert held.reached.wait(HANG_S)
        assert served.plane.take_requests() == []
    requests = []
    wait_until(lambda: requests.extend(served.plane.take_requests()) or requests, "the request")
    assert values_of(served, PARTITIONS - 1) == [b"v"]


def test_a_topic_can_be_removed_meanwhile(served):
    client = served.client()
    with held_at(AT_ONCE) as held:
        client.send(to_all(), VERSION)
        assert held.reached.wait(HANG_S)
        removing = begun(lambda: served.plane.remove_topic(FRESH))
    removing.join(HANG_S)
    errors = errors_of(client.receive(0, VERSION))
    assert errors[: AT_ONCE + 1] == [0] * (AT_ONCE + 1)
    assert set(errors[AT_ONCE:]) <= {0, Errors.UNKNOWN_TOPIC_OR_PARTITION.code}
    stored = [len(values_of(served, index)) for index in range(PARTITIONS)]
    assert stored == [int(error == 0) for error in errors]
    assert deferred(served)["waiting_bytes"] == 0


def test_another_broker_can_lead_meanwhile(served):
    client = served.client()
    with held_at(AT_ONCE) as held:
        client.send(to_all(), VERSION)
        assert held.reached.wait(HANG_S)
        served.plane.update_partition(FRESH, PARTITIONS - 1, is_leader=False)
    errors = errors_of(client.receive(0, VERSION))
    assert errors[-1] == Errors.NOT_LEADER_OR_FOLLOWER.code
    assert errors[:-1] == [0] * (PARTITIONS - 1)
    assert values_of(served, PARTITIONS - 1) == []


def test_the_plane_can_stop_meanwhile(served):
    client = served.client()
    with held_at(AT_ONCE) as held:
        client.send(to_all(), VERSION)
        assert held.reached.wait(HANG_S)
        stopping = begun(served.plane.stop)
    stopping.join(HANG_S)
    with contextlib.suppress(ConnectionError):  # the reactor may have gone on before it was stopped
        assert errors_of(client.receive(0, VERSION)) == [0] * PARTITIONS
    assert values_of(served, AT_ONCE) == [b"v"]


def test_a_log_whose_files_cannot_be_made_refuses_only_its_batch(served):
    failing = {AT_ONCE - 1, AT_ONCE + 1, PARTITIONS - 1}
    names = [f"/{FRESH}-{index}/".encode() for index in failing]

    def make(original):
        def fails(path, flags):
            refused = path.endswith(b".log") and any(name in path for name in names)
            return -errno.EIO if refused else original(path, flags)

        return fails

    with replaced("open", make):
        errors = errors_of(served.client().call(to_all(), VERSION))
    assert {index for index, error in enumerate(errors) if error} == failing
    assert {errors[index] for index in failing} == {Errors.KAFKA_STORAGE_ERROR.code}


def test_they_are_acknowledged_from_the_medium(tmp_path):
    served = Served(tmp_path)
    wal = wal_on(tmp_path)
    served.plane.wake_by(wal)
    served.add_topic(FRESH, FRESH_ID, PARTITIONS)
    for index in range(PARTITIONS):
        served.plane.set_durability(FRESH, index, served.logs[FRESH, index], wal)
    client = served.client()
    client.send(to_all(acks=-1), VERSION)
    wait_until(lambda: served.logs[FRESH, PARTITIONS - 1].log_end_offset == 1, "the last batch")
    assert served.logs[FRESH, 0].high_watermark == 0
    wal.start()
    assert errors_of(client.receive(0, VERSION)) == [0] * PARTITIONS
    assert deferred(served)["batches"] == PARTITIONS - AT_ONCE
    for index in range(PARTITIONS):
        served.plane.set_durability(FRESH, index, served.logs[FRESH, index], None)
    served.close()
    wal.stop()
