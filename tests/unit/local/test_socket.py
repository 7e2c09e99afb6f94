"""The socket for local reads: where it is, who may use it, and its answers to bad requests."""

import os
import socket
import stat
import struct
import threading
import time

import pytest

from bowstring import Broker
from bowstring.clients.errors import BrokerError, LocalReadsUnavailableError
from bowstring.clients.local.local_connection import LocalConnection
from bowstring.engine.configs import ConfigError
from bowstring.protocol import local_reads
from bowstring.protocol.local_read_configs import INSTANCE_CONFIG, SOCKET_CONFIG
from bowstring.protocol.local_reads import SegmentsRequest
from bowstring.protocol.messages import delete_topics as dt
from bowstring.protocol.messages import describe_configs as dc
from tests.support.descriptors import none_is_left, open_descriptors
from tests.support.log_batches import batch
from tests.support.waiting import FOR_EVER_MS, HANG_S, wait_until


def configs(served) -> dict[str, str]:
    resource = dc.DescribeConfigsResource(
        resource_type=4,
        resource_name="1",
        configuration_keys=[SOCKET_CONFIG, INSTANCE_CONFIG],
    )
    (result,) = served.ask(dc.DescribeConfigsRequest(resources=[resource])).results
    return {each.name: each.value for each in result.configs}


@pytest.fixture
def connect(request):
    def make(served, **arguments):
        connection = LocalConnection(configs(served)[SOCKET_CONFIG], **arguments)
        request.addfinalizer(connection.close)
        return connection

    return make


def close_all(answer):
    for each in answer.segments:
        os.close(each.fd)


def code_of(connection, request) -> int:
    with pytest.raises(BrokerError) as caught:
        connection.segments(request)
    return caught.value.code


# ---------------------------------------------------------------- the socket


def test_only_the_brokers_user_may_connect(served):
    path = served.directory / "bowstring.local.sock"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = configs(served)
    assert found[SOCKET_CONFIG] == str(path)
    assert found[INSTANCE_CONFIG]
    served.broker.stop()
    assert not path.exists()
    served.start()


def test_permissions_and_path_are_configs(serve, tmp_path):
    path = tmp_path / "elsewhere.sock"
    served = serve(bowstring_local_socket=str(path), bowstring_local_socket_permissions="660")
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert configs(served)[SOCKET_CONFIG] == str(path)


def test_off(serve):
    served = serve(bowstring_local_socket="off")
    assert not (served.directory / "bowstring.local.sock").exists()
    assert configs(served)[SOCKET_CONFIG] == "off"
    assert not configs(served).get(INSTANCE_CONFIG)


def test_each_start_has_a_name_of_its_own(served):
    before = configs(served)[INSTANCE_CONFIG]
    served.restart()
    assert configs(served)[INSTANCE_CONFIG] not in ("", before)


def test_what_a_killed_broker_left_is_replaced(serve, tmp_path, connect):
    (tmp_path / "data").mkdir()
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(tmp_path / "data" / "bowstring.local.sock"))
    stale.close()
    served = serve()
    assert connect(served).hello.node_id == 1


def test_a_path_in_use_is_refused(tmp_path):
    path = tmp_path / "taken.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        broker = Broker(data_dir=tmp_path / "data", config={"bowstring.local.socket": str(path)})
        with pytest.raises(ConfigError, match="another process listens"):
            broker.start()
    path.unlink()
    path.write_text("a file")
    with pytest.raises(ConfigError, match="is not a socket"):
        Broker(data_dir=tmp_path / "data", config={"bowstring.local.socket": str(path)}).start()
    with pytest.raises(ConfigError, match="absolute"):
        Broker(data_dir=tmp_path / "data", config={"bowstring.local.socket": "here"}).start()
    assert path.read_text() == "a file"


def test_a_path_longer_than_an_address(tmp_path, connect):
    deep = tmp_path / ("d" * 90) / ("e" * 90)
    with Broker(data_dir=deep) as broker:
        connection = LocalConnection(str(deep / "bowstring.local.sock"))
        assert connection.hello.cluster_id == broker.cluster_id
        connection.close()
    assert not (deep / "bowstring.local.sock").exists()


def test_nobody_there(tmp_path):
    with pytest.raises(LocalReadsUnavailableError, match="this socket does not exist"):
        LocalConnection(str(tmp_path / "none.sock"))
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "left.sock"))
    with pytest.raises(LocalReadsUnavailableError, match="no process listens"):
        LocalConnection(str(tmp_path / "left.sock"))


# ---------------------------------------------------------------- requests


def test_descriptors_can_only_read(served, connect):
    served.create_topic("t")
    served.produce("t", batch([b"one"]))
    (segment,) = connect(served).segments(SegmentsRequest("t", 0, 0)).segments
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(segment.fd, b"x")
    assert (
        os.pread(segment.fd, 1 << 20, segment.start_position)
        == (served.directory / "t-0" / f"{0:020d}.log").read_bytes()[: segment.end_position]
    )
    os.close(segment.fd)


def test_paths_instead_of_descriptors(served, connect):
    served.create_topic("t")
    served.produce("t", batch([b"one"]))
    (segment,) = connect(served).segments(SegmentsRequest("t", 0, 0, descriptors=False)).segments
    assert segment.fd == -1
    facts = os.stat(segment.path)
    assert (facts.st_dev, facts.st_ino) == (segment.device, segment.inode)
    assert (segment.grows, segment.checked) == (True, [(0, segment.end_position)])


def test_refusals_are_those_of_fetch(served, connect):
    served.create_topic("t")
    served.produce("t", batch([b"one"]))
    connection = connect(served)
    assert code_of(connection, SegmentsRequest("none", 0, 0)) == 3
    assert code_of(connection, SegmentsRequest("t", 1, 0)) == 3
    assert code_of(connection, SegmentsRequest("t", -1, 0)) == 3
    assert code_of(connection, SegmentsRequest("t", 0, 0, topic_id=b"x" * 16)) == 100
    assert code_of(connection, SegmentsRequest("t", 0, 2)) == 1
    assert code_of(connection, SegmentsRequest("t", 0, -1)) == 1
    assert code_of(connection, SegmentsRequest("t", 0, 0, current_leader_epoch=9)) == 75
    assert code_of(connection, SegmentsRequest("t", 0, 0, isolation=2)) == 42
    assert code_of(connection, SegmentsRequest("t", 0, 0, max_segments=0)) == 42
    assert code_of(connection, SegmentsRequest("t", 0, 0, max_segments=65)) == 42
    close_all(connection.segments(SegmentsRequest("t", 0, 0)))


@pytest.mark.parametrize(
    "frame", [b"\xff\xff\xff\xff", struct.pack(">i", 1 << 20), b"\0\0\0\3abc", b"\0\0\0\5\0\0\0\0x"]
)
def test_malformed_requests_end_their_connection_only(served, connect, frame):
    other = connect(served)
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(HANG_S)
        raw.connect(other.path)
        raw.sendall(frame)
        assert raw.recv(100) == b""
    served.create_topic("t")
    assert other.segments(SegmentsRequest("t", 0, 0)).segments == []


def test_unknown_kinds_and_versions(served, connect):
    connection = connect(served)
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(HANG_S)
        raw.connect(connection.path)
        for kind, version in ((0, 2), (1, 9), (7, 0)):
            raw.sendall(local_reads.framed(struct.pack(">hhi", kind, version, 5)))
            number, code, message, _ = local_reads.decode_response_header(raw.recv(4096)[4:])
            assert (number, code) == (5, 35) and message


# ---------------------------------------------------------------- waiting


def test_a_waiting_reader_hears_of_what_comes(served, connect):
    served.create_topic("t")
    connection = connect(served)
    began = time.monotonic()
    timer = threading.Timer(0.2, lambda: served.produce("t", batch([b"late"])))
    timer.start()
    answer = connection.segments(SegmentsRequest("t", 0, 0, max_wait_ms=FOR_EVER_MS))
    assert 0.1 < time.monotonic() - began < HANG_S
    assert answer.next_offset == 1
    close_all(answer)
    timer.join()
    assert served.engine.local.waiting == 0


def test_a_wait_ends_with_its_time(served, connect):
    served.create_topic("t")
    began = time.monotonic()
    answer = connect(served).segments(SegmentsRequest("t", 0, 0, max_wait_ms=150))
    assert 0.14 < time.monotonic() - began < HANG_S
    assert (answer.segments, answer.next_offset) == ([], 0)


def test_a_wait_ends_with_its_topic(served, connect):
    served.create_topic("t")
    connection = connect(served)

    def delete():
        served.connect().ask(dt.DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000), version=5)

    later = threading.Timer(0.2, delete)
    later.start()
    assert code_of(connection, SegmentsRequest("t", 0, 0, max_wait_ms=FOR_EVER_MS)) == 3
    later.join()


def begin_to_wait(connection):
    """Another reader on the same socket, which waits for records of an empty topic."""
    path = connection.path
    connection.close()
    raw = socket.socket(socket.AF_UNIX)
    raw.connect(path)
    raw.sendall(local_reads.encode_segments_request(9, SegmentsRequest("t", 0, 0, max_wait_ms=FOR_EVER_MS)))
    return raw


def test_a_reader_that_goes_while_it_waits_is_forgotten(served, connect):
    served.create_topic("t")
    local = served.engine.local
    raw = begin_to_wait(connect(served))
    wait_until(lambda: local.waiting == 1)
    raw.close()
    wait_until(lambda: local.connections == 0)
    assert local.waiting == 0


def test_stopping_does_not_wait_for_readers(served, connect):
    served.create_topic("t")
    with begin_to_wait(connect(served)):
        wait_until(lambda: served.engine.local.waiting == 1)
        began = time.monotonic()
        served.restart()
        assert time.monotonic() - began < HANG_S


def test_too_many_readers(served, connect):
    served.engine.local.connections_max = 2
    first = [connect(served), connect(served)]
    with pytest.raises(LocalReadsUnavailableError, match="local reads are unavailable"):
        connect(served)
    first.pop().close()
    wait_until(lambda: served.engine.local.connections == 1)
    connect(served)


def test_no_descriptor_is_left_behind(served, connect):
    served.create_topic("t", internal_segment_bytes="20000")
    for _ in range(60):
        served.produce("t", batch([b"x" * 900]))
    connection = connect(served)
    close_all(connection.segments(SegmentsRequest("t", 0, 0)))
    before = open_descriptors()
    for i in range(30):
        answer = connection.segments(SegmentsRequest("t", 0, i))
        assert len(answer.segments) > 1
        close_all(answer)
        connection.segments(SegmentsRequest("t", 0, i, descriptors=False))
    assert none_is_left(before, 30)
