"""Brokers of one cluster in this process: they store by Kafka's rules, and answer by a script.

The log of a partition checks producer ids, epochs and sequence numbers as Apache Kafka 4 does for producers that are
idempotent and not transactional (KIP-98, KIP-360): it keeps the last five batches of each producer, accepts
any first number of a producer that is new to it, and requires a new epoch to begin at 0.
"""

import random
import struct
import threading
from collections import deque
from dataclasses import dataclass, field

from bowstring._native.record.decode import decode_records
from bowstring.clients.records import Record
from bowstring.protocol import frames
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.api_versions import ApiVersionsRequest
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from bowstring.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from bowstring.protocol.messages.produce import ProduceRequest
from tests.support.fake_broker import CLOSE, SILENCE, TOPIC_ID, FakeBroker, produced
from tests.support.produced_batches import identity
from tests.support.waiting import pause

REMEMBERED = 5  # batches of a producer
TOPIC = "t"


@dataclass
class Writer:
    """A producer's state in a partition: its epoch, and (first, last sequence number, offset) of batches."""

    epoch: int
    batches: deque = field(default_factory=lambda: deque(maxlen=REMEMBERED))


class PartitionLog:
    """The values of a partition, by offset."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.writers: dict[int, Writer] = {}

    def find(self, batch: bytes) -> int | None:
        """The offset of a batch that is already stored."""
        producer_id, epoch, first, count = identity(batch)
        writer = self.writers.get(producer_id)
        if producer_id < 0 or writer is None or writer.epoch != epoch:
            return None
        places = {(begin, end): offset for begin, end, offset in writer.batches}
        return places.get((first, first + count - 1))

    def append(self, batch: bytes) -> tuple[int, int]:
        """Error code and base offset."""
        producer_id, epoch, first, count = identity(batch)
        offset = len(self.values)
        if producer_id >= 0:
            found = self.find(batch)
            if found is not None:
                return 0, found
            writer = self.writers.get(producer_id)
            if writer is not None:
                if epoch < writer.epoch:
                    return Errors.INVALID_PRODUCER_EPOCH.code, -1
                expected = writer.batches[-1][1] + 1 if epoch == writer.epoch else 0
                if first != expected:
                    return Errors.OUT_OF_ORDER_SEQUENCE_NUMBER.code, -1
            if writer is None or epoch > writer.epoch:
                writer = self.writers[producer_id] = Writer(epoch)
            writer.batches.append((first, first + count - 1, offset))
        records = decode_records(Record, TOPIC, 0, batch)
        assert len(records) == count, "the header's count of records is wrong"
        self.values += [record.value for record in records]
        return 0, offset


@dataclass
class Script:
    """How often brokers misbehave, as shares of requests, or of the partitions in them."""

    close_before: float = 0.0
    close_within: float = 0.0  # only half of a request is read
    close_after: float = 0.0  # stored, and the answer lost
    close_answering: float = 0.0  # with half of the answer sent
    silence: float = 0.0  # stored, and never answered
    delay: float = 0.0
    delay_s: float = 0.005
    pieces: float = 0.0
    refuse: float = 0.0  # retriable, not stored
    refuse_stored: float = 0.0  # retriable, stored
    sequence_error: float = 0.0  # of unstored batches
    fatal: float = 0.0
    omit: float = 0.0
    duplicate_code: float = 0.0  # of repeats: that code instead of the offset of the stored batch
    largest_batch: int = 1 << 30  # in records
    move_leader: float = 0.0
    bad_metadata: float = 0.0
    bad_identity: float = 0.0


RETRIABLE = [
    Errors.NOT_ENOUGH_REPLICAS.code,
    Errors.NOT_LEADER_OR_FOLLOWER.code,
    Errors.KAFKA_STORAGE_ERROR.code,
    Errors.UNKNOWN_TOPIC_OR_PARTITION.code,
    Errors.UNKNOWN_TOPIC_ID.code,
]
RETRIABLE_STORED = [Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND.code, Errors.REQUEST_TIMED_OUT.code]
FATAL = [
    Errors.INVALID_RECORD.code,
    Errors.INVALID_PRODUCER_EPOCH.code,
    Errors.TOPIC_AUTHORIZATION_FAILED.code,
]


class Node(FakeBroker):
    """A broker of the cluster."""

    def __init__(self, cluster: "ProduceCluster", number: int, produce_version: int) -> None:
        self.cluster, self.number, self.produce_version = cluster, number, produce_version
        super().__init__()
        self.handlers |= {
            MetadataRequest: lambda version, request: cluster.metadata(self, request),
            InitProducerIdRequest: lambda version, request: cluster.identify(),
            ProduceRequest: lambda version, request: cluster.produce(self, request),
        }

    def api_versions(self, version, request):
        answer = super().api_versions(version, request)
        for row in answer.api_keys:
            if row.api_key == ProduceRequest.api_key:
                row.max_version = self.produce_version
        return answer

    def _serve(self, connection):
        try:
            with connection:
                self._talk(connection, connection.makefile("rb"))
        except OSError:
            return
        except Exception as bug:
            self.cluster.bugs.append(bug)

    def _talk(self, connection, stream) -> None:
        cluster = self.cluster
        while len(prefix := stream.read(4)) == 4:
            (size,) = struct.unpack(">i", prefix)
            (key,) = struct.unpack(">h", begin := stream.read(2))
            script = cluster.script if key == ProduceRequest.api_key else Script()
            if cluster.happens(script.close_within):
                stream.read((size - 2) // 2)
                return
            frame = begin + stream.read(size - 2)
            if len(frame) < size:
                return
            head = frames.decode_request_header(frame)
            request = frames.decode_request(head.api_key, head.api_version, frame, head.body_offset)
            if cluster.happens(script.delay):
                pause(cluster.random.random() * script.delay_s, "a slow broker")
            if (handler := self.handler(request, connection)) is None:
                return
            answer = handler(head.api_version, request)
            if answer is CLOSE:
                return
            if answer is SILENCE:
                continue
            version = 0 if type(request) is ApiVersionsRequest and answer.error_code else head.api_version
            data = frames.encode_response(head.api_key, version, head.correlation_id, answer)
            data = struct.pack(">i", len(data)) + data
            if cluster.happens(script.close_answering):
                connection.sendall(data[: len(data) // 2])
                return
            if cluster.happens(script.pieces):
                half = cluster.random.randrange(1, len(data))
                connection.sendall(data[:half])
                pause(0.001, "the halves of a frame come apart")
                data = data[half:]
            connection.sendall(data)


class ProduceCluster:
    """Some brokers with one topic.

    Attributes:
        logs: the stored values, by partition.
        script: how the brokers behave; may be replaced at any time.
        bugs: problems in the brokers themselves.
        trace: for each batch the partition, the broker, the batch's description, the error and its offset.
    """

    def __init__(
        self,
        seed: int,
        *,
        brokers: int,
        partitions: int,
        script: Script,
        produce_version: int,
        first_epoch: int,
    ) -> None:
        self.random = random.Random(seed)
        self.script = script
        self.lock = threading.Lock()
        self.logs = [PartitionLog() for _ in range(partitions)]
        self.bugs: list[Exception] = []
        self.trace: list[str] = []
        self._producer_id = 100
        self._first_epoch = first_epoch
        self._leader_epoch = 1
        self.nodes = [Node(self, 1 + number, produce_version) for number in range(brokers)]
        self.leaders = [1 + index % brokers for index in range(partitions)]

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes)

    def close(self) -> None:
        for node in self.nodes:
            node.__exit__()

    def happens(self, share: float) -> bool:
        return share > 0 and self.random.random() < share

    # ------------------------------------------------------------ answers

    def metadata(self, node: Node, request):
        with self.lock:
            if self.happens(self.script.bad_metadata):
                if self.random.random() < 0.5:
                    return CLOSE
                topics = [
                    MetadataResponseTopic(name=topic.name, error_code=Errors.LEADER_NOT_AVAILABLE.code)
                    for topic in request.topics or []
                ]
            else:
                topics = [self._topic(topic.name) for topic in request.topics or []]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node.number, host=node.host, port=node.port)
                for node in self.nodes
            ],
            controller_id=1,
            cluster_id="fake",
            topics=topics,
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        numbers = [node.number for node in self.nodes]
        return MetadataResponseTopic(
            name=name,
            topic_id=TOPIC_ID,
            partitions=[
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=leader,
                    leader_epoch=self._leader_epoch,
                    replica_nodes=numbers,
                    isr_nodes=numbers,
                )
                for index, leader in enumerate(self.leaders)
            ],
        )

    def identify(self):
        with self.lock:
            if self.happens(self.script.bad_identity):
                if self.random.random() < 0.5:
                    return CLOSE
                return InitProducerIdResponse(error_code=Errors.COORDINATOR_LOAD_IN_PROGRESS.code)
            self._producer_id += 1
            return InitProducerIdResponse(producer_id=self._producer_id, producer_epoch=self._first_epoch)

    def produce(self, node: Node, request):
        with self.lock:
            script = self.script
            if self.happens(script.close_before):
                return CLOSE
            if self.happens(script.move_leader):
                self._leader_epoch += 1
                self.leaders[self.random.randrange(len(self.leaders))] = self.random.choice(self.nodes).number
            answer = produced(request)
            for topic, answered in zip(request.topic_data, answer.responses, strict=True):
                assert topic.name == TOPIC or topic.topic_id == TOPIC_ID, topic
                told = []
                for part, place in zip(topic.partition_data, answered.partition_responses, strict=True):
                    batch = bytes(part.records)
                    place.error_code, place.base_offset = self._write(node, part.index, batch)
                    omitted = self.happens(script.omit)
                    if not omitted:
                        told.append(place)
                    outcome = (
                        Errors.of(place.error_code).name,
                        place.base_offset,
                        len(self.logs[part.index].values),
                    )
                    self.trace.append(
                        f"{part.index} at {node.number}: {identity(batch)} {outcome} {omitted=}"
                    )
                answered.partition_responses = told
            if self.happens(script.close_after):
                return CLOSE
            return SILENCE if request.acks == 0 or self.happens(script.silence) else answer

    def _write(self, node: Node, index: int, batch: bytes) -> tuple[int, int]:
        """Error code and base offset."""
        script, log = self.script, self.logs[index]
        if self.leaders[index] != node.number:
            return Errors.NOT_LEADER_OR_FOLLOWER.code, -1
        there = log.find(batch) is not None
        if identity(batch)[3] > script.largest_batch and not there:
            return Errors.MESSAGE_TOO_LARGE.code, -1
        if self.happens(script.refuse):
            return self.random.choice(RETRIABLE), -1
        if self.happens(script.fatal):
            return self.random.choice(FATAL), -1
        if not there and identity(batch)[0] >= 0 and self.happens(script.sequence_error):
            return self.random.choice(
                [Errors.OUT_OF_ORDER_SEQUENCE_NUMBER.code, Errors.UNKNOWN_PRODUCER_ID.code]
            ), -1
        error, offset = log.append(batch)
        if not error and self.happens(script.refuse_stored):
            return self.random.choice(RETRIABLE_STORED), -1
        if there and self.happens(script.duplicate_code):
            return Errors.DUPLICATE_SEQUENCE_NUMBER.code, self.random.choice([-1, offset])
        return error, offset
