"""A group coordinator's shell over logs in memory, on a data plane that leads what the test says."""

import asyncio
import struct
import threading
from types import SimpleNamespace

from bowstring._native.log.partition_log import LogError
from bowstring._native.record.decode import batch_headers
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.coordinators.runtime import REPLAYED_AT_ONCE_BYTES
from bowstring.engine.groups.log_replay import READ_BYTES
from bowstring.engine.groups.service import GroupCoordinatorService
from bowstring.engine.groups.state import RequestContext
from bowstring.engine.metadata.image import PartitionImage
from bowstring.engine.metadata.names import GROUPS_TOPIC as TOPIC
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from bowstring.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bowstring.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from tests.support.waiting import FOR_EVER_MS

CONTEXT = RequestContext(9, "c", "/127.0.0.1")


class MemoryLog:
    """A partition log whose high watermark the test may hold, and whose appends it may fail."""

    def __init__(self):
        self.batches = []
        self.log_start_offset = self.log_end_offset = self.high_watermark = self.size_bytes = 0
        self.held = False
        self.in_commit_mode = False
        self.failed = False
        self.error = None
        # while it is clear, reads wait
        self.may_read = threading.Event()
        self.may_read.set()

    def append(self, batch, leader_epoch, now_ms):
        if self.error is not None:
            raise self.error
        base_offset = self.log_end_offset
        self.batches.append((base_offset, struct.pack(">q", base_offset) + batch[8:]))
        self.log_end_offset += batch_headers(batch)[0].record_count
        self.size_bytes += len(batch)
        return base_offset

    def advance_high_watermark(self, offset):
        if not self.held:
            self.high_watermark = offset

    def read(self, offset, max_bytes, limit):
        self.may_read.wait()
        data = b""
        for base_offset, batch in self.batches:
            if base_offset >= offset and (not data or len(data) + len(batch) <= max_bytes):
                data += batch
        return data


class MemoryPlane:
    """A data plane that leads what the test says, with the ISR of the image."""

    def __init__(self, broker):
        self.broker = broker
        self.led = {}
        self.watched = {}
        self.appended = []

    def led_epoch(self, topic, partition):
        return self.led.get(partition, -1)

    def append(self, topic, partition, batch, *, leader_epoch, now_ms):
        if self.led_epoch(topic, partition) != leader_epoch:
            raise LogError(Errors.NOT_LEADER_OR_FOLLOWER.code, "it is led elsewhere")
        image = self.broker.topics[topic].partitions[partition]
        wanted = self.broker.configs.topic_value("min.insync.replicas", {})
        if len(image.in_sync) < image.min_in_sync(wanted):
            raise LogError(Errors.NOT_ENOUGH_REPLICAS.code, "too few are in sync")
        log = self.broker.open_logs[partition]
        base_offset = log.append(batch, leader_epoch, now_ms)
        log.advance_high_watermark(log.log_end_offset)
        self.appended.append((topic, partition, len(batch)))
        return base_offset

    def watch(self, topic, partition, offset):
        self.watched[partition] = offset
        return self.broker.open_logs[partition].high_watermark < offset


class FakeBroker:
    """What the shell needs of a broker."""

    def __init__(
        self,
        partitions=2,
        replicas=(1, 2),
        *,
        replayed_at_once_bytes=REPLAYED_AT_ONCE_BYTES,
        read_bytes=READ_BYTES,
        **configs,
    ):
        self.replicas = replicas
        settings = {
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "2",
            "offsets.commit.timeout.ms": str(FOR_EVER_MS),
        }
        self.configs = BrokerConfigs(settings | configs)
        self.topics = {}
        self.metadata = SimpleNamespace(
            image=SimpleNamespace(topics=self.topics, topic_configs=lambda name: {})
        )
        self.logs = SimpleNamespace(of_topic=lambda name: self.open_logs, control_writes=0)
        self.open_logs = []
        self.plane = MemoryPlane(self)
        self.changes = SimpleNamespace(create_internal_topic=self.create_internal_topic)
        self.created = []
        self.groups = GroupCoordinatorService(
            self.configs,
            self.metadata,
            self.logs,
            self.plane,
            self.changes,
            replayed_at_once_bytes=replayed_at_once_bytes,
            read_bytes=read_bytes,
        )

    async def create_internal_topic(self, name, partitions, replication_factor, configs):
        self.created.append((name, partitions, configs))
        await asyncio.sleep(0)
        self.host([MemoryLog() for _ in range(partitions)])
        return True

    def host(self, logs):
        self.open_logs = logs
        self.topics[TOPIC] = SimpleNamespace(
            id=b"o" * 16, partitions=[PartitionImage(self.replicas, (1,), 1, 3, 0, ())] * len(logs)
        )
        self.plane.led = dict.fromkeys(range(len(logs)), 3)


def commit_request(group="g", offset=5):
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="t", partitions=[part])
    return OffsetCommitRequest(group_id=group, topics=[topic])


def commit(broker, group="g", offset=5):
    """Commits an offset of t-0."""
    request = commit_request(group, offset)
    return broker.groups.ask(
        group, lambda shard, token, now: shard.commit_offsets(request, CONTEXT, token, now)
    )


async def fetched(broker, group="g"):
    request = OffsetFetchRequestGroup(group_id=group, topics=None)
    answer = await broker.groups.ask(
        group, lambda shard, token, now: shard.fetch_offsets(request, token, require_stable=True)
    )
    return {
        (topic.name, part.partition_index): part.committed_offset
        for topic in answer.topics
        for part in topic.partitions
    }


def join(broker, group="g", member_id="", session_ms=FOR_EVER_MS, version=3):
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=FOR_EVER_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    context = RequestContext(version, "c", "/127.0.0.1")
    return broker.groups.ask(group, lambda shard, token, now: shard.join(request, context, token, now))


async def started(**configs):
    broker = FakeBroker(**configs)
    broker.groups.start()
    await broker.groups.ensure_topic()
    return broker


async def refusal(answer):
    """Returns the error that an answer is refused with."""
    try:
        await answer
    except KafkaError as error:
        return error.error
    raise AssertionError("it was answered")


def error_of(answer):
    return answer.topics[0].partitions[0].error_code
