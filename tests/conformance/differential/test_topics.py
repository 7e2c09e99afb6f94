"""CreateTopics, DeleteTopics and CreatePartitions with every kind of good and bad argument."""

from typing import Any

from tests.conformance.differential.compare import conversation, versions
from tests.conformance.differential.talk import Talk

NOBODYS_ID = bytes(range(16))


def create(
    talk: Talk, note: str, *topics: dict[str, Any], validate_only: bool = False, settle: bool = True
) -> None:
    """Sends CreateTopics; makes names unique to the conversation unless they begin with '='."""
    wanted = []
    for topic in topics:
        name = topic.get("name", note.replace(" ", "-"))
        name = name[1:] if name.startswith("=") else talk.name(name)
        wanted.append({"num_partitions": 1, "replication_factor": 1} | topic | {"name": name})
    pending = talk.send(
        "CreateTopics", talk.version, note=note, topics=wanted, timeout_ms=10_000, validate_only=validate_only
    )
    answer = pending.answer(learn=True)
    for topic in answer.topics if answer is not None else ():
        if topic.error_code == 0 and not validate_only and settle:
            talk.led(topic.name)


@conversation(versions("CreateTopics"))
def test_create_topics(talk: Talk) -> None:
    create(talk, "one", {})
    create(talk, "one", {})
    create(talk, "defaults", {"num_partitions": -1, "replication_factor": -1})
    create(talk, "several", {"name": "a", "num_partitions": 3}, {"name": "b"}, {"name": "one"})
    create(talk, "duplicates", {"name": "twice"}, {"name": "twice"}, {"name": "once"})
    create(talk, "nothing")
    create(talk, "validated", {}, validate_only=True)
    create(talk, "validated", {"num_partitions": 0}, validate_only=True)
    create(talk, "one", {}, validate_only=True)
    create(talk, "collision with one", {"name": "=" + talk.name("one").replace(".", "_")})


@conversation(versions("CreateTopics"))
def test_create_topics_that_collide_with_each_other(talk: Talk) -> None:
    create(talk, "collisions", {"name": "x.y"}, {"name": "x_y"})


@conversation(versions("CreateTopics"))
def test_create_topics_with_bad_names(talk: Talk) -> None:
    for name in (
        "",
        ".",
        "..",
        "a b",
        "ä",
        "a/b",
        "a\0b",
        "x" * 250,
        "__cluster_metadata",
        "__consumer_offsets",
    ):
        create(talk, f"name {name!r:.30}", {"name": "=" + name})


@conversation(versions("CreateTopics"))
def test_create_topics_with_bad_counts(talk: Talk) -> None:
    for count in (0, -2, -1, 100_001):
        create(talk, f"partitions {count}", {"num_partitions": count})
    for factor in (0, -2, 2, 3, 32767):
        create(talk, f"factor {factor}", {"replication_factor": factor})
    create(talk, "both wrong", {"num_partitions": 0, "replication_factor": 0})


@conversation(versions("CreateTopics"))
def test_create_topics_with_assignments(talk: Talk) -> None:
    def assigned(note: str, *assignments: tuple[int, list[int]], **counts: int) -> None:
        rows = [{"partition_index": index, "broker_ids": ids} for index, ids in assignments]
        create(talk, note, {"num_partitions": -1, "replication_factor": -1, "assignments": rows} | counts)

    assigned("two", (0, [1]), (1, [1]))
    assigned("in any order", (1, [1]), (0, [1]))
    assigned("gap", (0, [1]), (2, [1]))
    assigned("not from zero", (1, [1]))
    assigned("negative", (-1, [1]))
    assigned("twice the same", (0, [1]), (0, [1]))
    assigned("unknown broker", (0, [7]))
    assigned("broker twice", (0, [1, 1]))
    assigned("negative broker", (0, [-1]))
    assigned("empty", (0, []))
    assigned("uneven", (0, [1]), (1, [1, 7]))
    assigned("with partitions", (0, [1]), num_partitions=1)
    assigned("with factor", (0, [1]), replication_factor=1)
    assigned("with both", (0, [1]), num_partitions=1, replication_factor=1)


@conversation(versions("CreateTopics"))
def test_create_topics_with_configs(talk: Talk) -> None:
    def configured(note: str, *configs: tuple[str, str | None]) -> None:
        create(talk, note, {"configs": [{"name": name, "value": value} for name, value in configs]})

    configured(
        "sound", ("cleanup.policy", "compact"), ("retention.ms", "100000"), ("max.message.bytes", "2000")
    )
    configured("unknown", ("no.such.config", "1"))
    configured("empty name", ("", "1"))
    configured("null", ("retention.ms", None))
    configured("not a number", ("retention.ms", "soon"))
    configured("too low", ("segment.bytes", "1"))
    configured("negative", ("max.message.bytes", "-1"))
    configured("beyond", ("flush.messages", "99999999999999999999"))
    configured("spaces", ("retention.ms", " 5000 "))
    configured("empty number", ("retention.ms", ""))
    configured("bad choice", ("compression.type", "brotli"))
    configured("upper case", ("compression.type", "GZIP"))
    configured("bad boolean", ("preallocate", "maybe"))
    configured("boolean", ("preallocate", "TRUE"))
    configured("bad list", ("cleanup.policy", "burn"))
    configured("list", ("cleanup.policy", "compact,delete"))
    configured("list with spaces", ("cleanup.policy", "compact , delete"))
    configured("list twice", ("cleanup.policy", "compact,compact"))
    configured("empty list", ("cleanup.policy", ""))
    configured("twice", ("retention.ms", "1"), ("retention.ms", "2"))
    configured("lag against each other", ("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5"))
    configured("ratio", ("min.cleanable.dirty.ratio", "1.5"))
    configured("remote", ("remote.storage.enable", "true"))
    configured("timestamps", ("message.timestamp.type", "LogAppendTime"))
    configured("local retention", ("local.retention.ms", "100"), ("retention.ms", "50"))
    configured("insync", ("min.insync.replicas", "0"))
    configured("insync 2", ("min.insync.replicas", "2"))
    configured("removed", ("message.format.version", "3.0"))
    configured("removed too", ("message.timestamp.difference.max.ms", "5"))
    configured("throttled", ("leader.replication.throttled.replicas", "0:1"))
    configured("badly throttled", ("leader.replication.throttled.replicas", "x"))
    configured("gzip level", ("compression.type", "gzip"), ("compression.gzip.level", "9"))
    configured("bad gzip level", ("compression.gzip.level", "10"))
    configured("internal", ("internal.segment.bytes", "2000000"))


@conversation(versions("CreateTopics", 5))
def test_create_topics_returns_configs(talk: Talk) -> None:
    create(talk, "one", {"configs": [{"name": "retention.ms", "value": "5"}]})


def delete(talk: Talk, note: str, *names: str, settle: bool = True) -> None:
    """Sends DeleteTopics by name, in the form of the version, and waits until the topics are gone."""
    if talk.version >= 6:
        wanted: dict[str, Any] = {"topics": [{"name": name} for name in names]}
    else:
        wanted = {"topic_names": list(names)}
    answer = talk.ask(
        "DeleteTopics", talk.version, note=note, timeout_ms=10_000, unordered={"responses": "name"}, **wanted
    )
    for topic in answer.responses:
        if topic.error_code == 0 and settle:
            talk.gone(topic.name)


@conversation(versions("DeleteTopics"))
def test_delete_topics(talk: Talk) -> None:
    one, two, three = talk.topic("one"), talk.topic("two"), talk.topic("three", partitions=3)
    delete(talk, "one", one)
    delete(talk, "again", one)
    delete(talk, "several", two, talk.name("unknown"), three)
    delete(talk, "nothing")
    for name in ("", "..", "a b", "__cluster_metadata"):
        delete(talk, f"name {name!r}", name)
    again = talk.topic("one")
    delete(talk, "twice in one", again, again)
    delete(talk, "twice unknown", one, one)


@conversation(versions("DeleteTopics", 6))
def test_delete_topics_by_id(talk: Talk) -> None:
    one, two = talk.topic("one"), talk.topic("two")

    def ask(note: str, *topics: dict[str, Any], **more: Any) -> None:
        talk.ask("DeleteTopics", talk.version, note=note, timeout_ms=10_000, topics=list(topics), **more)

    ask("unknown id", {"name": None, "topic_id": NOBODYS_ID})
    ask("neither", {"name": None})
    ask("id and name", {"name": one, "topic_id": talk.topic_ids[one]})
    ask("twice the same id", *[{"name": None, "topic_id": talk.topic_ids[one]}] * 2)
    ask(
        "name and id of one topic",
        {"name": two},
        {"name": None, "topic_id": talk.topic_ids[two]},
        unordered={"responses": "topic_id"},
    )
    one, two = talk.topic("three"), talk.topic("four")
    ask("known id", {"name": None, "topic_id": talk.topic_ids[one]})
    talk.gone(one)
    ask("the same id again", {"name": None, "topic_id": talk.topic_ids[one]})


@conversation(versions("CreatePartitions"))
def test_create_partitions(talk: Talk) -> None:
    name = talk.topic("grown", partitions=2)

    def ask(note: str, *topics: dict[str, Any], **more: Any) -> None:
        wanted = [{"name": name, "assignments": None} | topic for topic in topics]
        talk.ask(
            "CreatePartitions",
            talk.version,
            note=note,
            topics=wanted,
            timeout_ms=10_000,
            unordered={"results": "name"},
            **more,
        )

    for count in (2, 1, 0, -1):
        ask(f"to {count}", {"count": count})
    ask("unknown topic", {"name": talk.name("unknown"), "count": 2})
    ask("empty name", {"name": "", "count": 2})
    ask("bad name", {"name": "a b", "count": 2})
    ask("internal", {"name": "__cluster_metadata", "count": 2})
    ask("twice", {"count": 3}, {"count": 4})
    ask("nothing")
    ask("validated", {"count": 3}, validate_only=True)
    for rows, why in (
        ([[1], [1]], "too many"),
        ([], "none"),
        ([[7]], "unknown broker"),
        ([[]], "empty"),
        ([[1, 1]], "broker twice"),
        ([[1, 7]], "other factor"),
        ([[-1]], "negative broker"),
    ):
        ask(f"assignments: {why}", {"count": 3, "assignments": [{"broker_ids": row} for row in rows]})
    ask("assigned", {"count": 3, "assignments": [{"broker_ids": [1]}]})
    talk.led(name, 3)
    ask("two topics", {"count": 5}, {"name": talk.name("unknown"), "count": 3})
    talk.led(name, 5)
    talk.ask("Metadata", 12, note="afterwards", topics=[{"name": name}], allow_auto_topic_creation=False)
