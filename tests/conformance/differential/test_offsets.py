"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeLogDirs, DescribeProducers, InitProducerId."""

from typing import Any

from tests.conformance.differential.compare import conversation, versions
from tests.conformance.differential.talk import Talk
from tests.support.reference_batch import Batch, encode

START_MS = 1_700_000_000_000
NOBODYS_ID = bytes(range(16))


def records(*timestamps: int, **fields: Any) -> bytes:
    """A batch with one record for each timestamp, given in ms after START_MS."""
    return encode(Batch(tuple((b"k", b"v%d" % at, START_MS + at, ()) for at in timestamps), **fields))


def list_offsets(
    talk: Talk, note: str, topic: str, *timestamps: int, partition: int = 0, epoch: int = -1, **more: Any
) -> None:
    """Sends one request per timestamp: a request may name a partition only once."""
    for timestamp in timestamps:
        row = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": epoch}
        fields = {"replica_id": -1, "topics": [{"name": topic, "partitions": [row]}]} | more
        talk.ask("ListOffsets", talk.version, note=f"{note} at {timestamp}", timeout_ms=1000, **fields)


SPECIAL = (-1, -2, -3, -4, -5, -6, -7, -100)


@conversation(versions("ListOffsets"))
def test_list_offsets_of_nothing(talk: Talk) -> None:
    topic = talk.topic("empty")
    for isolation in (0, 1):
        list_offsets(talk, f"isolation {isolation}", topic, *SPECIAL, 0, START_MS, isolation_level=isolation)
    list_offsets(talk, "unknown topic", talk.name("unknown"), -1, -2, 0)
    list_offsets(talk, "unknown partition", topic, -1, 0, partition=1)
    list_offsets(talk, "negative partition", topic, -1, partition=-1)
    list_offsets(talk, "bad name", "a b", -1)
    list_offsets(talk, "empty name", "", -1)
    talk.ask("ListOffsets", talk.version, note="nothing", replica_id=-1, topics=[])
    talk.ask(
        "ListOffsets",
        talk.version,
        note="no partitions",
        replica_id=-1,
        topics=[{"name": topic, "partitions": []}],
    )


@conversation(versions("ListOffsets", 2))
def test_list_offsets_with_an_unknown_isolation_level(talk: Talk) -> None:
    list_offsets(talk, "isolation 2", talk.topic("empty"), -1, -2, 0, isolation_level=2)


@conversation(versions("ListOffsets"))
def test_list_offsets_of_data(talk: Talk) -> None:
    topic = talk.topic("data", partitions=2)
    for timestamps in ((0, 10, 20), (30, 5, 30), (25,), (100, 90, 80)):
        talk.write(topic, records(*timestamps))
    for isolation in (0, 1):
        list_offsets(talk, f"isolation {isolation}", topic, *SPECIAL, isolation_level=isolation)
    list_offsets(
        talk,
        "times",
        topic,
        0,
        START_MS - 1,
        *(START_MS + at for at in (0, 1, 10, 11, 20, 21, 25, 26, 30, 31, 81, 100, 101)),
    )
    rows = [{"partition_index": 0, "timestamp": -1}, {"partition_index": 0, "timestamp": -2}]
    talk.ask(
        "ListOffsets",
        talk.version,
        note="one partition twice",
        replica_id=-1,
        topics=[{"name": topic, "partitions": rows}],
    )
    rows = [{"partition_index": index, "timestamp": -1} for index in (1, 0, 2)]
    talk.ask(
        "ListOffsets",
        talk.version,
        note="three partitions",
        replica_id=-1,
        topics=[{"name": topic, "partitions": rows}],
    )
    for replica in (-2, 0, 1, 5, -3):
        list_offsets(talk, f"replica {replica}", topic, -1, -2, START_MS + 10, replica_id=replica)


@conversation(versions("ListOffsets", 7))
def test_the_latest_of_records_without_timestamps(talk: Talk) -> None:
    topic = talk.topic("untimed")
    for _ in range(2):
        talk.write(topic, records(-1 - START_MS, -1 - START_MS))
    list_offsets(talk, "no timestamps", topic, -3, 0)
    talk.write(topic, records(5))
    list_offsets(talk, "one timestamp", topic, -3, 0)


@conversation(versions("ListOffsets", 4))
def test_list_offsets_with_epochs(talk: Talk) -> None:
    topic = talk.topic("epochs")
    talk.write(topic, records(0))
    for epoch in (-1, 0, 1, 5, -2):
        list_offsets(talk, f"epoch {epoch}", topic, -1, START_MS, epoch=epoch)


@conversation(versions("OffsetForLeaderEpoch"))
def test_offset_for_leader_epoch(talk: Talk) -> None:
    empty, data = talk.topic("empty"), talk.topic("data")
    talk.write(data, records(0, 1, 2))

    def ask(
        note: str, topic: str, epoch: int, current: int = -1, partition: int = 0, replica: int = -1
    ) -> None:
        row = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
        topics = [{"topic": topic, "partitions": [row]}]
        talk.ask("OffsetForLeaderEpoch", talk.version, note=note, replica_id=replica, topics=topics)

    for name in (empty, data):
        for epoch in (0, 1, -1, -2):
            ask(f"{epoch} of {name}", name, epoch)
        for current in (0, 1, -5):
            ask(f"current {current} of {name}", name, 0, current)
    ask("unknown topic", talk.name("unknown"), 0)
    ask("unknown partition", data, 0, partition=1)
    for replica in (-2, 1, 7):
        ask(f"replica {replica}", data, 0, replica=replica)
    talk.ask("OffsetForLeaderEpoch", talk.version, note="nothing", replica_id=-1, topics=[])


@conversation(versions("DeleteRecords"))
def test_delete_records(talk: Talk) -> None:
    topic, compacted = talk.topic("data", partitions=2), talk.topic("compacted", cleanup_policy="compact")
    for _ in range(3):
        talk.write(topic, records(0, 1, 2))
    talk.write(compacted, records(0))

    def ask(note: str, name: str, *rows: tuple[int, int]) -> None:
        partitions = [{"partition_index": index, "offset": offset} for index, offset in rows]
        topics = [{"name": name, "partitions": partitions}]
        talk.ask("DeleteRecords", talk.version, note=note, topics=topics, timeout_ms=5000)

    ask("nothing yet", topic, (0, 0))
    ask("inside a batch", topic, (0, 2))
    ask("backwards", topic, (0, 1))
    ask("more", topic, (0, 4), (1, 0))
    ask("beyond the end", topic, (0, 10))
    ask("below zero", topic, (0, -2))
    ask("to the high watermark", topic, (0, -1))
    ask("again", topic, (0, -1))
    ask("unknown partition", topic, (2, 0))
    ask("unknown topic", talk.name("unknown"), (0, 0))
    ask("bad name", "a b", (0, 0))
    ask("compacted", compacted, (0, 1))
    ask("internal", "__consumer_offsets", (0, 0))
    talk.ask("DeleteRecords", talk.version, note="nothing", topics=[], timeout_ms=5000)
    talk.ask(
        "ListOffsets",
        7,
        note="afterwards",
        replica_id=-1,
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -2}]}],
    )


@conversation(versions("DescribeLogDirs"))
def test_describe_log_dirs(talk: Talk) -> None:
    one, three = talk.topic("one"), talk.topic("three", partitions=3)
    talk.write(one, records(0, 1, 2))

    def ask(note: str, topics: list[dict[str, Any]] | None) -> None:
        pending = talk.send("DescribeLogDirs", talk.version, note=note, topics=topics)
        answer = pending.answer()
        if answer is not None:
            # Kafka lists partitions in the order of a hash table.
            found = talk.transcript[-1][1]
            for directory in found["results"]:
                directory["topics"] = sorted(
                    (
                        {**topic, "partitions": sorted(topic["partitions"], key=str)}
                        for topic in directory["topics"]
                    ),
                    key=str,
                )

    ask("some", [{"topic": one, "partitions": [0]}, {"topic": three, "partitions": [0, 2]}])
    ask("unknown", [{"topic": talk.name("unknown"), "partitions": [0]}, {"topic": one, "partitions": [1]}])
    ask("nothing", [])
    ask("no partitions", [{"topic": three, "partitions": []}])


@conversation(versions("DescribeProducers"))
def test_describe_producers(talk: Talk) -> None:
    topic = talk.topic("data")

    def ask(note: str, name: str, *partitions: int) -> None:
        topics = [{"name": name, "partition_indexes": list(partitions)}]
        talk.ask("DescribeProducers", 0, note=note, topics=topics)

    ask("none", topic, 0)
    producer = talk.quietly("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=60_000)
    talk.write(topic, records(0, 1, producer_id=producer.producer_id, producer_epoch=0, base_sequence=0))
    ask("one", topic, 0)
    ask("unknown partition", topic, 1)
    ask("unknown topic", talk.name("unknown"), 0)
    ask("bad name", "a b", 0)
    talk.ask("DescribeProducers", 0, note="nothing", topics=[])


@conversation(versions("InitProducerId"))
def test_init_producer_id(talk: Talk) -> None:
    def ask(note: str, **fields: Any) -> None:
        talk.ask(
            "InitProducerId",
            talk.version,
            note=note,
            **{"transactional_id": None, "transaction_timeout_ms": 60_000, **fields},
        )

    ask("first")
    ask("second")
    ask("no timeout", transaction_timeout_ms=0)
    ask("negative timeout", transaction_timeout_ms=-1)
    ask("with an id", producer_id=77, producer_epoch=3)
    ask("with an id only", producer_id=77)
    ask("with an epoch only", producer_epoch=3)
    ask("empty transactional id", transactional_id="")


@conversation(versions("InitProducerId"))
def test_init_producer_id_of_a_transaction(talk: Talk) -> None:
    id = talk.name("tx")
    talk.until(
        lambda answer: answer.coordinators[0].error_code == 0,
        "FindCoordinator",
        4,
        key_type=1,
        coordinator_keys=[id],
    )
    given = {"transactional_id": id, "transaction_timeout_ms": 60_000}
    # Kafka names a coordinator before it has loaded its partition.
    talk.until(lambda answer: answer.error_code == 0, "InitProducerId", talk.version, **given)
    talk.ask("InitProducerId", talk.version, **given)
