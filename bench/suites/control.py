"""Measures small requests through a whole broker in this process: reactor, dispatcher, handler, log."""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

from bench.coordinators.loads import COMMIT_VERSION, FETCH_VERSION, find_coordinator
from bench.coordinators.loop import Loop, frame_of
from bench.coordinators.storms import (
    FIND_VERSION,
    LATEST,
    LIST_VERSION,
    METADATA_VERSION,
    joined,
    refuse_errors,
    synced,
)
from bowstring import Broker
from bowstring.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from bowstring.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.heartbeat import HeartbeatRequest
from bowstring.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from bowstring.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from bowstring.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bowstring.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from bowstring.protocol.schema import Request

timer = time.process_time

GROUP, CONSUMERS, TOPICS = "bench", "consumers", 100
TOPIC = "topic-0"
HEARTBEAT_VERSION, CONSUMER_VERSION, CREATE_VERSION = 4, 1, 7
# After so many, whatever answers alike does.
FIRST_CALLS = 3


class Requests:
    """The same request again and again on one connection; the client is counted, too."""

    param_names: ClassVar = ["request"]
    params: ClassVar = [
        "offset_commit",
        "offset_fetch",
        "heartbeat",
        "consumer_group_heartbeat",
        "find_coordinator",
        "metadata",
        "list_offsets",
    ]

    def setup(self, request: str) -> None:
        """A broker with 100 topics, a classic group and a consumer group of one member each."""
        self.directory = Path(tempfile.mkdtemp(prefix="bowstring-bench-control-"))
        config = {"bowstring.durability": "os", "group.initial.rebalance.delay.ms": "0"}
        self.broker = Broker(data_dir=self.directory, config=config).start()
        with Loop(f"127.0.0.1:{self.broker.port}") as loop:
            wire = loop.connect()
            topics = [
                CreatableTopic(name=f"topic-{number}", num_partitions=6, replication_factor=1)
                for number in range(TOPICS)
            ]
            refuse_errors(
                loop.asked(wire, CreateTopicsRequest(topics=topics, timeout_ms=60_000), CREATE_VERSION)
            )
            find_coordinator(loop, wire, GROUP)
            body, version = getattr(self, f"_{request}")(loop, wire)
        self.connection = socket.create_connection(("127.0.0.1", self.broker.port))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frame = frame_of(body, version)
        self.connection.sendall(self.frame)
        size = int.from_bytes(self.connection.recv(4, socket.MSG_WAITALL), "big")
        self.answer = bytearray(4 + size)
        self.connection.recv_into(self.answer, size, socket.MSG_WAITALL)
        for _ in range(FIRST_CALLS):
            self.time_request(request)

    def time_request(self, request: str) -> None:
        """One, with its answer."""
        self.connection.sendall(self.frame)
        self.connection.recv_into(self.answer, len(self.answer), socket.MSG_WAITALL)

    def teardown(self, request: str) -> None:
        """Stops the broker."""
        self.connection.close()
        self.broker.stop()
        shutil.rmtree(self.directory)

    def _member(self, loop: Loop, wire: Any) -> tuple[str, int]:
        member_id, generation = joined(loop, wire, GROUP, TOPIC)
        synced(loop, wire, GROUP, member_id, generation)
        return member_id, generation

    def _offset_commit(self, loop: Loop, wire: Any) -> tuple[Request, int]:
        member_id, generation = self._member(loop, wire)
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
        topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
        request = OffsetCommitRequest(
            group_id=GROUP,
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            topics=[topic],
        )
        return request, COMMIT_VERSION

    def _offset_fetch(self, loop: Loop, wire: Any) -> tuple[Request, int]:
        refuse_errors(loop.asked(wire, *self._offset_commit(loop, wire)))
        wanted = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
        group = OffsetFetchRequestGroup(group_id=GROUP, topics=[wanted])
        return OffsetFetchRequest(groups=[group]), FETCH_VERSION

    def _heartbeat(self, loop: Loop, wire: Any) -> tuple[Request, int]:
        member_id, generation = self._member(loop, wire)
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
        return request, HEARTBEAT_VERSION

    def _consumer_group_heartbeat(self, loop: Loop, wire: Any) -> tuple[Request, int]:
        first = ConsumerGroupHeartbeatRequest(
            group_id=CONSUMERS,
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=300_000,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        )
        answer: Any = loop.asked(wire, first, CONSUMER_VERSION)
        refuse_errors(answer)
        request = ConsumerGroupHeartbeatRequest(
            group_id=CONSUMERS, member_id="m", member_epoch=answer.member_epoch
        )
        return request, CONSUMER_VERSION

    def _find_coordinator(self, _loop: Loop, _wire: Any) -> tuple[Request, int]:
        return FindCoordinatorRequest(coordinator_keys=[GROUP]), FIND_VERSION

    def _metadata(self, _loop: Loop, _wire: Any) -> tuple[Request, int]:
        topics = [MetadataRequestTopic(name=f"topic-{number}") for number in range(TOPICS)]
        return MetadataRequest(topics=topics), METADATA_VERSION

    def _list_offsets(self, _loop: Loop, _wire: Any) -> tuple[Request, int]:
        wanted = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
        topic = ListOffsetsTopic(name=TOPIC, partitions=[wanted])
        return ListOffsetsRequest(replica_id=-1, topics=[topic]), LIST_VERSION
