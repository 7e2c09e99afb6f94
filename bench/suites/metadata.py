"""Measures the codec with its largest everyday message: Metadata of 10,000 partitions."""

from __future__ import annotations

import time
from typing import ClassVar

from bowstring._native.protocol.message_codec import decode, encode
from bowstring.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

timer = time.process_time

PARTITIONS_PER_TOPIC = 10


def metadata_response(partitions: int) -> MetadataResponse:
    """One broker leading `partitions` partitions, ten to a topic."""
    topics = [
        MetadataResponseTopic(
            name=f"topic-{number:06d}",
            topic_id=number.to_bytes(16, "big"),
            partitions=[
                MetadataResponsePartition(
                    partition_index=index, leader_id=1, leader_epoch=3, replica_nodes=[1], isr_nodes=[1]
                )
                for index in range(PARTITIONS_PER_TOPIC)
            ],
        )
        for number in range(partitions // PARTITIONS_PER_TOPIC)
    ]
    broker = MetadataResponseBroker(node_id=1, host="broker-1.example.com", port=9092)
    return MetadataResponse(brokers=[broker], cluster_id="x" * 22, controller_id=1, topics=topics)


class Metadata:
    """In an old and in the newest version."""

    param_names: ClassVar = ["version", "partitions"]
    params: ClassVar = ([1, 13], [10_000])

    def setup(self, version: int, partitions: int) -> None:
        """The message as objects and as bytes."""
        self.message = metadata_response(partitions)
        self.data = encode(self.message, version)

    def time_encode(self, version: int, partitions: int) -> None:
        """Objects to bytes."""
        encode(self.message, version)

    def time_decode(self, version: int, partitions: int) -> None:
        """Bytes to objects."""
        decode(MetadataResponse, version, self.data)
