"""ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions, FindCoordinator."""

import struct

from tests.conformance.differential.compare import conversation, versions
from tests.conformance.differential.talk import CLOSED, Talk
from tests.support.wire import frame

NOBODYS_ID = bytes(range(16))
SOFTWARE = {"client_software_name": "differential", "client_software_version": "1.0"}


@conversation(versions("ApiVersions", 0, 4))
def test_api_versions(talk: Talk) -> None:
    talk.ask("ApiVersions", talk.version, **SOFTWARE)


@conversation(versions("ApiVersions", 3, 4))
def test_api_versions_software_names(talk: Talk) -> None:
    for name in ("", "-a", "a-", "a b", "ä", "a_b", "a.b-c", "."):
        talk.ask(
            "ApiVersions",
            talk.version,
            note=repr(name),
            client_software_name=name,
            client_software_version="1",
        )
        talk.ask(
            "ApiVersions",
            talk.version,
            note=repr(name),
            client_software_name="a",
            client_software_version=name,
        )


@conversation()
def test_versions_nobody_knows(talk: Talk) -> None:
    """ApiVersions is answered in version 0; everything else ends the connection."""
    for version in (6, 100, 32767):
        wire = talk.wire()
        wire.send(frame(struct.pack(">hhih", 18, version, 7, -1) + b"\0"))
        talk.note(f"ApiVersions v{version}", (wire.receive() or b"").hex()[:20])
    for key, version in (
        (3, 99),
        (3, -1),
        (0, 2),
        (0, 14),
        (1, 3),
        (1, 19),
        (18, -1),
        (999, 0),
        (-1, 0),
        (19, 1),
        (22, 6),  # not final in Kafka
    ):
        wire = talk.wire()
        wire.send(frame(struct.pack(">hhih", key, version, 7, -1) + b"\0"))
        answer = wire.receive()
        # Without the versions of ApiVersions, which test_api_versions compares.
        talk.note(f"API {key} v{version}", CLOSED if answer is None else answer.hex()[:24])
        talk.reconnect(wire)


@conversation(versions("Metadata"))
def test_metadata_of_topics(talk: Talk) -> None:
    version = talk.version
    one, three = talk.topic("one"), talk.topic("three", partitions=3)
    talk.ask("Metadata", version, topics=[{"name": one}, {"name": three}], allow_auto_topic_creation=False)
    talk.ask("Metadata", version, note="twice the same", topics=[{"name": one}, {"name": one}])
    talk.ask(
        "Metadata",
        version,
        note="operations",
        topics=[{"name": one}],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    if version > 0:
        # Version 0 takes no topics for all of them, which is the next test.
        talk.ask("Metadata", version, note="none", topics=[])


@conversation(versions("Metadata"))
def test_metadata_of_all_topics(talk: Talk) -> None:
    talk.topic("listed")
    talk.know_all()
    everything: list[str] | None = None if talk.version > 0 else []
    talk.ask("Metadata", talk.version, topics=everything, unordered={"topics": "name"})


@conversation(versions("Metadata", 4))
def test_metadata_unknown_without_creation(talk: Talk) -> None:
    for name in (talk.name("unknown"), "", ".", "..", "a b", "ä", "x" * 249, "x" * 250, "a/b"):
        talk.ask(
            "Metadata",
            talk.version,
            note=repr(name),
            topics=[{"name": name}],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )


@conversation(versions("Metadata"))
def test_metadata_creates_topics(talk: Talk) -> None:
    name = talk.name("made")
    talk.ask("Metadata", talk.version, topics=[{"name": name}], allow_auto_topic_creation=True)
    talk.led(name)
    answer = talk.quietly("Metadata", 12, topics=[{"name": name}])
    talk.know(name, answer.topics[0].topic_id)
    talk.ask("Metadata", talk.version, note="made", topics=[{"name": name}])
    for bad in ("", ".", "..", "a b", "x" * 250, name.replace(".", "_")):
        note = repr(bad).replace(talk.prefix.replace(".", "_"), "")
        talk.ask("Metadata", talk.version, note=note, topics=[{"name": bad}], allow_auto_topic_creation=True)


@conversation(versions("Metadata"))
def test_metadata_of_internal_topics(talk: Talk) -> None:
    topics = ["__consumer_offsets", "__cluster_metadata"]
    for name in topics:
        if name == "__consumer_offsets":
            talk.know(name, talk.quietly("Metadata", 12, topics=[{"name": name}]).topics[0].topic_id)
        talk.ask(
            "Metadata", talk.version, note=name, topics=[{"name": name}], allow_auto_topic_creation=False
        )


@conversation(versions("Metadata", 10))
def test_metadata_by_id(talk: Talk) -> None:
    version, name = talk.version, talk.topic("known")
    known = talk.topic_ids[name]
    talk.ask("Metadata", version, topics=[{"topic_id": known, "name": None}])
    talk.ask("Metadata", version, note="unknown", topics=[{"topic_id": NOBODYS_ID, "name": None}])
    talk.ask("Metadata", version, note="id and name", topics=[{"topic_id": known, "name": name}])
    talk.ask(
        "Metadata",
        version,
        note="ids and names mixed",
        topics=[{"topic_id": known, "name": None}, {"name": talk.name("other")}],
    )
    talk.ask("Metadata", version, note="twice", topics=[{"topic_id": known, "name": None}] * 2)


@conversation(versions("Metadata", 12))
def test_metadata_without_name_or_id(talk: Talk) -> None:
    talk.ask("Metadata", talk.version, topics=[{"name": None}])


@conversation(versions("DescribeCluster"))
def test_describe_cluster(talk: Talk) -> None:
    for endpoint in (1, 2, 0, 3):
        talk.ask("DescribeCluster", talk.version, note=f"endpoint {endpoint}", endpoint_type=endpoint)
    talk.ask("DescribeCluster", talk.version, note="operations", include_cluster_authorized_operations=True)
    talk.ask("DescribeCluster", talk.version, note="fenced", include_fenced_brokers=True)


@conversation(versions("DescribeTopicPartitions"))
def test_describe_topic_partitions(talk: Talk) -> None:
    names = [talk.topic("a", partitions=3), talk.topic("b", partitions=2)]
    topics = [{"name": name} for name in names]

    def ask(note: str, **fields: object) -> None:
        talk.ask("DescribeTopicPartitions", 0, note=note, **fields)

    ask("two topics", topics=topics)
    ask("wrong order", topics=topics[::-1])
    ask("unknown between", topics=[topics[0], {"name": names[0] + "-unknown"}, topics[1]])
    ask("twice", topics=[topics[0], topics[0]])
    for limit in (0, -1, 1, 2, 3, 4, 5, 3000):
        ask(f"limit {limit}", topics=topics, response_partition_limit=limit)
    cursors = [(names[0], 0), (names[0], 1), (names[0], 3), (names[0], 9), (names[1], 0), (names[1], 1)]
    for name, index in [
        *cursors,
        (names[0] + "-unknown", 0),
        (names[0] + "-unknown", 2),
        ("zzz", 0),
        ("", 0),
        (names[0], -1),
    ]:
        cursor = {"topic_name": name, "partition_index": index}
        ask(f"from {name}-{index}", topics=topics, cursor=cursor, response_partition_limit=2)


@conversation(versions("DescribeTopicPartitions"))
def test_describe_topic_partitions_of_invalid_names(talk: Talk) -> None:
    for name in ("", "..", "a b"):
        talk.ask("DescribeTopicPartitions", 0, note=repr(name), topics=[{"name": name}])


@conversation(versions("FindCoordinator"))
def test_find_coordinator(talk: Talk) -> None:
    version = talk.version

    def ask(key: str, kind: int) -> None:
        keys = {"key": key} if version < 4 else {"coordinator_keys": [key]}
        talk.ask("FindCoordinator", version, note=f"{key!r} of {kind}", key_type=kind, **keys)

    ask(talk.name("group"), 0)
    ask("", 0)
    if version >= 1:
        ask("x", 3)
        ask("x", -1)
    if version >= 4:
        talk.ask("FindCoordinator", version, note="several", coordinator_keys=["a", "b", "a"])
        talk.ask("FindCoordinator", version, note="none", coordinator_keys=[])


@conversation(versions("DescribeQuorum"))
def test_describe_quorum_of_what_is_no_quorum(talk: Talk) -> None:
    for name, partition in (("__cluster_metadata", 1), ("other", 0)):
        topics = [{"topic_name": name, "partitions": [{"partition_index": partition}]}]
        talk.ask("DescribeQuorum", talk.version, note=f"{name}-{partition}", topics=topics)
    talk.ask("DescribeQuorum", talk.version, note="nothing", topics=[])
    both = [{"partition_index": 0}, {"partition_index": 1}]
    talk.ask(
        "DescribeQuorum",
        talk.version,
        note="and more",
        topics=[{"topic_name": "__cluster_metadata", "partitions": both}],
    )
