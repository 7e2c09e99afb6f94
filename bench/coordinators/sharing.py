"""Members of a share group that acknowledge each record by itself (KIP-932)."""

from __future__ import annotations

import time
import uuid
from typing import Any

from bench.coordinators.figures import Span, latencies_ms
from bench.coordinators.loads import Order, find_coordinator
from bench.coordinators.loop import Loop, Wire
from bench.peers.wire import WireError
from bowstring._native.record.encode import encode_batch
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from bowstring.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bowstring.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from bowstring.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

HEARTBEAT_VERSION, FETCH_VERSION, PRODUCE_VERSION = 1, 2, 9
GROUP_RESOURCE = 32
ACCEPT = 1
# The defaults of KafkaShareConsumer.
MAX_RECORDS, MAX_WAIT_MS, MAX_BYTES = 500, 500, 50 << 20
RECORDS_PER_BATCH = 100
VALUE = b"x" * 100
TIMEOUT_S = 600.0


class SharingMember:
    """A member that fetches, and acknowledges each record in the next fetch.

    Attributes:
        acknowledged: Records whose acknowledgement was answered.
        latencies_s: Seconds of each fetch that returned records.
    """

    def __init__(self, loop: Loop, wire: Wire, coordinator: Wire, group: str, topic: str):
        self._loop = loop
        self._wire = wire
        self._coordinator = coordinator
        self._group = group
        self._topic = topic
        self._id = str(uuid.uuid4())
        self._member_epoch = 0
        self._session_epoch = 0
        self._topic_id: bytes | None = None
        self._held: list[AcknowledgementBatch] = []
        self._sent_at = 0.0
        self.acknowledged = 0
        self.latencies_s: list[float] = []
        self.going = True

    def start(self) -> None:
        """Joins the group; fetches follow the assignment, and heartbeats each other."""
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._id,
            member_epoch=self._member_epoch,
            subscribed_topic_names=[self._topic] if self._member_epoch == 0 else None,
        )
        self._coordinator.ask(request, HEARTBEAT_VERSION, self._heard)

    def _heard(self, answer: Any) -> None:
        if answer.error_code != Errors.NONE.code:
            raise WireError(f"a share member got {Errors.of(answer.error_code).name}")
        self._member_epoch = answer.member_epoch
        assigned = answer.assignment.topic_partitions if answer.assignment is not None else []
        if self._topic_id is None and assigned:
            self._topic_id = assigned[0].topic_id
            self._fetch()
        if self.going:
            self._loop.at(time.monotonic() + answer.heartbeat_interval_ms / 1000, self.start)

    def _fetch(self) -> None:
        assert self._topic_id is not None
        partition = FetchPartition(partition_index=0, acknowledgement_batches=self._held)
        is_named = self._session_epoch == 0 or self._held
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._id,
            share_session_epoch=self._session_epoch,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            max_records=MAX_RECORDS,
            batch_size=MAX_RECORDS,
            topics=[FetchTopic(topic_id=self._topic_id, partitions=[partition])] if is_named else [],
        )
        self._session_epoch += 1
        self._sent_at = time.monotonic()
        self._wire.ask(request, FETCH_VERSION, self._fetched)

    def _fetched(self, answer: Any) -> None:
        if answer.error_code != Errors.NONE.code:
            raise WireError(f"a share member got {Errors.of(answer.error_code).name}")
        self.acknowledged += len(self._held)
        self._held = []
        for topic in answer.responses:
            for partition in topic.partitions:
                if partition.error_code or partition.acknowledge_error_code:
                    raise WireError(f"a share member got {partition}")
                self._held += [
                    AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[ACCEPT])
                    for each in partition.acquired_records
                    for offset in range(each.first_offset, each.last_offset + 1)
                ]
        if self._held:
            self.latencies_s.append(time.monotonic() - self._sent_at)
        if self.going or self._held:
            self._fetch()


def _fill(loop: Loop, wire: Wire, topic: str, records: int) -> None:
    now_ms = int(time.time() * 1000)
    batch = encode_batch([(None, VALUE, now_ms, None)] * RECORDS_PER_BATCH)
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    for _ in range(0, records, RECORDS_PER_BATCH):
        answer: Any = loop.asked(wire, request, PRODUCE_VERSION)
        error = answer.responses[0].partition_responses[0].error_code
        if error:
            raise WireError(f"produce got {Errors.of(error).name}")


def shared_records(order: Order) -> dict[str, float]:
    """Lets `members` of a share group read `records` of one partition, each acknowledged separately."""
    records, warm = order.count("records"), order.count("warm_records")
    group = f"{order.topic}-group"
    with Loop(order.bootstrap) as loop:
        wire = loop.connect()
        find_coordinator(loop, wire, group)
        config = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=[config])
        loop.asked(wire, IncrementalAlterConfigsRequest(resources=[resource]), 1)
        _fill(loop, wire, order.topic, warm + records)
        members = [
            SharingMember(loop, loop.connect(), loop.connect(), group, order.topic)
            for _ in range(order.count("members"))
        ]
        for each in members:
            each.start()

        def done() -> int:
            return sum(each.acknowledged for each in members)

        loop.run(lambda: done() >= warm, TIMEOUT_S)
        for each in members:
            each.latencies_s = []
        begun = done()  # the members' requests in flight may have passed the warm part by far
        if begun >= warm + records:
            raise WireError(f"{records} records are read before they can be measured: measure more")
        span = Span(order.pid)
        loop.run(lambda: done() >= warm + records, TIMEOUT_S)
        figures = span.figures()
        count = done() - begun
        latencies = [seconds for each in members for seconds in each.latencies_s]
        for each in members:
            each.going = False
    return {
        "records_per_second": count / figures["seconds"],
        "cpu_seconds_per_million": 1e6 * figures["cpu_seconds"] / count,
        **latencies_ms(latencies),
        "load_cpu_percent": 100 * figures["load_cpu_seconds"] / figures["seconds"],
    }
