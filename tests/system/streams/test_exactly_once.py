"""Kafka Streams with both group protocols: exact counts although an instance and the broker die by SIGKILL."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.streams_app import Counts, StreamsApp, produce_words
from tests.support.target import BowstringBroker
from tests.support.waiting import HANG_S

PARTITIONS = 4
WORDS = [f"word{index % 7}" for index in range(700)]
SESSION_MS = 6_000
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "1",
    "group.streams.min.session.timeout.ms": "1",
    "group.streams.session.timeout.ms": str(SESSION_MS),
    "offsets.topic.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": "4",
}
# One process runs an instance with each protocol: a JVM costs more than what they do.
APPLICATIONS = {
    "streams": {"group.protocol": "streams"},
    "classic": {
        "group.protocol": "classic",
        "consumer.session.timeout.ms": str(SESSION_MS),
        "consumer.heartbeat.interval.ms": "500",
    },
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BowstringBroker]:
    """A broker with the topics of the applications."""
    broker = BowstringBroker(tmp_path / "broker", SETTINGS)
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topics = [
        NewTopic(f"{name}-{kind}", PARTITIONS, 1) for name in APPLICATIONS for kind in ("words", "counts")
    ]
    for created in admin.create_topics(topics).values():
        created.result(HANG_S)
    yield broker
    if broker.alive():
        broker.kill()


def test_counts_are_exact_whoever_dies(broker: BowstringBroker, tmp_path: Path) -> None:
    """One instance of two dies, then the broker. Every count of every word comes once, in order."""
    counts = {name: Counts(broker.bootstrap, f"{name}-counts") for name in APPLICATIONS}
    instances = [
        StreamsApp(broker.bootstrap, tmp_path / f"stores{index}", APPLICATIONS) for index in range(2)
    ]

    def said() -> str:
        return "\n---\n".join([*(each.tail() for each in instances), broker.tail()])

    def count_more() -> None:
        for name, counted in counts.items():
            before = counted.total
            produce_words(broker.bootstrap, f"{name}-words", WORDS)
            counted.wait_for(before + len(WORDS), said)

    try:
        for instance in instances:
            instance.wait_for("RUNNING", *APPLICATIONS)
        count_more()
        instances[0].kill()
        count_more()
        broker.kill()
        broker.start()
        count_more()
        instances[1].close()
        for name, counted in counts.items():
            each = len(WORDS) // len(set(WORDS)) * 3
            assert counted.by_word == {word: list(range(1, each + 1)) for word in set(WORDS)}, name
    finally:
        for instance in instances:
            instance.kill()
        for counted in counts.values():
            counted.close()
