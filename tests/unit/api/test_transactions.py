"""The transaction APIs of one broker, as raw requests."""

import asyncio
import contextlib
import struct
from types import SimpleNamespace

import pytest

from bowstring._native.record.encode import encode_batch
from bowstring.engine.api import init_producer_id
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.coordinators.coordinators import Coordinators
from bowstring.engine.metadata.names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from bowstring.engine.transactions.transaction import NO_TIMEOUT_MS
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import add_offsets_to_txn as ao
from bowstring.protocol.messages import add_partitions_to_txn as ap
from bowstring.protocol.messages import describe_producers as dp
from bowstring.protocol.messages import describe_transactions as dt
from bowstring.protocol.messages import end_txn as et
from bowstring.protocol.messages import find_coordinator as fc
from bowstring.protocol.messages import init_producer_id as ip
from bowstring.protocol.messages import list_offsets as lo
from bowstring.protocol.messages import list_transactions as lt
from bowstring.protocol.messages import offset_fetch as of
from bowstring.protocol.messages import produce as p
from bowstring.protocol.messages import txn_offset_commit as toc
from bowstring.protocol.messages import write_txn_markers as wm
from tests.support.transaction_harness import TransactionHarness
from tests.support.waiting import FOR_EVER_MS, wait_until
from tests.support.wire_client import WireClient

LATEST, COMMITTED = -1, 1
PRODUCE_1, PRODUCE_2 = 11, 12  # versions of Produce that clients use with transaction version 1 and 2


class Client:
    """A transactional producer that uses the request versions of transaction version 1 or 2."""

    def __init__(self, served, id="x", *, bumps=True):
        self.served = served
        self.id = id
        self.bumps = bumps
        self.sequences = {}
        self.producer_id = self.epoch = -1

    def init(self, version=5, timeout_ms=60_000):
        found = self.served.ask(
            fc.FindCoordinatorRequest(key_type=1, coordinator_keys=[self.id]), 4
        ).coordinators[0]
        assert (found.error_code, found.port) == (0, self.served.broker.port)
        answer = wait_until(lambda: self._init(version, timeout_ms))
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()
        return self

    def _init(self, version, timeout_ms):
        request = ip.InitProducerIdRequest(transactional_id=self.id, transaction_timeout_ms=timeout_ms)
        answer = self.served.ask(request, version)
        if answer.error_code == Errors.CONCURRENT_TRANSACTIONS.code:
            return None
        assert answer.error_code == 0
        return answer

    def add(self, topic="t", partition=0, version=3):
        answer = self.served.ask(
            ap.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[ap.AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
            ),
            version,
        )
        return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

    def produce(self, value=b"v", topic="t", partition=0, *, sequence=None, id=None):
        """Returns the error code of one record."""
        if sequence is None:
            sequence = self.sequences.get((topic, partition), 0)
            self.sequences[topic, partition] = sequence + 1
        batch = encode_batch(
            [(b"k", value, 0, ())],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = p.TopicProduceData(
            name=topic, partition_data=[p.PartitionProduceData(index=partition, records=batch)]
        )
        request = p.ProduceRequest(
            transactional_id=self.id if id is None else id or None,
            acks=-1,
            timeout_ms=FOR_EVER_MS,
            topic_data=[data],
        )
        answer = self.served.ask(request, PRODUCE_2 if self.bumps else PRODUCE_1)
        return answer.responses[0].partition_responses[0].error_code

    def end(self, *, commit=True, version=None):
        """Returns the error code; adopts the new epoch."""
        request = et.EndTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = self.served.ask(request, version or (5 if self.bumps else 4))
        if self.bumps and answer.error_code == 0:
            if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
                self.sequences.clear()
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer.error_code

    def commit_offset(self, offset, group="g", version=None):
        part = toc.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = toc.TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[toc.TxnOffsetCommitRequestTopic(name="t", partitions=[part])],
        )
        answer = self.served.ask(request, version or (5 if self.bumps else 4))
        return answer.topics[0].partitions[0].error_code

    def described(self):
        request = dt.DescribeTransactionsRequest(transactional_ids=[self.id])
        return self.served.ask(request).transaction_states[0]

    def wait_for(self, state):
        wait_until(lambda: self.described().transaction_state == state)


@pytest.fixture
def topic(served):
    served.create_topic("t", 2)
    return served


@pytest.fixture(params=[True, False], ids=["version 2", "version 1"])
def client(topic, request):
    return Client(topic, bumps=request.param).init()


def begin(client, partition=0):
    if not client.bumps:
        assert client.add(partition=partition) == 0


def end_offset(served, isolation=COMMITTED, partition=0):
    topic = lo.ListOffsetsTopic(
        name="t", partitions=[lo.ListOffsetsPartition(partition_index=partition, timestamp=LATEST)]
    )
    answer = served.ask(lo.ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic]), 8)
    return answer.topics[0].partitions[0].offset


def fetched_offset(served, group="g", *, stable=False):
    """Returns the committed offset of t-0, or the error for an unstable offset."""
    request = of.OffsetFetchRequest(
        require_stable=stable,
        groups=[
            of.OffsetFetchRequestGroup(
                group_id=group, topics=[of.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
            )
        ],
    )
    part = served.ask(request, 8).groups[0].topics[0].partitions[0]
    return Errors.of(part.error_code) if part.error_code else part.committed_offset


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction(topic, client, commit):
    begin(client)
    assert client.produce(b"1") == 0
    assert client.produce(b"2") == 0
    assert client.described().transaction_state == "Ongoing"
    assert end_offset(topic) == 0, "readers of committed records wait"
    before = client.epoch
    assert client.end(commit=commit) == 0
    client.wait_for("CompleteCommit" if commit else "CompleteAbort")
    assert end_offset(topic) == 3, "two records and a marker"
    assert client.epoch == before + client.bumps
    log = topic.engine.logs.get("t", 0)
    assert bool(log.aborted_transactions(0, 3)) is not commit


def test_one_transaction_after_the_other(topic, client):
    for number in range(5):
        for partition in (0, 1):
            begin(client, partition)
            assert wait_until(lambda p=partition: client.produce(partition=p) == 0) is True
        assert client.end(commit=number % 2 == 0) == 0
        client.wait_for("CompleteAbort" if number % 2 else "CompleteCommit")
    assert end_offset(topic, partition=0) == end_offset(topic, partition=1) == 10


def test_the_next_transaction_waits_for_the_end_of_the_last(topic, client):
    """A producer would only retry after its backoff."""
    for number in range(20):
        begin(client, number % 2)
        assert client.produce(partition=number % 2) == 0
        assert client.end() == 0


def test_what_the_coordinator_does_not_know_is_refused(topic):
    client = Client(topic, bumps=False).init()
    assert client.produce() == Errors.TRANSACTION_ABORTABLE.code
    assert end_offset(topic, 0) == 0


def test_verification_can_be_switched_off(serve):
    served = serve(transaction_partition_verification_enable="false")
    served.create_topic("t")
    assert Client(served, bumps=False).init().produce() == 0


def test_a_batch_needs_a_transactional_id(topic, client):
    begin(client)
    assert client.produce(id="") == Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.code
    assert client.produce(id="y", sequence=0) == Errors.INVALID_PRODUCER_ID_MAPPING.code


def test_a_repeated_batch_of_a_fenced_producer_is_no_duplicate(topic, client):
    begin(client)
    assert client.produce(sequence=0) == 0
    client.sequences["t", 0] = 1
    old = client.epoch
    assert client.end() == 0
    client.wait_for("CompleteCommit")
    Client(topic, bumps=client.bumps).init()
    client.epoch = old
    assert client.produce(sequence=0) == Errors.INVALID_PRODUCER_EPOCH.code


def test_a_new_producer_fences_the_old(topic, client):
    begin(client)
    assert client.produce() == 0
    other = Client(topic, bumps=client.bumps).init()
    assert other.epoch > client.epoch
    assert client.produce() == Errors.INVALID_PRODUCER_EPOCH.code
    assert client.end() == Errors.PRODUCER_FENCED.code
    assert end_offset(topic) == 2, "its transaction is aborted"


@pytest.mark.parametrize(
    ("version", "error"), [(3, Errors.INVALID_PRODUCER_EPOCH), (5, Errors.PRODUCER_FENCED)]
)
def test_old_clients_get_an_error_that_they_know(topic, version, error):
    client = Client(topic).init()
    Client(topic).init()
    request = ip.InitProducerIdRequest(
        transactional_id="x",
        transaction_timeout_ms=1000,
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
    )
    assert topic.ask(request, version).error_code == error.code
    assert client.end(version=1) == Errors.INVALID_PRODUCER_EPOCH.code
    assert client.add(version=1) == Errors.INVALID_PRODUCER_EPOCH.code


def test_requests_without_a_transactional_id(topic):
    request = ip.InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000)
    assert topic.ask(request, 4).error_code == Errors.INVALID_REQUEST.code
    client = Client(topic, id="")
    assert client.end() == Errors.INVALID_REQUEST.code
    assert client.add() == Errors.INVALID_REQUEST.code


def test_partitions_that_do_not_exist(topic):
    client = Client(topic).init()
    request = ap.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=client.producer_id,
        v3_and_below_producer_epoch=client.epoch,
        v3_and_below_topics=[ap.AddPartitionsToTxnTopic(name="t", partitions=[0, 9])],
    )
    answer = topic.ask(request, 3).results_by_topic_v3_and_below[0].results_by_partition
    assert [each.partition_error_code for each in answer] == [
        Errors.OPERATION_NOT_ATTEMPTED.code,
        Errors.UNKNOWN_TOPIC_OR_PARTITION.code,
    ]


def test_brokers_verify_several_transactions_at_once(topic):
    one, two = Client(topic, "one").init(), Client(topic, "two").init()
    assert one.add(partition=0) == 0
    request = ap.AddPartitionsToTxnRequest(
        transactions=[
            ap.AddPartitionsToTxnTransaction(
                transactional_id=each.id,
                producer_id=each.producer_id,
                producer_epoch=each.epoch,
                verify_only=True,
                topics=[ap.AddPartitionsToTxnTopic(name="t", partitions=[0, 1])],
            )
            for each in (one, two)
        ]
    )
    answer = topic.ask(request, 5)
    found = {
        (each.transactional_id, part.partition_index): part.partition_error_code
        for each in answer.results_by_transaction
        for named in each.topic_results
        for part in named.results_by_partition
    }
    abortable = Errors.TRANSACTION_ABORTABLE.code
    assert found == {("one", 0): 0, ("one", 1): abortable, ("two", 0): abortable, ("two", 1): abortable}


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_count_with_their_transaction(topic, client, commit):
    topic.ask(fc.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    if not client.bumps:
        request = ao.AddOffsetsToTxnRequest(
            transactional_id="x", producer_id=client.producer_id, producer_epoch=client.epoch, group_id="g"
        )
        wait_until(lambda: topic.ask(request, 4).error_code == 0)
    assert wait_until(lambda: client.commit_offset(7) == 0)
    assert fetched_offset(topic) == -1
    assert fetched_offset(topic, stable=True) is Errors.UNSTABLE_OFFSET_COMMIT
    assert client.end(commit=commit) == 0
    client.wait_for("CompleteCommit" if commit else "CompleteAbort")
    assert fetched_offset(topic, stable=True) == (7 if commit else -1)


def test_offsets_by_topic_id_have_errors_of_their_own(topic):
    """TxnOffsetCommit 6 (KIP-1319): topic ids, UNKNOWN_TOPIC_ID, GROUP_ID_NOT_FOUND."""
    client = Client(topic).init()
    topic.ask(fc.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    known, unknown = topic.engine.metadata.image.topics["t"].id, bytes(range(16))

    def commit(version=6):
        parts = [
            toc.TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=7, committed_metadata=""
            )
            for index in (0, 9)
        ]
        ids = [known, unknown] if version == 6 else [known]
        request = toc.TxnOffsetCommitRequest(
            transactional_id=client.id,
            group_id="g",
            producer_id=client.producer_id,
            producer_epoch=client.epoch,
            topics=[
                toc.TxnOffsetCommitRequestTopic(name="t", topic_id=each, partitions=list(parts))
                for each in ids
            ],
        )
        answer = topic.ask(request, version)
        return {
            (each.topic_id if version == 6 else each.name, part.partition_index): part.error_code
            for each in answer.topics
            for part in each.partitions
        }

    wait_until(lambda: commit()[known, 0] == 0)
    no_topic, no_partition = Errors.UNKNOWN_TOPIC_ID.code, Errors.UNKNOWN_TOPIC_OR_PARTITION.code
    rest = {(known, 9): no_partition, (unknown, 0): no_topic, (unknown, 9): no_topic}
    assert commit() == {(known, 0): 0} | rest
    assert fetched_offset(topic, stable=True) is Errors.UNSTABLE_OFFSET_COMMIT
    assert client.end() == 0
    client.wait_for("CompleteCommit")
    assert fetched_offset(topic, stable=True) == 7

    stale = {"generation_id_or_member_epoch": 4, "member_id": "nobody", "group_id": "none"}

    def stale_code(version):
        part = toc.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=7, committed_metadata=""
        )
        request = toc.TxnOffsetCommitRequest(
            transactional_id=client.id,
            producer_id=client.producer_id,
            producer_epoch=client.epoch,
            topics=[toc.TxnOffsetCommitRequestTopic(name="t", topic_id=known, partitions=[part])],
            **stale,
        )
        return topic.ask(request, version).topics[0].partitions[0].error_code

    assert stale_code(6) == Errors.GROUP_ID_NOT_FOUND.code
    assert stale_code(5) == Errors.ILLEGAL_GENERATION.code


def test_offsets_without_their_transaction_are_refused(topic):
    """An anomaly: offsets committed without their records."""
    client = Client(topic, bumps=False).init()
    assert client.add() == 0
    topic.ask(fc.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    assert wait_until(lambda: client.commit_offset(7)) == Errors.TRANSACTION_ABORTABLE.code
    assert fetched_offset(topic) == -1


def test_offsets_survive_a_restart_in_the_middle(topic):
    client = Client(topic).init()
    topic.ask(fc.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    assert wait_until(lambda: client.commit_offset(7) == 0)
    assert client.produce() == 0
    topic.restart()
    assert fetched_offset(topic, stable=True) is Errors.UNSTABLE_OFFSET_COMMIT
    assert client.end() == 0
    client.wait_for("CompleteCommit")
    assert fetched_offset(topic, stable=True) == 7 and end_offset(topic) == 2


def test_a_transaction_that_times_out(serve):
    served = serve(transaction_abort_timed_out_transaction_cleanup_interval_ms="50")
    served.create_topic("t")
    client = Client(served).init(timeout_ms=1)
    assert client.produce() == 0
    client.wait_for("CompleteAbort")
    assert end_offset(served) == 2
    assert client.produce() == Errors.INVALID_PRODUCER_EPOCH.code, (
        "a write after the timeout is not lost silently"
    )
    assert client.end() == Errors.INVALID_TXN_STATE.code


def test_markers_from_elsewhere(topic):
    """As an admin client sends them to abort a hanging transaction."""
    client = Client(topic).init()
    assert client.produce() == 0
    marker = wm.WritableTxnMarker(
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        transaction_result=False,
        topics=[
            wm.WritableTxnMarkerTopic(name="t", partition_indexes=[0, 9]),
            wm.WritableTxnMarkerTopic(name="?", partition_indexes=[0]),
        ],
        coordinator_epoch=0,
    )
    answer = topic.ask(wm.WriteTxnMarkersRequest(markers=[marker]), 1)
    errors = {
        (named.name, part.partition_index): part.error_code
        for named in answer.markers[0].topics
        for part in named.partitions
    }
    unknown = Errors.UNKNOWN_TOPIC_OR_PARTITION.code
    assert errors == {("t", 0): 0, ("t", 9): unknown, ("?", 0): unknown}
    assert end_offset(topic) == 2


def test_lists_and_descriptions(topic):
    one, two = Client(topic, "one").init(), Client(topic, "two").init()
    assert two.produce() == 0
    listed = topic.ask(lt.ListTransactionsRequest(state_filters=["Ongoing", "Odd"]))
    assert listed.unknown_state_filters == ["Odd"]
    assert [(each.transactional_id, each.producer_id) for each in listed.transaction_states] == [
        ("two", two.producer_id)
    ]
    listed = topic.ask(lt.ListTransactionsRequest(transactional_id_pattern="o.*"))
    assert [each.transactional_id for each in listed.transaction_states] == ["one"]
    assert topic.ask(lt.ListTransactionsRequest(transactional_id_pattern="[")).error_code == (
        Errors.INVALID_REGULAR_EXPRESSION.code
    )
    described = two.described()
    assert [(each.topic, each.partitions) for each in described.topics] == [("t", [0])]
    assert described.producer_epoch == two.epoch and one.described().topics == []
    request = dp.DescribeProducersRequest(topics=[dp.TopicRequest(name="t", partition_indexes=[0])])
    (producer,) = topic.ask(request).topics[0].partitions[0].active_producers
    assert (producer.producer_id, producer.current_txn_start_offset) == (two.producer_id, 0)
    missing = dt.DescribeTransactionsRequest(transactional_ids=["?", ""])
    assert [each.error_code for each in topic.ask(missing).transaction_states] == [
        Errors.TRANSACTIONAL_ID_NOT_FOUND.code,
        Errors.INVALID_REQUEST.code,
    ]


def test_the_topic_is_made_as_configured(serve):
    served = serve(transaction_state_log_num_partitions="3", transaction_state_log_segment_bytes="2000000")
    Client(served).init()
    topic = served.engine.metadata.image.topics["__transaction_state"]
    configs = served.engine.metadata.image.topic_configs("__transaction_state")
    assert len(topic.partitions) == 3
    assert configs["cleanup.policy"] == "compact" and configs["segment.bytes"] == "2000000"
    assert GROUPS_TOPIC not in served.engine.metadata.image.topics


def test_batches_of_several_producers_are_refused_as_a_whole(topic):
    """As Kafka does: one transactional id has one producer."""
    first, second = Client(topic, "one").init(), Client(topic, "two").init()

    def ask(*producers):
        batches = [
            encode_batch(
                [(b"k", b"v", 0, ())],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=0,
                transactional=True,
            )
            for producer_id, epoch in producers
        ]
        parts = [p.PartitionProduceData(index=at, records=batch) for at, batch in enumerate(batches)]
        request = p.ProduceRequest(
            transactional_id="one",
            acks=-1,
            timeout_ms=FOR_EVER_MS,
            topic_data=[p.TopicProduceData(name="t", partition_data=parts)],
        )
        answer = topic.ask(request, PRODUCE_2)
        return [part.error_code for part in answer.responses[0].partition_responses]

    one = (first.producer_id, first.epoch)
    refused = Errors.INVALID_PRODUCER_ID_MAPPING.code
    assert ask(one, (second.producer_id, second.epoch)) == [refused, refused]
    assert ask(one, (first.producer_id, first.epoch + 1)) == [refused, refused]
    assert [end_offset(topic, 0, index) for index in (0, 1)] == [0, 0]
    assert ask(one, one) == [0, 0]
    assert first.end() == 0


def test_a_repeated_batch_after_a_retriable_error_is_stored_once(topic, client):
    """The answer is lost or UNKNOWN; the batch is stored, and its transaction continues."""
    begin(client)
    assert client.produce(b"one", sequence=0) == 0
    for _ in range(3):
        assert client.produce(b"one", sequence=0) == 0
    assert client.produce(b"two", sequence=1) == 0
    assert client.end() == 0
    client.wait_for("CompleteCommit")
    assert end_offset(topic) == 3, "two records and a marker"


def test_the_longest_id(topic):
    client = Client(topic, "x" * 0x7FFF).init()
    assert client.produce() == 0 and client.end() == 0


def id_frame(api, version, id):
    """A request that begins with an id as a compact string, which our own encoder would refuse."""
    length, size = len(id) + 1, b""
    while length >= 0x80:
        size += bytes([length & 0x7F | 0x80])
        length >>= 7
    header = struct.pack(">hhih", api, version, 1, -1) + b"\0"
    return header + size + bytes([length]) + id + bytes(40)


@pytest.mark.parametrize("id", [b"x" * 0x8000, b"x" * 1_000_000])
@pytest.mark.parametrize(("api", "version"), [(22, 5), (24, 3), (25, 4), (26, 5), (28, 5), (12, 4), (13, 5)])
def test_ids_that_are_too_long(topic, api, version, id):
    """The connection is closed; other connections continue."""
    other = WireClient(topic.broker.port)
    other.send(id_frame(api, version, id))
    assert other.is_closed()
    other.close()
    assert topic.ask(lt.ListTransactionsRequest()).transaction_states == []


@pytest.mark.parametrize("id", [b"\xff\xfe", b"a\xc3"])
@pytest.mark.parametrize(("api", "version"), [(22, 5), (24, 3), (26, 5), (28, 5), (12, 4)])
def test_ids_that_are_no_text(topic, api, version, id):
    """The request is answered, or its connection closed; other connections continue."""
    other = topic.connect()
    other.send(id_frame(api, version, id))
    with contextlib.suppress(ConnectionError):
        other.receive()
    client = Client(topic).init()
    assert client.produce() == 0 and client.end() == 0


@pytest.mark.parametrize("producer_id", [-1, -2, -(2**63)])
def test_markers_of_no_producer(topic, producer_id):
    """They are refused, and nothing is written."""
    marker = wm.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=0,
        transaction_result=True,
        topics=[wm.WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        coordinator_epoch=0,
    )
    (answer,) = topic.ask(wm.WriteTxnMarkersRequest(markers=[marker]), 1).markers
    assert answer.topics[0].partitions[0].error_code == Errors.INVALID_REQUEST.code
    assert end_offset(topic, 0) == 0


@pytest.mark.parametrize(
    ("enabled", "enable2_pc", "keeps", "timeout_ms", "error"),
    [
        ("false", True, False, 60_000, Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("false", True, True, 60_000, Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("false", False, True, 60_000, Errors.UNSUPPORTED_VERSION),
        ("true", True, True, 60_000, Errors.UNSUPPORTED_VERSION),
        ("true", True, False, 2**31 - 1, Errors.NONE),
        ("true", False, False, 2**31 - 1, Errors.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_two_phase_commit(enabled, enable2_pc, keeps, timeout_ms, error):
    """What Kafka 4.3.1 answers to InitProducerId 6; neither broker offers two-phase commit (KIP-939)."""

    async def run():
        configs = BrokerConfigs({"transaction.two.phase.commit.enable": enabled})
        harness = TransactionHarness()

        async def ask(request):
            harness.carry(harness.shard.init_producer_id(request, 7, "token", harness.now_ms))
            return harness.answers["token"]

        transactions = SimpleNamespace(init_producer_id=ask, start=lambda: None)
        coordinators = Coordinators({TRANSACTIONS_TOPIC: lambda: transactions})
        body = ip.InitProducerIdRequest(
            transactional_id="x",
            transaction_timeout_ms=timeout_ms,
            enable2_pc=enable2_pc,
            keep_prepared_txn=keeps,
        )
        request = SimpleNamespace(body=body, version=6)
        answer = await init_producer_id.handle(
            request, configs=configs, producer_ids=None, coordinators=coordinators
        )
        assert Errors.of(answer.error_code) is error
        if enable2_pc and not error:
            assert harness.held_state().timeout_ms == NO_TIMEOUT_MS

    asyncio.run(run())
