"""Markers that wait for their commit while the topic goes away."""

import asyncio
from types import SimpleNamespace

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.transactions.marker_writer import Marker
from bowstring.engine.transactions.service import TransactionCoordinatorService
from bowstring.protocol.errors import Errors
from tests.support.waiting import wait_until_async

MARKER = Marker(producer_id=7, epoch=1, commit=True, coordinator_epoch=1, version=2)


class Plane:
    """Leads ``t-0``. Its followers lag until the test moves the high watermark."""

    def __init__(self):
        self.log = None
        self.watched = None

    def create(self):
        self.log = SimpleNamespace(log_end_offset=0, high_watermark=0, in_commit_mode=False, failed=False)
        self.watched = None

    def led_epoch(self, topic, partition):
        return -1 if self.log is None else 0

    def append(self, topic, partition, batch, **options):
        self.log.log_end_offset += 1
        return self.log.log_end_offset - 1

    def watch(self, topic, partition, offset):
        if self.log is None or self.log.high_watermark >= offset:
            return False
        self.watched = offset
        return True


def coordinator_of(plane):
    return TransactionCoordinatorService(
        BrokerConfigs({}),
        SimpleNamespace(image=None),
        SimpleNamespace(get=lambda topic, partition: plane.log, control_writes=0),
        plane,
        changes=None,
        producer_ids=None,
        node_id=1,
        peers=None,
        mark_group=None,
    )


async def write(coordinator):
    return (await coordinator.writer.write(MARKER, [("t", 0)]))[("t", 0)]


def test_topic_deleted_and_created_again():
    """The wait ends with the topic, and markers of the new one are confirmed."""

    async def run():
        plane = Plane()
        plane.create()
        coordinator = coordinator_of(plane)
        writing = asyncio.create_task(write(coordinator))
        await wait_until_async(lambda: plane.watched == 1)
        plane.log = None
        coordinator.topic_deleted("t", b"i" * 16)
        assert await writing is Errors.UNKNOWN_TOPIC_OR_PARTITION

        plane.create()
        writing = asyncio.create_task(write(coordinator))
        await wait_until_async(lambda: plane.watched == 1)
        plane.log.high_watermark = 1
        coordinator.writer.advanced("t", 0)
        assert await writing is Errors.NONE

    asyncio.run(run())


def test_topic_replaced_before_the_wait_begins():
    async def run():
        plane = Plane()
        plane.create()
        append = plane.append

        def append_then_replace(*batch, **options):
            asyncio.get_running_loop().call_soon(plane.create)
            return append(*batch, **options)

        plane.append = append_then_replace
        assert await write(coordinator_of(plane)) is Errors.NOT_LEADER_OR_FOLLOWER

    asyncio.run(run())
