"""Committed offsets: OffsetCommit, OffsetFetch and OffsetDelete by members, strangers and simple consumers."""

from typing import Any

from tests.conformance.differential.compare import conversation, versions
from tests.conformance.differential.membership import (
    NOBODY,
    enter,
    leave,
    protocols,
    stable,
    subscription,
    sync,
)
from tests.conformance.differential.talk import Talk

NOBODYS_ID = bytes(range(16))
# offset.metadata.max.bytes
LARGEST_METADATA_BYTES = 4096
Rows = list[dict[str, Any]]


def at(offset: int, partition: int = 0, metadata: str | None = "m", epoch: int = -1) -> dict[str, Any]:
    """One partition of an OffsetCommit."""
    return {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_leader_epoch": epoch,
        "committed_metadata": metadata,
    }


def named(talk: Talk, topic: str) -> dict[str, Any]:
    """A topic by name and by id: the encoder keeps the one that the version has."""
    return {"name": topic, "topic_id": talk.topic_ids.get(topic, NOBODYS_ID)}


def commit(talk: Talk, note: str, group: str, *topics: tuple[str, Rows], **more: Any) -> None:
    """Sends OffsetCommit; without a member or generation by default."""
    fields: dict[str, Any] = {
        "group_id": group,
        "generation_id_or_member_epoch": more.pop("generation", -1),
        "member_id": more.pop("member", ""),
        "topics": [named(talk, topic) | {"partitions": rows} for topic, rows in topics],
    } | more
    talk.ask("OffsetCommit", fields.pop("version", talk.version), note=note, **fields)


def fetch(talk: Talk, note: str, group: str, *topics: tuple[str, list[int]], **more: Any) -> None:
    """Sends OffsetFetch for one group."""
    wanted = [named(talk, topic) | {"partition_indexes": indexes} for topic, indexes in topics]
    fetch_groups(talk, note, {"group_id": group, "topics": wanted}, **more)


def fetch_groups(talk: Talk, note: str, *groups: dict[str, Any], version: int = -1, **more: Any) -> None:
    """Sends OffsetFetch; for several groups since version 8. Sorts topics by name: they have no order."""
    version = talk.version if version < 0 else version
    what: dict[str, Any] = {"groups": list(groups)}
    if version < 8:
        topics = groups[0]["topics"]
        if topics is not None:
            topics = [{key: value for key, value in topic.items() if key != "topic_id"} for topic in topics]
        what = {"group_id": groups[0]["group_id"], "topics": topics}
    talk.ask("OffsetFetch", version, note=note, **what, **more)
    found = talk.transcript[-1][1]
    for each in found["groups"] if version >= 8 else [found]:
        each["topics"].sort(key=str)


@conversation(versions("OffsetCommit"))
def test_commits_of_simple_consumers(talk: Talk) -> None:
    group, topic, other = talk.name("g"), talk.topic("t", partitions=2), talk.topic("other")
    commit(talk, "first", group, (topic, [at(5)]))
    commit(talk, "several", group, (topic, [at(6), at(7, 1)]), (other, [at(8)]))
    for offset in (0, -1, -2, -1001, 0x7FFFFFFFFFFFFFFF):
        commit(talk, f"offset {offset}", group, (topic, [at(offset)]))
    for epoch in (0, 1, -1, -2, 1000):
        commit(talk, f"epoch {epoch}", group, (other, [at(1, epoch=epoch)]))
    commit(talk, "unknown partition", group, (topic, [at(1, 2), at(2, 1), at(3, -1)]))
    commit(talk, "unknown topic", group, (talk.name("unknown"), [at(1)]), (other, [at(9)]))
    commit(talk, "nothing", group)
    commit(talk, "no partitions", group, (topic, []))
    commit(talk, "twice", group, (topic, [at(1), at(2)]))
    commit(talk, "kept for a while", group, (topic, [at(3)]), retention_time_ms=1000)
    commit(talk, "kept for no time", group, (topic, [at(4)]), retention_time_ms=0)
    if talk.version < 10:
        commit(talk, "bad name", group, ("a b", [at(1)]))
        commit(talk, "empty name", group, ("", [at(1)]))
    fetch(talk, "in the end", group, (topic, [0, 1]), (other, [0]), version=9)


@conversation(versions("OffsetCommit"))
def test_commits_with_metadata(talk: Talk) -> None:
    group, topic = talk.name("g"), talk.topic("t", partitions=3)
    for note, metadata in (
        ("none", None),
        ("empty", ""),
        ("odd", "ä\u20ac\U0001f600"),
        ("largest", "x" * LARGEST_METADATA_BYTES),
        ("too large", "x" * (LARGEST_METADATA_BYTES + 1)),
        ("in bytes", "ä" * 3000),
    ):
        commit(talk, note, group, (topic, [at(1, 0, metadata), at(2, 1)]))
        fetch(talk, note, group, (topic, [0, 1, 2]), version=9)


@conversation(versions("OffsetCommit"))
def test_commits_without_right(talk: Talk) -> None:
    group, topic = talk.name("g"), talk.topic("t")
    commit(talk, "generation, but no group", group, (topic, [at(1)]), generation=1, member=NOBODY)
    commit(talk, "generation, but no member", group, (topic, [at(1)]), generation=1)
    commit(talk, "member, but no generation", group, (topic, [at(1)]), member=NOBODY)
    commit(talk, "generation 0", group, (topic, [at(1)]), generation=0, member="")
    commit(talk, "no group id", "", (topic, [at(1)]))
    commit(talk, "blank group id", " ", (topic, [at(1)]))
    commit(talk, "no group id, member", "", (topic, [at(1)]), generation=1, member=NOBODY)
    if talk.version >= 7:
        commit(talk, "instance", group, (topic, [at(1)]), group_instance_id="i")


@conversation(versions("OffsetCommit"))
def test_commits_of_members(talk: Talk) -> None:
    group, topic = talk.name("g"), talk.topic("t")
    rows = (topic, [at(1)])
    answer = enter(talk, "join", group, version=9).answer()
    mine = answer.member_id
    commit(talk, "before the sync", group, rows, generation=1, member=mine)
    sync(talk, "sync", group, mine, 1, {mine: b"x"}).answer()
    commit(talk, "right", group, rows, generation=1, member=mine)
    for generation in (0, 2, -1, -2):
        commit(talk, f"generation {generation}", group, rows, generation=generation, member=mine)
    commit(talk, "stranger", group, rows, generation=1, member=NOBODY)
    commit(talk, "stranger without generation", group, rows, member=NOBODY)
    commit(talk, "simple consumer", group, rows)
    commit(talk, "no member", group, rows, generation=1)
    if talk.version >= 7:
        commit(talk, "unknown instance", group, rows, generation=1, member=mine, group_instance_id="i")
    leave(talk, "leave", group, mine)
    commit(talk, "left", group, rows, generation=1, member=mine)
    commit(talk, "simple consumer afterwards", group, rows)
    if talk.version >= 7:
        mine, generation = stable(talk, group, group_instance_id="i")
        for instance, member in (("i", mine), ("i", NOBODY), ("j", mine), (None, mine)):
            commit(
                talk,
                f"instance {instance}",
                group,
                rows,
                generation=generation,
                member=member,
                group_instance_id=instance,
            )
        leave(talk, "static leaves", group, {"member_id": "", "group_instance_id": "i"})


@conversation(versions("OffsetCommit", 10))
def test_commits_by_id(talk: Talk) -> None:
    group, topic = talk.name("g"), talk.topic("t")
    talk.topic_ids["zero"] = bytes(16)
    commit(talk, "zero id", group, ("zero", [at(1)]))
    commit(talk, "unknown id", group, ("nobody", [at(1)]), (topic, [at(1)]))


@conversation(versions("OffsetFetch"))
def test_fetches(talk: Talk) -> None:
    group, topic, other = talk.name("g"), talk.topic("t", partitions=3), talk.topic("other")
    commit(talk, "some", group, (topic, [at(5), at(7, 1, "", 0)]), (other, [at(8, 0, "ä")]), version=9)
    fetch(talk, "one", group, (topic, [0]))
    fetch(talk, "several", group, (topic, [1, 0]), (other, [0]))
    fetch(talk, "without commit", group, (topic, [2, 0]))
    fetch(talk, "unknown partition", group, (topic, [7, -1]))
    fetch(talk, "unknown topic", group, (talk.name("unknown"), [0]), (other, [0]))
    fetch(talk, "no partitions", group, (topic, []))
    fetch(talk, "no topics", group)
    fetch(talk, "unknown group", talk.name("unknown"), (topic, [0]))
    fetch(talk, "no group id", "", (topic, [0]))
    fetch(talk, "blank group id", " ", (topic, [0]))
    if talk.version >= 2:
        fetch_groups(talk, "all", {"group_id": group, "topics": None})
        fetch_groups(talk, "all of an unknown group", {"group_id": talk.name("unknown"), "topics": None})
    if talk.version >= 7:
        fetch(talk, "stable ones", group, (topic, [0, 2]), require_stable=True)
        fetch_groups(talk, "all stable ones", {"group_id": group, "topics": None}, require_stable=True)


@conversation(versions("OffsetFetch"))
def test_fetches_of_what_is_named_twice(talk: Talk) -> None:
    group, topic = talk.name("g"), talk.topic("t", partitions=2)
    commit(talk, "some", group, (topic, [at(5), at(7, 1)]), version=9)
    fetch(talk, "topic twice", group, (topic, [0]), (topic, [1]))


@conversation(versions("OffsetFetch", 8))
def test_fetches_of_several_groups(talk: Talk) -> None:
    one, two, topic = talk.name("one"), talk.name("two"), talk.topic("t", partitions=2)
    commit(talk, "one", one, (topic, [at(5)]), version=9)
    commit(talk, "two", two, (topic, [at(6), at(7, 1)]), version=9)
    some = [named(talk, topic) | {"partition_indexes": [0, 1]}]
    fetch_groups(talk, "both", {"group_id": one, "topics": some}, {"group_id": two, "topics": some})
    fetch_groups(talk, "both, all", {"group_id": one, "topics": None}, {"group_id": two, "topics": None})
    fetch_groups(talk, "mixed", {"group_id": two, "topics": None}, {"group_id": one, "topics": some})
    unknown = talk.name("unknown")
    fetch_groups(
        talk, "one unknown", {"group_id": unknown, "topics": some}, {"group_id": two, "topics": some}
    )
    fetch_groups(talk, "none")
    fetch_groups(talk, "one empty id", {"group_id": "", "topics": some}, {"group_id": one, "topics": some})
    if talk.version >= 9:
        mine, generation = stable(talk, one)
        for note, member, epoch in (
            ("member", mine, generation),
            ("wrong epoch", mine, 7),
            ("stranger", NOBODY, 1),
            ("no member", None, 1),
            ("no epoch", mine, -1),
        ):
            who = {"group_id": one, "topics": some, "member_id": member, "member_epoch": epoch}
            fetch_groups(talk, note, who)
        leave(talk, "leaves", one, mine)


@conversation(versions("OffsetFetch", 10))
def test_fetches_by_id(talk: Talk) -> None:
    group, topic = talk.name("g"), talk.topic("t")
    commit(talk, "one", group, (topic, [at(5)]), version=9)
    talk.topic_ids["zero"] = bytes(16)
    fetch(talk, "zero id", group, ("zero", [0]))
    fetch(talk, "unknown id", group, ("nobody", [0]), (topic, [0]))


@conversation(versions("OffsetDelete"))
def test_offset_delete(talk: Talk) -> None:
    group, topic, other = talk.name("g"), talk.topic("t", partitions=3), talk.topic("other")

    def ask(note: str, *topics: tuple[str, list[int]], group: str = group) -> None:
        wanted = [
            {"name": name, "partitions": [{"partition_index": index} for index in indexes]}
            for name, indexes in topics
        ]
        talk.ask("OffsetDelete", 0, note=note, group_id=group, topics=wanted, unordered={"topics": "name"})

    ask("no group", (topic, [0]))
    ask("no group id", (topic, [0]), group="")
    commit(talk, "some", group, (topic, [at(5), at(7, 1)]), (other, [at(8)]), version=9)
    ask("one", (topic, [0]))
    ask("again", (topic, [0]))
    ask("without commit", (topic, [2]))
    ask("unknown partition", (topic, [9, 1]))
    ask("unknown topic", (talk.name("unknown"), [0]))
    ask("nothing")
    ask("no partitions", (other, []))
    fetch(talk, "left", group, (topic, [0, 1]), (other, [0]), version=9)
    reads = protocols("range", metadata=subscription(b"", topic))
    mine, generation = stable(talk, group, protocols=reads)
    commit(talk, "by a member", group, (topic, [at(5)]), generation=generation, member=mine, version=9)
    ask("subscribed", (topic, [0]))
    ask("subscribed and not", (topic, [0]), (other, [0]))
    leave(talk, "leaves", group, mine)
    ask("not any more", (topic, [0]))
    mine, _ = stable(talk, talk.name("connect"), protocol_type="connect")
    ask("other protocol type", (topic, [0]), group=talk.name("connect"))
    leave(talk, "leaves too", talk.name("connect"), mine)
