"""Acknowledgements are read as the declared answers are; whatever else an answer says is left to the schema."""

import gc

import pytest

from bowstring._native.client.produce_requests import parse_acknowledgements
from bowstring.clients.producer.batches import ProduceBatch
from bowstring.clients.records import TopicPartition
from bowstring.protocol import frames
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from bowstring.protocol.versions import API_VERSIONS
from tests.support.offline_producer import OfflineProducer

RANGE = API_VERSIONS[ProduceRequest.api_key]
PARTS = [
    PartitionProduceResponse(index=3, error_code=0, base_offset=1 << 40),
    PartitionProduceResponse(index=0, error_code=0, base_offset=7, log_append_time_ms=1_700_000_000_000),
]


def answer(version, parts=PARTS, **fields):
    topics = [
        TopicProduceResponse(
            **({"topic_id": bytes([len(name)] * 16)} if version >= 13 else {"name": name}),
            partition_responses=some,
        )
        for name, some in (("one", parts), ("größer", parts[:1]), ("none", []))
    ]
    made = ProduceResponse(responses=topics, **fields)
    return frames.encode_response(ProduceRequest.api_key, version, 9, made)


@pytest.mark.parametrize("version", range(RANGE.lowest, RANGE.highest + 1))
def test_as_declared(version):
    declared = frames.decode_response(ProduceRequest.api_key, version, answer(version))[1]
    found = parse_acknowledgements(answer(version), version)
    assert [(name, topic_id or bytes(16), parts) for name, topic_id, parts in found.topics] == [
        (
            topic.name,
            topic.topic_id,
            [(part.index, part.base_offset, part.log_append_time_ms) for part in topic.partition_responses],
        )
        for topic in declared.responses
    ]


@pytest.mark.parametrize("version", range(RANGE.lowest, RANGE.highest + 1))
def test_an_answer_that_refuses_or_breaks_off_is_none(version):
    refused = PartitionProduceResponse(index=0, error_code=Errors.NOT_LEADER_OR_FOLLOWER.code, base_offset=-1)
    assert parse_acknowledgements(answer(version, [PARTS[0], refused]), version) is None
    whole = answer(version)
    assert all(parse_acknowledgements(whole[:size], version) is None for size in range(len(whole)))
    assert parse_acknowledgements(whole + b"\0", version) is None


def test_what_else_an_answer_may_say():
    told = PartitionProduceResponse(
        index=0, error_code=0, base_offset=1, record_errors=[BatchIndexAndErrorMessage(batch_index=2)]
    )
    assert parse_acknowledgements(answer(RANGE.highest, [told]), RANGE.highest) is None
    endpoints = [NodeEndpoint(node_id=1, host="one", port=9092)]
    assert parse_acknowledgements(answer(RANGE.highest, node_endpoints=endpoints), RANGE.highest) is not None


def test_batches_are_numbered_on_and_anew_after_a_gap():
    producer = OfflineProducer(linger_ms=0)
    queue = producer.accumulator.queue("t", 0)
    for _ in range(3):
        for _ in range(4):
            producer.send("t", b"value", partition=0)
        producer.accumulator.take(queue)
    first, second, third = queue.in_flight
    assert [queue.sequence(batch, (5, 0)) for batch in (first, second)] == [0, 4]
    assert queue.producer == (5, 0)
    first.base_sequence = 0
    first.producer = (5, 0)
    assert queue.sequence(first, (5, 0)) == 0  # as it was sent before
    queue.bump_epoch()
    assert queue.sequence(third, (5, 0)) == 0
    assert queue.producer == (5, 1)
    assert not queue.epoch_bump
    assert queue.next_sequence == 4


def test_the_garbage_collector_need_not_look_at_batches():
    assert not gc.is_tracked(ProduceBatch(TopicPartition("t", 0), 60.0))
