"""Kafka on a directory of Bowstring's and the other way round: every record, offset, config and group is there."""

from pathlib import Path

from tests.conformance.takeover import (
    BowstringOn,
    KafkaOn,
    assorted,
    commit_offsets,
    create,
    hand_over,
    producer,
    send,
    view,
    write_topics,
    write_transactions,
)
from tests.conformance.target import free_port

GROUPS = ["by-bowstring", "by-kafka"]


def test_kafka_takes_over_from_bowstring_and_gives_back(tmp_path: Path) -> None:
    port, data = free_port(), tmp_path / "data"
    bowstring = BowstringOn(tmp_path / "bowstring", data, port)
    bowstring.start()
    write_topics(bowstring.bootstrap)
    commit_offsets(bowstring.bootstrap, "by-bowstring", "codecs", 7)
    create(bowstring.bootstrap, "sequence", 1)
    steady = producer(bowstring.bootstrap, enable_idempotence=True)
    send(steady, "sequence", assorted("first", 1))
    before = view(bowstring.bootstrap, GROUPS)
    assert bowstring.stop() == 0

    kafka = KafkaOn(tmp_path / "kafka", data, port, properties=hand_over(data, "kafka", tmp_path))
    kafka.start()
    assert view(kafka.bootstrap, GROUPS) == before
    send(steady, "sequence", assorted("second", 1))
    send(producer(kafka.bootstrap, compression_type="lz4"), "codecs", assorted("kafka", 2))
    commit_offsets(kafka.bootstrap, "by-kafka", "codecs", 9)
    create(kafka.bootstrap, "made.by.kafka", 2)
    send(producer(kafka.bootstrap), "made.by.kafka", assorted("new", 2))
    before = view(kafka.bootstrap, GROUPS)
    kafka.stop()

    bowstring.start()
    assert view(bowstring.bootstrap, GROUPS) == before
    third = send(steady, "sequence", assorted("third", 1))
    assert [message.offset() for message in third] == list(range(40, 60))
    assert bowstring.stop() == 0


def test_bowstring_takes_over_from_kafka_and_gives_back(tmp_path: Path) -> None:
    port, data = free_port(), tmp_path / "data"
    kafka = KafkaOn(tmp_path / "kafka", data, port)
    kafka.start()
    write_topics(kafka.bootstrap)
    write_transactions(kafka.bootstrap)
    commit_offsets(kafka.bootstrap, "by-kafka", "codecs", 11)
    create(kafka.bootstrap, "sequence", 1)
    steady = producer(kafka.bootstrap, enable_idempotence=True)
    send(steady, "sequence", assorted("first", 1))
    before = view(kafka.bootstrap, GROUPS)
    kafka.stop()

    bowstring = BowstringOn(tmp_path / "bowstring", data, port)
    bowstring.start()
    assert view(bowstring.bootstrap, GROUPS) == before
    send(steady, "sequence", assorted("second", 1))
    send(producer(bowstring.bootstrap, compression_type="gzip"), "codecs", assorted("bow", 2))
    commit_offsets(bowstring.bootstrap, "by-bowstring", "codecs", 13)
    create(bowstring.bootstrap, "made.by.bowstring", 2, retention_ms="-1")
    before = view(bowstring.bootstrap, GROUPS)
    assert bowstring.stop() == 0

    kafka.start()
    assert view(kafka.bootstrap, GROUPS) == before
    send(steady, "sequence", assorted("third", 1))
    before = view(kafka.bootstrap, GROUPS)
    kafka.kill()

    bowstring.start()
    assert view(bowstring.bootstrap, GROUPS) == before
    fourth = send(steady, "sequence", assorted("fourth", 1))
    assert [message.offset() for message in fourth] == list(range(60, 80))
    assert bowstring.stop() == 0
