"""Measures the broker's data plane for one Fetch or Produce request: a connection and a reactor."""

from __future__ import annotations

import shutil
import socket
import struct
import tempfile
import time
from pathlib import Path
from typing import ClassVar

from bench.suites.batch import TIMESTAMP_MS, one_batch
from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.server.data_plane import DataPlane
from bowstring.engine.configs import BrokerConfigs
from bowstring.protocol import API_VERSIONS, encode_request
from bowstring.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from bowstring.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

timer = time.process_time

TOPIC, TOPIC_ID = "bench", bytes(range(16))
PRODUCE_KEY, FETCH_KEY = 0, 1
PRODUCE_VERSION, FETCH_VERSION = 12, 17
REUSE_AT_BYTES = 256 << 20
SIZE = struct.Struct(">i")


class _Served:
    """A topic of one partition behind one reactor, and a connection that sends the same request again."""

    def serve(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="bowstring-bench-plane-"))
        folder = self.directory / f"{TOPIC}-0"
        folder.mkdir()
        config = BrokerConfigs().log_config({})
        self.log = PartitionLog(str(folder), config, recovery_point=0, clean_shutdown=True)
        self.plane = DataPlane(apis={key: _versions(key) for key in (PRODUCE_KEY, FETCH_KEY)})
        port = self.plane.listen("127.0.0.1", 0)
        self.plane.add_partition(TOPIC, TOPIC_ID, 0, self.log)
        self.plane.start()
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def first_call(self, frame: bytes) -> int:
        """Sends a frame and receives the answer; returns its size in bytes, which later calls expect."""
        self.frame = frame
        self.connection.sendall(frame)
        (size,) = SIZE.unpack(self.connection.recv(SIZE.size, socket.MSG_WAITALL))
        self.answer = bytearray(SIZE.size + size)
        self.connection.recv_into(self.answer, size, socket.MSG_WAITALL)
        return int(size)

    def call(self) -> None:
        """The same again, in two system calls however many pieces the answer has."""
        self.connection.sendall(self.frame)
        self.connection.recv_into(self.answer, len(self.answer), socket.MSG_WAITALL)

    def teardown(self, *_parameters: int) -> None:
        """Disconnects, stops the reactor and removes the files."""
        self.connection.close()
        self.plane.stop()
        self.log.close()
        shutil.rmtree(self.directory)


class Fetch(_Served):
    """1 MiB of batches of 148 records in the page cache, fetched in answers of one batch, of four, of all."""

    param_names: ClassVar = ["max_bytes"]
    params: ClassVar = [1, 1 << 16, 1 << 20]

    def setup(self, max_bytes: int) -> None:
        """Fills the log, and makes the request: no session, nothing to wait for."""
        self.serve()
        batch = one_batch(148, 100)
        while self.log.size_bytes < 1 << 20:
            self.log.append(batch, 0, TIMESTAMP_MS)
        self.log.advance_high_watermark(self.log.log_end_offset)
        part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[part])],
        )
        # Whole batches, and at least one.
        assert self.first_call(_framed(request, FETCH_VERSION)) >= max(len(batch), max_bytes - len(batch))

    def time_fetch(self, max_bytes: int) -> None:
        """One request and its answer over loopback; the client's system calls are in it."""
        self.call()


class Produce(_Served):
    """One batch a request, acks=1, into the page cache."""

    param_names: ClassVar = ["records"]
    params: ClassVar = [74, 595]

    def setup(self, records: int) -> None:
        """An empty log, and the request."""
        self.serve()
        part = PartitionProduceData(index=0, records=one_batch(records, 100))
        request = ProduceRequest(
            acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[part])]
        )
        self.first_call(_framed(request, PRODUCE_VERSION))
        assert self.log.log_end_offset == records

    def time_produce(self, records: int) -> None:
        """One request and its answer; a full log starts over, so that the bench needs little disk."""
        if self.log.size_bytes > REUSE_AT_BYTES:
            self.log.truncate_fully_and_start_at(0)
        self.call()


def _versions(key: int) -> tuple[int, int, int]:
    versions = API_VERSIONS[key]
    return versions.lowest, versions.highest, versions.flexible_from


def _framed(request: FetchRequest | ProduceRequest, version: int) -> bytes:
    body = encode_request(request, version, 1, "bench")
    return SIZE.pack(len(body)) + body
