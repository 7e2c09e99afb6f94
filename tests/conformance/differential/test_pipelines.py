"""Many requests on one connection before the first answer is read."""

from typing import Any

from tests.conformance.differential.compare import conversation
from tests.conformance.differential.fetching import part, records, written
from tests.conformance.differential.talk import Pending, Talk
from tests.support.waiting import FOR_EVER_MS, pause


def produce(talk: Talk, topic: str, acks: int = -1, partition: int = 0) -> Pending:
    """Sends one record."""
    data = [{"name": topic, "partition_data": [{"index": partition, "records": records(1)}]}]
    return talk.send("Produce", 9, note=f"acks {acks}", acks=acks, timeout_ms=FOR_EVER_MS, topic_data=data)


def fetch(talk: Talk, topic: str, offset: int, **more: Any) -> Pending:
    """Sends a Fetch, by default with max_wait_ms=0."""
    topics = [{"topic": topic, "partitions": [part(offset=offset)]}]
    fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "topics": topics} | more
    return talk.send("Fetch", 12, **fields)


def metadata(talk: Talk, topic: str) -> Pending:
    """Sends a Metadata request, which a different thread answers than the requests above."""
    return talk.send("Metadata", 12, topics=[{"name": topic}], allow_auto_topic_creation=False)


@conversation()
def test_answers_keep_the_order_of_requests(talk: Talk) -> None:
    topic = talk.topic("t", partitions=2)
    pending = []
    for number in range(10):
        pending += [produce(talk, topic), metadata(talk, topic), produce(talk, topic, 1, number % 3)]
    pending.append(metadata(talk, topic))
    for each in pending:
        each.answer()
    fetch(talk, topic, 0).answer()


@conversation()
def test_requests_behind_a_waiting_fetch(talk: Talk) -> None:
    topic = written(talk, "t", 1)
    wait: dict[str, Any] = {"min_bytes": 1, "max_wait_ms": 200}
    pending = [
        fetch(talk, topic, 1, **wait),
        metadata(talk, topic),
        fetch(talk, topic, 0),
        metadata(talk, topic),
    ]
    for each in pending:
        each.answer()


@conversation()
def test_what_is_behind_a_waiting_fetch_reads_no_older_state(talk: Talk) -> None:
    topic = talk.topic("t", partitions=2)
    wait: dict[str, Any] = {"min_bytes": 1, "max_wait_ms": FOR_EVER_MS}
    ends = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    pending = [
        fetch(talk, topic, 0, **wait),
        talk.send("ListOffsets", 8, replica_id=-1, topics=ends),
        produce(talk, topic, partition=1),
        fetch(talk, topic, 0),
    ]
    pause(0.1, "the first waits, and those behind it may not begin")
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records(1)}]}]
    talk.quietly("Produce", 9, on="writer", acks=-1, timeout_ms=FOR_EVER_MS, topic_data=data)
    for each in pending:
        each.answer()


@conversation()
def test_no_acks_between(talk: Talk) -> None:
    topic = talk.topic("t")
    pending = []
    for _ in range(5):
        produce(talk, topic, 0)
        pending.append(produce(talk, topic))
    for each in pending:
        each.answer()
    fetch(talk, topic, 0).answer()


@conversation()
def test_a_closed_connection_in_between(talk: Talk) -> None:
    """acks=0 with an error closes the connection, after the answers to earlier requests."""
    topic = talk.topic("t")
    first = produce(talk, topic)
    produce(talk, topic, 0, 7)
    first.answer()
    produce(talk, topic).answer()
