"""Consumer groups of KIP-848: joining, reconciliation, fencing, static members, offsets, administration."""

from collections.abc import Callable
from typing import Any, NamedTuple

from bowstring._native.protocol.message_codec import decode
from bowstring.engine.groups.modern.cluster import ClusterView
from bowstring.engine.metadata.image import ClusterImage
from bowstring.protocol.records.cluster_metadata.topics import PartitionRecord, TopicRecord
from bowstring.protocol.records.consumer_group import ConsumerGroupMetadataValue
from tests.conformance.differential import membership as classic
from tests.conformance.differential.compare import conversation, versions
from tests.conformance.differential.group_log import Record, told
from tests.conformance.differential.settings import LARGEST_GROUP
from tests.conformance.differential.talk import Talk

BEAT, DESCRIBE = "ConsumerGroupHeartbeat", "ConsumerGroupDescribe"
TIMEOUT_MS = 30_000
# at the end of a record about a target assignment
_TIME_BYTES = 8


def beat(talk: Talk, note: str, group: str, member: str, epoch: int, **fields: Any) -> Any:
    """Sends a heartbeat, which the brokers answer alike."""
    return talk.ask(BEAT, 1, note=note, group_id=group, member_id=member, member_epoch=epoch, **fields)


def join(talk: Talk, note: str, group: str, member: str, *topics: str, **fields: Any) -> Any:
    """Joins with a subscription by names."""
    wanted: dict[str, Any] = {
        "rebalance_timeout_ms": TIMEOUT_MS,
        "topic_partitions": [],
        "subscribed_topic_names": list(topics),
    }
    return beat(talk, note, group, member, 0, **{**wanted, **fields})


def owned(talk: Talk, topic: str, *partitions: int) -> list[dict[str, Any]]:
    """What a member says it has."""
    return [{"topic_id": talk.topic_ids[topic], "partitions": list(partitions)}] if partitions else []


def describe(talk: Talk, note: str, *groups: str, version: int = 1) -> Any:
    """Describes groups."""
    return talk.ask(DESCRIBE, version, note=note, group_ids=list(groups), include_authorized_operations=True)


def fresh(talk: Talk, short: str, partitions: int) -> str:
    """Creates a topic and waits until the broker's group coordinator has it, too."""
    topic = talk.topic(short, partitions)
    group = talk.name(f"probe-{short}")
    fields = {
        "rebalance_timeout_ms": TIMEOUT_MS,
        "topic_partitions": [],
        "subscribed_topic_names": [topic],
    }
    talk.until(
        lambda answer: answer.assignment is not None and answer.assignment.topic_partitions,
        BEAT,
        1,
        group_id=group,
        member_id="probe",
        member_epoch=0,
        **fields,
    )
    talk.quietly(BEAT, 1, group_id=group, member_id="probe", member_epoch=-1)
    return topic


@conversation(versions(BEAT))
def test_requests_that_are_not_valid(talk: Talk) -> None:
    topic, group = talk.name("t"), talk.name("g")
    good: dict[str, Any] = {
        "group_id": group,
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": TIMEOUT_MS,
        "topic_partitions": [],
        "subscribed_topic_names": [topic],
    }
    refused: tuple[dict[str, Any], ...] = (
        {"group_id": ""},
        {"group_id": " "},
        {"member_id": "", "member_epoch": 1},
        {"member_id": "", "member_epoch": -1},
        {"instance_id": ""},
        {"rack_id": " "},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"topic_partitions": [{"topic_id": bytes(16), "partitions": [0]}]},
        {"subscribed_topic_names": None},
        {"server_assignor": "sticky"},
        {"server_assignor": ""},
        {"member_epoch": -2},
        {"member_epoch": -2, "instance_id": "i"},
        {"member_epoch": -3},
        {"member_epoch": -1},
        {"member_epoch": 1},
    )
    for number, bad in enumerate(refused):
        talk.ask(BEAT, talk.version, note=f"{number}: {bad}", **{**good, **bad})


@conversation()
def test_one_member(talk: Talk) -> None:
    topic, group = fresh(talk, "t", 3), talk.name("g")
    join(talk, "joins", group, "a", topic)
    describe(talk, "stable", group)
    beat(talk, "nothing new", group, "a", 2)
    beat(talk, "has its partitions", group, "a", 2, topic_partitions=owned(talk, topic, 0, 1, 2))
    beat(
        talk,
        "tells everything",
        group,
        "a",
        2,
        topic_partitions=owned(talk, topic, 0),
        rebalance_timeout_ms=TIMEOUT_MS,
        subscribed_topic_names=[topic],
    )
    beat(talk, "epoch from the future", group, "a", 3)
    beat(talk, "old epoch", group, "a", 1)
    beat(talk, "epoch before joining, no partitions", group, "a", 0)
    join(talk, "joins again", group, "a", topic)
    beat(talk, "other member", group, "b", 2)
    beat(talk, "instance id that nobody has", group, "a", 2, instance_id="i")
    beat(talk, "other rack", group, "a", 2, rack_id="r")
    beat(talk, "other assignor", group, "a", 2, server_assignor="range")
    describe(talk, "rack and assignor", group, version=0)
    beat(talk, "leaves as another", group, "b", -1)
    beat(talk, "leaves", group, "a", -1)
    beat(talk, "has left", group, "a", 2)
    beat(talk, "has left, leaves again", group, "a", -1)
    describe(talk, "empty, and others", group, talk.name("none"), "")
    join(talk, "comes back", group, "a", topic)


@conversation()
def test_subscriptions_change(talk: Talk) -> None:
    one, two, group = fresh(talk, "one", 1), fresh(talk, "two", 1), talk.name("g")
    none = talk.name("none")
    join(talk, "no topics", group, "a")
    join(talk, "a topic that is not there", group, "a", none)
    beat(talk, "one more", group, "a", 3, subscribed_topic_names=[none, one])
    beat(talk, "the other instead", group, "a", 4, subscribed_topic_names=[two])
    describe(talk, "must give one up", group)
    beat(talk, "still has it", group, "a", 4, topic_partitions=owned(talk, one, 0))
    beat(talk, "gave it up", group, "a", 4, topic_partitions=[])
    describe(talk, "has the other", group)
    beat(talk, "twice the same", group, "a", 5, subscribed_topic_names=[two, two])
    beat(talk, "none", group, "a", 5, subscribed_topic_names=[], topic_partitions=owned(talk, two, 0))
    beat(talk, "gave all up", group, "a", 5, topic_partitions=[])
    describe(talk, "has none", group)


@conversation()
def test_a_second_member_waits(talk: Talk) -> None:
    topic, group = fresh(talk, "t", 1), talk.name("g")
    join(talk, "first", group, "a", topic, server_assignor="range")
    join(talk, "second", group, "b", topic, server_assignor="range")
    describe(talk, "both", group)
    beat(talk, "first catches up", group, "a", 2)
    beat(talk, "first leaves", group, "a", -1)
    beat(talk, "second takes over", group, "b", 3)
    describe(talk, "one", group)
    join(talk, "sorts before it", group, "a", topic, server_assignor="range")
    describe(talk, "b must give up", group)
    beat(talk, "b is told", group, "b", 4)
    describe(talk, "b is told", group)
    beat(talk, "a waits", group, "a", 5)
    beat(talk, "b gives up", group, "b", 4, topic_partitions=[])
    beat(talk, "b heartbeats with its previous epoch", group, "b", 4, topic_partitions=[])
    beat(talk, "a gets it", group, "a", 5)
    beat(talk, "a gets it again?", group, "a", 5)
    describe(talk, "settled", group)


@conversation()
def test_a_full_group(talk: Talk) -> None:
    topic, group = fresh(talk, "t", 1), talk.name("g")
    for number in range(LARGEST_GROUP):
        join(talk, f"member {number}", group, f"m{number}", topic, server_assignor="range")
    join(talk, "one too many", group, "late", topic)
    join(talk, "one too many, static", group, "late", topic, instance_id="i")
    join(talk, "is in it", group, "m0", topic)


@conversation()
def test_static_members(talk: Talk) -> None:
    topic, group = fresh(talk, "t", 2), talk.name("g")
    join(talk, "joins", group, "a", topic, instance_id="i")
    join(talk, "another with its instance id", group, "b", topic, instance_id="i")
    join(talk, "again itself", group, "a", topic, instance_id="i")
    beat(talk, "without its instance id", group, "a", 2)
    beat(talk, "another member id", group, "b", 2, instance_id="i")
    beat(talk, "another instance id", group, "a", 2, instance_id="j")
    beat(talk, "another leaves", group, "b", -2, instance_id="i")
    beat(talk, "leaves for a while", group, "a", -2, instance_id="i")
    describe(talk, "away", group)
    beat(talk, "away", group, "a", 2, instance_id="i")
    join(talk, "comes back", group, "b", topic, instance_id="i")
    describe(talk, "back", group)
    beat(talk, "the old one", group, "a", 2, instance_id="i")
    beat(talk, "leaves", group, "b", -1, instance_id="i")
    describe(talk, "left", group)
    beat(talk, "leaves again", group, "b", -1, instance_id="i")


def commit(talk: Talk, note: str, group: str, topic: str, version: int, *indexes: int, **fields: Any) -> None:
    """Commits offset 1 of partitions."""
    partitions = [{"partition_index": index, "committed_offset": 1} for index in indexes]
    wanted = {"name": topic, "topic_id": talk.topic_ids[topic], "partitions": partitions}
    talk.ask("OffsetCommit", version, note=note, group_id=group, topics=[wanted], **fields)


@conversation(versions("OffsetCommit", first=8))
def test_offsets(talk: Talk) -> None:
    topic, group, version = fresh(talk, "t", 2), talk.name("g"), talk.version
    join(talk, "joins", group, "a", topic)
    for epoch in (2, 1, 3, 0, -1):
        commit(
            talk,
            f"epoch {epoch}",
            group,
            topic,
            version,
            0,
            1,
            member_id="a",
            generation_id_or_member_epoch=epoch,
        )
    commit(talk, "another", group, topic, version, 0, member_id="b", generation_id_or_member_epoch=2)
    commit(talk, "nobody", group, topic, version, 0)
    beat(talk, "a new epoch", group, "a", 2, subscribed_topic_names=[topic, talk.name("none")])
    for epoch in (2, 3):
        commit(
            talk,
            f"assigned in epoch 2, now {epoch}",
            group,
            topic,
            version,
            0,
            member_id="a",
            generation_id_or_member_epoch=epoch,
        )
    wanted = [{"name": topic, "topic_id": talk.topic_ids[topic], "partition_indexes": [0, 1]}]
    for member, epoch in ((None, -1), ("a", 3), ("a", 2), ("a", -1), ("b", 3), ("", -1)):
        asked = {"group_id": group, "member_id": member, "member_epoch": epoch, "topics": wanted}
        talk.ask("OffsetFetch", version, note=f"as {member} {epoch}", groups=[asked])
    delete = {"name": topic, "partitions": [{"partition_index": 0}]}
    talk.ask("OffsetDelete", 0, note="subscribed", group_id=group, topics=[delete])
    beat(talk, "other topics", group, "a", 3, subscribed_topic_names=[], topic_partitions=[])
    talk.ask("OffsetDelete", 0, note="not subscribed", group_id=group, topics=[delete])
    beat(talk, "leaves", group, "a", -1)
    commit(talk, "empty group", group, topic, version, 1)
    commit(
        talk,
        "empty group, a member",
        group,
        topic,
        version,
        1,
        member_id="a",
        generation_id_or_member_epoch=4,
    )
    talk.ask("OffsetDelete", 0, note="empty", group_id=group, topics=[delete])


@conversation()
def test_administration(talk: Talk) -> None:
    topic, group = fresh(talk, "t", 1), talk.name("g")
    join(talk, "joins", group, "a", topic)
    for version, filters in (
        (4, {}),
        (5, {"types_filter": ["consumer"]}),
        (5, {"types_filter": ["Consumer"], "states_filter": ["stable"]}),
        (5, {"types_filter": ["consumer"], "states_filter": ["Empty"]}),
        (5, {"types_filter": ["classic"]}),
    ):
        answer = talk.quietly("ListGroups", version, **filters)
        mine = [
            (each.protocol_type, each.group_state, each.group_type)
            for each in answer.groups
            if each.group_id == group
        ]
        talk.note(f"ListGroups v{version} {filters}", (answer.error_code, mine))
    for version in (5, 6):
        talk.ask("DescribeGroups", version, note="as a classic group", groups=[group])
    talk.ask("DeleteGroups", 2, note="not empty", groups_names=[group])
    beat(talk, "leaves", group, "a", -1)
    talk.ask("DeleteGroups", 2, note="empty", groups_names=[group])
    describe(talk, "deleted", group)
    join(talk, "a new one of the name", group, "a", topic)


@conversation()
def test_topics_change(talk: Talk) -> None:
    topic, group = fresh(talk, "t", 1), talk.name("g")
    join(talk, "joins", group, "a", topic)
    talk.quietly(
        "CreatePartitions",
        3,
        topics=[{"name": topic, "count": 2, "assignments": None}],
        timeout_ms=TIMEOUT_MS,
    )
    talk.led(topic, 2)
    seen = talk.until(
        lambda answer: answer.member_epoch == 3,
        BEAT,
        1,
        group_id=group,
        member_id="a",
        member_epoch=0,
        rebalance_timeout_ms=TIMEOUT_MS,
        topic_partitions=[],
        subscribed_topic_names=[topic],
    )
    talk.note("partitions", [list(each.partitions) for each in seen.assignment.topic_partitions])
    describe(talk, "two partitions", group)
    talk.quietly("DeleteTopics", 5, topic_names=[topic], timeout_ms=TIMEOUT_MS)
    seen = talk.until(
        lambda answer: answer.member_epoch == 4,
        BEAT,
        1,
        group_id=group,
        member_id="a",
        member_epoch=0,
        rebalance_timeout_ms=TIMEOUT_MS,
        topic_partitions=[],
        subscribed_topic_names=[topic],
    )
    talk.note("no partitions", [list(each.partitions) for each in seen.assignment.topic_partitions])


@conversation()
def test_a_group_of_the_other_kind(talk: Talk) -> None:
    topic, group = fresh(talk, "t", 1), talk.name("g")
    commit(talk, "a simple group", group, topic, 9, 0)
    join(talk, "becomes a consumer group", group, "a", topic)
    describe(talk, "consumer", group)
    talk.ask("Heartbeat", 4, note="classic heartbeat", group_id=group, generation_id=2, member_id="a")
    beat(talk, "leaves", group, "a", -1)


def rejoin(talk: Talk, note: str, group: str, member: str, *topics: str, **more: Any) -> Any:
    """A classic member joins with a subscription; returns the answer."""
    metadata = classic.subscription(b"", *topics)
    more = {"version": 9, "protocols": classic.protocols("range", metadata=metadata), **more}
    return classic.join(talk, note, group, member, **more)


def classic_group(talk: Talk, group: str, topic: str, **more: Any) -> tuple[str, int]:
    """A classic group whose only member has partition 0 of the topic; returns its id and generation."""
    metadata = classic.subscription(b"", topic)
    found = classic.enter(
        talk,
        "classic member",
        group,
        version=9,
        protocols=classic.protocols("range", metadata=metadata),
        **more,
    ).answer()
    mine, generation = found.member_id, found.generation_id
    assignment = classic.assignment(topic, 0)
    classic.sync(talk, "classic member", group, mine, generation, {mine: assignment}, **more).answer()
    return mine, generation


def classic_beat(talk: Talk, note: str, group: str, member: str, generation: int) -> Any:
    """A classic heartbeat."""
    return talk.ask("Heartbeat", 4, note=note, group_id=group, generation_id=generation, member_id=member)


def classic_sync(talk: Talk, note: str, group: str, member: str, generation: int, **more: Any) -> Any:
    """A SyncGroup of a follower."""
    fields = {"protocol_type": "consumer", "protocol_name": "range", "assignments": [], **more}
    return talk.ask(
        "SyncGroup", 5, note=note, group_id=group, member_id=member, generation_id=generation, **fields
    )


@conversation()
def test_a_classic_group_becomes_a_consumer_group(talk: Talk) -> None:
    topic, group = fresh(talk, "t", 1), talk.name("g")
    old, generation = classic_group(talk, group, topic)
    join(talk, "joins", group, "new", topic)
    describe(talk, "one of each kind", group)
    describe(talk, "old version", group, version=0)
    classic.describe(talk, "not as a classic group", group)
    classic_beat(talk, "must rejoin", group, old, generation)
    classic_sync(talk, "must rejoin", group, old, generation)
    classic_beat(talk, "of another generation", group, old, generation + 7)
    classic_beat(talk, "of the new one", group, "new", 2)
    answer = rejoin(talk, "rejoins", group, old, topic)
    classic_sync(talk, "with another protocol", group, old, answer.generation_id, protocol_name="roundrobin")
    classic_sync(talk, "its assignment", group, old, answer.generation_id)
    classic_beat(talk, "goes on", group, old, answer.generation_id)
    beat(talk, "the new one", group, "new", 2)
    describe(talk, "both again", group)
    commit(
        talk,
        "classic commit",
        group,
        topic,
        8,
        0,
        member_id=old,
        generation_id_or_member_epoch=answer.generation_id,
    )
    commit(talk, "classic commit, wrong", group, topic, 8, 0, member_id=old, generation_id_or_member_epoch=99)
    classic.leave(talk, "classic member leaves", group, old, version=5)
    describe(talk, "the new one is left", group)
    beat(talk, "the new one", group, "new", 2)
    beat(talk, "the new one", group, "new", 3)
    rejoin(talk, "another classic one, without id", group, "", topic)
    rejoin(talk, "another classic one", group, "c", topic)
    rejoin(talk, "with another protocol type", group, "d", topic, protocol_type="connect")
    rejoin(talk, "with another protocol", group, "d", topic, protocols=classic.protocols("sticky"))
    classic.leave(talk, "nobody", group, "nobody", version=5)
    beat(talk, "the new one leaves: the group is classic again", group, "new", -1)
    classic.describe(talk, "classic again", group)
    describe(talk, "no consumer group", group)


@conversation()
def test_a_static_member_changes_its_protocol(talk: Talk) -> None:
    topic, group = fresh(talk, "t", 1), talk.name("g")
    more = {"group_instance_id": "i"}
    old, generation = classic_group(talk, group, topic, **more)
    join(talk, "upgrades", group, "new", topic, instance_id="i")
    describe(talk, "upgraded", group)
    classic_beat(talk, "the old member id", group, old, generation)
    beat(talk, "goes on", group, "new", 2)
    answer = rejoin(talk, "downgrades", group, "", topic, **more)
    classic.describe(talk, "downgraded", group)
    describe(talk, "downgraded", group)
    beat(talk, "the old protocol", group, "new", 2)
    talk.ask(
        "Heartbeat",
        4,
        note="goes on",
        group_id=group,
        generation_id=answer.generation_id,
        member_id=answer.member_id,
        **more,
    )
    classic_sync(talk, "its assignment", group, answer.member_id, answer.generation_id, **more)


@conversation()
def test_groups_that_cannot_be_upgraded(talk: Talk) -> None:
    topic, group = fresh(talk, "t", 1), talk.name("g")
    found = classic.enter(
        talk, "no consumer", group, version=9, protocol_type="connect", protocols=classic.protocols("x")
    ).answer()
    classic.sync(
        talk,
        "no consumer",
        group,
        found.member_id,
        found.generation_id,
        {},
        protocol_type="connect",
        protocol_name="x",
    ).answer()
    join(talk, "joins", group, "new", topic)
    other = talk.name("other")
    found = classic.enter(talk, "odd assignment", other, version=9).answer()
    mine = found.member_id
    classic.sync(talk, "odd assignment", other, mine, found.generation_id, {mine: b"xyz"}).answer()
    join(talk, "joins", other, "new", topic)
    classic_beat(talk, "still classic", other, mine, found.generation_id)


@conversation()
def test_an_empty_group_changes_its_kind(talk: Talk) -> None:
    topic, group = fresh(talk, "t", 1), talk.name("g")
    old, _ = classic_group(talk, group, topic)
    classic.leave(talk, "leaves", group, old, version=5)
    join(talk, "a consumer group", group, "new", topic)
    beat(talk, "leaves", group, "new", -1)
    rejoin(talk, "unknown member", group, "someone", topic)
    classic_group(talk, group, topic)
    classic.describe(talk, "a classic group", group)


@conversation()
def test_regular_expressions(talk: Talk) -> None:
    one, two, group = fresh(talk, "abc", 1), fresh(talk, "abd", 1), talk.name("g")
    names = {"subscribed_topic_names": None}
    regex = talk.name("ab[cx]").replace(".", "[.]")
    for bad in ("[", "(?<=a)b", "a{2001}", "(a))", "\\1"):
        join(talk, f"invalid: {bad}", group, "a", **names, subscribed_topic_regex=bad)
    epoch = join(talk, "joins", group, "a", **names, subscribed_topic_regex=regex).member_epoch
    found = talk.until(
        lambda answer: answer.member_epoch > epoch,
        *(BEAT, 1),
        **{"group_id": group, "member_id": "a", "member_epoch": epoch},
    )
    talk.note(
        "resolved",
        [found.member_epoch, [list(each.partitions) for each in found.assignment.topic_partitions]],
    )
    describe(talk, "resolved", group)
    join(talk, "another with it", group, "b", **names, subscribed_topic_regex=regex)
    beat(talk, "by name as well", group, "b", 4, subscribed_topic_names=[two])
    describe(talk, "both", group)
    beat(talk, "no expression", group, "b", 5, subscribed_topic_regex="")
    beat(talk, "the first leaves", group, "a", -1)
    describe(talk, "nobody has it", group)
    beat(talk, "an invalid one", group, "b", 6, subscribed_topic_regex="(")
    delete = {"name": one, "partitions": [{"partition_index": 0}]}
    talk.ask("OffsetDelete", 0, note="not subscribed any more", group_id=group, topics=[delete])


class Source(NamedTuple):
    """A metadata image without a cluster."""

    image: ClusterImage


def expected_hash(talk: Talk, topic: str, partitions: int) -> int:
    """Returns the hash of the metadata of one topic, whose replicas have no rack."""
    image = ClusterImage()
    image.apply(TopicRecord(name=topic, topic_id=talk.topic_ids[topic]))
    for index in range(partitions):
        image.apply(PartitionRecord(partition_id=index, topic_id=talk.topic_ids[topic], replicas=[1]))
    return ClusterView(Source(image)).metadata_hash([topic])


def hiding(hashes: dict[int, bytes]) -> Callable[[Record], Record]:
    """Returns a function that replaces hashes by words and drops the time of an assignment."""

    def comparable(record: Record) -> Record:
        key, value = record
        if key[:2] == b"\0\6" and value is not None:
            return key, value[:-_TIME_BYTES]
        if key[:2] != b"\0\3" or value is None:
            return record
        body = decode(ConsumerGroupMetadataValue, 0, value, 2)
        return key, b"epoch %d, hash %s" % (body.epoch, hashes.get(body.metadata_hash, b"unknown"))

    return comparable


@conversation()
def test_records(talk: Talk) -> None:
    topic, group = fresh(talk, "t", 2), talk.name("g")
    hashes = {0: b"of no topic", expected_hash(talk, topic, 2): b"as expected"}

    comparable = hiding(hashes)
    join(talk, "joins", group, "a", topic, instance_id="i", server_assignor="uniform", rack_id="r")
    told(talk, "joined", group, comparable)
    beat(talk, "leaves for a while", group, "a", -2, instance_id="i")
    join(talk, "comes back", group, "b", topic, instance_id="i")
    told(talk, "back", group, comparable)
    beat(talk, "no topics", group, "b", 2, instance_id="i", subscribed_topic_names=[])
    told(talk, "must give up", group, comparable)
    beat(talk, "gave up", group, "b", 2, instance_id="i", topic_partitions=[])
    told(talk, "gave up", group, comparable)
    beat(talk, "leaves", group, "b", -1, instance_id="i")
    told(talk, "left", group, comparable)
    talk.ask("DeleteGroups", 2, groups_names=[group])
    told(talk, "deleted", group, comparable)


@conversation()
def test_records_of_a_group_that_changes_its_kind(talk: Talk) -> None:
    topic, group = fresh(talk, "t", 1), talk.name("g")
    hashes = {expected_hash(talk, topic, 1): b"as expected"}

    comparable = hiding(hashes)
    more = {"group_instance_id": "i"}
    classic_group(talk, group, topic, **more)
    told(talk, "classic", group, comparable)
    join(talk, "upgrades", group, "new", topic, instance_id="i")
    told(talk, "upgraded", group, comparable)
    beat(talk, "leaves", group, "new", -1, instance_id="i")
    told(talk, "left", group, comparable)
