"""Local reads of a broker process that is killed, and by a user without access to its files."""

import os
import signal
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from bowstring import Admin, Producer
from bowstring.clients.consumer.local_reader import LocalReader
from bowstring.clients.consumer.range_reader import RangeReader
from bowstring.clients.errors import LocalReadsUnavailableError
from bowstring.clients.local.local_connection import LocalConnection
from tests.support.serving import Process, steady_port
from tests.support.waiting import HANG_S

RECORDS = 20_000


def fill(bootstrap, first, count):
    with Producer(bootstrap, batch_size=16_384) as producer:
        sent = [producer.send("t", b"%08d" % i + b"x" * 92) for i in range(first, first + count)]
        assert sent[-1].result(HANG_S).offset == first + count - 1


def serve(directory, port, durability):
    return Process("--data", str(directory), "--port", str(port), "--durability", durability)


@pytest.mark.parametrize("durability", ["os", "commit"])
def test_a_broker_killed_under_its_readers(tmp_path, durability):
    port = steady_port()
    broker = serve(tmp_path / "data", port, durability)
    bootstrap = f"127.0.0.1:{port}"
    try:
        with Admin(bootstrap) as admin:
            admin.create_topic("t", 1, configs={"internal.segment.bytes": "500000"})
        fill(bootstrap, 0, RECORDS)
        reader = LocalReader(
            bootstrap,
            topic="t",
            partition=0,
            start=0,
            end=2 * RECORDS,
            layout="binary_view",
            max_batch_rows=500,
        )
        batches = [next(reader) for _ in range(3)]
        assert broker.stop(signal.SIGKILL) == -signal.SIGKILL
        socket_path = str(tmp_path / "data" / "bowstring.local.sock")
        with pytest.raises(LocalReadsUnavailableError, match="no process listens"):
            LocalConnection(socket_path)
        broker = serve(tmp_path / "data", port, durability)
        fill(bootstrap, RECORDS, RECORDS)
        batches += list(reader)
        reader.close()
        table = pa.Table.from_batches(batches)
        with RangeReader(bootstrap, topic="t", partition=0, start=0, end=2 * RECORDS) as over_tcp:
            expected = pa.Table.from_batches(list(over_tcp))
        assert table["value"].cast(pa.binary()).equals(expected["value"])
        assert table["value"][2 * RECORDS - 1].as_py()[:8] == b"%08d" % (2 * RECORDS - 1)
    finally:
        broker.stop()
    assert not os.path.exists(socket_path)


def test_a_killed_brokers_recovery_leaves_mapped_files_alone(tmp_path):
    """A bad batch ends the log of the next start; what a reader has mapped of the old one stays as it was."""
    port = steady_port()
    broker = serve(tmp_path / "data", port, "os")
    bootstrap = f"127.0.0.1:{port}"
    try:
        with Admin(bootstrap) as admin:
            admin.create_topic("t", 1)
        fill(bootstrap, 0, RECORDS)
        reading = {"topic": "t", "partition": 0, "start": 0, "end": RECORDS}
        with LocalReader(bootstrap, layout="binary_view", **reading) as reader:
            table = pa.Table.from_batches(list(reader))
        assert broker.stop(signal.SIGKILL) == -signal.SIGKILL
        path = tmp_path / "data" / "t-0" / f"{0:020d}.log"
        size = path.stat().st_size
        with open(path, "r+b") as file:
            file.seek(size // 2)
            file.write(b"damage")
        broker = serve(tmp_path / "data", port, "os")
        assert path.stat().st_size < size * 2 / 3
        values = table["value"].to_pylist()
        assert sum(map(len, values)) == RECORDS * 100
        assert values[-1][:8] == b"%08d" % (RECORDS - 1)
    finally:
        broker.stop()


def as_nobody(work) -> str:
    """What `work` returns in a child that has become another user."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setuid(65534)
            os.write(writer, work().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answers:
        said = answers.read()
    os.waitpid(child, 0)
    return said


def connection_of(path) -> str:
    try:
        LocalConnection(path).close()
    except LocalReadsUnavailableError as error:
        return str(error)
    return "let in"


def test_only_the_brokers_user_is_let_in():
    """Only root can become another user; for others, only the permissions are checked."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:  # TMPDIR may be closed to others
        os.chmod(directory, 0o755)
        broker = serve(Path(directory) / "data", 0, "os")
        try:
            path = Path(directory) / "data" / "bowstring.local.sock"
            assert path.stat().st_mode & 0o777 == 0o600
            assert connection_of(str(path)) == "let in"
            if os.getuid() == 0:
                assert "this user may not connect" in as_nobody(lambda: connection_of(str(path)))
        finally:
            broker.stop()
