"""Fetch sessions (KIP-227): opened, stepped, changed, mistaken and closed, in every version that has them."""

from typing import Any

from tests.conformance.differential.compare import conversation, versions
from tests.conformance.differential.fetching import Rows, fetch, fetch_sorted, named, part, records, written
from tests.conformance.differential.talk import Talk

NO_SESSION = 0x7FFF_FF00


def opened(talk: Talk, note: str, *topics: tuple[str, Rows], **more: Any) -> int:
    """A full fetch that opens a session; its id."""
    return int(fetch(talk, note, *topics, session_epoch=0, **more).session_id)


def forgotten(talk: Talk, topic: str, *partitions: int) -> dict[str, Any]:
    """One topic of a request's forgotten ones."""
    return named(talk, topic) | {"partitions": list(partitions)}


@conversation(versions("Fetch", 7))
def test_steps(talk: Talk) -> None:
    topic = written(talk, "t", 1, 1, partitions=2)
    one = opened(talk, "open", (topic, [part(offset=1), part(1, 2)]))
    fetch(talk, "the same again", session_id=one, session_epoch=1)
    fetch(talk, "one moves on", (topic, [part(offset=2)]), session_id=one, session_epoch=2)
    fetch(talk, "nothing new", session_id=one, session_epoch=3)
    talk.write(topic, records(1), 1)
    fetch(talk, "written", session_id=one, session_epoch=4)
    fetch(talk, "it moves on", (topic, [part(1, 3)]), session_id=one, session_epoch=5)
    fetch(talk, "nothing new again", session_id=one, session_epoch=6)
    fetch(talk, "bad offset", (topic, [part(1, 99)]), session_id=one, session_epoch=7)
    fetch(talk, "errors are told each time", session_id=one, session_epoch=8)
    fetch(talk, "mended", (topic, [part(1, 3)]), session_id=one, session_epoch=9)
    fetch(talk, "and told once", session_id=one, session_epoch=10)
    talk.quietly(
        "DeleteRecords",
        2,
        topics=[{"name": topic, "partitions": [{"partition_index": 1, "offset": 1}]}],
        timeout_ms=5000,
    )
    fetch(talk, "log start offset moved", session_id=one, session_epoch=11)
    fetch(talk, "told once", session_id=one, session_epoch=12)


@conversation(versions("Fetch", 7))
def test_contents(talk: Talk) -> None:
    topic, other = written(talk, "t", 1, partitions=3), written(talk, "other", 1)
    one = opened(talk, "open", (topic, [part()]))
    fetch_sorted(talk, "add a partition", (topic, [part(1)]), session_id=one, session_epoch=1)
    fetch_sorted(talk, "add a topic", (other, [part()]), session_id=one, session_epoch=2)
    gone = [forgotten(talk, topic, 0)]
    fetch_sorted(talk, "forget one", session_id=one, session_epoch=3, forgotten_topics_data=gone)
    fetch_sorted(talk, "forget it again", session_id=one, session_epoch=4, forgotten_topics_data=gone)
    gone = [forgotten(talk, topic, 7), forgotten(talk, talk.name("unknown"), 0)]
    fetch_sorted(talk, "forget unknown ones", session_id=one, session_epoch=5, forgotten_topics_data=gone)
    gone = [forgotten(talk, other, 0)]
    rows = (other, [part(offset=1)])
    fetch_sorted(talk, "change and forget", rows, session_id=one, session_epoch=6, forgotten_topics_data=gone)
    gone = [forgotten(talk, topic, 1)]
    fetch_sorted(talk, "the last goes", session_id=one, session_epoch=7, forgotten_topics_data=gone)
    fetch_sorted(talk, "an empty session", session_id=one, session_epoch=8)
    fetch_sorted(talk, "filled again", (topic, [part(2)]), session_id=one, session_epoch=9)


@conversation(versions("Fetch", 7))
def test_unknown_contents(talk: Talk) -> None:
    topic = written(talk, "t", 1)
    one = opened(talk, "unknown partition", (topic, [part(offset=1), part(5)]))
    fetch_sorted(talk, "told again", session_id=one, session_epoch=1)
    fetch_sorted(talk, "unknown topic", (talk.name("unknown"), [part()]), session_id=one, session_epoch=2)
    gone = [forgotten(talk, talk.name("unknown"), 0), forgotten(talk, topic, 5)]
    fetch_sorted(talk, "forgotten", session_id=one, session_epoch=3, forgotten_topics_data=gone)
    fetch_sorted(talk, "told no more", session_id=one, session_epoch=4)


@conversation(versions("Fetch", 7))
def test_epochs(talk: Talk) -> None:
    topic = written(talk, "t", 1)
    one = opened(talk, "open", (topic, [part()]))
    for epoch in (2, 5, -2):
        fetch(talk, f"epoch {epoch} too early", session_id=one, session_epoch=epoch)
    fetch(talk, "right", session_id=one, session_epoch=1)
    fetch(talk, "once more", session_id=one, session_epoch=1)
    fetch(talk, "right after all", session_id=one, session_epoch=2)
    fetch(talk, "opened anew", (topic, [part()]), session_id=one, session_epoch=0)
    fetch(talk, "the old one is gone", session_id=one, session_epoch=3)


@conversation(versions("Fetch", 7))
def test_closing(talk: Talk) -> None:
    topic = written(talk, "t", 1)
    one = opened(talk, "open", (topic, [part()]))
    fetch(talk, "closed", session_id=one, session_epoch=-1)
    fetch(talk, "is gone", session_id=one, session_epoch=1)
    fetch(talk, "closed again", session_id=one, session_epoch=-1)
    one = opened(talk, "open", (topic, [part()]))
    fetch(talk, "closed with data", (topic, [part()]), session_id=one, session_epoch=-1)
    fetch(talk, "is gone too", session_id=one, session_epoch=1)


@conversation(versions("Fetch", 7))
def test_no_session(talk: Talk) -> None:
    topic = written(talk, "t", 1)
    for epoch in (1, 2, -2):
        fetch(talk, f"unknown at {epoch}", (topic, [part()]), session_id=NO_SESSION, session_epoch=epoch)
        fetch(talk, f"none at {epoch}", (topic, [part()]), session_id=0, session_epoch=epoch)
    for epoch in (0, -1):
        fetch(
            talk, f"full, unknown at {epoch}", (topic, [part()]), session_id=NO_SESSION, session_epoch=epoch
        )
    fetch(talk, "negative", (topic, [part()]), session_id=-5, session_epoch=1)
    fetch(talk, "opened with nothing", session_epoch=0)
    gone = [forgotten(talk, topic, 0)]
    fetch(talk, "full and forgetting", (topic, [part()]), forgotten_topics_data=gone)


@conversation()
def test_from_names_to_ids(talk: Talk) -> None:
    topic = written(talk, "t", 1)
    for before, after in ((12, 13), (13, 12), (7, 12), (13, 18)):
        talk.version = before
        one = opened(talk, "open", (topic, [part()]))
        talk.version = after
        fetch(talk, "the other kind", (topic, [part(offset=1)]), session_id=one, session_epoch=1)
        talk.version = before
        fetch(talk, "the same kind", (topic, [part(offset=1)]), session_id=one, session_epoch=2)
        fetch(talk, "closed", session_id=one, session_epoch=-1)


@conversation(versions("Fetch", 7))
def test_deleted_topics(talk: Talk) -> None:
    topic = written(talk, "t", 1)
    one = opened(talk, "open", (topic, [part()]))
    talk.quietly("DeleteTopics", 5, topic_names=[topic], timeout_ms=5000)
    talk.gone(topic)
    talk.until(
        lambda answer: answer.topics[0].partitions[0].error_code == 3,
        "ListOffsets",
        1,
        replica_id=-1,
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
    )
    fetch(talk, "deleted", session_id=one, session_epoch=1)
    fetch(talk, "still", session_id=one, session_epoch=2)
