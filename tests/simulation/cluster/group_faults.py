"""Faults of consumer groups, as in `faults`: patched into the shipped coordinator."""

from bowstring.engine.coordinators.runtime import write_options
from bowstring.engine.groups import service as group_service
from bowstring.engine.groups.consumer import heartbeat, reconciliation, timers
from bowstring.engine.groups.consumer.group import ConsumerGroup
from bowstring.engine.groups.consumer.member import MemberState
from bowstring.engine.groups.consumer.reconciliation import Reconciliation
from bowstring.engine.groups.log_replay import replay_log
from bowstring.engine.groups.modern.group import LEAVE_STATIC_EPOCH
from bowstring.engine.groups.service import GroupCoordinatorService
from bowstring.protocol.errors import Errors
from tests.simulation.cluster.services import FOR_EVER_NS, wall_ms
from tests.simulation.quorum.faults import Fault, into

GROUP_FAULTS: list[Fault] = []
_fault = into(GROUP_FAULTS)
OWNERS = ("GroupLedger", "OneOwner")
ANSWERS = ("EpochsOfAnswersGrow", "AnsweredOffsetsAreFound", "GroupOffsetsNeverGoBack", *OWNERS)


def fault(what, *rules, first=1, **plan):
    return _fault(what, *rules, first=first, transactions=False, groups=True, shares=False, **plan)


@fault("A member of a group gets partitions that another one still has", *OWNERS)
def nobody_waits_for_partitions(patches):
    patches.set(Reconciliation, "_is_free", lambda self, topic_id, index: True)


@fault("A group coordinator does not wait until a member has given partitions up", *OWNERS)
def revocation_is_not_awaited(patches):
    patches.set(reconciliation, "_has_any", lambda owned, partitions: False)


@fault("A member that waits until others have given partitions up counts as settled", "BecomesHealthy")
def waiting_is_stable(patches):
    right = Reconciliation.next

    def next_step(self, owned, *, subscription_changed):
        new = right(self, owned, subscription_changed=subscription_changed)
        is_waiting = new.state is MemberState.UNRELEASED_PARTITIONS
        return new._replace(state=MemberState.STABLE) if is_waiting else new

    patches.set(Reconciliation, "next", next_step)


class AnyEpoch(int):
    """Not another one than any epoch."""

    __hash__ = int.__hash__
    __eq__ = int.__eq__

    def __ne__(self, other):
        return False


@fault("A member takes the place of a static member that has not left", *OWNERS)
def static_members_are_pushed_out(patches):
    patches.set(heartbeat, "LEAVE_STATIC_EPOCH", AnyEpoch(LEAVE_STATIC_EPOCH))


@fault("Members that fall silent stay in their group", "BecomesHealthy")
def no_sessions(patches):
    for module in (heartbeat, timers):
        patches.set(module, "session_timeout_ms", lambda state, group_id: FOR_EVER_NS)


@fault("Offsets of members that do not have the partition any more are taken", "GroupLedger")
def anybody_commits(patches):
    patches.set(ConsumerGroup, "check_offset_commit", lambda self, *member, **options: Errors.NONE)
    patches.set(ConsumerGroup, "partition_check", lambda self, member_id, generation: None)


@fault("A heartbeat is answered before its records are committed", *ANSWERS)
def heartbeats_answered_too_early(patches):
    def append(self, hosted, effect):
        base_offset, error = hosted.log.log_end_offset, Errors.NONE
        for batch in self._encoded(effect, self.max_batch_bytes):
            error = error or self._appended(hosted, batch, self.max_batch_bytes, **write_options(effect))
        if not error:
            hosted.shard.append_written(effect.append_id, base_offset)
        self._carry(hosted, hosted.shard.append_finished(effect.append_id, error, wall_ms()))

    patches.add(GroupCoordinatorService, "_append", append)


@fault("A coordinator that takes over reads members up to the high watermark only", *ANSWERS)
def members_loaded_too_little(patches):
    class Below:
        """A log up to its high watermark."""

        def __init__(self, log):
            self.log_start_offset, self.log_end_offset = log.log_start_offset, log.high_watermark
            self.read = lambda offset, most, limit: log.read(offset, most, "high_watermark")

    patches.set(
        group_service, "replay_log", lambda log, *rest, **options: replay_log(Below(log), *rest, **options)
    )
