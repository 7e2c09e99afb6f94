"""Brokers with a data plane and a group coordinator each, on one event loop.

They replicate one partition of ``__consumer_offsets``, led and followed as the test says.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bowstring._native.server.control_request import ControlRequest
from bowstring._native.server.replicas import Replicas
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.groups.service import GroupCoordinatorService
from bowstring.engine.metadata.image import PartitionImage
from bowstring.engine.metadata.names import GROUPS_TOPIC as TOPIC
from tests.support.log_batches import everything
from tests.support.replicated_planes import KEYS, offsets_answer
from tests.support.served_plane import Served
from tests.support.waiting import FOR_EVER_MS, wait_until_async

TOPIC_ID = uuid.uuid5(uuid.NAMESPACE_DNS, TOPIC).bytes


def stand_in(**fields: Any) -> Any:
    """Returns an object with these attributes in place of a part of the broker."""
    return SimpleNamespace(**fields)


class Coordinator:
    """One broker. `groups` is what its handlers would use."""

    def __init__(self, directory: Path, broker_id: int, log_config: dict[str, int], **configs: str) -> None:
        directory.mkdir()
        self.id = broker_id
        self.served = Served(directory, keys=KEYS, log_config=log_config)
        self.served.add_topic(TOPIC, TOPIC_ID, 1, serve={"is_leader": False, "replicated": True})
        self.plane = self.served.plane
        self.replicas = Replicas(
            self.plane,
            broker_id=broker_id,
            broker_epoch=100 + broker_id,
            backoff_ms=20,
            wait_max_ms=20,
            lag_max_ms=FOR_EVER_MS,
        )
        self.log = self.served.logs[TOPIC, 0]
        self.image = stand_in(
            topics={TOPIC: stand_in(id=TOPIC_ID, partitions=[PartitionImage((), (), -1, 0, 0, ())])},
            topic_configs=lambda name: {},
        )
        self.logs = stand_in(of_topic=lambda name: [self.log], control_writes=0)
        settings = {"group.initial.rebalance.delay.ms": "0", "offsets.commit.timeout.ms": str(FOR_EVER_MS)}
        self.groups = GroupCoordinatorService(
            BrokerConfigs(settings | configs),
            stand_in(image=self.image),
            self.logs,
            self.plane,
            stand_in(),
        )

    def start(self) -> None:
        self.groups.start()
        asyncio.get_running_loop().add_reader(self.plane.control_fd, self._take)

    def _take(self) -> None:
        for request in self.plane.take_requests():
            assert isinstance(request, ControlRequest)
            answer = offsets_answer(request, lambda index: self.log)
            self.plane.reply(request.connection_id, request.slot, answer)
        self.plane.take_events()
        self.replicas.take_events()
        for topic, partition in self.plane.take_advanced():
            assert topic == TOPIC
            self.groups.advanced(partition)

    async def stop(self) -> None:
        await self.groups.stop()
        asyncio.get_running_loop().remove_reader(self.plane.control_fd)


class Coordinators(list[Coordinator]):
    """Brokers 0, 1, …; none leads at first."""

    def __init__(self, directory: Path, count: int = 3, log_config=None, **configs: str) -> None:
        super().__init__(
            Coordinator(directory / f"broker-{i}", i, log_config or {}, **configs) for i in range(count)
        )
        self.leader = -1
        self.leader_epoch = 0

    def run(self, main: Callable[[], Awaitable[None]]) -> None:
        """Runs a test with the brokers started, and stops them."""

        async def started() -> None:
            for each in self:
                each.start()
            await main()
            for each in self:
                await each.stop()

        try:
            asyncio.run(started())
        finally:
            for each in self:
                each.served.close()

    def lead(self, leader: int, isr=None, *, epoch: int | None = None, tell: bool = True) -> None:
        """Lets a broker lead in the next epoch, or in the given one. It has no followers yet."""
        self.leader = leader
        self.leader_epoch = self.leader_epoch + 1 if epoch is None else epoch
        everyone = range(len(self))
        self[leader].replicas.lead(
            TOPIC,
            0,
            leader_epoch=self.leader_epoch,
            replicas=list(everyone),
            isr=list(everyone if isr is None else isr),
            broker_epochs={each: 100 + each for each in everyone},
        )
        if tell:
            self[leader].groups.role_changed(0)

    def follow(self, broker: int, *, fetches: bool = True, tell: bool = True) -> None:
        """Lets a broker follow the leader, or only wait for an address of it."""
        self[broker].replicas.follow(
            TOPIC,
            0,
            leader_epoch=self.leader_epoch,
            leader_id=self.leader,
            host="127.0.0.1" if fetches else None,
            port=self[self.leader].served.port,
        )
        if tell:
            self[broker].groups.role_changed(0)

    async def elect(self, leader: int, isr=None, **how: Any) -> None:
        """Lets a broker lead, the others follow it, and waits until it has read its log."""
        self.lead(leader, isr, **how)
        for each in range(len(self)):
            if each != leader:
                self.follow(each)
        await self.loaded()

    async def loaded(self) -> None:
        await wait_until_async(lambda: not any(each.groups.is_loading for each in self))

    async def equal(self) -> None:
        """Waits until the logs are identical, and everything in them is committed."""

        def marks() -> set[int]:
            return {offset for each in self for offset in (each.log.log_end_offset, each.log.high_watermark)}

        await wait_until_async(lambda: len(marks()) == 1, marks)
        assert len({everything(each.log) for each in self}) == 1
