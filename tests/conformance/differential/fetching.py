"""Building blocks of the Fetch conversations."""

from typing import Any

from tests.conformance.differential.talk import Pending, Talk
from tests.support.reference_batch import Batch, encode

NOBODYS_ID = bytes(range(16))
START_MS = 1_700_000_000_000

Rows = list[dict[str, Any]]


def records(count: int) -> bytes:
    """Returns a batch of this many records."""
    return encode(Batch(tuple((b"k", b"v%d" % at, START_MS + at, ()) for at in range(count))))


def written(talk: Talk, short: str, *counts: int, partitions: int = 1) -> str:
    """Creates a topic with one batch for each count in each partition."""
    topic = talk.topic(short, partitions=partitions)
    for partition in range(partitions):
        for count in counts:
            talk.write(topic, records(count), partition)
    return topic


def part(index: int = 0, offset: int = 0, **more: Any) -> dict[str, Any]:
    """Returns one partition of a Fetch request."""
    return {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20} | more


def named(talk: Talk, topic: str) -> dict[str, Any]:
    """Names a topic by name and by id: requests keep the field that their version has."""
    return {"topic": topic, "topic_id": talk.topic_ids.get(topic, NOBODYS_ID)}


def begin(talk: Talk, note: str, *topics: tuple[str, Rows], **more: Any) -> Pending:
    """Sends a Fetch that by default does not wait for data."""
    wanted = [named(talk, topic) | {"partitions": rows} for topic, rows in topics]
    fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "topics": wanted} | more
    return talk.send("Fetch", talk.version, note=note, **fields)


def fetch(talk: Talk, note: str, *topics: tuple[str, Rows], **more: Any) -> Any:
    """Sends a Fetch that is compared."""
    return begin(talk, note, *topics, **more).answer()


def fetch_sorted(talk: Talk, note: str, *topics: tuple[str, Rows], **more: Any) -> None:
    """Sends a Fetch whose topics and partitions are compared in sorted order: Kafka puts those with errors last."""
    fetch(talk, note, *topics, **more)
    found = talk.transcript[-1][1]
    topics_found: dict[str, dict[str, Any]] = {}
    for topic in found["responses"]:
        name = str(topic.get("topic", topic.get("topic_id")))
        topics_found.setdefault(name, {}).update(
            {str(row["partition_index"]): row for row in topic["partitions"]}
        )
    found["responses"] = topics_found


def quiet_fetch(talk: Talk, *topics: tuple[str, Rows], **more: Any) -> Any:
    """Sends a Fetch that is not compared."""
    wanted = [named(talk, topic) | {"partitions": rows} for topic, rows in topics]
    return talk.quietly("Fetch", talk.version, max_wait_ms=0, min_bytes=0, topics=wanted, **more)
