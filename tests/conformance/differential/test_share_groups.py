"""Share groups (KIP-932) as raw requests: members, offsets, deletion."""

from collections.abc import Callable
from typing import Any

from bowstring._native.record.encode import encode_batch
from tests.conformance.differential.compare import conversation, versions
from tests.conformance.differential.talk import Talk
from tests.support.waiting import wait_until


class Members:
    """A group, and the epochs of its members. Assignments come at once."""

    def __init__(self, talk: Talk, *, interval_ms: int = 0) -> None:
        self.talk = talk
        self.id = talk.name("group")
        self.epochs: dict[str, int] = {}
        configs = [{"name": "share.assignment.interval.ms", "config_operation": 0, "value": str(interval_ms)}]
        talk.quietly(
            "IncrementalAlterConfigs",
            1,
            resources=[{"resource_type": 32, "resource_name": self.id, "configs": configs}],
        )

    def beat(self, note: str, member: str = "m", *, quiet: bool = False, **fields: Any) -> Any:
        fields = {
            "group_id": self.id,
            "member_id": member,
            "member_epoch": self.epochs.get(member, 0),
        } | fields
        if quiet:
            answer = self.talk.quietly("ShareGroupHeartbeat", 1, **fields)
        else:
            answer = self.talk.ask("ShareGroupHeartbeat", 1, note=note, **fields)
        if answer.error_code == 0:
            self.epochs[member] = max(answer.member_epoch, 0)
        return answer

    def join(self, *topics: str, member: str = "m", **fields: Any) -> Any:
        return self.beat("joins", member, member_epoch=0, subscribed_topic_names=list(topics), **fields)

    def assigned(self, count: int, member: str = "m") -> None:
        """Sends heartbeats until the member has that many partitions; then describes the group."""

        def held() -> int:
            self.beat("", member, quiet=True)
            (group,) = self.talk.quietly("ShareGroupDescribe", 1, group_ids=[self.id]).groups
            found = next(each for each in group.members if each.member_id == member)
            return sum(len(topic.partitions) for topic in found.assignment.topic_partitions)

        wait_until(lambda: held() == count, f"{member} did not get {count} partitions")

    def until(self, done: Callable[[Any], bool], member: str = "m") -> None:
        """Sends heartbeats until an answer will do."""
        wait_until(lambda: done(self.beat("", member, quiet=True)), "no such answer to a heartbeat")

    def describe(self, note: str = "", **fields: Any) -> Any:
        return self.talk.ask("ShareGroupDescribe", 1, note=note, group_ids=[self.id], **fields)

    def offsets(self, note: str, version: int = 1, topics: Any = None) -> Any:
        groups = [{"group_id": self.id, "topics": topics}]
        return self.talk.ask("DescribeShareGroupOffsets", version, note=note, groups=groups)

    def alter(self, note: str, topic: str, *offsets: tuple[int, int], group: str | None = None) -> Any:
        partitions = [{"partition_index": index, "start_offset": offset} for index, offset in offsets]
        return self.talk.ask(
            "AlterShareGroupOffsets",
            0,
            note=note,
            group_id=self.id if group is None else group,
            topics=[{"topic_name": topic, "partitions": partitions}],
        )

    def delete_offsets(self, note: str, *topics: str, group: str | None = None) -> Any:
        return self.talk.ask(
            "DeleteShareGroupOffsets",
            0,
            note=note,
            group_id=self.id if group is None else group,
            topics=[{"topic_name": topic} for topic in topics],
            unordered={"responses": "topic_name"},
        )

    def delete(self, note: str) -> Any:
        return self.talk.ask("DeleteGroups", 2, note=note, groups_names=[self.id])


@conversation()
def test_one_member(talk: Talk) -> None:
    topic = talk.topic("t", 2)
    group = Members(talk)
    group.describe("before there is a group")
    group.join(topic)
    group.assigned(2)
    group.describe()
    group.beat("nothing new")
    group.beat("everything", subscribed_topic_names=[topic])
    group.beat("from a rack", rack_id="r")
    group.describe(include_authorized_operations=True)
    group.beat("leaves", member_epoch=-1)
    group.beat("after it has left", member_epoch=1)
    group.describe("empty")


@conversation()
def test_two_members_share_a_partition(talk: Talk) -> None:
    topic = talk.topic("t", 1)
    group = Members(talk)
    group.join(topic, member="a")
    group.assigned(1, "a")
    group.join(topic, member="b")
    group.assigned(1, "b")
    group.beat("", "a")
    group.beat("leaves", "b", member_epoch=-1)
    group.beat("", "a")


@conversation()
def test_subscriptions_change(talk: Talk) -> None:
    first, second = talk.topic("a", 1), talk.topic("b", 2)
    group = Members(talk)
    group.join(first, "no-such-topic")
    group.assigned(1)
    group.beat("another topic, too", subscribed_topic_names=[first, second])
    group.assigned(3)
    group.beat("only the other", subscribed_topic_names=[second])
    group.describe()
    group.beat("nothing", subscribed_topic_names=[])
    group.describe()


@conversation()
def test_epochs(talk: Talk) -> None:
    topic = talk.topic("t", 1)
    group = Members(talk)
    group.beat("before it joins", member_epoch=1)
    group.join(topic)
    group.assigned(1)
    epoch = group.epochs["m"]
    group.beat("of the future", member_epoch=epoch + 1)
    group.beat("long ago", member_epoch=epoch - 2)
    group.beat("the one before", member_epoch=epoch - 1)
    group.beat("of another member", "x", member_epoch=epoch)
    group.beat("another member leaves", "x", member_epoch=-1)
    group.join(topic)


@conversation()
def test_invalid_heartbeats(talk: Talk) -> None:
    group = Members(talk)
    topic = talk.topic("t")
    wrong: tuple[dict[str, Any], ...] = (
        {"member_id": ""},
        {"member_id": "x" * 37},
        {"member_id": " "},
        {"group_id": ""},
        {"rack_id": ""},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": []},
        {"member_epoch": -2},
    )
    for fields in wrong:
        group.join(topic) if not fields else group.beat(
            str(fields), **({"subscribed_topic_names": [topic]} | fields)
        )


@conversation(versions("DescribeShareGroupOffsets"))
def test_offsets(talk: Talk) -> None:
    topic = talk.topic("t", 2)
    group = Members(talk)
    for _ in range(3):
        talk.write(topic, encode_batch([(b"k", b"v", 1_700_000_000_000, ())]))
    group.offsets("before there is a group", talk.version)
    group.alter("of a new group", topic, (0, 2), (1, 0), (5, 0))
    group.describe()
    group.offsets("all", talk.version)
    group.offsets("some", talk.version, [{"topic_name": topic, "partitions": [0]}])
    group.offsets("unknown", talk.version, [{"topic_name": "no-such", "partitions": [0]}])
    group.offsets("none", talk.version, [])
    group.alter("again", topic, (0, 1))
    group.alter("of an unknown topic", "no-such", (0, 1))
    group.alter("without a group", topic, (0, 1), group="")
    group.offsets("all", talk.version)


@conversation()
def test_deleted_offsets(talk: Talk) -> None:
    topic, other = talk.topic("t", 2), talk.topic("u")
    group = Members(talk)
    group.delete_offsets("of an unknown group", topic)
    group.alter("sets", topic, (0, 0), (1, 0))
    group.delete_offsets("", topic, other, "no-such")
    group.offsets("all")
    group.delete_offsets("again", topic)
    group.delete_offsets("without a group", topic, group="")
    group.alter("sets again", topic, (0, 0))
    group.offsets("all")


@conversation()
def test_groups_with_members(talk: Talk) -> None:
    topic = talk.topic("t")
    group = Members(talk)
    group.join(topic)
    group.assigned(1)
    group.alter("with a member", topic, (0, 0))
    group.delete_offsets("with a member", topic)
    group.delete("with a member")
    group.beat("leaves", member_epoch=-1)
    group.offsets("", topics=[{"topic_name": topic, "partitions": [0]}])
    group.delete("empty")
    group.delete("again")
    group.describe("deleted")
    group.offsets("deleted", topics=[{"topic_name": topic, "partitions": [0]}])


@conversation()
def test_other_requests_for_share_groups(talk: Talk) -> None:
    topic = talk.topic("t")
    group = Members(talk)
    group.join(topic)
    group.assigned(1)
    offsets = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    talk.ask("OffsetCommit", 8, group_id=group.id, generation_id_or_member_epoch=-1, topics=offsets)
    talk.ask(
        "OffsetDelete", 0, group_id=group.id, topics=[{"name": topic, "partitions": [{"partition_index": 0}]}]
    )
    talk.ask("OffsetFetch", 8, groups=[{"group_id": group.id, "topics": None}])
    talk.ask("DescribeGroups", 6, groups=[group.id])
    talk.ask("ConsumerGroupDescribe", 1, group_ids=[group.id])
    talk.ask(
        "ConsumerGroupHeartbeat",
        1,
        group_id=group.id,
        member_id="c",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    talk.ask("Heartbeat", 4, group_id=group.id, generation_id=1, member_id="m")
    talk.ask("LeaveGroup", 4, group_id=group.id, members=[{"member_id": "m"}])
    talk.ask(
        "JoinGroup",
        9,
        group_id=group.id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )
    talk.ask("SyncGroup", 5, group_id=group.id, generation_id=1, member_id="m")
    listed = talk.quietly("ListGroups", 5, states_filter=[], types_filter=["Share"])
    found = [
        (each.group_type, each.group_state, each.protocol_type)
        for each in listed.groups
        if each.group_id == group.id
    ]
    talk.note("ListGroups", found)


@conversation()
def test_share_members_in_other_groups(talk: Talk) -> None:
    topic = talk.topic("t")
    group = Members(talk)
    offsets = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    talk.ask("OffsetCommit", 8, group_id=group.id, generation_id_or_member_epoch=-1, topics=offsets)
    group.join(topic)
    group.alter("", topic, (0, 0))
    group.delete_offsets("", topic)
    group.describe()


@conversation()
def test_deleted_topics(talk: Talk) -> None:
    topic, other = talk.topic("t", 1), talk.topic("u", 1)
    group = Members(talk)
    group.join(topic, other)
    group.assigned(2)
    talk.quietly("DeleteTopics", 6, topics=[{"name": topic}], timeout_ms=30_000)
    talk.gone(topic)
    before = group.epochs["m"]
    group.until(lambda answer: answer.member_epoch > before)
    group.describe()
    group.offsets("all")
