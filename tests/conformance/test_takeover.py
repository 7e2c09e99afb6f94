"""Kafka on a directory of Bowstring's and vice versa: every record, offset, config and group is there."""

import re
from pathlib import Path

from tests.conformance.guard import Guard, settings_of
from tests.conformance.takeover import (
    BowstringOn,
    KafkaOn,
    assorted,
    commit_offsets,
    create,
    differences,
    hand_over,
    join_new_protocol,
    producer,
    security,
    send,
    transact,
    view,
    write_compacted,
    write_security,
    write_topics,
    write_transactions,
)
from tests.support.java_tools import java_tool
from tests.support.serving import steady_port
from tests.support.share_offsets import alter_at, offsets_at

DUMP = "org.apache.kafka.tools.DumpLogSegments"

GROUPS = ["by-bowstring", "by-kafka", "of-new-protocol"]
GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "log.cleaner.backoff.ms": "100",
}
# Enough records for each to load the other's snapshots.
SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "500"}


def test_kafka_takes_over_from_bowstring_and_gives_back(tmp_path: Path) -> None:
    port, data = steady_port(), tmp_path / "data"
    settings = {"bowstring.durability": "commit", **settings_of("SASL")}
    bowstring = BowstringOn(tmp_path / "bowstring", data, port, settings, {"SASL": "SASL_PLAINTEXT"})
    bowstring.start()
    guard = Guard(bowstring.ports["SASL"])
    old = guard.add("old")
    protected = guard.view()
    write_topics(bowstring.bootstrap)
    commit_offsets(bowstring.bootstrap, "by-bowstring", "codecs", 7)
    create(bowstring.bootstrap, "sequence", 1)
    steady = producer(bowstring.bootstrap, enable_idempotence=True)
    send(steady, "sequence", assorted("first", 1))
    alter_at(bowstring.bootstrap, "share-a", "codecs", {0: 3, 1: 4})
    before = view(bowstring.bootstrap, GROUPS)
    shared = offsets_at(bowstring.bootstrap, "share-a")
    assert shared == {("codecs", 0): 3, ("codecs", 1): 4}
    assert bowstring.stop() == 0

    kafka = KafkaOn(
        tmp_path / "kafka",
        data,
        port,
        properties=hand_over(data, "kafka", tmp_path, bowstring.directory / "server.properties"),
    )
    kafka.start()
    assert guard.view() == protected
    assert guard.lets_in("old", old) == (True, True)
    new = guard.add("changed")
    guard.remove("old", old)
    protected = guard.view()
    assert differences(view(kafka.bootstrap, GROUPS), before) == []
    assert offsets_at(kafka.bootstrap, "share-a") == shared
    alter_at(kafka.bootstrap, "share-b", "codecs", {1: 5})
    send(steady, "sequence", assorted("second", 1))
    send(producer(kafka.bootstrap, compression_type="lz4"), "codecs", assorted("kafka", 2))
    commit_offsets(kafka.bootstrap, "by-kafka", "codecs", 9)
    create(kafka.bootstrap, "made.by.kafka", 2)
    send(producer(kafka.bootstrap), "made.by.kafka", assorted("new", 2))
    before = view(kafka.bootstrap, GROUPS)
    kafka.stop()

    bowstring.start()
    assert guard.view() == protected
    assert guard.lets_in("changed", new) == (True, True)
    assert guard.lets_in("old", old) == (False, False)
    assert differences(view(bowstring.bootstrap, GROUPS), before) == []
    assert offsets_at(bowstring.bootstrap, "share-a") == shared
    assert offsets_at(bowstring.bootstrap, "share-b") == {("codecs", 1): 5}
    third = send(steady, "sequence", assorted("third", 1))
    assert [message.offset() for message in third] == list(range(40, 60))
    assert bowstring.stop() == 0


def test_bowstring_takes_over_from_kafka_and_gives_back(tmp_path: Path) -> None:
    port, data = steady_port(), tmp_path / "data"
    kafka = KafkaOn(tmp_path / "kafka", data, port, GUARDED | SNAPSHOTS)
    kafka.start()
    write_topics(kafka.bootstrap)
    write_transactions(kafka.bootstrap)
    write_security(kafka.bootstrap)
    join_new_protocol(kafka.bootstrap, "of-new-protocol", "append.time")
    write_compacted(kafka.bootstrap)
    commit_offsets(kafka.bootstrap, "by-kafka", "codecs", 11)
    create(kafka.bootstrap, "sequence", 1)
    steady = producer(kafka.bootstrap, enable_idempotence=True)
    send(steady, "sequence", assorted("first", 1))
    before, guarded = view(kafka.bootstrap, GROUPS), security(kafka.bootstrap)
    kafka.stop()
    by_kafka = snapshots(data)
    assert len(by_kafka) > 1

    bowstring = BowstringOn(tmp_path / "bowstring", data, port, SNAPSHOTS)
    bowstring.start()
    assert differences(view(bowstring.bootstrap, GROUPS), before) == []
    send(steady, "sequence", assorted("second", 1))
    send(producer(bowstring.bootstrap, compression_type="gzip"), "codecs", assorted("bow", 2))
    commit_offsets(bowstring.bootstrap, "by-bowstring", "codecs", 13)
    create(bowstring.bootstrap, "made.by.bowstring", 2, retention_ms="-1")
    before = view(bowstring.bootstrap, GROUPS)
    assert bowstring.stop() == 0
    assert snapshots(data)[-1] > by_kafka[-1]

    kafka.start()
    assert differences(view(kafka.bootstrap, GROUPS), before) == []
    assert security(kafka.bootstrap) == guarded
    send(steady, "sequence", assorted("third", 1))
    join_new_protocol(kafka.bootstrap, "of-new-protocol", "append.time")
    transact(kafka.bootstrap, "t1", "commit")
    left_open = transact(kafka.bootstrap, "t2", "neither")
    before = view(kafka.bootstrap, GROUPS)
    high, stable = (each["transactions", 0].records for each in (before.uncommitted, before.committed))
    assert high[-1].value == b"t2-neither" and stable[-1].value == b"t1-commit"
    kafka.kill()

    bowstring.start()
    assert differences(view(bowstring.bootstrap, GROUPS), before) == []
    fourth = send(steady, "sequence", assorted("fourth", 1))
    assert [message.offset() for message in fourth] == list(range(60, 80))
    assert bowstring.stop() == 0
    del left_open


def snapshots(data: Path) -> list[str]:
    """Names of the snapshots of the metadata log, oldest first."""
    return sorted(path.name for path in (data / "__cluster_metadata-0").glob("*.checkpoint"))


def test_kafka_decodes_the_metadata_log_and_its_snapshots(tmp_path: Path) -> None:
    """DumpLogSegments reads every record and reports no error."""
    settings = {"metadata.log.max.record.bytes.between.snapshots": "1"}
    bowstring = BowstringOn(tmp_path / "bowstring", tmp_path / "data", steady_port(), settings)
    for round in range(2):
        bowstring.start()
        create(bowstring.bootstrap, f"t{round}", 2, retention_ms="5")
        assert bowstring.stop() == 0
    folder = bowstring.data / "__cluster_metadata-0"
    snapshots = sorted(folder.glob("*.checkpoint"))
    assert len(snapshots) > 1
    files = ",".join(map(str, [folder / f"{0:020d}.log", *snapshots]))
    dumped = java_tool(DUMP, "--cluster-metadata-decoder", "--files", files).split("Dumping ")[1:]
    for text in dumped:
        assert "isvalid: false" not in text and "Could not" not in text and "unexpected" not in text
        kinds = re.findall(r'"type":"(\w+)"', text)
        assert kinds.count("PARTITION_RECORD") == 2 * kinds.count("TOPIC_RECORD")
    assert all("REGISTER_BROKER_RECORD" in dumped[at] for at in (0, -1))
    assert [dumped[at].count('"TOPIC_RECORD"') for at in (0, -1)] == [2, 2]
    assert dumped[0].count("LeaderChange") == 2
    assert all("SnapshotHeader" in text and "SnapshotFooter" in text for text in dumped[1:])
    assert f"Snapshot end offset: {int(snapshots[-1].name[:20])}, epoch: 2" in dumped[-1]
