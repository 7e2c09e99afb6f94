"""A share partition that is led here, over a persister that stores when the test lets it."""

import asyncio

from bowstring.engine.share.leader.settings import ShareSettings
from bowstring.engine.share.leader.share_partition import LedSharePartition, steady_ms
from bowstring.engine.share.persister.interface import ReadState, SharePartitionKey
from bowstring.protocol.errors import Errors
from tests.support.share_records import Acknowledged, record_batch
from tests.support.waiting import wait_until_async

KEY = SharePartitionKey("g", bytes(16), 0)
SETTINGS = ShareSettings(
    delivery_count=1, record_locks=100, lock_ms=1, renew=True, committed=False, offset_reset="earliest"
)
ACCEPT, ARCHIVED = 1, 4


class HeldPersister:
    """Attributes: `written`, the writes so far; `may_store`, how many writes succeed."""

    def __init__(self):
        self.written = []
        self.may_store = asyncio.Semaphore(0)

    async def read_state(self, key, leader_epoch):
        return ReadState(Errors.NONE, 0, 0)

    async def write_state(self, key, written):
        self.written.append(written)
        await self.may_store.acquire()
        return Errors.NONE


def test_an_acknowledgement_of_what_is_done_waits_until_that_is_stored():
    """The lock of a last delivery ends while another write is under way, whose end moves the start offset."""

    async def main():
        persister = HeldPersister()
        led = LedSharePartition(KEY, 0, persister, lambda: SETTINGS, when_fenced=lambda led: None)
        led.load(None)
        await wait_until_async(lambda: led.is_active)
        for member in (1, 2):
            offset = member - 1
            led.window.acquire(
                member,
                record_batch(offset, offset),
                fetch_offset=offset,
                max_records=1,
                batch_size=1,
                now_ms=steady_ms(),
            )
        code, _, second = led.acknowledge(2, [Acknowledged(1, 1, [ACCEPT])])
        assert code == 0
        await wait_until_async(lambda: led.window.states()[0][2] == ARCHIVED)
        persister.may_store.release()
        assert await second is Errors.NONE
        assert led.window.start_offset == 2
        code, _, late = led.acknowledge(1, [Acknowledged(0, 0, [ACCEPT])])
        assert code == 0 and late is not None and not late.done()
        for _ in range(2):
            persister.may_store.release()
        assert await late is Errors.NONE
        assert persister.written[-1].start_offset == 2
        assert led.acknowledge(1, [Acknowledged(0, 0, [ACCEPT])]) == (0, None, None)
        await led.stop()

    asyncio.run(main())
