"""Streams groups (KIP-1071): joining, tasks, epochs, topologies, offsets, and their records in the log."""

from typing import Any

from bowstring.protocol.records import CONSUMER_OFFSETS
from bowstring.protocol.records.coordinator import decode_record, encode_value
from bowstring.protocol.records.streams_group import (
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMetadataValue,
)
from tests.conformance.differential.compare import conversation
from tests.conformance.differential.group_log import Record, told
from tests.conformance.differential.membership import join, leave, stable
from tests.conformance.differential.talk import Talk

HEARTBEAT, DESCRIBE = "StreamsGroupHeartbeat", "StreamsGroupDescribe"
MISSING_INTERNAL_TOPICS, DELAYED = 3, 5
NO_TASKS: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
GROUP_RESOURCE, SET = 32, 0
# On a busy machine, Kafka's coordinator may see a new topic late.
ATTEMPTS = 5


def counting(talk: Talk, source: str, epoch: int = 0) -> dict[str, Any]:
    """Returns a topology that counts by key: a repartition topic and a changelog."""
    repartition, changelog = talk.name("by-key-repartition"), talk.name("store-changelog")
    return {
        "epoch": epoch,
        "subtopologies": [
            {"subtopology_id": "0", "source_topics": [source], "repartition_sink_topics": [repartition]},
            {
                "subtopology_id": "1",
                "repartition_source_topics": [
                    {"name": repartition, "topic_configs": [{"key": "cleanup.policy", "value": "delete"}]}
                ],
                "state_changelog_topics": [
                    {"name": changelog, "topic_configs": [{"key": "cleanup.policy", "value": "compact"}]}
                ],
            },
        ],
    }


def reading(*sources: str, epoch: int = 0) -> dict[str, Any]:
    """Returns a topology without internal topics."""
    return {
        "epoch": epoch,
        "subtopologies": [{"subtopology_id": "0", "source_topics": list(sources)}],
    }


def configure(talk: Talk, group: str, **configs: object) -> None:
    """Sets group configs; underscores for dots."""
    at_once = {"streams_initial_rebalance_delay_ms": 0, "streams_assignment_interval_ms": 0}
    set_to = {**at_once, **configs}
    rows = [
        {"name": name.replace("_", "."), "config_operation": SET, "value": str(value)}
        for name, value in set_to.items()
    ]
    resources = [{"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": rows}]
    made = talk.quietly("IncrementalAlterConfigs", 1, resources=resources)
    assert made.responses[0].error_code == 0, made.responses[0].error_message
    talk.until(
        lambda answer: (
            {each.name for each in answer.results[0].configs if each.config_source == 8}
            >= {row["name"] for row in rows}
        ),
        "DescribeConfigs",
        4,
        resources=[{"resource_type": GROUP_RESOURCE, "resource_name": group}],
    )


def beat(talk: Talk, note: str, group: str, member: str, epoch: int, tasks: Any = None, **more: Any) -> Any:
    """Sends a heartbeat; `tasks` are the owned active tasks by subtopology."""
    fields: dict[str, Any] = {"group_id": group, "member_id": member, "member_epoch": epoch} | more
    if tasks is not None:
        owned = [{"subtopology_id": name, "partitions": parts} for name, parts in tasks.items()]
        fields |= NO_TASKS | {"active_tasks": owned}
    return talk.ask(HEARTBEAT, 0, note=note, **fields)


def joining(topology: dict[str, Any], process: str = "p", **more: Any) -> dict[str, Any]:
    """Returns the fields of a heartbeat that joins."""
    return NO_TASKS | {"topology": topology, "process_id": process, "rebalance_timeout_ms": 60_000} | more


def enter(
    talk: Talk, note: str, group: str, member: str, topology: dict[str, Any], process: str = "p", **more: Any
) -> Any:
    """Sends the heartbeat of a new member."""
    return beat(talk, note, group, member, 0, **joining(topology, process, **more))


def until_known(talk: Talk, name: str, partitions: int = 1) -> None:
    """Waits long enough for the coordinator to see a topic."""
    talk.led(name, partitions)


def describe(talk: Talk, note: str, *groups: str) -> Any:
    """Describes groups."""
    return talk.ask(DESCRIBE, 0, note=note, group_ids=list(groups))


def comparable(record: Record) -> Record:
    """Hides the hash of topics, which depends on their ids, and the time of an assignment."""
    key, value = record
    decoded = decode_record(CONSUMER_OFFSETS, key, value)
    if decoded is None or decoded[1] is None:
        return record
    body = decoded[1]
    if isinstance(body, StreamsGroupMetadataValue):
        body.metadata_hash = 1 if body.metadata_hash else 0
    elif isinstance(body, StreamsGroupTargetAssignmentMetadataValue):
        body.assignment_timestamp = 1 if body.assignment_timestamp else 0
    else:
        return record
    return key, encode_value(body, 0)


def settle(talk: Talk, group: str, member: str, epoch: int) -> int:
    """Sends heartbeats until the internal topics are there and tasks are assigned; returns the epoch.

    The number of heartbeats depends on when the coordinator sees the topics.
    """
    known = [epoch]

    def has_settled(answer: Any) -> bool:
        assert answer.error_code == 0, answer
        known[0] = answer.member_epoch
        return not any(each.status_code == MISSING_INTERNAL_TOPICS for each in answer.status)

    def fields() -> dict[str, Any]:
        return {"group_id": group, "member_id": member, "member_epoch": known[0]}

    while not has_settled(talk.quietly(HEARTBEAT, 0, **fields())):
        pass
    return known[0]


@conversation()
def test_refused_requests(talk: Talk) -> None:
    topic, group = talk.topic("t"), talk.name("g")
    good = joining(reading(topic))
    task = [{"subtopology_id": "0", "partitions": [0]}]
    changes: dict[str, dict[str, Any]] = {
        "no group": {"group_id": ""},
        "no member": {"member_id": ""},
        "blank member": {"member_id": "  "},
        "empty rack": {"rack_id": ""},
        "empty instance": {"instance_id": ""},
        "no rebalance timeout": {"rebalance_timeout_ms": -1},
        "no topology": {"topology": None},
        "no tasks": {"active_tasks": None},
        "null tasks": {"active_tasks": None, "standby_tasks": None, "warmup_tasks": None},
        "tasks": {"active_tasks": task},
        "standby tasks": {"standby_tasks": task},
        "warm-up tasks": {"warmup_tasks": task},
        "epoch below": {"member_epoch": -3},
        "static leave": {"member_epoch": -2},
        "topology later": {"member_epoch": 1},
        "unknown member leaves": {"member_epoch": -1, "topology": None},
        "unknown group": {"member_epoch": 1, "topology": None},
        "some tasks": {"member_epoch": 1, "topology": None, "standby_tasks": None},
    }
    for note, change in changes.items():
        fields: dict[str, Any] = {"group_id": group, "member_id": "m", "member_epoch": 0, **good, **change}
        talk.ask(HEARTBEAT, 0, note=note, **fields)
    describe(talk, "nothing was made", group)


@conversation()
def test_refused_topologies(talk: Talk) -> None:
    topic, group = talk.topic("t"), talk.name("g")
    with_pattern = {"subtopology_id": "0", "source_topic_regex": ["a.*"]}
    fixed = {
        "subtopology_id": "0",
        "source_topics": [topic],
        "state_changelog_topics": [{"name": "s", "partitions": 2}],
    }
    loop = {
        "subtopology_id": "0",
        "repartition_source_topics": [{"name": "r"}],
        "repartition_sink_topics": ["r"],
    }
    unwritten = {
        "subtopology_id": "0",
        "source_topics": [topic],
        "repartition_source_topics": [{"name": "r"}],
    }
    for note, subtopologies in {
        "pattern": [with_pattern],
        "changelog with partitions": [fixed],
        "loop": [loop],
        "never written": [unwritten],
        "internal topic": [{"subtopology_id": "0", "source_topics": ["__consumer_offsets"]}],
        "bad name": [{"subtopology_id": "0", "source_topics": ["a b"]}],
        "bad sink": [{"subtopology_id": "0", "source_topics": [topic], "repartition_sink_topics": ["/"]}],
    }.items():
        enter(talk, note, group, "m", {"epoch": 0, "subtopologies": subtopologies})
    describe(talk, "nothing was made", group)


@conversation()
def test_tasks_of_one_member(talk: Talk) -> None:
    topic, group = talk.topic("t", partitions=3), talk.name("g")
    configure(talk, group)
    enter(talk, "joins", group, "m", reading(topic))
    beat(talk, "nothing new", group, "m", 2)
    beat(talk, "owns", group, "m", 2, {"0": [0, 1, 2]})
    describe(talk, "one member", group)
    for note, epoch, tasks in (
        ("greater", 9, {"0": [0]}),
        ("previous with its tasks", 0, None),
        ("smaller", 1, {"0": [0]}),
        ("task beyond", 2, {"0": [3]}),
        ("subtopology beyond", 2, {"1": [0]}),
    ):
        if epoch:
            beat(talk, note, group, "m", epoch, tasks)
    beat(talk, "another member", group, "n", 2, {"0": [0]})
    beat(talk, "leaves", group, "m", -1)
    beat(talk, "has left", group, "m", 2)
    describe(talk, "empty", group)
    talk.ask() if False else None
    talk.ask("DeleteGroups", 2, groups_names=[group])
    describe(talk, "deleted", group)


@conversation()
def test_a_member_waits_for_others_at_first(talk: Talk) -> None:
    topic, group = talk.topic("t"), talk.name("g")
    configure(talk, group, streams_initial_rebalance_delay_ms=1500)
    enter(talk, "joins", group, "a", reading(topic), "p")
    enter(talk, "joins, too", group, "b", reading(topic), "q")
    describe(talk, "both wait", group)
    talk.until(
        lambda answer: all(each.status_code != DELAYED for each in answer.status),
        HEARTBEAT,
        0,
        group_id=group,
        member_id="a",
        member_epoch=1,
    )


@conversation()
def test_a_second_member_takes_tasks_over(talk: Talk) -> None:
    topic, group = talk.topic("t", partitions=4), talk.name("g")
    configure(talk, group)
    enter(talk, "a joins", group, "a", reading(topic), "p")
    enter(talk, "b joins", group, "b", reading(topic), "q")
    beat(talk, "b waits", group, "b", 3, {})
    beat(talk, "a shall revoke", group, "a", 2, {"0": [0, 1, 2, 3]})
    describe(talk, "a revokes", group)
    beat(talk, "a still revokes", group, "a", 2, {"0": [0, 1, 2, 3]})
    beat(talk, "b still waits", group, "b", 3, {})
    beat(talk, "a has revoked", group, "a", 2, {"0": [0, 1]})
    beat(talk, "b gets tasks", group, "b", 3, {})
    describe(talk, "both have tasks", group)
    beat(talk, "b leaves", group, "b", -1)
    beat(talk, "a gets all", group, "a", 3, {"0": [0, 1]})
    describe(talk, "a has all", group)
    told(talk, "records", group, comparable)


@conversation()
def test_members_of_one_process(talk: Talk) -> None:
    topic, group = talk.topic("t", partitions=2), talk.name("g")
    configure(talk, group)
    enter(talk, "a joins", group, "a", reading(topic), "p")
    enter(talk, "b joins", group, "b", reading(topic), "p")
    beat(talk, "a shall revoke", group, "a", 2, {"0": [0, 1]})
    beat(talk, "a has revoked", group, "a", 2, {"0": [0]})
    beat(talk, "b gets it", group, "b", 3, {})
    describe(talk, "both have tasks", group)


@conversation()
def test_internal_topics(talk: Talk) -> None:
    topic, group = talk.topic("t", partitions=2), talk.name("g")
    configure(talk, group)
    answer = enter(talk, "joins", group, "m", counting(talk, topic))
    epoch = settle(talk, group, "m", answer.member_epoch)
    beat(talk, "settled", group, "m", epoch)
    describe(talk, "has all tasks", group)
    for short in ("by-key-repartition", "store-changelog"):
        talk.led(talk.name(short), 2)
        resources = [
            {"resource_type": 2, "resource_name": talk.name(short), "configuration_keys": ["cleanup.policy"]}
        ]
        talk.ask("DescribeConfigs", 4, note=short, resources=resources)


@conversation(attempts=ATTEMPTS)
def test_topics_that_do_not_fit(talk: Talk) -> None:
    topic, group = talk.topic("t", partitions=2), talk.name("g")
    configure(talk, group)
    talk.topic("store-changelog", partitions=3)
    enter(talk, "wrong changelog", group, "m", counting(talk, topic))
    describe(talk, "wrong changelog", group)
    other, missing = talk.name("h"), talk.name("missing")
    configure(talk, other)
    answer = enter(talk, "missing source", other, "m", reading(topic, missing))
    describe(talk, "missing source", other)
    talk.topic("missing", partitions=1)
    beat(talk, "source is there", other, "m", answer.member_epoch)
    describe(talk, "source is there", other)
    third, small = talk.name("i"), talk.topic("small", partitions=1)
    configure(talk, third)
    together = reading(topic, small)
    together["subtopologies"][0]["copartition_groups"] = [{"source_topics": [0, 1]}]
    enter(talk, "not copartitioned", third, "m", together)


@conversation()
def test_topology_epochs(talk: Talk) -> None:
    topic, other, group = talk.topic("t"), talk.topic("u"), talk.name("g")
    configure(talk, group)
    enter(talk, "first", group, "a", reading(topic, epoch=3))
    enter(talk, "stale", group, "b", reading(topic, epoch=2), "q")
    enter(talk, "same epoch, other topology", group, "c", reading(other, epoch=3), "r")
    enter(talk, "newer", group, "c", reading(other, epoch=4), "r")
    describe(talk, "topology of the first", group)


@conversation()
def test_a_member_shuts_all_down(talk: Talk) -> None:
    topic, group = talk.topic("t"), talk.name("g")
    configure(talk, group)
    enter(talk, "a", group, "a", reading(topic), "p")
    enter(talk, "b", group, "b", reading(topic), "q")
    beat(talk, "a asks", group, "a", 2, {"0": [0]}, shutdown_application=True)
    beat(talk, "b hears", group, "b", 3, {})
    beat(talk, "a leaves", group, "a", -1)
    beat(talk, "b still hears", group, "b", 3, {})
    beat(talk, "b leaves and asks", group, "b", -1, shutdown_application=True)
    enter(talk, "anew", group, "c", reading(topic), "r")


@conversation()
def test_endpoints(talk: Talk) -> None:
    topic, group = talk.topic("t", partitions=2), talk.name("g")
    configure(talk, group)
    where = {"user_endpoint": {"host": "h", "port": 65535}, "client_tags": [{"key": "zone", "value": "1"}]}
    enter(talk, "a", group, "a", reading(topic), "p", **where)
    answer = beat(talk, "a again", group, "a", 2, {"0": [0, 1]}, endpoint_information_epoch=0)
    epoch = answer.endpoint_information_epoch
    beat(talk, "a knows", group, "a", 2, {"0": [0, 1]}, endpoint_information_epoch=epoch)
    enter(talk, "b", group, "b", reading(topic), "q")
    beat(talk, "a has revoked", group, "a", 2, {"0": [0]}, endpoint_information_epoch=epoch)
    beat(talk, "b", group, "b", 3, {}, endpoint_information_epoch=0)
    describe(talk, "with endpoint", group)


@conversation()
def test_standby_tasks(talk: Talk) -> None:
    topic, group = talk.topic("t", partitions=2), talk.name("g")
    configure(talk, group, streams_num_standby_replicas=1)
    answer = enter(talk, "a", group, "a", counting(talk, topic), "p")
    epoch = settle(talk, group, "a", answer.member_epoch)
    owned = {"0": [0, 1], "1": [0, 1]}
    beat(talk, "a alone", group, "a", epoch, owned)
    answer = enter(talk, "b", group, "b", counting(talk, topic), "q")
    beat(talk, "a shall revoke", group, "a", epoch, owned)
    answer = beat(talk, "a has revoked", group, "a", epoch, {"0": [0], "1": [0]})
    beat(talk, "b gets tasks", group, "b", answer.member_epoch, {})
    describe(talk, "standby tasks", group)
    configure(talk, group, streams_num_standby_replicas=0)
    beat(talk, "no standby tasks", group, "a", answer.member_epoch, {"0": [0], "1": [0]})
    describe(talk, "no standby tasks", group)


@conversation()
def test_a_copy_takes_over(talk: Talk) -> None:
    topic, group = talk.topic("t", partitions=2), talk.name("g")
    configure(talk, group, streams_num_standby_replicas=1)
    answer = enter(talk, "a", group, "a", counting(talk, topic), "p")
    settle(talk, group, "a", answer.member_epoch)
    owned = {"0": [0, 1], "1": [0, 1]}
    answer = enter(talk, "b", group, "b", counting(talk, topic), "q")
    b_epoch = answer.member_epoch
    describe(talk, "two", group)
    beat(talk, "a gives up", group, "a", 0, **joining(counting(talk, topic), "p"))
    beat(talk, "b waits", group, "b", b_epoch, {})
    beat(talk, "a leaves", group, "a", -1)
    answer = beat(talk, "b takes over", group, "b", b_epoch, {})
    beat(talk, "b has all", group, "b", answer.member_epoch, owned)
    describe(talk, "one", group)
    told(talk, "records", group, comparable)


@conversation()
def test_static_members(talk: Talk) -> None:
    topic, group = talk.topic("t", partitions=2), talk.name("g")
    configure(talk, group)
    static = {"instance_id": "i"}
    beat(talk, "unknown group", group, "a", -2, **static)
    enter(talk, "a", group, "a", reading(topic), "p", **static)
    enter(talk, "b", group, "b", reading(topic), "q")
    answer = beat(talk, "a shall revoke", group, "a", 2, {"0": [0, 1]}, **static)
    enter(talk, "not released", group, "c", reading(topic), "p", **static)
    enter(talk, "not released by itself", group, "a", reading(topic), "p", **static)
    epoch = answer.member_epoch
    beat(talk, "another's", group, "c", epoch, {}, **static)
    beat(talk, "unknown instance", group, "a", epoch, {}, instance_id="j")
    beat(talk, "another leaves", group, "c", -2, **static)
    beat(talk, "another leaves for good", group, "c", -1, **static)
    beat(talk, "nobody leaves", group, "a", -1, instance_id="j")
    beat(talk, "a is away", group, "a", -2, **static)
    describe(talk, "away", group)
    answer = enter(talk, "c for a", group, "c", reading(topic), "p", **static)
    describe(talk, "back", group)
    beat(talk, "c goes on", group, "c", answer.member_epoch, {"0": [0]}, **static)
    beat(talk, "b", group, "b", 3, {})
    beat(talk, "without its instance", group, "c", 3, {"0": [0]})
    beat(talk, "c is away", group, "c", -2, **static)
    enter(talk, "d for c, elsewhere", group, "d", reading(topic), "r", rack_id="z", **static)
    describe(talk, "elsewhere", group)
    beat(talk, "d leaves", group, "d", -1, **static)
    describe(talk, "left", group)
    told(talk, "records", group, comparable)


@conversation()
def test_task_offsets(talk: Talk) -> None:
    topic, group = talk.topic("t", partitions=2), talk.name("g")
    configure(talk, group)
    rows = [{"subtopology_id": "0", "partition": each, "offset": 5 + each} for each in (1, 0)]
    answer = enter(talk, "a", group, "a", reading(topic), "p", task_offsets=rows)
    epoch = answer.member_epoch
    describe(talk, "at the beginning", group)
    beat(talk, "ends", group, "a", epoch, task_end_offsets=[*rows, {**rows[0], "subtopology_id": "x"}])
    describe(talk, "with ends", group)
    beat(talk, "twice", group, "a", epoch, task_offsets=[*rows, rows[0]])
    beat(talk, "none", group, "a", epoch, task_offsets=[])
    describe(talk, "without", group)
    told(talk, "records", group, comparable)


@conversation()
def test_offsets(talk: Talk) -> None:
    topic, group = talk.topic("t", partitions=2), talk.name("g")
    other = talk.topic("u")
    configure(talk, group)
    enter(talk, "a", group, "a", reading(topic), "p")
    rows = [{"partition_index": 0, "committed_offset": 5}]

    def commit(note: str, member: str, epoch: int, topic: str = topic, version: int = 9) -> None:
        fields = {"group_id": group, "member_id": member, "generation_id_or_member_epoch": epoch}
        talk.ask("OffsetCommit", version, note=note, **fields, topics=[{"name": topic, "partitions": rows}])

    for note, member, epoch in (
        ("member", "a", 2),
        ("old epoch", "a", 1),
        ("newer epoch", "a", 7),
        ("no epoch", "a", -1),
        ("nobody", "", -1),
        ("unknown", "x", 2),
    ):
        commit(note, member, epoch)
    commit("old version", "a", 2, version=8)
    commit("topic that it does not read", "a", 2, other)
    enter(talk, "b", group, "b", reading(topic), "q")
    beat(talk, "a has revoked", group, "a", 2, {"0": [0]})
    commit("epoch in which it got the task", "a", 2)
    commit("epoch before", "a", 1)
    commit("old epoch, topic that it does not read", "a", 2, other)
    reads = [{"name": topic, "partition_indexes": [0, 1]}]
    for note, member, epoch in (
        ("member", "a", 3),
        ("stale", "a", 2),
        ("admin", None, -1),
        ("unknown", "x", 3),
    ):
        wanted = [{"group_id": group, "member_id": member, "member_epoch": epoch, "topics": reads}]
        talk.ask("OffsetFetch", 9, note=note, groups=wanted)
    talk.ask(
        "OffsetDelete", 0, group_id=group, topics=[{"name": topic, "partitions": [{"partition_index": 0}]}]
    )
    talk.ask(
        "OffsetDelete", 0, group_id=group, topics=[{"name": other, "partitions": [{"partition_index": 0}]}]
    )
    talk.ask("DeleteGroups", 2, groups_names=[group])
    for member in "ab":
        beat(talk, "leaves", group, member, -1)
    commit("without members", "", -1)
    talk.ask("DeleteGroups", 2, groups_names=[group])


@conversation()
def test_groups_of_other_types(talk: Talk) -> None:
    topic, group = talk.topic("t"), talk.name("g")
    configure(talk, group)
    mine, _ = stable(talk, group)
    enter(talk, "classic group has members", group, "m", reading(topic))
    describe(talk, "classic", group)
    leave(talk, "classic member", group, mine)
    enter(talk, "classic group is empty", group, "m", reading(topic))
    join(talk, "streams group has members", group, version=9)
    talk.ask("DescribeGroups", 6, note="streams", groups=[group])
    beat(talk, "leaves", group, "m", -1)
    stable(talk, group)
    describe(talk, "classic again", group)
    told(talk, "records", group, comparable)
