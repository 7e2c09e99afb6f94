"""librdkafka's transactional producer on one broker, which is killed in the middle."""

import signal

import confluent_kafka
import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.serving import Process, steady_port
from tests.support.transactional_load import Transfers, end, read_committed, transactional_producer
from tests.support.waiting import HANG_S, wait_until

KILLS = 6


def create(address, **topics):
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(name, count, 1) for name, count in topics.items()]).values():
        made.result()


@pytest.fixture
def broker(tmp_path):
    port = steady_port()
    started = [Process("--data", str(tmp_path), "--port", str(port))]

    def restart():
        started[-1].stop(signal.SIGKILL)
        started.append(Process("--data", str(tmp_path), "--port", str(port)))

    yield f"127.0.0.1:{port}", restart
    started[-1].stop(signal.SIGKILL)


def test_committed_and_aborted_records(broker):
    address, _ = broker
    create(address, t=2)
    producer = transactional_producer(address, "x")
    for number in range(10):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce("t", b"%d %d" % (number, partition), partition=partition)
        producer.flush(HANG_S)  # an abort drops unsent records
        end(producer, commit=number % 2 == 0)
    expected = sorted(b"%d %d" % (number, partition) for number in range(0, 10, 2) for partition in (0, 1))
    assert sorted(read_committed(address, "t", 2, until=10)) == expected
    assert len(read_committed(address, "t", 2, until=20, isolation="read_uncommitted")) == 20


def test_offsets_with_their_records(broker):
    address, restart = broker
    create(address, t=1, source=1)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "g", "log_level": 0})
    producer = transactional_producer(address, "x")
    place = TopicPartition("source", 0)

    def committed():
        return consumer.committed([place], timeout=HANG_S)[0].offset

    for offset, commit in ((5, True), (9, False), (11, True)):
        producer.begin_transaction()
        producer.produce("t", b"for %d" % offset, partition=0)
        producer.flush(HANG_S)
        producer.send_offsets_to_transaction(
            [TopicPartition("source", 0, offset)], consumer.consumer_group_metadata(), HANG_S
        )
        if offset == 11:
            restart()
        assert end(producer, commit=commit) is commit
        wait_until(lambda o=offset, c=commit: committed() == (o if c else 5))
    assert read_committed(address, "t", 1, until=2) == [b"for 5", b"for 11"]
    consumer.close()


def test_a_second_producer_fences_the_first(broker):
    address, _ = broker
    create(address, t=1)
    first = transactional_producer(address, "x")
    first.begin_transaction()
    first.produce("t", b"from the first", partition=0)
    first.flush(HANG_S)
    second = transactional_producer(address, "x")
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(HANG_S)
    assert fenced.value.args[0].fatal()
    second.begin_transaction()
    second.produce("t", b"from the second", partition=0)
    second.commit_transaction(HANG_S)
    assert read_committed(address, "t", 1, until=1) == [b"from the second"]


def test_kill_nine(broker):
    """Whenever the broker dies, a transaction is there completely or not at all."""
    address, restart = broker
    create(address, t=2)
    transfers = [Transfers(address, f"p{number}", "t") for number in range(2)]
    for _ in range(KILLS):
        before = [each.count for each in transfers]
        wait_until(
            lambda b=before: all(t.error or t.count > n + 2 for t, n in zip(transfers, b, strict=True))
        )
        restart()
    for each in transfers:
        each.stop()
    assert all(each.committed for each in transfers)
    values = read_committed(address, "t", 2, until=2 * sum(len(each.committed) for each in transfers))
    for each in transfers:
        each.check(values)
