"""Faults that systems like this one have had, each patched in by tests; the product has no switches for them.

A fault names the rules that may notice it first. Faults of native decisions are patched where the simulated
data plane calls them.
"""

from bowstring.engine.controller import alter_partition, brokers, leader_updates
from bowstring.engine.controller.state import ControllerState
from bowstring.engine.metadata import image as metadata_image
from bowstring.engine.replication.isr_changes import IsrChanges
from bowstring.engine.replication.replica_manager import ReplicaManager
from bowstring.protocol.errors import Errors
from tests.simulation.cluster.broker import SimulatedBroker
from tests.simulation.cluster.coordinator import Coordinator
from tests.simulation.cluster.invariants import Losses
from tests.simulation.cluster.plane import SimulatedPlane
from tests.simulation.quorum.faults import Fault, into

FAULTS: list[Fault] = []
MEDIUM = {"commit_mode": True}
PAGES = {"commit_mode": False, "eligible_leaders": True, "min_in_sync": 2}
TWO = {"min_in_sync": 2}
ONE = {"min_in_sync": 1}
# In-sync replicas change often, and requests about them come late, or twice.
RESTLESS = {"lag_max_ms": 150, "duplicate": 0.2, "slow": 0.2, "think_ms": 20}


_fault = into(FAULTS)


def fault(what, *rules, first=1, **plan):
    """As `into`, without transactions and groups, which have their own faults."""
    return _fault(what, *rules, first=first, transactions=False, groups=False, shares=False, **plan)


# ---------------------------------------------------------------- followers


@fault(
    "A follower cuts its log at its high watermark, not where the epochs differ (before KIP-101)",
    *("CommittedIsNotCut", "CommittedIsKept", "CommittedIsInAllInSyncReplicas", "ReadersSeeOneOrder"),
    first=4,
)
def truncation_to_the_high_watermark(patches):
    right = SimulatedPlane.follow

    def follow(self, topic, partition, **order):
        right(self, topic, partition, **order)
        part = self.part(topic, partition)
        if part.state == "fetching" and part.log.log_end_offset > part.log.high_watermark:
            self.truncate(part, part.log.high_watermark)

    patches.set(SimulatedPlane, "follow", follow)
    patches.set(SimulatedPlane, "position", lambda self, fetch, found: "fits")


@fault(
    "The leader does not compare the epoch before a fetched offset",
    *(
        "CommittedIsInAllInSyncReplicas",
        "CommittedIsKept",
        "InSyncIsAboveTheHighWatermark",
        "ReadersSeeOneOrder",
    ),
)
def no_epoch_check(patches):
    patches.set(SimulatedPlane, "position", lambda self, fetch, found: "fits")


@fault("A follower fetches on before its records are on the medium", "ClaimsAreDurable", **MEDIUM)
def fetch_before_the_sync(patches):
    patches.set(SimulatedPlane, "may_claim", lambda self, part: True)


# ---------------------------------------------------------------- leaders: the high watermark


@fault(
    "A leader counts itself alone for the high watermark",
    *("CommittedIsInAllInSyncReplicas", "CommittedIsKept"),
)
def leader_counts_itself_alone(patches):
    def advance(self, part):
        if part.followers is not None:
            self.rise(part, self.own_end(part))

    patches.set(SimulatedPlane, "advance", advance)


@fault(
    "A leader counts its own records before they are on the medium",
    *("CommittedIsInAllInSyncReplicas", "CommittedIsKept"),
    **MEDIUM,
)
def leader_counts_what_is_not_durable(patches):
    patches.set(SimulatedPlane, "own_end", lambda self, part: part.log.log_end_offset)


@fault(
    "The high watermark rises although the ISR is below min.insync.replicas (before KIP-966)",
    *("CommittedIsInAllInSyncReplicas", "CommittedIsKept"),
    **TWO,
    first=7,
)
def min_in_sync_ignored(patches):
    patches.set(SimulatedPlane, "MIN_IN_SYNC", 1)


@fault(
    "A new leader calls all committed that it has",
    *("CommittedIsInAllInSyncReplicas", "CommittedIsKept"),
    first=7,
)
def new_leader_commits_all(patches):
    right = SimulatedPlane.lead

    def lead(self, topic, partition, **role):
        right(self, topic, partition, **role)
        part = self.part(topic, partition)
        if part.log.log_end_offset == part.epoch_start:
            self.rise(part, part.epoch_start)

    patches.set(SimulatedPlane, "lead", lead)


@fault("acks=all is answered as soon as the leader has the records", "AcknowledgedIsCommitted")
def acknowledged_too_early(patches):
    right = SimulatedPlane.written

    def written(self, part, waiting, acks):
        if acks == -1:
            self.world.tell("acknowledges", self.node, part, waiting)
        return right(self, part, waiting, 1)

    patches.set(SimulatedPlane, "written", written)


@fault("Readers get records above the high watermark", "ReadersSeeOneOrder")
def reads_above_the_high_watermark(patches):
    patches.set(SimulatedPlane, "READERS_LIMIT", "log_end")


# ---------------------------------------------------------------- in-sync replicas


@fault(
    "A leader shrinks the ISR without asking the controller",
    *("CommittedIsInAllInSyncReplicas", "CommittedIsKept"),
    min_in_sync=1,
)
def isr_shrunk_alone(patches):
    def shrink(self, key, leader_epoch, lagging):
        led = self.partitions.get(key)
        if led is None or led.proposed is not None or led.leader_epoch != leader_epoch:
            return False
        led.isr = tuple(each for each in led.isr if each not in lagging or each == self.broker_id)
        self.changed(led)
        return True

    patches.set(IsrChanges, "shrink", shrink)


@fault(
    "Who is to leave the ISR does not count while the controller is asked",
    *("CommittedIsInAllInSyncReplicas", "CommittedIsKept"),
    min_in_sync=1,
    first=4,
)
def shrink_counts_at_once(patches):
    right = ReplicaManager._isr_changed

    def changed(self, led):
        if led.proposed is not None:
            before, led.isr = led.isr, led.proposed
            right(self, led)
            led.isr = before
        else:
            right(self, led)

    patches.set(ReplicaManager, "_isr_changed", changed)


@fault(
    "Who is to leave the ISR counts for min.insync.replicas until the leader hears that it has left",
    *("CommittedIsKept", "GroupOffsetsNeverGoBack"),
    first=2300,
)
def leaving_counts(patches):
    right = SimulatedPlane.set_isr

    def set_isr(self, topic, partition, isr, *, leaving, **change):
        right(self, topic, partition, isr, leaving=(), **change)

    count_right = SimulatedPlane.count

    def count(self, part, fetch):
        known = self.broker.manager.isr_changes.broker_epochs.get(fetch.broker, fetch.broker_epoch)
        return count_right(self, part, fetch._replace(broker_epoch=min(known, fetch.broker_epoch)))

    patches.set(SimulatedPlane, "set_isr", set_isr)
    patches.set(SimulatedPlane, "count", count)


@fault(
    "A follower joins the ISR below the begin of the leader's epoch",
    *("InSyncIsAboveTheHighWatermark", "CommittedIsInAllInSyncReplicas", "CommittedIsKept"),
    "HighWatermarkOfALaterLeaderIsHigher",
    **RESTLESS,
    first=160,
)
def joins_below_the_epoch_start(patches):
    patches.set(SimulatedPlane, "KNOWS_EPOCH_START", False)
    _look_once(patches)


@fault(
    "The controller does not compare the partition epoch of an AlterPartition request",
    *("InSyncIsAboveTheHighWatermark", "CommittedIsInAllInSyncReplicas", "CommittedIsKept"),
    **RESTLESS,
    **ONE,
    first=13,
)
def stale_alter_partition(patches):
    right = alter_partition._Change._check_epochs

    def check(self, partition):
        error = right(self, partition)
        return None if error is Errors.INVALID_UPDATE_VERSION else error

    patches.set(alter_partition._Change, "_check_epochs", check)


@fault("A fenced broker joins the ISR (before KIP-841)", "InSyncIsActive")
def fenced_joins(patches):
    patches.set(ReplicaManager, "_ineligible", lambda self, image, partition: [])
    patches.set(
        alter_partition._Change,
        "_is_eligible",
        lambda self, partition, broker, epoch: broker in self._state.image.brokers,
    )


@fault(
    "An older incarnation of a broker joins the ISR (before KIP-903)",
    *("InSyncIsAboveTheHighWatermark", "CommittedIsInAllInSyncReplicas", "CommittedIsKept"),
    **PAGES,
    session_ms=500,
    heartbeat_ms=200,
    lag_max_ms=150,
    restart_ms=50,
    slow=0.25,
    delay_ms=(2, 40),
    first=324,
)
def older_incarnation_joins(patches):
    def eligible(self, partition, broker, epoch):
        found = self._state.image.brokers.get(broker)
        return found is not None and found.is_active

    patches.set(alter_partition._Change, "_is_eligible", eligible)
    patches.set(Losses, "COUNTS_CLOSED", False)  # it would excuse most effects of this fault
    _look_once(patches)


@fault(
    "A leader names the newest incarnation of a broker that joins, not the one that has fetched",
    *("InSyncIsAboveTheHighWatermark", "CommittedIsInAllInSyncReplicas", "CommittedIsKept"),
    "GroupOffsetsNeverGoBack",  # lost records may be committed offsets
    session_ms=500,
    heartbeat_ms=200,
    lag_max_ms=150,
    restart_ms=50,
    slow=0.25,
    delay_ms=(2, 40),
    commit_mode=False,
    min_in_sync=2,
    first=324,
)
def newest_incarnation_named(patches):
    patches.set(IsrChanges, "_epoch_of", lambda self, led, broker_id: self.broker_epochs.get(broker_id, -1))
    patches.set(Losses, "COUNTS_CLOSED", False)
    _look_once(patches)


def _look_once(patches):
    """Skips the second check of a follower before the controller's, which hides most of these faults."""
    patches.set(SimulatedPlane, "try_join", lambda self, topic, partition, broker_id, *, leader_epoch: True)


# ---------------------------------------------------------------- elections


@fault("A leader is elected that was not in sync, though unclean elections are disabled", "ElectedWasInSync")
def unclean_election(patches):
    patches.set(ControllerState, "allows_unclean_election", lambda self, topic: True)


@fault(
    "A broker that stopped uncleanly stays an eligible leader",
    *("CommittedIsKept", "CommittedIsInAllInSyncReplicas", "InSyncIsAboveTheHighWatermark"),
    **PAGES,
)
def eligible_after_an_unclean_stop(patches):
    right = leader_updates.stopped

    def stopped(state, broker, *, is_clean):
        return right(state, broker, is_clean=True)

    patches.set(leader_updates, "stopped", stopped)


@fault("A broker that is not heard of is not fenced", "WhoIsNotHeardIsFenced", restart_ms=4000, first=6)
def no_fencing(patches):
    patches.set(brokers, "fence_stale", lambda state, now_ms: None)


@fault("A new leader goes on in the epoch of the last one", "ElectedWasInSync", "OneLeaderOfAPartition")
def epoch_stays(patches):
    right = metadata_image.changed_partition

    def changed(partition, record):
        new = right(partition, record)
        return new._replace(leader_epoch=partition.leader_epoch)

    patches.set(metadata_image, "changed_partition", changed)
    patches.set(alter_partition, "changed_partition", changed)


@fault(
    "A broker that starts leads again before it knows what was decided meanwhile",
    *("OneLeaderOfAPartition", "CommittedIsKept"),
)
def serves_an_old_image(patches):
    def start(self):
        self.register()
        self.node.after(1, self.look)

    def look(self):
        """Uses the first image for ever."""
        if self.is_serving:
            return
        if self.node.image.topics:
            self.manager.apply(
                self.node.image,
                [
                    (each.id, at)
                    for each in self.node.image.topics.values()
                    for at in range(len(each.partitions))
                ],
            )
        else:
            self.node.after(1, self.look)

    patches.set(SimulatedBroker, "start", start)
    patches.add(SimulatedBroker, "look", look)


# ---------------------------------------------------------------- idempotence and groups


@fault("What is known of producers is not built again after a truncation", "NoDuplicatesNoGaps", first=25)
def producers_forgotten_by_truncation(patches):
    right = SimulatedPlane.cut

    def cut(self, part, *rest):
        right(self, part, *rest)
        if part.log is not None:
            part.log.expire_producers(1 << 62)

    patches.set(SimulatedPlane, "cut", cut)


@fault(
    "A new leader does not know the producers of the batches that it has copied",
    "NoDuplicatesNoGaps",
    first=4,
)
def producers_forgotten_by_leaders(patches):
    right = SimulatedPlane.lead

    def lead(self, topic, partition, **role):
        part = self.part(topic, partition)
        if not part.is_leader:
            part.log.expire_producers(1 << 62)
        right(self, topic, partition, **role)

    patches.set(SimulatedPlane, "lead", lead)


@fault(
    "A group coordinator loads its partition up to the high watermark only",
    "GroupOffsetsNeverGoBack",
    first=8,
)
def coordinator_loads_too_little(patches):
    from bowstring.engine.groups import log_replay

    class Below:
        """A log up to its high watermark."""

        def __init__(self, log):
            self.log_start_offset, self.log_end_offset = log.log_start_offset, log.high_watermark
            self.read = lambda offset, most, limit: log.read(offset, most, "high_watermark")

    patches.set(
        Coordinator,
        "replay",
        lambda self, part, shard: log_replay.replay_log(Below(part.log), shard.replay, lambda: True),
    )


@fault("A group coordinator answers before the high watermark", "GroupOffsetsNeverGoBack", first=25)
def coordinator_answers_too_early(patches):
    def append(self, part, effect):
        error = self.broker.plane.append_records(part, effect.records)
        if not isinstance(error, int):
            return self.shard.append_finished(effect.append_id, error, self.now())
        self.shard.append_written(effect.append_id, error)
        return self.shard.append_finished(effect.append_id, Errors.NONE, self.now())

    patches.set(Coordinator, "append", append)


@fault(
    "A commit that took too long no longer holds the answers after it back",
    "GroupOffsetsNeverGoBack",
    first=50,
)
def coordinator_forgets_what_is_late(patches):
    def give_up(self, part, shard, append_id):
        if self.shard is shard and any(item == append_id for _, item in self.waiting):
            self.waiting = type(self.waiting)(each for each in self.waiting if each[1] != append_id)
            self.carry(part, shard.append_finished(append_id, Errors.REQUEST_TIMED_OUT, self.now()))

    patches.set(Coordinator, "give_up", give_up)
