"""What __consumer_offsets holds after the same commits and group changes: tools and the other broker read it too."""

from tests.conformance.differential.compare import conversation
from tests.conformance.differential.group_log import told
from tests.conformance.differential.membership import join, leave, protocols, stable, sync
from tests.conformance.differential.talk import Talk


@conversation()
def test_records_of_offsets(talk: Talk) -> None:
    group, topic = talk.name("g"), talk.topic("t", partitions=2)
    for version in (2, 6, 9, 10):
        rows = [
            {
                "partition_index": index,
                "committed_offset": 5 + index,
                "committed_leader_epoch": index - 1,
                "committed_metadata": "m\u20ac" * index,
            }
            for index in (0, 1)
        ]
        talk.ask(
            "OffsetCommit",
            version,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            retention_time_ms=86_400_000,
            topics=[{"name": topic, "topic_id": talk.topic_ids[topic], "partitions": rows}],
        )
    told(talk, "committed", group)
    topics = [{"name": topic, "partitions": [{"partition_index": 0}]}]
    talk.ask("OffsetDelete", 0, group_id=group, topics=topics)
    told(talk, "one deleted", group)
    talk.ask("DeleteGroups", 2, groups_names=[group])
    told(talk, "all deleted", group)


@conversation()
def test_records_of_groups(talk: Talk) -> None:
    group = talk.name("g")
    mine, _ = stable(talk, group, protocols=protocols("range", "sticky"))
    told(talk, "stable", group)
    answer = join(talk, "again", group, mine, version=9)
    told(talk, "joined again", group)
    sync(talk, "again", group, mine, answer.generation_id, {mine: b"other"}).answer()
    told(talk, "stable again", group)
    leave(talk, "leaves", group, mine)
    told(talk, "empty", group)
    talk.ask("DeleteGroups", 2, groups_names=[group])
    told(talk, "deleted", group)


@conversation()
def test_records_of_static_members(talk: Talk) -> None:
    group = talk.name("g")
    stable(talk, group, group_instance_id="i")
    told(talk, "stable", group)
    join(talk, "restarted", group, group_instance_id="i", version=9)
    told(talk, "restarted", group)
    leave(talk, "leaves", group, {"member_id": "", "group_instance_id": "i"})
    told(talk, "empty", group)
