"""Transactions as raw requests: each API in each version, in the states that a client can bring about."""

from typing import Any

from bowstring._native.record.encode import encode_batch
from bowstring.protocol.errors import Errors
from tests.conformance.differential.compare import conversation, versions
from tests.conformance.differential.talk import Talk

STAMP_MS = 1_700_000_000_000
NOT_FOUND = Errors.TRANSACTIONAL_ID_NOT_FOUND.code
BUMPS, ADDS = 5, 12  # versions of EndTxn and of Produce since which transaction version 2 counts


class Client:
    """One transactional id of a conversation, whose answers are compared."""

    def __init__(self, talk: Talk, short: str = "tx") -> None:
        self.talk = talk
        self.id = talk.name(short)
        self.producer_id = self.epoch = -1
        self.sequence = 0
        talk.until(
            lambda answer: answer.coordinators[0].error_code == 0,
            "FindCoordinator",
            4,
            key_type=1,
            coordinator_keys=[self.id],
        )
        talk.until(
            lambda answer: answer.transaction_states[0].error_code == NOT_FOUND,
            "DescribeTransactions",
            0,
            transactional_ids=[self.id],
        )

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "transactional_id": self.id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def init(self, note: str = "", version: int = 4, **more: Any) -> None:
        fields = {"transactional_id": self.id, "transaction_timeout_ms": 60_000} | more
        answer = self.talk.ask("InitProducerId", version, note=note, **fields)
        if answer.error_code == 0:
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0

    def add(self, note: str, topic: str, *partitions: int, version: int = 3, **more: Any) -> None:
        identity = self.identity | more
        self.talk.ask(
            "AddPartitionsToTxn",
            version,
            note=note,
            v3_and_below_transactional_id=identity["transactional_id"],
            v3_and_below_producer_id=identity["producer_id"],
            v3_and_below_producer_epoch=identity["producer_epoch"],
            v3_and_below_topics=[{"name": topic, "partitions": list(partitions)}],
        )

    def produce(self, note: str, topic: str, *, version: int = 11, **more: Any) -> None:
        data = encode_batch(
            [(b"k", b"v", STAMP_MS, ())],
            transactional=True,
            producer_id=more.pop("producer_id", self.producer_id),
            producer_epoch=more.pop("epoch", self.epoch),
            base_sequence=more.pop("sequence", self.sequence),
        )
        answer = self.talk.ask(
            "Produce",
            version,
            note=note,
            transactional_id=more.pop("id", self.id),
            acks=-1,
            timeout_ms=60_000,
            topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": data}]}],
        )
        if answer.responses[0].partition_responses[0].error_code == 0:
            self.sequence += 1

    def end(self, note: str, *, commit: bool = True, version: int = 4, **more: Any) -> None:
        answer = self.talk.ask("EndTxn", version, note=note, committed=commit, **(self.identity | more))
        if version >= BUMPS and answer.error_code == 0:
            if answer.producer_epoch != self.epoch:
                self.sequence = 0
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def settle(self) -> None:
        """Waits until the markers are written."""
        self.talk.until(
            lambda answer: not answer.transaction_states[0].transaction_state.startswith("Prepare"),
            "DescribeTransactions",
            0,
            transactional_ids=[self.id],
        )

    def describe(self, note: str) -> None:
        answer = self.talk.quietly("DescribeTransactions", 0, transactional_ids=[self.id])
        (found,) = answer.transaction_states
        self.talk.note(
            f"described {note}",
            {
                "error": found.error_code,
                "state": found.transaction_state,
                "epoch": found.producer_epoch,
                "timeout": found.transaction_timeout_ms,
                "has begun": found.transaction_start_time_ms > 0,
                "topics": sorted((each.topic, sorted(each.partitions)) for each in found.topics),
            },
        )


def stable_offset(talk: Talk, note: str, topic: str) -> None:
    wanted = [{"partition_index": 0, "timestamp": -1}]
    talk.ask(
        "ListOffsets",
        8,
        note=note,
        replica_id=-1,
        isolation_level=1,
        topics=[{"name": topic, "partitions": wanted}],
    )


@conversation(versions("InitProducerId"))
def test_init(talk: Talk) -> None:
    client = Client(talk)
    version = talk.version
    client.init("new", version)
    client.describe("new")
    client.init("again", version)
    client.init("no timeout", version, transaction_timeout_ms=0)
    client.init("too long", version, transaction_timeout_ms=900_001)
    client.init("no id", version, transactional_id="")
    if version >= 3:
        held = client.producer_id, client.epoch
        client.init("goes on", version, producer_id=held[0], producer_epoch=held[1])
        client.init("repeated", version, producer_id=held[0], producer_epoch=held[1])
        client.init("fenced", version, producer_id=held[0], producer_epoch=held[1] - 1)
        client.init("stranger", version, producer_id=held[0] + 77, producer_epoch=held[1])


@conversation(versions("AddPartitionsToTxn", last=3))
def test_add_partitions(talk: Talk) -> None:
    client, topic, version = Client(talk), talk.topic("t", 2), talk.version
    client.add("unknown id", topic, 0, version=version)
    client.init()
    client.add("first", topic, 0, version=version)
    client.describe("with a partition")
    client.add("second", topic, 0, 1, version=version)
    client.describe("with two")
    client.add("no such partition", topic, 1, 7, version=version)
    client.add("old epoch", topic, 0, version=version, producer_epoch=client.epoch - 1)
    client.add("stranger", topic, 0, version=version, producer_id=client.producer_id + 77)
    client.add("no id", topic, 0, version=version, transactional_id="")
    client.end("ends", commit=False)


@conversation(versions("AddPartitionsToTxn", first=4))
def test_verify(talk: Talk) -> None:
    client, topic = Client(talk), talk.topic("t", 2)
    client.init()
    client.add("one", topic, 0)
    for verify_only, epoch in ((True, 0), (True, -1), (False, 0), (True, 0)):
        transaction = client.identity | {
            "producer_epoch": client.epoch + epoch,
            "verify_only": verify_only,
            "topics": [{"name": topic, "partitions": [0, 1]}],
        }
        answer = talk.quietly("AddPartitionsToTxn", talk.version, transactions=[transaction])
        found = {
            part.partition_index: part.partition_error_code
            for part in answer.results_by_transaction[0].topic_results[0].results_by_partition
        }
        talk.note(f"verify {verify_only} {epoch}", found)


@conversation(versions("EndTxn"))
def test_ends(talk: Talk) -> None:
    client, topic, version = Client(talk), talk.topic("t"), talk.version
    client.end("unknown id", version=version)
    client.init()
    for commit in (True, False):
        client.end(f"empty, commit {commit}", commit=commit, version=version)
        client.settle()
    for commit in (True, False):
        client.add(f"for {commit}", topic, 0)
        before = client.identity
        client.end(f"commit {commit}", commit=commit, version=version)
        client.settle()
        client.describe(f"after {commit}")
        for again in (True, False):
            client.end(f"repeated, commit {again}", commit=again, version=version, **before)
            client.settle()
        client.end("old epoch", version=version, producer_epoch=max(0, client.epoch - 2))
        client.end("stranger", version=version, producer_id=client.producer_id + 77)
        client.settle()
    client.end("no id", version=version, transactional_id="")


@conversation(versions("EndTxn"))
def test_ends_after_the_coordinator_has_aborted(talk: Talk) -> None:
    """As after a timeout: the epoch is raised, and the client still uses its old one."""
    client, topic, version = Client(talk), talk.topic("t"), talk.version
    for again in (True, False):
        client.init()
        client.add("begins", topic, 0)
        before = client.identity
        client.init("aborts it")
        client.settle()
        client.describe("aborted")
        client.end(f"asks late, commit {again}", commit=again, version=version, **before)
        client.end("no older epoch", commit=again, version=version, producer_epoch=client.epoch - 1)


@conversation(versions("Produce", first=3))
def test_produce(talk: Talk) -> None:
    """Clients of both transaction versions; those of the later one add the partition by producing."""
    topic, version = talk.topic("t"), talk.version
    if version >= 13:
        return  # topics by id: as version 12
    client = Client(talk)
    client.init()
    adds = version >= ADDS
    if not adds:
        client.produce("not added", topic, version=version)
        client.add("added", topic, 0)
    for note in ("first", "second"):
        client.produce(note, topic, version=version)
    client.produce("without id", topic, version=version, id=None)
    stable_offset(talk, "ongoing", topic)
    client.end("commits", version=BUMPS if adds else 4)
    client.settle()
    stable_offset(talk, "committed", topic)
    if not adds:
        client.produce("late", topic, version=version)
    client.init("fences")
    old = {"epoch": client.epoch - 1, "sequence": 0}
    client.produce("zombie", topic, version=version, **old)


@conversation(versions("TxnOffsetCommit"))
def test_offsets(talk: Talk) -> None:
    topic, group, version = talk.topic("t"), talk.name("g"), talk.version
    client = Client(talk)
    client.init()
    talk.until(lambda answer: answer.error_code == 0, "FindCoordinator", 3, key=group, key_type=0)

    def commit(note: str, offset: int, partition: int = 0, **more: Any) -> None:
        part = {"partition_index": partition, "committed_offset": offset, "committed_metadata": "m"}
        topics = [{"name": topic, "partitions": [part]}]
        fields = client.identity | {"group_id": group, "topics": topics} | more
        talk.ask("TxnOffsetCommit", version, note=note, **fields)

    def fetch(note: str, **more: Any) -> None:
        wanted = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}
        talk.ask("OffsetFetch", 8, note=note, groups=[wanted], **more)

    if version < 5:
        commit("not added", 5)
        talk.ask("AddOffsetsToTxn", 3, note="added", group_id=group, **client.identity)
    commit("in the transaction", 7)
    commit("no such partition", 7, 9)
    if version >= 3:
        commit("wrong generation", 7, generation_id_or_member_epoch=4, member_id="nobody")
    fetch("unstable", require_stable=True)
    fetch("what counts now", require_stable=False)
    client.end("commits", version=BUMPS if version >= 5 else 4)
    client.settle()
    fetch("committed", require_stable=True)


@conversation(versions("ListTransactions"))
def test_list(talk: Talk) -> None:
    topic, version = talk.topic("t"), talk.version
    idle, busy = Client(talk, "idle"), Client(talk, "busy")
    idle.init()
    busy.init()
    busy.add("begins", topic, 0)
    own = {idle.id, busy.id}

    def listed(note: str, **filters: Any) -> None:
        answer = talk.quietly("ListTransactions", version, **filters)
        talk.note(
            note,
            {
                "error": answer.error_code,
                "unknown": answer.unknown_state_filters,
                "found": sorted(
                    (each.transactional_id, each.transaction_state)
                    for each in answer.transaction_states
                    if each.transactional_id in own
                ),
            },
        )

    listed("all", state_filters=[], producer_id_filters=[])
    listed("ongoing", state_filters=["Ongoing"], producer_id_filters=[])
    listed("odd", state_filters=["Odd"], producer_id_filters=[])
    listed("by id", state_filters=[], producer_id_filters=[idle.producer_id])
    listed("long", state_filters=[], producer_id_filters=[], duration_filter=3_600_000)
    listed("pattern", state_filters=[], producer_id_filters=[], transactional_id_pattern=".*busy")
    listed("bad pattern", state_filters=[], producer_id_filters=[], transactional_id_pattern="[")
    busy.end("ends", commit=False)


@conversation(versions("WriteTxnMarkers"))
def test_markers(talk: Talk) -> None:
    topic, version = talk.topic("t"), talk.version
    client = Client(talk)
    client.init()
    client.init("raises the epoch")
    client.add("begins", topic, 0)
    client.produce("a record", topic)

    def mark(note: str, name: str, partition: int, epoch: int, coordinator_epoch: int = 0) -> None:
        marker = {
            "producer_id": client.producer_id,
            "producer_epoch": epoch,
            "transaction_result": False,
            "topics": [{"name": name, "partition_indexes": [partition]}],
            "coordinator_epoch": coordinator_epoch,
            "transaction_version": 0,
        }
        talk.ask("WriteTxnMarkers", version, note=note, markers=[marker])

    mark("old epoch", topic, 0, client.epoch - 1)
    mark("no such partition", topic, 9, client.epoch)
    mark("no such topic", talk.name("none"), 0, client.epoch)
    mark("ends it", topic, 0, client.epoch, 3)
    stable_offset(talk, "ended", topic)
    mark("an older coordinator", topic, 0, client.epoch, 2)
    talk.ask("WriteTxnMarkers", version, note="nothing", markers=[])
