"""ListOffsets that reactors answer, compared with the control thread, and what they leave to it."""

import random
import struct
from functools import partial
from types import SimpleNamespace

import pytest

from bowstring._native.record.encode import encode_batch
from bowstring.engine.api import list_offsets
from bowstring.engine.requests.listeners import WITHIN
from bowstring.protocol import decode_request, encode, encode_request, encode_response
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import alter_client_quotas as acq
from bowstring.protocol.messages import find_coordinator as fc
from bowstring.protocol.messages import init_producer_id as ip
from bowstring.protocol.messages import list_offsets as lo
from bowstring.protocol.messages import produce as p
from tests.support.waiting import FOR_EVER_MS, wait_until

LIST_OFFSETS = 2
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = range(-1, -6, -1)
CORRELATION_ID = 77
TOPICS = ["orders", "sales-2", "x"]


def batch(count=1, **fields):
    return encode_batch([(None, b"v", 1_000 + each, []) for each in range(count)], **fields)


@pytest.fixture
def topics(served):
    """Three topics of two partitions; the first has an open transaction behind its fourth record."""
    for name in TOPICS:
        served.create_topic(name, partitions=2)
    served.produce("orders", batch(4))
    served.produce("x", batch(3), partition=1)
    served.ask(fc.FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"]), 4)
    answer = wait_until(lambda: begun(served))
    open_batch = batch(
        2,
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    part = p.PartitionProduceData(index=0, records=open_batch)
    request = p.ProduceRequest(
        transactional_id="tx",
        acks=-1,
        timeout_ms=FOR_EVER_MS,
        topic_data=[p.TopicProduceData(name="orders", partition_data=[part])],
    )
    (sent,) = served.ask(request, 12).responses[0].partition_responses
    assert (sent.error_code, sent.base_offset) == (0, 4)
    return served


def begun(served):
    request = ip.InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
    answer = served.ask(request, 5)
    return answer if answer.error_code == 0 else None


def answered(served) -> int:
    """How many requests reactors have answered."""
    return served.engine.plane.counters()["list_offsets"]["requests"]


def exchange(served, request, version) -> tuple[bytes, bool]:
    """Returns the frame of the answer, and whether a reactor answered."""
    before = answered(served)
    frame = encode_request(request, version, CORRELATION_ID, "test")
    served.client.send(frame)
    return served.client.receive(), answered(served) > before


def by_control_thread(served, request, version) -> bytes:
    engine = served.engine
    body = decode_request(LIST_OFFSETS, version, encode(request, version))
    assert isinstance(body, lo.ListOffsetsRequest)
    answer = list_offsets.at_once(
        body,
        SimpleNamespace(api_version=version),
        WITHIN,
        metadata=engine.metadata,
        led_logs=engine.led_logs,
        authorizer=engine.authorizer,
    )
    assert answer is not None
    return encode_response(LIST_OFFSETS, version, CORRELATION_ID, answer)


def asked(*wanted, replica_id=-1, isolation=0):
    """Returns a request of (topic, partition, timestamp, leader epoch); equal topics in a row are one."""
    request = lo.ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation)
    for topic, index, timestamp, epoch in wanted:
        if not request.topics or request.topics[-1].name != topic:
            request.topics.append(lo.ListOffsetsTopic(name=topic))
        part = lo.ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
        request.topics[-1].partitions.append(part)
    return request


@pytest.mark.parametrize("version", range(1, 12))
def test_the_bytes_are_those_of_the_control_thread(topics, version):
    chance = random.Random(version)
    natively = 0
    for _ in range(60):
        places = [(name, index) for name in TOPICS for index in range(2)]
        wanted = [
            (
                name,
                index,
                chance.choice([LATEST, EARLIEST, EARLIEST_LOCAL]),
                chance.choice([-1, 0, 0, 1]) if chance.random() < 0.3 else -1,
            )
            for name, index in sorted(chance.sample(places, chance.randint(0, 6)))
        ]
        request = asked(*wanted, isolation=chance.choice([0, 1]) if version >= 2 else 0)
        found, is_native = exchange(topics, request, version)
        assert found == by_control_thread(topics, request, version), wanted
        natively += is_native
    assert natively > 5


def test_read_committed_ends_at_the_open_transaction(topics):
    for isolation, end in ((0, 6), (1, 4)):
        request = asked(("orders", 0, LATEST, 0), isolation=isolation)
        frame, is_native = exchange(topics, request, 11)
        assert is_native and struct.pack(">q", end) in frame


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (asked(("orders", 0, 1_001, -1)), 11),
        (asked(("orders", 0, MAX_TIMESTAMP, -1)), 11),
        (asked(("orders", 0, LATEST_TIERED, -1)), 11),
        (asked(("orders", 0, EARLIEST_LOCAL, -1)), 7),
        (asked(("orders", 0, LATEST, -1), ("orders", 0, EARLIEST, -1)), 11),
        (asked(("orders", 0, LATEST, -1), ("x", 0, LATEST, -1), ("orders", 0, LATEST, -1)), 11),
        (asked(("orders", 0, LATEST, 7)), 11),
        (asked(("orders", 2, LATEST, -1)), 11),
        (asked(("orders", -1, LATEST, -1)), 11),
        (asked(("unknown", 0, LATEST, -1)), 11),
        (asked(("orders", 0, LATEST, -1), replica_id=-2), 11),
        (asked(("orders", 0, LATEST, -1), replica_id=5), 11),
    ],
)
def test_what_is_unusual_is_left_to_the_control_thread(topics, request_, version):
    assert not exchange(topics, request_, version)[1]


def test_many_partitions_are_left_to_the_control_thread(served):
    served.create_topic("wide", partitions=101)
    wanted = [("wide", index, LATEST, -1) for index in range(101)]
    assert not exchange(served, asked(*wanted), 11)[1]
    frame, is_native = exchange(served, asked(*wanted[1:]), 11)
    assert is_native and frame == by_control_thread(served, asked(*wanted[1:]), 11)


def test_time_that_has_a_quota_is_counted_by_the_control_thread(topics):
    operation = acq.OpData(key="request_percentage", value=1e6)
    entry = acq.AlterClientQuotasRequestEntryData(
        entity=[acq.EntityData(entity_type="user", entity_name=None)], ops=[operation]
    )
    assert topics.ask(acq.AlterClientQuotasRequest(entries=[entry]), 1).entries[0].error_code == 0
    wait_until(lambda: topics.engine.dispatcher.limits_time(LIST_OFFSETS))
    assert not exchange(topics, asked(("orders", 0, LATEST, -1)), 11)[1]


def test_cut_requests_are_not_answered_natively(topics):
    whole = encode_request(asked(("orders", 0, LATEST, -1)), 11, 1, "test")
    for size in range(len(whole) - 1, 20, -1):
        client, before = topics.connect(), answered(topics)
        client.send(whole[:size])
        assert client.is_closed()
        assert answered(topics) == before


def test_answers_keep_their_place_behind_what_was_sent_before(topics):
    """A Produce whose answer waits for nothing, then its end; and one that the control thread answers between."""
    client = topics.connect()
    for number in range(50):
        part = p.PartitionProduceData(index=1, records=batch())
        data = p.TopicProduceData(name="sales-2", partition_data=[part])
        produced = p.ProduceRequest(acks=-1, timeout_ms=FOR_EVER_MS, topic_data=[data])
        frames = [
            encode_request(produced, 12, 1, "test"),
            encode_request(asked(("sales-2", 1, LATEST, -1)), 11, 2, "test"),
            encode_request(asked(("unknown", 0, LATEST, -1)), 11, 3, "test"),
            encode_request(asked(("sales-2", 1, LATEST, -1)), 11, 4, "test"),
        ]
        for frame in frames:
            client.send(frame)
        answers = [client.receive() for _ in frames]
        assert [int.from_bytes(each[:4], "big") for each in answers] == [1, 2, 3, 4]
        assert all(struct.pack(">q", number + 1) in answers[index] for index in (1, 3))
        assert struct.pack(">h", Errors.UNKNOWN_TOPIC_OR_PARTITION.code) in answers[2]


def test_a_new_leader_that_does_not_know_the_end_is_left_to_the_control_thread(topics):
    """Its high watermark is below the start of its epoch (KIP-207)."""
    engine = topics.engine
    log, own = engine.logs.get("x", 1), engine.node_id
    lead = partial(
        engine.replication.plane_replicas.lead, "x", 1, replicas=[own, own + 1], isr=[own, own + 1]
    )
    lead(leader_epoch=1)
    assert exchange(topics, asked(("x", 1, LATEST, 1)), 11)[1]
    topics.produce("x", batch(), partition=1)
    assert (log.high_watermark, log.log_end_offset) == (3, 4)
    assert exchange(topics, asked(("x", 1, LATEST, 1)), 11)[1]
    lead(leader_epoch=2)
    assert not exchange(topics, asked(("x", 1, LATEST, -1)), 11)[1]
