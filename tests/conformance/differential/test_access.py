"""Who may do what: each API with resources that are allowed, denied, unknown, and denied and unknown.

Everyone may do everything with resources without rules. A resource is denied by a rule that allows something to
someone else.
"""

from typing import Any

from tests.conformance.differential.compare import conversation, versions
from tests.conformance.differential.talk import Talk

READ = 3
TOPIC, GROUP, TRANSACTIONAL_ID = 2, 3, 5
LITERAL, ALLOW = 3, 3
KINDS = ("allowed", "denied", "unknown", "denied-unknown")


def rule(kind: int, name: str) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": LITERAL,
        "principal": "User:other",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }


def deny(talk: Talk, kind: int, *names: str) -> None:
    """Denies everything on resources, and waits until the broker follows the rules."""
    if kind == TRANSACTIONAL_ID:  # so that both brokers have the topic of the coordinator
        talk.quietly("FindCoordinator", 4, key_type=1, coordinator_keys=[talk.name("first")])
    talk.quietly("CreateAcls", 3, creations=[rule(kind, name) for name in names])
    for name in names:
        if kind == TOPIC:
            topics = [{"name": name, "topic_id": bytes(16)}]
            talk.until(lambda answer: answer.topics[0].error_code == 29, "Metadata", 12, topics=topics)
        else:
            key_type = 0 if kind == GROUP else 1
            fields = {"key_type": key_type, "coordinator_keys": [name]}
            talk.until(
                lambda answer: answer.coordinators[0].error_code in (30, 53), "FindCoordinator", 4, **fields
            )


def topics(talk: Talk) -> dict[str, str]:
    """Returns the names of topics of each kind."""
    names = {kind: talk.name(kind) for kind in KINDS}
    for kind in ("allowed", "denied"):
        talk.topic(kind)
    deny(talk, TOPIC, names["denied"], names["denied-unknown"])
    return names


@conversation(versions("Metadata", 1))
def test_metadata(talk: Talk) -> None:
    for kind, name in topics(talk).items():
        talk.ask("Metadata", talk.version, note=kind, topics=[{"name": name}])


@conversation(versions("ListOffsets"))
def test_list_offsets(talk: Talk) -> None:
    for kind, name in topics(talk).items():
        row = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
        found = [{"name": name, "partitions": [row]}]
        talk.ask("ListOffsets", talk.version, note=kind, replica_id=-1, topics=found)


@conversation(versions("DeleteRecords"))
def test_delete_records(talk: Talk) -> None:
    for kind, name in topics(talk).items():
        found = [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]}]
        talk.ask("DeleteRecords", talk.version, note=kind, timeout_ms=1000, topics=found)


@conversation(versions("CreateTopics"))
def test_create_topics(talk: Talk) -> None:
    for kind, name in topics(talk).items():
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
        asked = talk.send("CreateTopics", talk.version, note=kind, timeout_ms=5000, topics=[topic])
        asked.answer(learn=talk.version >= 7)


@conversation(versions("DeleteTopics", 1))
def test_delete_topics(talk: Talk) -> None:
    for kind, name in topics(talk).items():
        if talk.version >= 6:
            talk.ask("DeleteTopics", talk.version, note=kind, timeout_ms=5000, topics=[{"name": name}])
        else:
            talk.ask("DeleteTopics", talk.version, note=kind, timeout_ms=5000, topic_names=[name])


@conversation(versions("CreatePartitions"))
def test_create_partitions(talk: Talk) -> None:
    for kind, name in topics(talk).items():
        topic = {"name": name, "count": 2}
        talk.ask("CreatePartitions", talk.version, note=kind, timeout_ms=5000, topics=[topic])


@conversation(versions("DescribeConfigs"))
def test_describe_configs(talk: Talk) -> None:
    for kind, name in topics(talk).items():
        resource = {
            "resource_type": 2,
            "resource_name": name,
            "configuration_keys": ["retention.ms"],
        }
        talk.ask("DescribeConfigs", talk.version, note=kind, resources=[resource])


@conversation(versions("IncrementalAlterConfigs"))
def test_alter_configs(talk: Talk) -> None:
    for kind, name in topics(talk).items():
        configs = [{"name": "retention.ms", "config_operation": 0, "value": "1000"}]
        resource = {"resource_type": 2, "resource_name": name, "configs": configs}
        talk.ask("IncrementalAlterConfigs", talk.version, note=kind, resources=[resource])


@conversation(versions("OffsetForLeaderEpoch"))
def test_epochs(talk: Talk) -> None:
    for kind, name in topics(talk).items():
        row = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
        talk.ask(
            "OffsetForLeaderEpoch", talk.version, note=kind, topics=[{"topic": name, "partitions": [row]}]
        )


@conversation(versions("DescribeProducers"))
def test_describe_producers(talk: Talk) -> None:
    for kind, name in topics(talk).items():
        found = [{"name": name, "partition_indexes": [0]}]
        talk.ask("DescribeProducers", talk.version, note=kind, topics=found)


@conversation(versions("OffsetCommit"))
def test_offset_commit(talk: Talk) -> None:
    group = talk.name("group")
    for kind, name in topics(talk).items():
        rows = [{"partition_index": 0, "committed_offset": 3}]
        found: list[dict[str, Any]] = [{"name": name, "partitions": rows}]
        if talk.version >= 10:
            if kind not in ("allowed", "denied"):
                continue
            found = [{"topic_id": talk.topic_ids[name], "partitions": rows}]
        talk.ask(
            "OffsetCommit",
            talk.version,
            note=kind,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=found,
        )
    denied = talk.name("no-group")
    deny(talk, GROUP, denied)
    talk.ask(
        "OffsetCommit",
        talk.version,
        note="denied group",
        group_id=denied,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=found,
    )


@conversation(versions("Heartbeat"))
def test_groups(talk: Talk) -> None:
    allowed, denied = talk.name("allowed"), talk.name("denied")
    deny(talk, GROUP, denied)
    for group in (allowed, denied):
        talk.ask("Heartbeat", talk.version, group_id=group, generation_id=1, member_id="m")


@conversation(versions("DescribeGroups"))
def test_describe_groups(talk: Talk) -> None:
    allowed, denied = talk.name("allowed"), talk.name("denied")
    deny(talk, GROUP, denied)
    talk.ask("DescribeGroups", talk.version, groups=[allowed, denied])


@conversation(versions("DeleteGroups"))
def test_delete_groups(talk: Talk) -> None:
    allowed, denied = talk.name("allowed"), talk.name("denied")
    deny(talk, GROUP, denied)
    talk.ask("DeleteGroups", talk.version, groups_names=[denied, allowed])


@conversation(versions("FindCoordinator"))
def test_find_coordinator(talk: Talk) -> None:
    group, id = talk.name("group"), talk.name("id")
    deny(talk, GROUP, group)
    deny(talk, TRANSACTIONAL_ID, id)
    for key_type, key in ((0, group), (1, id)):
        if talk.version >= 4:
            talk.ask("FindCoordinator", talk.version, key_type=key_type, coordinator_keys=[key])
        elif talk.version >= 1:
            talk.ask("FindCoordinator", talk.version, key_type=key_type, key=key)


@conversation(versions("InitProducerId"))
def test_transactional_ids(talk: Talk) -> None:
    denied = talk.name("denied")
    deny(talk, TRANSACTIONAL_ID, denied)
    talk.ask("InitProducerId", talk.version, transactional_id=denied, transaction_timeout_ms=1000)
    talk.ask("DescribeTransactions", 0, transactional_ids=[denied])
    talk.ask("EndTxn", 4, transactional_id=denied, producer_id=1, producer_epoch=0, committed=True)
    group = {"transactional_id": denied, "producer_id": 1, "producer_epoch": 0, "group_id": talk.name("g")}
    talk.ask("AddOffsetsToTxn", 3, **group)
    talk.ask("TxnOffsetCommit", 3, **group, topics=[])


@conversation(versions("OffsetFetch", 1))
def test_offset_fetch(talk: Talk) -> None:
    group, denied = talk.name("group"), talk.name("no-group")
    deny(talk, GROUP, denied)
    for kind, name in topics(talk).items():
        found: list[dict[str, Any]] = [{"name": name, "partition_indexes": [0]}]
        if talk.version >= 10:
            if kind not in ("allowed", "denied"):
                continue
            found = [{"topic_id": talk.topic_ids[name], "partition_indexes": [0]}]
        for id in (group, denied):
            if talk.version >= 8:
                fields: dict[str, Any] = {"groups": [{"group_id": id, "topics": found}]}
            else:
                fields = {"group_id": id, "topics": found}
            talk.ask("OffsetFetch", talk.version, note=kind, **fields)


@conversation(versions("AddPartitionsToTxn", 0, 3))
def test_add_partitions(talk: Talk) -> None:
    denied, id = talk.name("no-id"), talk.name("id")
    deny(talk, TRANSACTIONAL_ID, denied)
    names = topics(talk)
    found = [{"name": name, "partitions": [0]} for name in names.values()]
    for each in (denied, id):
        talk.ask(
            "AddPartitionsToTxn",
            talk.version,
            unordered={"results_by_topic_v3_and_below": "name"},
            v3_and_below_transactional_id=each,
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=found,
        )


@conversation(versions("ConsumerGroupHeartbeat", 1))
def test_subscriptions(talk: Talk) -> None:
    denied = talk.name("no-group")
    deny(talk, GROUP, denied)
    names = topics(talk)
    for group, wanted in (
        (denied, [names["allowed"]]),
        (talk.name("g"), [names["allowed"], names["denied"]]),
        (talk.name("h"), [names["denied-unknown"]]),
    ):
        for api, version in (("ConsumerGroupHeartbeat", talk.version), ("ShareGroupHeartbeat", 1)):
            fields = {"member_id": "m" * 22, "member_epoch": 0, "subscribed_topic_names": wanted}
            if api.startswith("Consumer"):
                fields |= {"rebalance_timeout_ms": 5000, "topic_partitions": []}
            talk.ask(api, version, note=str(wanted), group_id=group, **fields)
