"""What Produce and Fetch requests of very many partitions can make the broker hold in memory."""

import re
import struct
import threading
from pathlib import Path

import pytest

from tests.support.fetch_sessions import at, step
from tests.support.plane_requests import batch, fetch, fetch_topic, produce
from tests.support.served_plane import TOPIC, Served
from tests.support.waiting import wait_until

MB = 1_000_000
NO_BATCH = bytes(4) + b"\xff" * 4  # of partition 0, in versions before 9


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def produce_without_batches(partitions: int, *entries: bytes) -> bytes:
    """A Produce request that names that many partitions and has batches for none, or as `entries` say."""
    header = struct.pack(">hhi", 0, 3, 1) + string("test") + struct.pack(">hhi", -1, 1, 1000)
    topic = struct.pack(">i", 1) + string(TOPIC) + struct.pack(">i", partitions + len(entries))
    return frame(header + topic + b"".join(entries) + NO_BATCH * partitions)


class Memory:
    """The process's peak memory since this was made, above its value then."""

    def __init__(self):
        Path("/proc/self/clear_refs").write_text("5")
        self._before = self._read("VmRSS")

    @staticmethod
    def _read(what):
        return int(re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

    @property
    def peak_bytes(self):
        return self._read("VmHWM") - self._before


@pytest.mark.parametrize("partitions", [100_000, 2_500_000])
def test_a_produce_that_names_too_many_partitions_is_refused(tmp_path, partitions):
    served = Served(tmp_path)
    data = produce_without_batches(partitions)
    try:
        client = served.client()
        memory = Memory()
        client.socket.sendall(data)
        assert client.closed()
        assert memory.peak_bytes < 100 * MB
    finally:
        served.close()


def test_produce_requests_that_wait_count_with_all_they_take(tmp_path):
    """Twenty megabytes of small entries, each request kept by one batch without an acknowledgement."""
    served = Served(tmp_path)
    served.add_topic("strict", bytes(15) + b"s", 1, serve={"replicated": True})
    records = batch(b"x")
    entry = bytes(4) + struct.pack(">i", len(records)) + records
    request = produce_without_batches(99_000, entry).replace(string(TOPIC), string("strict"), 1)
    request = frame(request[4:])
    request = request.replace(struct.pack(">hhi", -1, 1, 1000), struct.pack(">hhi", -1, -1, 600_000), 1)
    data = request * (20 * MB // len(request))
    try:
        client, other = served.client(), served.client()
        memory = Memory()
        sender = threading.Thread(target=send_until_closed, args=(client.socket, data))
        sender.start()
        log = served.logs["strict", 0]
        wait_until(lambda: log.log_end_offset > 0, "the first to be appended")
        for _ in range(50):
            other.call(produce(batch(b"y"), 9), 9)
        assert log.log_end_offset < 5
        assert memory.peak_bytes < 150 * MB
        client.socket.shutdown(2)
        sender.join()
    finally:
        served.close()


def send_until_closed(socket, data: bytes) -> None:
    try:
        socket.sendall(data)
    except OSError:
        return


def many(count: int, **session):
    request = fetch(17, **session)
    request.topics = [fetch_topic(17, [at(i, 0).partitions[0] for i in range(count)])]
    return request


def counted(served) -> tuple[int, int]:
    counters = served.plane.counters()
    return counters["fetch_sessions"], counters["fetch_session_bytes"]


def test_a_large_session_goes_with_its_connection(tmp_path):
    served = Served(tmp_path)
    try:
        client, other = served.client(), served.client()
        assert other.call(many(2, session_epoch=0), 17).session_id > 0
        few = counted(served)
        assert client.call(many(20_000, session_epoch=0), 17).session_id > 0
        sessions, size_bytes = counted(served)
        assert sessions == 2 and size_bytes > few[1] + 20_000 * 100
        client.close()
        wait_until(lambda: counted(served) == few, "the session to go")
    finally:
        served.close()


def test_a_session_may_take_no_more_than_its_share(tmp_path):
    served = Served(tmp_path, session_bytes=16 << 20)
    try:
        client = served.client()
        assert client.call(many(60_000, session_epoch=0), 17).session_id == 0
        opened = client.call(many(5000, session_epoch=0), 17)
        assert opened.session_id > 0
        grow = step(opened.session_id, 1)
        grow.topics = many(60_000).topics
        assert client.call(grow, 17).error_code == 70
        assert counted(served) == (0, 0)
    finally:
        served.close()


def test_all_sessions_together_take_no_more_than_they_may(tmp_path):
    served = Served(tmp_path, session_bytes=16 << 20, session_min_idle_ms=0)
    try:
        for _ in range(20):
            assert served.client().call(many(5000, session_epoch=0), 17).session_id > 0
            assert counted(served)[1] <= 16 << 20
        assert counted(served)[0] < 20
    finally:
        served.close()


def test_a_fetch_that_names_too_many_partitions_is_refused(tmp_path):
    served = Served(tmp_path)
    data = many(66_000, session_epoch=0)
    try:
        client = served.client()
        client.send(data, 17)
        assert client.closed()
    finally:
        served.close()


def test_a_partition_that_is_named_twice_is_fetched_once(tmp_path):
    """As in Kafka: the last entry counts."""
    served = Served(tmp_path)
    try:
        client = served.client()
        client.call(produce(batch(b"a", b"b"), 9), 9)
        client.call(produce(batch(b"c"), 9), 9)
        twice = fetch(17)
        twice.topics = [fetch_topic(17, [at(0, 0).partitions[0], at(0, 2).partitions[0]])]
        (part,) = client.call(twice, 17).responses[0].partitions
        assert part.records[:8] == (2).to_bytes(8, "big")
    finally:
        served.close()
