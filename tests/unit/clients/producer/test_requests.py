"""Produce requests written by hand are the bytes of the declared ones, in every version."""

import pytest

from bowstring.clients.producer.requests import ProduceFrame, TopicBatches
from bowstring.protocol import frames
from bowstring.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bowstring.protocol.versions import API_VERSIONS

RANGE = API_VERSIONS[ProduceRequest.api_key]


@pytest.mark.parametrize("version", range(RANGE.lowest, RANGE.highest + 1))
@pytest.mark.parametrize("client_id", ["", "grüße"])
def test_as_declared(version, client_id):
    sizes = {"one": [(0, 100)], "two": [(3, 0), (1, 20_000)], "t" * 249: [(2, 127), (5, 16_384)]}
    topics = [
        TopicBatches(
            name, bytes([len(name)] * 16), [(index, memoryview(b"x" * size)) for index, size in parts]
        )
        for name, parts in sizes.items()
    ]
    made = b"".join(ProduceFrame(-1, 30_000, topics).buffers(version, 77, client_id))
    declared = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                **({"topic_id": topic.topic_id} if version >= 13 else {"name": topic.name}),
                partition_data=[
                    PartitionProduceData(index=index, records=bytes(data)) for index, data in topic.partitions
                ],
            )
            for topic in topics
        ],
    )
    expected = frames.encode_request(declared, version, 77, client_id)
    assert made == len(expected).to_bytes(4, "big") + expected
