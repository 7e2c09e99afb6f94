"""Sends the large requests of one client: many new topics, one large topic, one Produce to all of it."""

from __future__ import annotations

import socket
import time
from typing import Any, Final

from bowstring._native.record.encode import encode_batch
from bowstring.protocol import API_VERSIONS, decode_response, encode_request
from bowstring.protocol.messages import create_topics, delete_topics, metadata, produce
from bowstring.protocol.schema import Request

TIMEOUT_MS: Final = 300_000
_PAUSE_S: Final = 0.05


class Client:
    """One connection for requests of the newest versions."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_MS / 1000)
        self._file = self._socket.makefile("rb")

    def ask(self, request: Request) -> Any:
        """Sends a request and returns its answer."""
        version = API_VERSIONS[request.api_key].highest
        frame = encode_request(request, version, 1, "bench")
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
        size = int.from_bytes(self._file.read(4), "big")
        return decode_response(request.api_key, version, self._file.read(size))[1]

    def close(self) -> None:
        """Closes the connection."""
        self._file.close()
        self._socket.close()

    # ------------------------------------------------------------ topics

    def create(self, names: list[str], partitions: int) -> None:
        """Creates topics in one request, with the broker's replication factor."""
        wanted = [
            create_topics.CreatableTopic(name=each, num_partitions=partitions, replication_factor=-1)
            for each in names
        ]
        answer = self.ask(create_topics.CreateTopicsRequest(topics=wanted, timeout_ms=TIMEOUT_MS))
        _check(each.error_code for each in answer.topics)

    def delete(self, names: list[str]) -> None:
        """Deletes topics in one request."""
        topics = [delete_topics.DeleteTopicState(name=each) for each in names]
        answer = self.ask(delete_topics.DeleteTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS))
        _check(each.error_code for each in answer.responses)

    def broker_id(self) -> int:
        """Returns the id of the broker at the other end."""
        answer = self.ask(metadata.MetadataRequest(topics=[], allow_auto_topic_creation=False))
        return int(next(each.node_id for each in answer.brokers if each.port == self._port))

    def topic(self, name: str) -> Any:
        """Returns the metadata of a topic, or None while it does not exist."""
        wanted = [metadata.MetadataRequestTopic(name=name)]
        asked = metadata.MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        (topic,) = self.ask(asked).topics
        return topic if topic.error_code == 0 else None

    def wait_for(self, name: str, partitions: int) -> Any:
        """Waits until all partitions of a topic have all replicas in sync; returns its metadata."""
        deadline_s = time.monotonic() + TIMEOUT_MS / 1000
        while time.monotonic() < deadline_s:
            topic = self.topic(name)
            if topic is not None and len(topic.partitions) == partitions:
                lacking = [each for each in topic.partitions if len(each.isr_nodes) < len(each.replica_nodes)]
                if not lacking:
                    return topic
            time.sleep(_PAUSE_S)
        raise TimeoutError(f"{name} is not in sync")

    # ------------------------------------------------------------ records

    def produce(self, topic_id: bytes, partitions: list[int], acks: int) -> None:
        """Sends one record to each partition, all in one request; those that are not served yet again."""
        record = encode_batch([(None, b"x" * 100, 0, ())])
        deadline_s = time.monotonic() + TIMEOUT_MS / 1000
        while partitions and time.monotonic() < deadline_s:
            data = [produce.PartitionProduceData(index=each, records=record) for each in partitions]
            answer = self.ask(
                produce.ProduceRequest(
                    acks=acks,
                    timeout_ms=TIMEOUT_MS,
                    topic_data=[produce.TopicProduceData(topic_id=topic_id, partition_data=data)],
                )
            )
            of = answer.responses[0].partition_responses
            partitions = [each.index for each in of if each.error_code]
        assert not partitions, f"{len(partitions)} partitions take no records"


def _check(codes: Any) -> None:
    failed = [each for each in codes if each]
    assert not failed, f"{len(failed)} errors, the first is {failed[0]}"
