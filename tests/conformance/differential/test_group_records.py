"""What __consumer_offsets holds after the same commits and group changes: tools and the other broker read it too."""

import re
from collections.abc import Callable

from tests.conformance.differential.compare import conversation
from tests.conformance.differential.fetching import part
from tests.conformance.differential.membership import join, leave, protocols, stable, sync
from tests.conformance.differential.settings import SETTINGS
from tests.conformance.differential.talk import Talk
from tests.support.reference_batch import PREFIX, decode

_UUID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Times in ms of the years 2020 to 2039.
_NOW = re.compile(rb"\0\0\x01[\x6f-\xff]....|\0\0\x02[\0-\x01]....", re.DOTALL)


def plainly(talk: Talk, data: bytes | None) -> str:
    """Bytes as text, without what chance and the moment chose."""
    if data is None:
        return "null"
    for name, topic_id in talk.topic_ids.items():
        data = data.replace(topic_id, f"<id of {name}>".encode())
    return repr(_NOW.sub(b"<now>", _UUID.sub(b"<uuid>", data)))


Record = tuple[bytes, bytes | None]


def told(
    talk: Talk, note: str, group: str, comparable: Callable[[Record], Record] = lambda record: record
) -> None:
    """Keys and values of the records about a group, in order; `comparable` hides what differs in a record."""
    found = []
    for partition in range(int(SETTINGS["offsets.topic.num.partitions"])):
        topics = [{"topic": "__consumer_offsets", "partitions": [part(partition)]}]
        answer = talk.quietly("Fetch", 12, max_wait_ms=0, min_bytes=0, topics=topics)
        data = bytes(answer.responses[0].partitions[0].records or b"")
        while len(data) >= PREFIX.size:
            size = PREFIX.size + PREFIX.unpack_from(data)[1]
            if len(data) < size:
                break
            batch, records = decode(data[:size])
            data = data[size:]
            about = [each for each in records if each.key is not None and group.encode() in each.key]
            for each in about:
                assert each.key is not None
                key, value = comparable((each.key, each.value))
                found.append(
                    {
                        "attributes": batch.attributes,
                        "key": plainly(talk, key),
                        "value": plainly(talk, value),
                    }
                )
    talk.note(note, found)


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
