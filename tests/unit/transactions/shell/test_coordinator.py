"""When a coordinator begins to answer for a partition of ``__transaction_state``."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring._native.record.encode import encode_batch
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.metadata.image import PartitionImage
from bowstring.engine.metadata.names import TRANSACTIONS_TOPIC as TOPIC
from bowstring.engine.transactions.records import transaction_record
from bowstring.engine.transactions.shell.coordinator import TransactionCoordinator
from bowstring.engine.transactions.transaction import Status, Transaction
from tests.support.group_shell import MemoryLog, MemoryPlane

DECIDED = Transaction("x", 7, 1, 60_000, Status.PREPARE_COMMIT, frozenset({("gone", 0)}), 1, 1, 2)
"""Its only partition is deleted, so it is complete as soon as its markers are sent."""


class FakeBroker:
    """What the coordinator needs of a broker that leads one partition of the topic."""

    def __init__(self, log):
        self.configs = BrokerConfigs({})
        self.open_logs = [log]
        self.topics = {
            TOPIC: SimpleNamespace(id=b"t" * 16, partitions=[PartitionImage((1,), (1,), 1, 3, 0, ())])
        }
        image = SimpleNamespace(topics=self.topics, features={}, topic_configs=lambda name: {})
        self.plane = MemoryPlane(self)
        self.plane.led = {0: 3}
        self.coordinator = TransactionCoordinator(
            self.configs,
            SimpleNamespace(image=image),
            SimpleNamespace(of_topic=lambda name: self.open_logs, control_writes=0),
            self.plane,
            changes=None,
            producer_ids=None,
            node_id=1,
            address=lambda id: None,
            mark_group=None,
        )


@pytest.fixture
def log():
    made = MemoryLog()
    key, value = transaction_record(DECIDED, 2)
    made.append(encode_batch([(key, value, 0, ())]), 3, 0)
    return made


def status(broker):
    return Status(broker.coordinator.shard_of("x").state.entries["x"].committed.status)


def test_markers_wait_until_the_decision_is_committed(log):
    """Another broker that lacks the decision may be elected until then, and decide otherwise."""

    async def run():
        broker = FakeBroker(log)
        broker.coordinator.start()
        with pytest.raises(KafkaError) as refused:
            broker.coordinator.shard_of("x")
        assert refused.value.error is Errors.COORDINATOR_LOAD_IN_PROGRESS
        assert broker.plane.watched == {0: 1}
        broker.coordinator.advanced(0)  # not yet
        assert broker.plane.appended == []
        log.advance_high_watermark(1)
        broker.coordinator.advanced(0)
        assert status(broker) is Status.COMPLETE_COMMIT
        await broker.coordinator.stop()

    asyncio.run(run())


def test_a_committed_log_is_answered_for_at_once(log):
    async def run():
        log.advance_high_watermark(1)
        broker = FakeBroker(log)
        broker.coordinator.start()
        assert status(broker) is Status.COMPLETE_COMMIT
        await broker.coordinator.stop()

    asyncio.run(run())


def test_who_leads_no_more_does_not_begin(log):
    """The high watermark may be above records of the next leader."""

    async def run():
        broker = FakeBroker(log)
        broker.coordinator.start()
        broker.plane.led = {}
        log.advance_high_watermark(1)
        broker.coordinator.advanced(0)
        assert broker.plane.appended == []
        broker.coordinator.role_changed(0)
        assert not broker.coordinator.coordinates("x")
        await broker.coordinator.stop()

    asyncio.run(run())
