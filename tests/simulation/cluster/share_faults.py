"""Faults of share groups, as in `faults`: patched into the shipped coordinators and leaders."""

import asyncio

from bowstring.engine.coordinators.log_replay import batches_of
from bowstring.engine.coordinators.runtime import write_options
from bowstring.engine.share.coordinator import service
from bowstring.engine.share.coordinator.service import ShareCoordinatorService
from bowstring.engine.share.coordinator.shard import ShareShard
from bowstring.engine.share.leader.share_partition import LedSharePartition
from bowstring.engine.share.persister.network import NetworkPersister
from bowstring.protocol.errors import Errors
from tests.simulation.cluster.services import wall_ms
from tests.simulation.cluster.share_services import ToldWindow
from tests.simulation.quorum.faults import Fault, into

SHARE_FAULTS: list[Fault] = []
_fault = into(SHARE_FAULTS)
KEPT = ("AcknowledgedIsKept", "ShareLedger", "DeliveryCountsGrow")


def fault(what, *rules, first=1, **plan):
    return _fault(what, *rules, first=first, transactions=False, groups=False, shares=True, **plan)


# ---------------------------------------------------------------- leaders


@fault("The leader of a share partition answers acknowledgements before they are stored", *KEPT)
def acknowledgements_answered_too_early(patches):
    right = LedSharePartition.acknowledge

    def acknowledge(self, member, batches):
        code, reason, stored = right(self, member, batches)
        if stored is not None:
            stored = asyncio.get_running_loop().create_future()
            stored.set_result(Errors.NONE)
        return code, reason, stored

    patches.set(LedSharePartition, "acknowledge", acknowledge)


@fault("Locks of records never end", "BecomesHealthy", first=54)
def locks_never_end(patches):
    patches.set(LedSharePartition, "schedule", lambda self: None)


@fault("Locks of records end too early", "OneHolder")
def locks_end_too_early(patches):
    def expire(self, now_ms):
        return super(ToldWindow, self).expire(now_ms + 500)

    patches.add(ToldWindow, "expire", expire)


@fault("A new leader of a share partition knows its start offset, and not the states of records", *KEPT)
def states_not_taken_over(patches):
    right = NetworkPersister.read_state

    async def read_state(self, key, leader_epoch):
        return (await right(self, key, leader_epoch))._replace(batches=())

    patches.set(NetworkPersister, "read_state", read_state)


@fault(
    "Records that were acquired when their leader went away are not delivered again", "ShareLedger", first=8
)
def gaps_are_left(patches):
    right = NetworkPersister.read_state

    async def read_state(self, key, leader_epoch):
        found = await right(self, key, leader_epoch)
        if found.batches:
            found = found._replace(start_offset=found.batches[-1].last_offset + 1, batches=())
        return found

    patches.set(NetworkPersister, "read_state", read_state)


@fault("Delivery counts are kept by leaders only", "DeliveryCountsGrow")
def delivery_counts_not_stored(patches):
    right = NetworkPersister.write_state

    async def write_state(self, key, written):
        batches = tuple(each._replace(delivery_count=1) for each in written.batches)
        return await right(self, key, written._replace(batches=batches))

    patches.set(NetworkPersister, "write_state", write_state)


# ---------------------------------------------------------------- share coordinators


@fault("Share coordinators take what former leaders write", *KEPT, first=392)
def former_leaders_write(patches):
    right = ShareShard.write

    def write(self, key, written, token, now_ms):
        held = self._partitions.get(key)
        newest = written.leader_epoch if held is None else max(written.leader_epoch, held.newest_leader_epoch)
        return right(self, key, written._replace(leader_epoch=newest), token, now_ms)

    patches.set(ShareShard, "write", write)


@fault(
    "A second initialization of a share partition takes acknowledgements back, as in Kafka", *KEPT, first=378
)
def initialized_twice(patches):
    right = ShareShard.initialize

    def initialize(self, key, state_epoch, start_offset, token, now_ms):
        begin = start_offset if self.of(key) is None else 0
        return right(self, key, state_epoch, begin, token, now_ms)

    patches.set(ShareShard, "initialize", initialize)


@fault("A share coordinator answers before the high watermark", *KEPT)
def share_coordinator_answers_too_early(patches):
    def append(self, hosted, effect):
        base_offset, error = hosted.log.log_end_offset, Errors.NONE
        for batch in self._encoded(effect, self.max_batch_bytes):
            error = error or self._appended(hosted, batch, self.max_batch_bytes, **write_options(effect))
        if not error:
            hosted.shard.append_written(effect.append_id, base_offset)
        self._carry(hosted, hosted.shard.append_finished(effect.append_id, error, wall_ms()))

    patches.add(ShareCoordinatorService, "_append", append)


@fault("A share coordinator loads its partition up to the high watermark only", *KEPT, first=7)
def share_state_loaded_too_little(patches):
    class Below:
        """A log up to its high watermark."""

        def __init__(self, log):
            self.log_start_offset, self.log_end_offset = log.log_start_offset, log.high_watermark
            self.read = lambda offset, most, limit: log.read(offset, most, "high_watermark")

    patches.set(service, "batches_of", lambda log, *rest: batches_of(Below(log), *rest))
