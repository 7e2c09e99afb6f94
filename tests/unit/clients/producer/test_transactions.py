"""Transactions of a producer whose coordinators move, load, or still end the previous transaction."""

import signal
import threading

import pytest

from bowstring.clients.errors import (
    ClientError,
    ClientTimeoutError,
    CommitFailedError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionFailedError,
)
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import GroupMetadata, TopicPartition
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from bowstring.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from bowstring.protocol.messages.api_versions import ApiVersionsRequest, FinalizedFeatureKey
from bowstring.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from bowstring.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from bowstring.protocol.messages.produce import ProduceRequest
from bowstring.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.support.fake_broker import CLOSE, SILENCE, FakeBroker, produced
from tests.support.waiting import HANG_S, wait_until

MOVED = [Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE, Errors.COORDINATOR_LOAD_IN_PROGRESS]
OFFSETS = {TopicPartition("s", 0): 5}


class Coordinators(FakeBroker):
    """A broker that answers requests of transactions. `says[api]` are the errors, CLOSE or SILENCE of its next answers."""

    def __init__(self, level=2, **options):
        super().__init__(**options)
        self.level, self.epoch = level, 0
        self.says = {}
        self.handlers |= {
            ApiVersionsRequest: self.versions,
            FindCoordinatorRequest: self.find,
            InitProducerIdRequest: lambda version, request: self.said(request, self.init),
            AddPartitionsToTxnRequest: lambda version, request: self.said(request, self.add),
            AddOffsetsToTxnRequest: lambda version, request: self.said(request, self.add_offsets),
            ProduceRequest: lambda version, request: self.said(request, self.produce),
            TxnOffsetCommitRequest: lambda version, request: self.said(request, self.commit),
            EndTxnRequest: lambda version, request: self.said(request, self.end, version),
        }

    def said(self, request, answer, *more):
        said = self.says.get(type(request))
        word = said.pop(0) if said else Errors.NONE
        return word if word in (CLOSE, SILENCE) else answer(request, word.code, *more)

    def versions(self, version, request):
        answer = self.api_versions(version, request)
        if not answer.error_code:
            row = FinalizedFeatureKey(
                name="transaction.version", max_version_level=self.level, min_version_level=self.level
            )
            answer.finalized_features = [row]
        return answer

    def find(self, version, request):
        keys = [
            Coordinator(key=key, node_id=1, host=self.host, port=self.port)
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=keys)

    def init(self, request, code):
        self.epoch += not code
        return InitProducerIdResponse(error_code=code, producer_id=7, producer_epoch=self.epoch)

    def add(self, request, code):
        topics = [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=at, partition_error_code=code)
                    for at in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)

    def add_offsets(self, request, code):
        return AddOffsetsToTxnResponse(error_code=code)

    def produce(self, request, code):
        return produced(request, error=code)

    def commit(self, request, code):
        topics = [
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return TxnOffsetCommitResponse(topics=topics)

    def end(self, request, code, version):
        if version < 5:
            return EndTxnResponse(error_code=code)
        self.epoch += not code
        return EndTxnResponse(error_code=code, producer_id=7, producer_epoch=self.epoch)


@pytest.fixture(params=[2, 0])
def broker(request):
    with Coordinators(request.param) as made:
        yield made


def producer_of(broker, **options):
    quick = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 1, "linger_ms": 0}
    return Producer(broker.bootstrap, transactional_id="id", **{**quick, **options})


APIS = [
    *(InitProducerIdRequest, AddPartitionsToTxnRequest, ProduceRequest, AddOffsetsToTxnRequest),
    *(TxnOffsetCommitRequest, EndTxnRequest),
]


@pytest.mark.parametrize("api", APIS)
def test_what_passes_is_asked_again(broker, api):
    again = [Errors.CONCURRENT_TRANSACTIONS, CLOSE]
    if api is not ProduceRequest:
        again += MOVED
    elif broker.level < 2:
        again = [Errors.NOT_LEADER_OR_FOLLOWER, CLOSE]
    broker.says[api] = [*again]
    with producer_of(broker) as producer:
        with producer.transaction():
            producer.send("t", b"v")
            producer.send_offsets(OFFSETS, GroupMetadata("g", 1, "m"))
        adds = broker.level < 2
        asked = api not in (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest) or adds
        assert len(broker.seen(api)) == (len(again) + 1 if asked else 0)
        ends = {(request.producer_epoch, request.committed) for request in broker.seen(EndTxnRequest)}
        assert ends == {(1, True)}
        assert not broker.says.get(api) or not asked


@pytest.mark.parametrize("api", [each for each in APIS if each is not ProduceRequest])
def test_a_fenced_producer_ends(broker, api):
    if broker.level == 2 and api in (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest):
        api = EndTxnRequest
    broker.says[api] = [Errors.PRODUCER_FENCED]
    with producer_of(broker) as producer:
        with pytest.raises(ProducerFencedError), producer.transaction():
            sent = producer.send("t", b"v")
            producer.send_offsets(OFFSETS, "g")
            assert sent.exception(HANG_S) is None or api is AddPartitionsToTxnRequest
        with pytest.raises(ProducerFencedError, match="Close this producer"):
            producer.begin_transaction()
    assert len(broker.seen(EndTxnRequest)) == (api is EndTxnRequest)


def test_a_group_that_moved_on_is_told(broker):
    broker.says[TxnOffsetCommitRequest] = [Errors.ILLEGAL_GENERATION]
    with producer_of(broker) as producer:
        producer.begin_transaction()
        with pytest.raises(CommitFailedError):
            producer.send_offsets(OFFSETS, GroupMetadata("g", 1, "m"))
        with pytest.raises(TransactionFailedError):
            producer.commit_transaction()
        with pytest.raises(TransactionFailedError):
            producer.send("t", b"v")
        producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"v")
    assert [request.committed for request in broker.seen(EndTxnRequest)] == [False, True]


def test_a_gap_in_the_numbers_is_not_closed_by_a_new_epoch(broker):
    broker.says[ProduceRequest] = [Errors.OUT_OF_ORDER_SEQUENCE_NUMBER]
    with producer_of(broker) as producer:
        with pytest.raises(TransactionFailedError, match="OUT_OF_ORDER"), producer.transaction():
            producer.send("t", b"v")
        with producer.transaction():
            producer.send("t", b"v")
    assert [request.committed for request in broker.seen(EndTxnRequest)] == [False, True]
    epochs = [request.producer_epoch for request in broker.seen(EndTxnRequest)]
    assert epochs == [1, 2], "the abort raised the epoch"


def test_an_end_without_an_answer_is_told_later(broker):
    """The outcome is unknown: neither abort nor begin may succeed."""
    held = threading.Event()

    def end(version, request):
        held.wait(HANG_S)
        return broker.end(request, 0, version)

    broker.handlers[EndTxnRequest] = end
    with producer_of(broker) as producer:
        producer.begin_transaction()
        producer.send("t", b"v").result(HANG_S)
        with pytest.raises(ClientTimeoutError, match="call it again"):
            producer.commit_transaction(0.05)
        with pytest.raises(ClientError, match="may have ended by commit"):
            producer.abort_transaction()
        with pytest.raises(ClientError, match="is open"):
            producer.begin_transaction()
        held.set()
        producer.commit_transaction()
        assert not producer.in_transaction
    assert len(broker.seen(EndTxnRequest)) == 1


def test_an_unknown_end_is_finished(broker):
    held = threading.Event()

    def end(version, request):
        held.wait(HANG_S)
        return broker.end(request, 0, version)

    broker.handlers[EndTxnRequest] = end
    with producer_of(broker) as producer:
        for each in (producer.commit_transaction, producer.abort_transaction):
            held.clear()
            producer.begin_transaction()
            producer.send("t", b"v").result(HANG_S)
            with pytest.raises(ClientTimeoutError):
                each(0.05)
            held.set()
            producer.finish_transaction()
            assert not producer.in_transaction
        producer.finish_transaction()
    assert [request.committed for request in broker.seen(EndTxnRequest)] == [True, False]


def test_a_late_refusal_of_offsets_does_not_end_aborting(broker):
    """When the group refuses the offsets, the caller waits for the following abort, not for the offsets."""
    held, aborted = threading.Event(), []

    def commit(version, request):
        held.wait(HANG_S)
        return broker.commit(request, Errors.ILLEGAL_GENERATION.code)

    broker.handlers[TxnOffsetCommitRequest] = commit
    with producer_of(broker) as producer:
        producer.begin_transaction()
        with pytest.raises(ClientTimeoutError):
            producer.send_offsets(OFFSETS, GroupMetadata("g", 1, "m"), 0.5)
        waits = threading.Thread(target=lambda: aborted.append(producer.abort_transaction()))
        waits.start()
        wait_until(lambda: broker.seen(TxnOffsetCommitRequest) and producer._sender.transactions.aborting)
        held.set()
        waits.join()
        assert aborted == [None]
        assert not producer.in_transaction


def test_an_abort_does_not_wait_behind_offsets_that_were_interrupted(broker, request):
    """Their coordinator loads for longer than the caller waits."""
    # Programs that a shell starts in the background ignore SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def commit(version, request):
        if len(broker.seen(TxnOffsetCommitRequest)) == 1:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        return broker.commit(request, Errors.COORDINATOR_LOAD_IN_PROGRESS.code)

    broker.handlers[TxnOffsetCommitRequest] = commit
    with producer_of(broker) as producer:
        with pytest.raises(KeyboardInterrupt), producer.transaction():
            producer.send_offsets(OFFSETS, "g")
        assert not producer.in_transaction
    assert [request.committed for request in broker.seen(EndTxnRequest)] == [False]


def test_closing_aborts(broker):
    producer = producer_of(broker, linger_ms=60_000)
    producer.begin_transaction()
    producer.send("t", b"sent", partition=0)
    producer.flush()
    waits = producer.send("t", b"waits", partition=0)
    producer.close()
    assert isinstance(waits.exception(0), TransactionAbortedError)
    assert [request.committed for request in broker.seen(EndTxnRequest)] == [False]


def test_a_callback_cannot_end_a_transaction(broker):
    raised = []

    def called(future):
        try:
            producer.commit_transaction()
        except ClientError as error:
            raised.append(str(error))

    with producer_of(broker) as producer:
        with producer.transaction():
            producer.send("t", b"v", on_delivery=called)
        assert raised and "callback" in raised[0]
