"""Fake brokers of one cluster that replicate a partition; tests set its leader and the metadata about it."""

import contextlib

from bowstring._native.record.encode import encode_batch
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import fetch as f
from bowstring.protocol.messages import produce as p
from bowstring.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.fake_broker import TOPIC_ID, FakeBroker, batches_of, produced


class FakeCluster:
    """Brokers 1, 2, … of one topic with one partition.

    Attributes:
        leader, epoch: who leads, and in which epoch.
        told: the leader and epoch in metadata answers; None: the true ones.
        hints: whether a broker that does not lead names the leader (KIP-951).
        stored: batches in the order in which leaders stored them, with the broker's id.
        end: log end that fetches find; record `n` has the value `n`.
        preferred: fetches at the leader with a rack are sent to this broker (KIP-392).
        refusals: error codes of fetches at a broker, used up one by one.
    """

    def __init__(self, count=2):
        self.brokers = {number: FakeBroker() for number in range(1, count + 1)}
        self.leader, self.epoch = 1, 1
        self.told: tuple[int, int] | None = None
        self.hints = True
        self.stored: list[tuple[int, bytes]] = []
        self.end = 0
        self.preferred = -1
        self.refusals: dict[int, list[int]] = {}
        for number, broker in self.brokers.items():
            broker.handlers[MetadataRequest] = self.metadata
            broker.handlers[p.ProduceRequest] = lambda version, request, n=number: self.produce(n, request)
            broker.handlers[f.FetchRequest] = lambda version, request, n=number: self.fetch(n, request)

    def __enter__(self):
        self._open = contextlib.ExitStack()
        for broker in self.brokers.values():
            self._open.enter_context(broker)
        return self

    def __exit__(self, *_):
        self._open.close()

    @property
    def bootstrap(self):
        return self.brokers[1].bootstrap

    def asked(self, number, cls):
        return len(self.brokers[number].seen(cls))

    def metadata(self, version, request):
        leader, epoch = self.told or (self.leader, self.epoch)
        everyone = list(self.brokers)
        part = MetadataResponsePartition(
            partition_index=0,
            leader_id=leader,
            leader_epoch=epoch,
            replica_nodes=everyone,
            isr_nodes=everyone,
        )
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=number, host=broker.host, port=broker.port)
                for number, broker in self.brokers.items()
            ],
            controller_id=1,
            cluster_id="fake",
            topics=[
                MetadataResponseTopic(name=topic.name, topic_id=TOPIC_ID, partitions=[part])
                for topic in request.topics or []
            ],
        )

    def produce(self, number, request):
        if number == self.leader:
            self.stored += [(number, bytes(batch)) for batch in batches_of(request)]
            return produced(request, base_offset=len(self.stored) - 1)
        answer = produced(request, error=Errors.NOT_LEADER_OR_FOLLOWER.code)
        if self.hints:
            (topic,) = answer.responses
            (part,) = topic.partition_responses
            part.current_leader = p.LeaderIdAndEpoch(leader_id=self.leader, leader_epoch=self.epoch)
            port = self.brokers[self.leader].port
            answer.node_endpoints = [
                p.NodeEndpoint(node_id=self.leader, host=self.brokers[self.leader].host, port=port)
            ]
        return answer

    def fetch(self, number, request):
        asked = [part for topic in request.topics for part in topic.partitions]
        parts = [self._fetched(number, request.rack_id, part) for part in asked]
        answer = f.FetchResponse(responses=[f.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=parts)])
        if any(part.current_leader.leader_id >= 0 for part in parts):
            port = self.brokers[self.leader].port
            answer.node_endpoints = [
                f.NodeEndpoint(node_id=self.leader, host=self.brokers[self.leader].host, port=port)
            ]
        return answer

    def _fetched(self, number, rack, part):
        found = f.PartitionData(partition_index=0, high_watermark=self.end, last_stable_offset=self.end)
        if self.refusals.get(number):
            found.error_code = self.refusals[number].pop(0)
        elif number == self.leader and rack and self.preferred >= 0:
            found.preferred_read_replica = self.preferred
        elif number == self.leader or rack:
            if part.fetch_offset < self.end:
                value = b"%d" % part.fetch_offset
                found.records = encode_batch([(None, value, 1, [])], base_offset=part.fetch_offset)
        else:
            found.error_code = Errors.NOT_LEADER_OR_FOLLOWER.code
            if self.hints:
                found.current_leader = f.LeaderIdAndEpoch(leader_id=self.leader, leader_epoch=self.epoch)
        return found
