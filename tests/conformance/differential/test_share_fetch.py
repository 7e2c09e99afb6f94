"""ShareFetch and ShareAcknowledge: sessions, acquired ranges, acknowledgements and their errors (KIP-932)."""

from collections.abc import Callable
from functools import partial
from typing import Any

from bowstring._native.record.decode import decode_batches
from bowstring.protocol.ids import format_uuid
from tests.conformance.differential.compare import conversation, versions
from tests.conformance.differential.fetching import NOBODYS_ID, part, records
from tests.conformance.differential.talk import Talk
from tests.support.log_batches import TRANSACTIONAL
from tests.support.reference_batch import Batch, encode
from tests.support.waiting import FOR_EVER_MS, wait_until

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
GROUP_RESOURCE = 32
Acks = list[tuple[int, int, list[int]]]


def batches(acks: Acks) -> list[dict[str, Any]]:
    return [
        {"first_offset": first, "last_offset": last, "acknowledge_types": types}
        for first, last, types in acks
    ]


class Group:
    """A share group of one topic, whose state is initialized by requests that only brokers send."""

    def __init__(
        self, talk: Talk, *counts: int, name: str = "t", partitions: int = 1, start_offset: int = 0
    ) -> None:
        self.talk = talk
        self.id = talk.name(f"group-{name}")
        self.topic = talk.topic(name, partitions)
        self.topic_id = talk.topic_ids[self.topic]
        for index in range(partitions):
            self.initialize(index, start_offset)
        for index in range(partitions):
            for count in counts:
                talk.write(self.topic, records(count), index)

    def initialize(self, index: int, start_offset: int) -> None:
        self.talk.until(
            lambda answer: answer.coordinators[0].error_code == 0,
            "FindCoordinator",
            6,
            key_type=2,
            coordinator_keys=[f"{self.id}:{format_uuid(self.topic_id)}:{index}"],
        )
        part = {"partition": index, "state_epoch": 0, "start_offset": start_offset}
        self.talk.until(
            # The coordinator may not have the topic yet; without a state the partition never loads.
            lambda answer: answer.results[0].partitions[0].error_code == 0,
            "InitializeShareGroupState",
            0,
            group_id=self.id,
            topics=[{"topic_id": self.topic_id, "partitions": [part]}],
        )

    def configure(self, **configs: str) -> None:
        wanted = [
            {"name": key.replace("_", "."), "config_operation": 0, "value": value}
            for key, value in configs.items()
        ]
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": self.id, "configs": wanted}
        answer = self.talk.quietly("IncrementalAlterConfigs", 1, resources=[resource])
        assert answer.responses[0].error_code == 0, answer.responses[0].error_message


class Member:
    """A member with a connection of its own."""

    def __init__(self, group: Group, name: str = "a") -> None:
        self.group, self.name = group, name
        self.epoch = 0
        self.acquired: list[tuple[int, int]] = []
        self.version = max(1, group.talk.version)

    def _topics(self, rows: dict[int, Acks], topic_id: bytes | None) -> list[dict[str, Any]]:
        partitions = [
            {"partition_index": index, "acknowledgement_batches": batches(acks)}
            for index, acks in rows.items()
        ]
        return [{"topic_id": topic_id or self.group.topic_id, "partitions": partitions}] if rows else []

    def _fields(self, more: dict[str, Any]) -> dict[str, Any]:
        return {
            "on": self.name,
            "group_id": self.group.id,
            "member_id": self.name,
            "share_session_epoch": self.epoch,
            "unordered": {"responses": "topic_id"},
        } | more

    def fetch(
        self, note: str, rows: dict[int, Acks] | None = None, *, topic_id: bytes | None = None, **more: Any
    ) -> Any:
        fields = {
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
        }
        fields |= self._fields(more) | {"topics": self._topics(rows or {}, topic_id)}
        answer = self.group.talk.ask("ShareFetch", self.version, note=note, **fields)
        if not answer.error_code and fields["share_session_epoch"] == self.epoch:
            self.epoch += 1
        return answer

    def take(self, note: str, **more: Any) -> Any:
        """Fetches until records come, and adds that answer to the transcript: written and committed records may be with
        a share partition later than their producer has its answer.
        """

        def has_records(answer: Any) -> bool:
            assert answer is not None and not answer.error_code, answer
            return any(each.acquired_records for topic in answer.responses for each in topic.partitions)

        return self._last(lambda: self.fetch(note, **more), has_records, f"{note}: no records came")

    def refused(self, note: str, *acks: tuple[int, int, list[int]], **more: Any) -> Any:
        """Acknowledges until that is refused, and adds that answer to the transcript: Kafka answers a change of a config
        before its share partitions have it.
        """
        return self._last(
            lambda: self.acknowledge(note, *acks, **more),
            lambda answer: answer.responses[0].partitions[0].error_code,
            f"{note}: not refused",
        )

    def _last(self, ask: Callable[[], Any], wanted: Callable[[Any], object], what: str) -> Any:
        """Asks until an answer is the wanted one; only that one stays in the transcript."""
        talk = self.group.talk

        def comes() -> Any:
            before, known = len(talk.transcript), talk.aliases.snapshot()
            answer = ask()
            if wanted(answer):
                return answer
            del talk.transcript[before:]
            talk.aliases.restore(known)
            return None

        return wait_until(comes, what)

    def join(self, *indexes: int) -> None:
        """Opens a session until its first answer names all partitions without an error: then they are loaded."""
        rows: dict[int, Acks] = {index: [] for index in indexes or (0,)}
        seen: list[Any] = [f"partitions {list(rows)} are not loaded; named, with their errors:"]
        wait_until(partial(self._opens, rows, seen), seen)

    def _opens(self, rows: dict[int, Acks], seen: list[Any]) -> bool:
        self.epoch = 0
        seen[1:] = [(each.partition_index, each.error_code) for each in self.quiet_fetch(rows)]
        return {index for index, error in seen[1:] if not error} == set(rows)

    def quiet_fetch(self, rows: dict[int, Acks] | None = None, **more: Any) -> list[Any]:
        """Fetches without a comparison; returns what the answer says of partitions."""
        fields = {"max_wait_ms": 50, "min_bytes": 0, "max_bytes": 1 << 20, "max_records": 1, "batch_size": 1}
        fields |= self._fields(more) | {"topics": self._topics(rows or {}, None)}
        answer = self.group.talk.quietly("ShareFetch", self.version, **fields)
        assert answer.error_code == 0, answer
        self.epoch += 1
        found = [each for topic in answer.responses for each in topic.partitions]
        for each in found:
            self.acquired += [(row.first_offset, row.last_offset) for row in each.acquired_records]
        return found

    def has(self, offset: int) -> bool:
        """Fetches, and says whether the member has acquired a record."""
        self.quiet_fetch()
        return any(first <= offset <= last for first, last in self.acquired)

    def acknowledge(self, note: str, *acks: tuple[int, int, list[int]], index: int = 0, **more: Any) -> Any:
        topic_id = more.pop("topic_id", None)
        fields = self._fields(more) | {"topics": self._topics({index: list(acks)}, topic_id)}
        answer = self.group.talk.ask("ShareAcknowledge", self.version, note=note, **fields)
        if not answer.error_code and fields["share_session_epoch"] == self.epoch:
            self.epoch += 1
        return answer


@conversation(versions("ShareFetch"))
def test_records_and_their_acknowledgement(talk: Talk) -> None:
    group = Group(talk)
    ann, ben = Member(group), Member(group, "b")
    ann.join()
    ben.join()
    for count in (3, 2, 5):
        talk.write(group.topic, records(count))
    ann.take("of the first member", max_records=4)
    ben.take("of the second member")
    ann.fetch("with nothing left")
    ann.acknowledge("each its own", (0, 2, [ACCEPT, RELEASE, REJECT]))
    ann.acknowledge("what is done", (0, 0, [ACCEPT]))
    ann.acknowledge("what another has", (5, 5, [ACCEPT]))
    ann.acknowledge("beyond the end", (4, 12, [ACCEPT]))
    ann.acknowledge("far beyond the end", (20, 21, [ACCEPT]))
    ann.acknowledge("gives back", (3, 4, [RELEASE]))
    ann.take("what came back")
    ben.fetch("with acknowledgements", {0: [(5, 6, [ACCEPT]), (7, 9, [0])]})
    ben.fetch("with wrong acknowledgements", {0: [(5, 6, [ACCEPT])]})


@conversation(versions("ShareFetch"))
def test_sessions(talk: Talk) -> None:
    group = Group(talk, partitions=2)
    ann = Member(group)
    ann.fetch("in an unknown session", share_session_epoch=1)
    ann.fetch("closes an unknown session", share_session_epoch=-1)
    ann.acknowledge("in an unknown session", (0, 0, [ACCEPT]), share_session_epoch=1)
    ann.acknowledge("with the first epoch", (0, 0, [ACCEPT]), share_session_epoch=0)
    ann.fetch("acknowledges at once", {0: [(0, 0, [ACCEPT])]})
    ann.join(0, 1)
    ann.fetch("with an old epoch", share_session_epoch=1)
    talk.write(group.topic, records(2), 1)
    ann.take("with news of one partition")
    ann.fetch("adds what it has", {0: [], 1: []})
    ann.fetch(
        "forgets one",
        forgotten_topics_data=[{"topic_id": group.topic_id, "partitions": [1]}],
    )
    talk.write(group.topic, records(2), 1)
    ann.fetch("of what it forgot")
    ann.fetch("closes", {1: [(0, 1, [ACCEPT])]}, share_session_epoch=-1)
    ann.fetch("closes again", share_session_epoch=-1)


@conversation()
def test_malformed(talk: Talk) -> None:
    group = Group(talk, 2)
    ann = Member(group)
    ann.fetch("without a group", group_id=None)
    ann.fetch("without a member", member_id=None)
    ann.fetch("with an empty member", member_id="")
    ann.fetch("with a long member", member_id="m" * 37)
    ann.acknowledge("without a group", (0, 0, [ACCEPT]), group_id=None)
    ann.acknowledge("with a long member", (0, 0, [ACCEPT]), member_id="m" * 37)
    ann.join()
    Member(group, "c").fetch("of an unknown partition", {7: []})
    ann.acknowledge("of an unknown partition", (0, 0, [ACCEPT]), index=7)
    ann.acknowledge("with an unknown type", (0, 0, [5]))
    ann.acknowledge("with a negative type", (0, 0, [-1]))
    ann.acknowledge("without a type", (0, 0, []))
    ann.acknowledge("with too few types", (0, 2, [ACCEPT, ACCEPT]))
    ann.acknowledge("backwards", (1, 0, [ACCEPT]))
    ann.acknowledge("out of order", (1, 1, [ACCEPT]), (0, 0, [ACCEPT]))
    ann.acknowledge("nothing")
    ann.acknowledge("of an unknown topic", (0, 0, [ACCEPT]), topic_id=NOBODYS_ID)


@conversation()
def test_record_limit_and_renewal(talk: Talk) -> None:
    group = Group(talk)
    ann = Member(group)
    ann.version = 2
    ann.join()
    talk.write(group.topic, records(6))
    ann.take("cuts a batch", max_records=2, share_acquire_mode=1)
    ann.take("takes the rest", max_records=3)
    ann.acknowledge("renews without saying so", (0, 0, [RENEW]))
    ann.acknowledge("renews", (0, 1, [RENEW]), is_renew_ack=True)
    ann.acknowledge("renews what is not held", (6, 6, [RENEW]), is_renew_ack=True)
    ann.acknowledge("renews one, accepts one", (0, 1, [RENEW, ACCEPT]), is_renew_ack=True)
    ann.fetch("renews and fetches", {0: [(0, 0, [RENEW])]}, is_renew_ack=True)
    nothing: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    ann.fetch("renews", {0: [(0, 0, [RENEW])]}, is_renew_ack=True, **nothing)
    group.configure(share_renew_acknowledge_enable="false")
    ann.refused("renews what may not be", (0, 0, [RENEW]), is_renew_ack=True)
    ann.acknowledge("accepts", (0, 0, [ACCEPT]))


@conversation()
def test_batches_and_ranges(talk: Talk) -> None:
    group = Group(talk)
    ann = Member(group)
    ann.join()
    for count in (4, 4, 4, 4, 4):
        talk.write(group.topic, records(count))
    ann.take("in ranges", max_records=10, batch_size=3)
    ann.take("the rest, in one", batch_size=1000)
    ann.acknowledge("over ranges", (2, 13, [ACCEPT]))
    ann.acknowledge("gives back", (0, 1, [RELEASE]), (14, 19, [RELEASE]))
    ann.take("again", max_records=3)
    ann.fetch("and the rest")


@conversation()
def test_deliveries_are_limited(talk: Talk) -> None:
    group = Group(talk)
    group.configure(share_delivery_count_limit="4")
    ann = Member(group)
    ann.join()
    talk.write(group.topic, records(8))
    for number in range(1, 8):
        answer = ann.take(f"for the {number}. time")
        for each in answer.responses[0].partitions[0].acquired_records:
            ann.acknowledge("gives back", (each.first_offset, each.last_offset, [RELEASE]))


@conversation()
def test_no_more_than_the_locks(talk: Talk) -> None:
    group = Group(talk)
    group.configure(share_partition_max_record_locks="100")
    ann, ben = Member(group), Member(group, "b")
    ann.join()
    ben.join()
    for _ in range(6):
        talk.write(group.topic, records(30))
    ann.take("up to the limit")
    ben.fetch("beyond the limit")
    ann.acknowledge("gives some back", (10, 19, [RELEASE]))
    ben.take("what is free")
    ann.acknowledge("makes room", (0, 9, [ACCEPT]))
    ben.fetch("with room")


def write_transaction(talk: Talk, topic: str, *, commits: bool) -> None:
    """Writes two records in a transaction, and ends it."""
    name = talk.name("transaction")
    talk.until(lambda answer: answer.error_code == 0, "FindCoordinator", 3, key=name, key_type=1)
    made = talk.until(
        lambda answer: answer.error_code == 0,
        "InitProducerId",
        4,
        transactional_id=name,
        transaction_timeout_ms=60000,
        producer_id=-1,
        producer_epoch=-1,
    )
    producer = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}

    def added(answer: Any) -> bool:
        (topic_result,) = answer.results_by_topic_v3_and_below
        return topic_result.results_by_partition[0].partition_error_code == 0

    talk.until(
        added,
        "AddPartitionsToTxn",
        3,
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=made.producer_id,
        v3_and_below_producer_epoch=made.producer_epoch,
        v3_and_below_topics=[{"name": topic, "partitions": [0]}],
    )
    plain = ((b"k", b"v", 1_700_000_000_000, ()), (b"k", b"w", 1_700_000_000_001, ()))
    data = encode(Batch(plain, base_sequence=0, attributes=TRANSACTIONAL, **producer))
    sent = [{"name": topic, "partition_data": [{"index": 0, "records": data}]}]
    answer = talk.quietly(
        "Produce", 9, acks=-1, timeout_ms=FOR_EVER_MS, topic_data=sent, transactional_id=name
    )
    assert not answer.responses[0].partition_responses[0].error_code
    talk.until(
        lambda answer: answer.error_code == 0,
        "EndTxn",
        3,
        transactional_id=name,
        committed=commits,
        **producer,
    )


@conversation()
def test_transactions(talk: Talk) -> None:
    group = Group(talk)
    group.configure(share_isolation_level="read_committed")
    ann = Member(group)
    ann.join()
    for commits in (True, False, True):
        write_transaction(talk, group.topic, commits=commits)
    talk.until(
        lambda answer: answer.topics[0].partitions[0].offset == 9,
        "ListOffsets",
        2,
        replica_id=-1,
        isolation_level=1,
        topics=[{"name": group.topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
    )
    answer = ann.take("committed records")
    del talk.transcript[-1][1]["responses"]  # producer ids differ
    ranges = answer.responses[0].partitions[0].acquired_records
    talk.note("acquired", [(each.first_offset, each.last_offset, each.delivery_count) for each in ranges])


@conversation()
def test_where_a_group_starts(talk: Talk) -> None:
    for reset in ("earliest", "latest"):
        group = Group(talk, name=reset[:2], start_offset=-1)
        group.configure(share_auto_offset_reset=reset)
        talk.write(group.topic, records(2))
        ann = Member(group, f"a{reset[:2]}")
        ann.join()
        talk.write(group.topic, records(1))
        wait_until(partial(ann.has, 2), reset)
        talk.note(reset, ann.acquired)


def letters(talk: Talk, topic: str, count: int) -> list[tuple[Any, ...]]:
    """Returns key, value and headers of the records of a dead-letter topic, once there are that many."""
    found: list[Any] = []

    def enough() -> bool:
        answer = talk.quietly(
            "Fetch", 12, max_wait_ms=500, min_bytes=1, topics=[{"topic": topic, "partitions": [part()]}]
        )
        found[:] = decode_batches(answer.responses[0].partitions[0].records or b"")
        return len(found) >= count

    wait_until(enough)
    return sorted((each.key, each.value, *((name, value) for name, value in each.headers)) for each in found)


@conversation(versions("ShareFetch"))
def test_dead_letters(talk: Talk) -> None:
    """Records that are rejected or delivered too often get copies (KIP-1191), with key and value or without."""
    for copies in ("true", "false"):
        group = Group(talk, name=f"dead-{copies}")
        dead = f"dlq.{group.id}"
        enabled = {"name": "errors.deadletterqueue.group.enable", "value": "true"}
        topic = {"name": dead, "num_partitions": 1, "replication_factor": 1, "configs": [enabled]}
        created = talk.quietly("CreateTopics", 5, timeout_ms=FOR_EVER_MS, topics=[topic])
        assert created.topics[0].error_code == 0
        group.configure(
            errors_deadletterqueue_topic_name=dead,
            errors_deadletterqueue_copy_record_enable=copies,
            share_delivery_count_limit="2",
        )
        talk.led(dead, 1)
        asked = {"resource_type": GROUP_RESOURCE, "resource_name": group.id}
        talk.until(
            lambda answer: any(
                each.name == "share.delivery.count.limit" and each.value == "2"
                for each in answer.results[0].configs
            ),
            "DescribeConfigs",
            4,
            resources=[asked],
        )
        ann = Member(group, f"a-{copies}")
        ann.join()
        talk.write(group.topic, records(5))
        ann.take("all of them")
        ann.acknowledge("each its own", (0, 4, [REJECT, ACCEPT, RELEASE, 0, REJECT]))
        ann.acknowledge("what is on its way", (4, 4, [ACCEPT]))
        ann.take("the last delivery")
        ann.acknowledge("gives it back", (2, 2, [RELEASE]))
        talk.note(f"letters, copies {copies}", letters(talk, dead, 3))
        talk.write(group.topic, records(2))
        ann.take("goes on")
