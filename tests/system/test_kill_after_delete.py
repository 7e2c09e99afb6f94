"""A broker in commit mode is killed right after it answered DeleteRecords: deleted records stay deleted."""

import signal

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.serving import Process, steady_port
from tests.support.waiting import HANG_S

ROUNDS = 3
SENT = 20


@pytest.fixture
def begin(tmp_path):
    port = str(steady_port())
    address = f"127.0.0.1:{port}"
    running = []

    def start():
        running.append(Process("--data", str(tmp_path / "data"), "--host", "127.0.0.1", "--port", port))
        return running[-1]

    yield address, start
    for process in running:
        process.stop(signal.SIGKILL)


def test_a_log_start_that_was_answered_stays_after_a_kill(begin):
    address, start = begin
    process = start()
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("t", 1)])["t"].result(HANG_S)
    wanted = 0
    for _ in range(ROUNDS):
        producer = confluent_kafka.Producer({"bootstrap.servers": address})
        for number in range(SENT):
            producer.produce("t", str(number), partition=0)
        assert producer.flush(HANG_S) == 0
        wanted += SENT // 2
        admin = AdminClient({"bootstrap.servers": address})
        where = confluent_kafka.TopicPartition("t", 0, wanted)
        assert admin.delete_records([where])[where].result(HANG_S).low_watermark == wanted
        process.stop(signal.SIGKILL)
        process = start()
        consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "g"})
        first, _ = consumer.get_watermark_offsets(confluent_kafka.TopicPartition("t", 0), timeout=HANG_S)
        consumer.close()
        assert first == wanted
