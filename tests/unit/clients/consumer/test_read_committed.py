"""Every way to read leaves out aborted records and ends before an open transaction, also of compacted, compressed topics."""

import pytest

import bowstring
from bowstring import Consumer, Producer, TopicPartition
from tests.support.local_files import Files
from tests.support.waiting import HANG_S, wait_until

COMMITTED = "read_committed"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    made = Files(tmp_path_factory.mktemp("files"), **{"log.cleaner.backoff.ms": "50"})
    yield made
    made.broker.stop()


def consumer(files, topic, local):
    made = Consumer(files.bootstrap, isolation_level=COMMITTED, auto_offset_reset="earliest", local=local)
    made.assign([(topic, 0)])
    return made


def until_end(reader, topic, take):
    """What `take` returns until the reader is at the last stable offset."""
    partition = TopicPartition(topic, 0)
    (end,) = reader.end_offsets([partition]).values()
    found = []
    wait_until(lambda: found.extend(take()) or reader.position(partition) >= end, lambda: len(found))
    return found


def by_polls(files, topic, local):
    with consumer(files, topic, local) as reader:
        return until_end(reader, topic, lambda: [record.value for record in reader.poll(0.05, max_records=7)])


def by_columns(files, topic, local):
    with consumer(files, topic, local) as reader:
        return until_end(
            reader,
            topic,
            lambda: reader.poll_arrow(0.05, max_records=7, columns=["value"])["value"].to_pylist(),
        )


def by_reader(files, topic, local):
    with consumer(files, topic, local) as reader:

        def take():
            batches = reader.to_reader(timeout=0.05, columns=["value"])
            return [value for batch in batches for value in batch["value"].to_pylist()]

        return until_end(reader, topic, take)


def by_table(files, topic, local):
    table = bowstring.read(
        topic, bootstrap_servers=files.bootstrap, isolation_level=COMMITTED, local=local, columns=["value"]
    )
    return table.to_arrow()["value"].to_pylist()


def by_scan(files, topic, local):
    batches = bowstring.scan(topic, bootstrap_servers=files.bootstrap, isolation_level=COMMITTED, local=local)
    return batches.read_all()["value"].to_pylist()


WAYS = [by_polls, by_columns, by_reader, by_table, by_scan]


def write(producer, topic, rounds, keys):
    """Writes transactions, every third aborted; returns the values of the others, in order."""
    committed = []
    for number in range(rounds):
        producer.begin_transaction()
        rows = [(b"k%d" % (at % keys), b"%d-%d" % (number, at)) for at in range(20)]
        for key, value in rows:
            producer.send(topic, value + b"." * 200, key)
        producer.flush()
        if number % 3 == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            committed += [value + b"." * 200 for _, value in rows]
    return committed


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_each_way(files, codec):
    topic = files.topic(internal_segment_bytes=20_000)
    name = f"each-way-{codec}"
    with Producer(files.bootstrap, transactional_id=name, compression=codec, batch_size=2000) as producer:
        committed = write(producer, topic, 12, 20)
        producer.begin_transaction()
        for at in range(30):
            producer.send(topic, b"open %d" % at)
        producer.flush()
        with Producer(files.bootstrap) as other:
            other.send(topic, b"behind the open transaction").result(HANG_S)
        for way in WAYS:
            for local in (False, True):
                assert way(files, topic, local) == committed, (way, local)
        producer.abort_transaction()
    expected = [*committed, b"behind the open transaction"]
    wait_until(lambda: by_table(files, topic, True) == expected)
    for way in WAYS:
        for local in (False, True):
            assert way(files, topic, local) == expected, (way, local)


def test_a_compacted_topic(files):
    topic = files.topic(
        cleanup_policy="compact",
        internal_segment_bytes=500,
        min_cleanable_dirty_ratio="0.0",
        file_delete_delay_ms=0,
    )
    with Producer(files.bootstrap, transactional_id="compacted", compression="zstd") as producer:
        committed = write(producer, topic, 12, 5)
    written = 12 * 20

    def is_compacted():
        table = bowstring.read(topic, bootstrap_servers=files.bootstrap, columns=["value"])
        return table.num_rows < written / 3

    wait_until(is_compacted)
    kept = by_table(files, topic, False)
    assert kept == [value for value in committed if value in set(kept)], "none of an aborted transaction"
    assert set(committed[-5:]) <= set(kept), "the last of each key"
    for way in WAYS:
        for local in (False, True):
            assert set(committed[-5:]) <= set(found := way(files, topic, local)) <= set(committed), (
                way,
                found,
            )
