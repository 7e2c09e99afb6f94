"""A consumer with local=… returns what one without it does, and waits, commits and falls back alike."""

import threading
import time

import pyarrow as pa
import pytest

import bowstring
from bowstring.clients.config.client import CONSUMER
from bowstring.clients.consumer import local_fetch
from bowstring.clients.errors import ConfigError, LocalReadsUnavailableError, OffsetOutOfRangeError
from bowstring.clients.local import discovery as local_discovery
from bowstring.clients.records import TopicPartition
from bowstring.protocol.local_read_configs import INSTANCE_CONFIG, SOCKET_CONFIG
from tests.support.local_files import Files, transaction
from tests.support.waiting import FOR_EVER_S, HANG_S


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    made = Files(tmp_path_factory.mktemp("consumer") / "data")
    yield made
    made.broker.stop()


@pytest.fixture
def without(tmp_path):
    made = Files(tmp_path / "without", **{"bowstring.local.socket": "off"})
    yield made
    made.broker.stop()


def consumer(files, topic, local, **arguments):
    made = bowstring.Consumer(files.bootstrap, auto_offset_reset="earliest", local=local, **arguments)
    if topic is not None:
        made.assign([TopicPartition(topic, 0)])
    return made


def take(reader, count, read):
    found = []
    deadline = time.monotonic() + HANG_S
    while sum(map(len, found)) < count and time.monotonic() < deadline:
        found.append(read(reader))
    return found


def filled(reader) -> int:
    return reader._fetcher._local.filled_bytes


def test_poll_and_poll_arrow(files):
    topic = files.topic(internal_segment_bytes=20_000)
    files.fill(topic, 60, codec=3)
    files.fill(topic, 60)
    with consumer(files, topic, True) as here, consumer(files, topic, False) as over_tcp:
        ours, theirs = (take(each, 840, lambda c: c.poll(max_records=1000)) for each in (here, over_tcp))
        assert [r for records in ours for r in records] == [r for records in theirs for r in records]
        assert filled(here) > 150_000
    for layout in ("binary", "binary_view"):
        with consumer(files, topic, True) as here:
            batches = take(here, 840, lambda c: c.poll_arrow(layout=layout, max_records=100))  # noqa: B023
            table = pa.Table.from_batches([each for each in batches if each.num_rows])
            assert table["offset"].to_pylist() == list(range(840))


def test_read_and_scan(files):
    topic = files.topic(internal_segment_bytes=20_000)
    files.fill(topic, 100)
    arguments = {"bootstrap_servers": files.bootstrap, "start": 13, "end": 613}
    assert bowstring.read(topic, local=True, **arguments) == bowstring.read(topic, **arguments)
    assert bowstring.scan(topic, local=True, **arguments).read_all().num_rows == 600


def test_read_committed(files):
    topic = files.topic(internal_segment_bytes=20_000)
    for i in range(30):
        data, end = transaction(files, topic, 7, 6 * i, abort=i % 3 == 0)
        files.append(topic, data)
        files.fill(topic, 2)
        files.append(topic, end)
    arguments = {"bootstrap_servers": files.bootstrap, "isolation_level": "read_committed"}
    found = bowstring.read(topic, local=True, **arguments)
    assert found == bowstring.read(topic, **arguments)
    assert found.num_rows == 20 * 6 + 60 * 7


def test_new_records_come_over_tcp(files):
    topic = files.topic()
    files.fill(topic, 10)
    with consumer(files, topic, True) as reader:
        assert sum(map(len, take(reader, 70, lambda c: c.poll()))) == 70
        before = filled(reader)
        timer = threading.Timer(0.2, files.fill, (topic, 1))
        timer.start()
        began = time.monotonic()
        assert len(reader.poll(timeout=FOR_EVER_S)) == 7
        assert time.monotonic() - began < HANG_S
        assert filled(reader) == before
        timer.join()


def test_seek_pause_and_a_group(files):
    topic = files.topic(internal_segment_bytes=20_000)
    files.fill(topic, 100)
    with consumer(files, None, True, group_id=f"g-{topic}", max_poll_records=50) as reader:
        reader.subscribe([topic])
        found = [r.offset for records in take(reader, 50, lambda c: c.poll()) for r in records]
        assert found == list(range(len(found)))
        partition = TopicPartition(topic, 0)
        reader.seek(partition, 600)
        assert reader.poll(timeout=HANG_S)[0].offset == 600
        reader.pause(partition)
        assert reader.poll(timeout=0.1) == []
        reader.resume(partition)
        while reader.position(partition) < 700:
            assert reader.poll(timeout=HANG_S)
        reader.commit()
    with consumer(files, None, "auto", group_id=f"g-{topic}") as reader:
        assert reader.committed([partition])[partition].offset == 700


def test_out_of_range_follows_the_policy(files):
    topic = files.topic()
    files.fill(topic, 3)
    with consumer(files, topic, True) as reader:
        reader.seek(TopicPartition(topic, 0), 5000)
        assert take(reader, 21, lambda c: c.poll())[-1][-1].offset == 20
    with bowstring.Consumer(files.bootstrap, auto_offset_reset="none", local=True) as reader:
        reader.assign([(topic, 0)])
        reader.seek(TopicPartition(topic, 0), 5000)
        with pytest.raises(OffsetOutOfRangeError):
            reader.poll(timeout=HANG_S)


def test_true_needs_the_socket_and_auto_does_not(without):
    topic = without.topic()
    without.fill(topic, 3)
    with consumer(without, topic, True) as reader:
        for _ in range(3):
            with pytest.raises(LocalReadsUnavailableError, match="has no socket"):
                reader.poll(timeout=HANG_S)
    with consumer(without, topic, "auto") as reader:
        assert len(take(reader, 21, lambda c: c.poll())[-1]) > 0
        assert filled(reader) == 0


def test_auto_passes_over_another_broker(files, without, monkeypatch):
    """A broker other than the connected one answers at the announced socket path."""
    topic = without.topic()
    without.fill(topic, 3)
    told = {
        SOCKET_CONFIG: str(files.directory / "bowstring.local.sock"),
        INSTANCE_CONFIG: "another",
    }
    monkeypatch.setattr(local_discovery, "told_by", lambda *arguments: told)
    with consumer(without, topic, "auto") as reader:
        assert len(take(reader, 21, lambda c: c.poll())[-1]) > 0
        assert filled(reader) == 0
    with consumer(without, topic, True) as reader, pytest.raises(LocalReadsUnavailableError, match="another"):
        reader.poll(timeout=HANG_S)


def test_a_broker_that_restarts(files, monkeypatch):
    monkeypatch.setattr(local_fetch, "RETRY_AFTER_S", 0.1)
    topic = files.topic(internal_segment_bytes=20_000)
    files.fill(topic, 100)
    port = files.broker.port
    with consumer(files, topic, True, max_poll_records=10) as reader:
        offsets = [r.offset for r in reader.poll(timeout=HANG_S)]
        files.broker.stop()
        files.broker = bowstring.Broker(port, data_dir=files.directory).start()
        files.fill(topic, 100)
        deadline = time.monotonic() + HANG_S
        while len(offsets) < 1400 and time.monotonic() < deadline:
            offsets += [r.offset for r in reader.poll()]
        assert offsets == list(range(1400))
        assert filled(reader) > 200_000


def test_wrong_word():
    with pytest.raises(ConfigError, match="local is 'sometimes'"):
        bowstring.Consumer(local="sometimes")


def test_auto_reads_from_whichever_broker_there_is(bootstrap, new_topic):
    """BOWSTRING_TEST_BOOTSTRAP may name Apache Kafka, which has no local reads."""
    topic = new_topic()
    with bowstring.Producer(bootstrap) as producer:
        for i in range(100):
            producer.send(topic, b"%d" % i)
    assert bowstring.read(topic, bootstrap_servers=bootstrap, local="auto").num_rows == 100
    with bowstring.Admin(bootstrap) as admin:
        node = str(next(iter(admin.describe_cluster().brokers)).id)
        configs = admin.describe_configs("broker", node, names=[SOCKET_CONFIG])
    if configs:
        assert bowstring.read(topic, bootstrap_servers=bootstrap, local=True).num_rows == 100
    else:
        with pytest.raises(LocalReadsUnavailableError, match="is not Bowstring"):
            bowstring.read(topic, bootstrap_servers=bootstrap, local=True)


@pytest.mark.parametrize(
    ("word", "meant"), [("true", True), ("AUTO", "auto"), ("false", False), (True, True)]
)
def test_settings_in_other_clients_words(word, meant):
    assert CONSUMER.arguments({"bootstrap.servers": "a:1", "local": word})["local"] == meant
    with pytest.raises(ConfigError, match="local is 'perhaps'"):
        CONSUMER.arguments({"bootstrap.servers": "a:1", "local": "perhaps"})
