"""LocalReader returns what RangeReader returns over TCP, whatever happens to the files meanwhile."""

import gc
import os
import random
import socket
import threading
import time

import pyarrow as pa
import pytest

from bowstring import Admin, Broker, Producer
from bowstring.clients.consumer import local_reader
from bowstring.clients.consumer.local_reader import LocalReader
from bowstring.clients.errors import (
    ClientTimeoutError,
    ConfigError,
    CorruptBatchError,
    LocalReadsUnavailableError,
    OffsetOutOfRangeError,
    UnknownTopicError,
)
from bowstring.clients.local import discovery as local_discovery
from bowstring.clients.local import local_connection
from bowstring.clients.records import TopicPartition
from bowstring.protocol.local_read_configs import SOCKET_CONFIG
from tests.support.local_files import NOW_MS, Files, plain, transaction
from tests.support.waiting import error_in_time, pause, wait_until

LAYOUTS = ("binary", "binary_view")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    made = Files(tmp_path_factory.mktemp("local") / "data")
    yield made
    made.broker.stop()


@pytest.fixture
def fresh(tmp_path):
    """Starts brokers of the test's own."""
    made = []

    def start(name="data", **config):
        made.append(Files(tmp_path / name, **{k.replace("_", "."): v for k, v in config.items()}))
        return made[-1]

    yield start
    for each in made:
        each.broker.stop()


# ---------------------------------------------------------------- the same as over TCP


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("codec", range(5))
def test_every_codec(files, codec, layout):
    topic = files.topic(internal_segment_bytes=20_000)
    files.fill(topic, 60, codec=codec)
    table = files.same(topic, layout=layout)
    assert table.num_rows == 420 and table["offset"].to_pylist() == list(range(420))
    files.same(topic, 3, 417, layout=layout, columns=["value", "offset"], timestamp_unit="us")


def test_any_range_and_any_size_of_batches(files):
    topic = files.topic(internal_segment_bytes=20_000)
    files.fill(topic, 100)
    chosen = random.Random(3)
    for _ in range(12):
        start, end = sorted(chosen.sample(range(701), 2))
        rows = chosen.choice([1, 10, 65536])
        with files.reader(topic, start, end, max_batch_rows=rows, columns=["offset"]) as reader:
            batches = list(reader)
            assert reader.position == end
        assert all(0 < each.num_rows <= rows for each in batches)
        assert [n for each in batches for n in each["offset"].to_pylist()] == list(range(start, end))
    assert files.local(topic, 5, 5).num_rows == 0


def test_a_batch_larger_than_a_window(files, monkeypatch):
    monkeypatch.setattr(local_reader, "WINDOW_BYTES", 100_000)
    topic = files.topic()
    files.fill(topic, 2)
    files.append(topic, plain(14, records=500, size=1500))
    files.fill(topic, 2)
    for layout in LAYOUTS:
        assert files.same(topic, layout=layout).num_rows == 528


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions(files, isolation, monkeypatch):
    monkeypatch.setattr(local_reader, "WINDOW_BYTES", 70_000)
    topic = files.topic(internal_segment_bytes=50_000)
    sequences = dict.fromkeys(range(4), 0)
    chosen = random.Random(7)
    for _ in range(60):
        producer = chosen.randrange(4)
        data, end = transaction(files, topic, producer, sequences[producer], chosen.random() < 0.4)
        sequences[producer] += 6
        files.append(topic, data)
        if chosen.random() < 0.5:
            files.fill(topic, 1)
        files.append(topic, end)
    table = files.same(topic, isolation_level=isolation)
    assert table.num_rows < files.log(topic).log_end_offset
    start = files.log(topic).log_end_offset // 3
    files.same(topic, start, isolation_level=isolation)


def test_an_open_transaction_is_not_passed(files):
    topic = files.topic()
    files.fill(topic, 3)
    data, end = transaction(files, topic, 9, 0, abort=False)
    files.append(topic, data)
    files.fill(topic, 3)
    with files.reader(topic, isolation_level="read_committed") as reader:
        assert sum(each.num_rows for each in [next(reader)]) == 21
        reader._idle_timeout_s = 0.3  # only now: until here it was to succeed
        with pytest.raises(ClientTimeoutError, match="last readable offset is 21"):
            next(reader)
    files.append(topic, end)
    assert files.local(topic, isolation_level="read_committed").num_rows == 48


def test_compaction_between_the_windows(fresh):
    files = fresh(log_cleaner_backoff_ms="50", log_cleaner_min_compaction_lag_ms="0")
    topic = files.topic(
        internal_segment_bytes=20_000,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.01",
        segment_ms="50",
        file_delete_delay_ms="0",
    )
    files.fill(topic, 120)
    before = files.local(topic, columns=["offset", "value"])
    readers = [files.reader(topic, max_batch_rows=50, columns=["offset", "value"]) for _ in range(3)]
    seen = [[next(reader)] for reader in readers]

    def is_compacted():
        files.fill(topic, 1)
        return files.log(topic).size_bytes <= 150_000

    wait_until(is_compacted, every_s=0.1)
    assert files.local(topic, columns=["offset"]).num_rows < before.num_rows
    for reader, batches in zip(readers, seen, strict=True):
        batches += list(reader)
        table = pa.Table.from_batches(batches)
        offsets = table["offset"].to_pylist()
        assert offsets == sorted(set(offsets))
        values = dict(zip(offsets, table["value"].to_pylist(), strict=True))
        latest = files.over_tcp(topic, columns=["offset", "value"])
        for offset, value in zip(latest["offset"].to_pylist(), latest["value"].to_pylist(), strict=True):
            assert values.get(offset, value) == value and (offset >= before.num_rows or offset in values)
        reader.close()
    # The cleaner may still be at work: what both ways give is the same if nothing was cleaned between them.
    size_bytes = -1
    while size_bytes != files.log(topic).size_bytes:
        size_bytes = files.log(topic).size_bytes
        found, wanted = files.local(topic), files.over_tcp(topic)
    assert found.equals(wanted)


def test_retention_under_a_reader(files):
    topic = files.topic(internal_segment_bytes=20_000, file_delete_delay_ms=0)
    files.fill(topic, 100)
    expected = files.over_tcp(topic)
    with files.reader(topic, layout="binary_view", max_batch_rows=20) as reader:
        batches = [next(reader)]
        with Admin(files.bootstrap) as admin:
            admin.delete_records({TopicPartition(topic, 0): 650})
        log = files.log(topic)
        log.apply_retention(NOW_MS)
        log.delete_expired_files(time.time_ns() // 1_000_000 + 10)
        assert log.log_start_offset == 650
        batches += list(reader)
    table = pa.Table.from_batches(batches)
    assert table.num_rows == 700
    assert table["value"].cast(pa.binary()).equals(expected["value"])
    with pytest.raises(OffsetOutOfRangeError):
        files.local(topic, 0, 700)
    files.same(topic, 650)


def test_a_topic_deleted_and_made_anew(files):
    topic = files.topic(internal_segment_bytes=20_000)
    files.fill(topic, 100)
    reader = files.reader(topic, 0, 1400, max_batch_rows=50)
    next(reader)
    with Admin(files.bootstrap) as admin:
        admin.delete_topics([topic])
        admin.create_topic(topic, 1)
    files.fill(topic, 300)
    with pytest.raises(UnknownTopicError):
        list(reader)
    reader.close()
    assert files.same(topic).num_rows == 2100


def test_moved_to_another_directory(fresh, tmp_path):
    dirs = [str(tmp_path / name) for name in "ab"]
    files = fresh(log_dirs=",".join(dirs))
    topic = files.topic(internal_segment_bytes=20_000)
    files.fill(topic, 100)
    log = files.log(topic)
    there = next(path for path in dirs if not log.directory.startswith(path + "/"))
    with files.reader(topic, 0, 1400, layout="binary_view", max_batch_rows=50) as reader:
        batches = [next(reader)]
        with Admin(files.bootstrap) as admin:
            admin.move_replicas([TopicPartition(topic, 0)], there, 1)
        wait_until(lambda: files.log(topic).directory.startswith(there + "/"))
        assert files.log(topic).directory.startswith(there + "/")
        files.fill(topic, 100)
        batches += list(reader)
    assert pa.Table.from_batches(batches)["value"].cast(pa.binary()).equals(files.over_tcp(topic)["value"])


def test_commit_mode(fresh):
    files = fresh(bowstring_durability="commit")
    topic = files.topic(internal_segment_bytes=400_000)
    with Producer(files.bootstrap, batch_size=16_384) as producer:
        for i in range(2000):
            producer.send(topic, b"%06d" % i * 20)
        producer.flush()
        assert files.same(topic).num_rows == 2000


# ---------------------------------------------------------------- following


def test_records_that_come_while_it_waits(files):
    topic = files.topic()
    seen = []

    def write():
        for _ in range(20):
            files.fill(topic, 1)
            pause(0.01, "a reader that has all waits for more")

    writer = threading.Thread(target=write)
    writer.start()
    with files.reader(topic, 0, 140, columns=["offset"]) as reader:
        for batch in reader:
            seen += batch["offset"].to_pylist()
    writer.join()
    assert seen == list(range(140))


def test_a_broker_that_restarts(fresh):
    files = fresh()
    topic = files.topic(internal_segment_bytes=20_000)
    files.fill(topic, 100)
    port = files.broker.port
    reader = files.reader(topic, 0, 1400, layout="binary_view", max_batch_rows=50)
    batches = [next(reader)]
    files.broker.stop()
    files.broker = Broker(port, data_dir=files.directory).start()
    files.fill(topic, 100)
    batches += list(reader)
    reader.close()
    assert pa.Table.from_batches(batches)["value"].cast(pa.binary()).equals(files.over_tcp(topic)["value"])


def test_it_gives_up(files):
    topic = files.topic()
    files.fill(topic, 1)
    with (
        files.reader(topic, 0, 100) as reader,
        pytest.raises(ClientTimeoutError, match="the requested end is 100"),
    ):
        next(reader)
        reader._idle_timeout_s = 0.2  # only now: until here it was to succeed
        list(reader)


# ---------------------------------------------------------------- the wrong broker, or none


def test_no_socket(fresh):
    files = fresh(bowstring_local_socket="off")
    topic = files.topic()
    with pytest.raises(LocalReadsUnavailableError, match="has no socket"):
        files.reader(topic, 0, 1)


def test_a_user_who_may_not_connect(fresh, tmp_path, monkeypatch):
    files = fresh()
    topic = files.topic()

    def refuse(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "connect", lambda self, address: refuse())
    with pytest.raises(LocalReadsUnavailableError, match="may not connect"):
        local_connection.LocalConnection(str(tmp_path / "data" / "bowstring.local.sock"))
    assert topic


def test_another_broker_at_the_same_path(fresh, monkeypatch):
    """As in a container with the same paths, or a copied directory: instance and cluster are others."""
    first, second = fresh("one"), fresh("two")
    topic = first.topic()
    first.fill(topic, 1)
    ask = local_discovery.told_by
    elsewhere = str(second.directory / "bowstring.local.sock")

    def as_if_there(*arguments):
        return ask(*arguments) | {SOCKET_CONFIG: elsewhere}

    monkeypatch.setattr(local_discovery, "told_by", as_if_there)
    with pytest.raises(LocalReadsUnavailableError, match="another broker"):
        first.reader(topic)


def test_something_else_at_that_path(fresh, tmp_path, monkeypatch):
    files = fresh()
    topic = files.topic()
    path = tmp_path / "other.sock"
    ask = local_discovery.told_by
    monkeypatch.setattr(local_discovery, "told_by", lambda *a: ask(*a) | {SOCKET_CONFIG: str(path)})
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()

        def babble():
            accepted, _ = other.accept()
            accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            accepted.close()

        thread = threading.Thread(target=babble)
        thread.start()
        with pytest.raises(LocalReadsUnavailableError):
            files.reader(topic, 0, 1)
        thread.join()


def test_wrong_arguments(files):
    topic = files.topic()
    with pytest.raises(ConfigError, match="is not a range"):
        files.reader(topic, 5, 3)
    with pytest.raises(ConfigError, match="isolation_level"):
        files.reader(topic, 0, 3, isolation_level="sometimes")
    with pytest.raises(ConfigError, match="no column"):
        files.reader(topic, 0, 3, columns=["nothing"])
    error_in_time(
        lambda s: LocalReader(
            files.bootstrap, topic="none-such", partition=0, start=0, end=1, idle_timeout_ms=int(1000 * s)
        ),
        UnknownTopicError,
    )


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bits_that_flip_under_the_mapping(files, layout):
    topic = files.topic()
    files.fill(topic, 200)
    path = os.path.join(files.log(topic).directory, f"{0:020d}.log")
    with files.reader(topic, layout=layout, max_batch_rows=70) as reader:
        first = next(reader)
        with open(path, "r+b") as file:
            file.seek(500_000)
            file.write(bytes([file.read(1)[0] ^ 1]))
        rows = first.num_rows
        with pytest.raises(CorruptBatchError, match="CRC"):
            for batch in reader:
                rows += batch.num_rows
        assert rows == reader.position < 1400


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_cut_off_under_the_mapping(files, layout, monkeypatch):
    """No broker does it; a damaged disk, or a person with an editor, may."""
    monkeypatch.setattr(local_reader, "WINDOW_BYTES", 200_000)
    topic = files.topic()
    files.fill(topic, 400)
    path = os.path.join(files.log(topic).directory, f"{0:020d}.log")
    with files.reader(topic, layout=layout) as reader:
        first = next(reader)
        assert first.num_rows == 2800 or first.num_rows
    with files.reader(topic, layout=layout, max_batch_rows=70) as reader:
        next(reader)
        os.truncate(path, 300_000)
        with pytest.raises(CorruptBatchError, match="truncated meanwhile"):
            list(reader)
    with files.reader(topic, layout=layout) as reader, pytest.raises(CorruptBatchError):
        list(reader)


def test_views_outlive_reader_and_broker(fresh):
    files = fresh()
    topic = files.topic()
    files.fill(topic, 300)
    table = files.local(topic, layout="binary_view", columns=["value"])
    files.broker.stop()
    os.unlink(files.directory / f"{topic}-0" / f"{0:020d}.log")
    gc.collect()
    assert table["value"][2099].as_py()[:8] == b"%08d" % 2099
    assert sum(map(len, table["value"].to_pylist())) == 2100 * 408
    files.broker.start()


def test_no_descriptor_and_no_mapping_is_left_behind(files):
    topic = files.topic(internal_segment_bytes=100_000)
    files.fill(topic, 200)

    def left():
        gc.collect()
        with open("/proc/self/maps") as maps:
            return len(os.listdir("/proc/self/fd")), sum(topic in line for line in maps)

    files.local(topic, layout="binary_view")
    before = left()
    assert before[1] == 0
    for _ in range(10):
        files.local(topic, layout="binary_view")
        reader = files.reader(topic, max_batch_rows=10)
        next(reader)
        reader.close()
        del reader
    # The broker, which is in this process, lets go of its side of a connection a moment later.
    wait_until(lambda: left()[0] <= before[0] and left()[1] == 0, lambda: f"{left()} of {before} are left")
