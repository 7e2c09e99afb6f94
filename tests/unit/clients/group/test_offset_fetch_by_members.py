"""Members of KIP-848 groups fetch committed offsets by their id and epoch, which coordinators check."""

import pytest

from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.records import TopicPartition
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from bowstring.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from tests.support.fake_broker import TOPIC_ID, FakeBroker
from tests.support.fake_group import PATIENCE_S, FakeGroup, poll_until

P = TopicPartition("t", 0)


class ConsumerGroup(FakeGroup):
    """A coordinator of one member. It raises the member's epoch with each heartbeat.

    Attributes:
        epoch: of the member; 0 when it has none.
        asked: the member and the epoch of each OffsetFetch.
        refuses: called with the next OffsetFetch of the member; returns the code of its answer.
    """

    def __init__(self):
        super().__init__()
        self.epoch = 0
        self.asked = []
        self.refuses = lambda asked: 0
        self.handlers[ConsumerGroupHeartbeatRequest] = self.heartbeat

    def api_versions(self, version, request):
        return FakeBroker.api_versions(self, version, request)

    def heartbeat(self, version, request):
        if request.member_epoch and not self.epoch:
            return ConsumerGroupHeartbeatResponse(error_code=Errors.UNKNOWN_MEMBER_ID.code)
        self.epoch = max(self.epoch, request.member_epoch) + 1
        places = TopicPartitions(topic_id=TOPIC_ID, partitions=[0])
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=self.epoch,
            heartbeat_interval_ms=100,
            assignment=Assignment(topic_partitions=[places]),
        )

    def offset_fetch(self, version, request):
        group = request.groups[0]
        self.asked.append((group.member_id, group.member_epoch))
        code = self.refuses(group) if group.member_epoch >= 0 else 0
        if code:
            refused = OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
            return OffsetFetchResponse(groups=[refused])
        return super().offset_fetch(version, request)


@pytest.fixture
def broker():
    with ConsumerGroup() as made:
        yield made


@pytest.fixture
def consumer(broker):
    options = {"group_id": "g", "group_protocol": "consumer", "enable_auto_commit": False}
    with Consumer(broker.bootstrap, auto_offset_reset="none", **options) as made:
        made.subscribe(["t"])
        yield made


def test_a_member_asks_again_when_its_epoch_has_gone_up(broker, consumer):
    broker.answers[OffsetFetchRequest] = [7]
    first = []

    def stale(asked):
        first.append(asked.member_epoch)
        return Errors.STALE_MEMBER_EPOCH.code if asked.member_epoch == first[0] else 0

    broker.refuses = stale
    poll_until(consumer, lambda: P in consumer.assignment())
    assert consumer.position(P) == 7
    member = consumer.group_metadata().member_id
    assert {name for name, _ in broker.asked} == {member}
    assert broker.asked[-1][1] > first[0] > 0


def test_a_member_that_its_group_has_removed_asks_as_nobody(broker, consumer):
    broker.answers[OffsetFetchRequest] = [7]
    poll_until(consumer, lambda: P in consumer.assignment())

    def unknown(_):
        broker.epoch = 0
        return Errors.UNKNOWN_MEMBER_ID.code

    broker.refuses = unknown
    assert consumer.committed([P], timeout=PATIENCE_S)[P].offset == 7
    assert broker.asked[-1] == (None, -1)
