"""Faults that systems like this one have had, each patched in by tests; the product has no switches for them.

A fault names the rules that may notice it first. Other rules may notice it, too, which is worth a look.
"""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field

from bowstring.engine.raft import elections, fetching, snapshot_fetching, voter_changes
from bowstring.engine.raft.control_state import ControlState
from bowstring.engine.raft.core import RaftCore
from bowstring.engine.raft.fetch_validation import Validation, Validity
from bowstring.engine.raft.keys import OffsetAndEpoch
from bowstring.engine.raft.leader import LeaderState
from bowstring.engine.raft.quorum_state import QuorumState
from bowstring.engine.raft.states import Candidate, Follower, Prospective, Unattached
from bowstring.protocol.errors import Errors
from tests.simulation.quorum.node import SimulatedNode
from tests.simulation.quorum.world import World

_ABSENT = object()


class Patches:
    """Attributes that are set, and set back."""

    def __init__(self):
        self.before = []

    def set(self, owner, name, value):
        self.before.append((owner, name, owner.__dict__[name]))
        setattr(owner, name, value)

    def add(self, owner, name, value):
        """An attribute that is not there otherwise."""
        self.before.append((owner, name, _ABSENT))
        setattr(owner, name, value)

    def end(self):
        for owner, name, value in reversed(self.before):
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


@dataclass
class Fault:
    """`install` patches it in; `plan` is what a run must be like for it to matter.

    Attributes:
        first: The seed that tests begin with, for faults that take many.
    """

    name: str
    what: str
    rules: tuple[str, ...]
    install: Callable[[Patches], None]
    plan: dict = field(default_factory=dict)
    first: int = 1

    @contextmanager
    def on(self):
        """Has the fault for a while."""
        patches = Patches()
        try:
            self.install(patches)
            yield
        finally:
            patches.end()


FAULTS: list[Fault] = []
DYNAMIC = {"dynamic": True, "voters": 3, "observers": 2}


def into(faults):
    """Returns what adds functions to a list of faults; a fault's name is the function's."""

    def fault(what, *rules, first=1, **plan):
        def add(install):
            faults.append(Fault(install.__name__, what, rules, install, plan, first))
            return install

        return add

    return fault


fault = into(FAULTS)


# ---------------------------------------------------------------- elections


@fault(
    "A vote is kept in memory only",
    "OneVotePerEpoch",
    "OneLeaderPerEpoch",
    "EpochNeverBack",
    voters=3,
    first=14,
)
def vote_only_in_memory(patches):
    patches.set(World, "keeps_votes", False)


@fault(
    "A vote is answered before it is durable",
    "OneVotePerEpoch",
    "OneLeaderPerEpoch",
    "EpochNeverBack",
    voters=3,
)
def vote_answered_too_early(patches):
    patches.set(World, "waits_for_persist", False)


@fault(
    "The vote is forgotten when a replica follows the leader of its epoch or stands again",
    "OneVotePerEpoch",
    first=25,
)
def vote_forgotten_in_the_epoch(patches):
    right = elections.grant_vote

    def grant(core, request, now_ms):
        if isinstance(core.quorum.state, Unattached | Prospective):
            core.quorum.state.voted = None
        return right(core, request, now_ms)

    patches.set(elections, "grant_vote", grant)


@fault(
    "The longer log counts as newer, whatever its epoch",
    "CommittedIsNeverLost",
    "LogsMatch",
    "CoreAssertion",
    first=59,
)
def votes_for_the_longer_log(patches):
    patches.set(OffsetAndEpoch, "is_up_to_date_with", lambda self, other: self.offset >= other.offset)


@fault("The log of a candidate is not compared", "CommittedIsNeverLost", "CoreAssertion", first=11)
def votes_for_any_log(patches):
    patches.set(OffsetAndEpoch, "is_up_to_date_with", lambda self, other: True)


@fault(
    "A replica grants pre-votes against a leader that it hears from",
    "PreVoteDisturbsNobody",
    voters=3,
    first=17,
)
def pre_vote_that_disturbs(patches):
    right = Follower.can_grant_vote

    def can_grant(self, candidate, *, up_to_date, pre_vote):
        return (pre_vote and up_to_date) or right(self, candidate, up_to_date=up_to_date, pre_vote=pre_vote)

    patches.set(Follower, "can_grant_vote", can_grant)


@fault("A replica begins an epoch without asking before", "PreVoteDisturbsNobody", voters=3)
def no_pre_vote(patches):
    def become_prospective(core, now_ms):
        core.quorum.to_prospective(now_ms)
        elections.become_candidate(core, now_ms)

    patches.set(elections, "become_prospective", become_prospective)


@fault("A pre-vote counts as a vote", "PreVoteBindsNobody", voters=3)
def pre_vote_that_binds(patches):
    def grant(core, request, now_ms):
        state = core.quorum.state
        up_to_date = request.end.is_up_to_date_with(core.end)
        granted = state.can_grant_vote(request.candidate, up_to_date=up_to_date, pre_vote=request.pre_vote)
        if granted and state.voted is None and isinstance(state, Unattached | Prospective):
            core.quorum.add_vote(request.candidate, now_ms)
        return granted

    patches.set(elections, "grant_vote", grant)


@fault("Half of the votes win", "PreVoteDisturbsNobody", "OneLeaderPerEpoch", voters=4)
def half_is_a_majority(patches):
    from bowstring.engine.raft.states import EpochElection

    patches.set(
        EpochElection, "majority", property(lambda self: max(1, len(self.unrecorded + self.granting) // 2))
    )


@fault("A leader that starts again leads on in its old epoch", "OneLeaderPerEpoch", "LogsMatch", voters=3)
def leader_leads_on(patches):
    controls = {}

    def init(self, local, control, *rest, **named):
        init_right(self, local, control, *rest, **named)
        controls[local.key] = control

    def initialize(self, stored, end, now_ms):
        led = stored is not None and stored.leader_id == self.local.key.id
        right(self, type(stored)(stored.epoch, -1, self.local.key) if led else stored, end, now_ms)
        if led and isinstance(self.state, Candidate):
            for id in controls[self.local.key].voters.ids:
                self.state.votes.record(id, granted=True)
            self.to_leader(end.offset, now_ms).append_start_of_epoch(controls[self.local.key], now_ms)

    init_right, right = QuorumState.__init__, QuorumState.initialize
    patches.set(QuorumState, "__init__", init)
    patches.set(QuorumState, "initialize", initialize)


@fault("A leader writes before it is durable that it leads", "OneLeaderPerEpoch", "EpochNeverBack")
def leader_writes_too_early(patches):
    patches.set(RaftCore, "is_persisted", property(lambda self: True))
    patches.set(World, "waits_for_persist", False)


@fault("A leader without followers goes on", "LeaderHearsAMajority", voters=3, first=11)
def no_check_quorum(patches):
    patches.set(LeaderState, "check_quorum_at_ms", property(lambda self: float("inf")))


# ---------------------------------------------------------------- replication


@fault(
    "A follower cuts its log at its high watermark, not where the epochs differ (before KIP-101)",
    *("CommittedIsNeverLost", "CommittedIsOnAMajority", "LogsMatch", "CoreAssertion", "StateMachinesAgree"),
    voters=3,
)
def truncation_to_the_high_watermark(patches):
    right = RaftCore.to_follower

    def to_follower(self, epoch, leader_id, endpoints, now_ms):
        right(self, epoch, leader_id, endpoints, now_ms)
        if self.is_log_durable and self.log.start_offset <= self.committed < self.log.end_offset:
            self.truncate_to(self.committed)

    patches.set(RaftCore, "to_follower", to_follower)
    offset_alone(patches)


def offset_alone(patches):
    """Lets the leader look at the offset of a fetch only."""

    def validate(log, offset, last_epoch):
        if offset < log.start_offset:
            return Validation(Validity.SNAPSHOT, log.latest_snapshot_id())
        if offset > log.end_offset:
            return Validation(Validity.DIVERGING, OffsetAndEpoch(log.end_offset, log.last_epoch))
        return Validation(Validity.VALID, OffsetAndEpoch(offset, last_epoch))

    patches.set(fetching, "validate_fetch", validate)


@fault(
    "The leader does not compare the epoch before a fetched offset",
    *("LogsMatch", "CommittedIsOnAMajority", "CommittedIsNeverLost", "Recovers"),
    first=9,
)
def no_epoch_check(patches):
    offset_alone(patches)


@fault(
    "The high watermark rises over records of older epochs alone",
    *(
        "CommittedIsNeverLost",
        "HighWatermarkOfALaterLeaderIsHigher",
        "CommittedIsOnAMajority",
        "VotersChangeOneByOne",
        "CoreAssertion",
    ),
    voters=3,
)
def high_watermark_of_an_older_epoch(patches):
    def rises(self, durable_end_offset):
        self.epoch_start_offset = -1
        return right(self, durable_end_offset)

    right = LeaderState.update_local_end
    patches.set(LeaderState, "update_local_end", rises)


@fault("A leader counts itself before its log is synced", "CommittedIsOnAMajority", "CommittedIsNeverLost")
def leader_counts_what_is_not_durable(patches):
    def append(core, leader):
        written = right(core, leader)
        if written and leader.update_local_end(core.log.end_offset):
            fetching.high_watermark_rose(core, leader, 0)
        return written

    right = fetching.append_collected
    patches.set(fetching, "append_collected", append)


@fault("A follower fetches on before its log is synced", "ClaimsAreDurable", "CommittedIsOnAMajority")
def fetch_before_the_sync(patches):
    patches.set(RaftCore, "is_log_durable", property(lambda self: True))


@fault(
    "The high watermark needs one replica less than a majority",
    "CommittedIsOnAMajority",
    "CommittedIsNeverLost",
)
def high_watermark_without_a_majority(patches):
    def fetched(self, key, offset, log_end_offset, now_ms):
        rose = right(self, key, offset, log_end_offset, now_ms)
        if self.is_voter(key) and offset > max(self.epoch_start_offset, self.high_watermark or 0):
            self.high_watermark = offset
            return True
        return rose

    right = LeaderState.follower_fetched
    patches.set(LeaderState, "follower_fetched", fetched)


@fault("Observers count for the high watermark", "CommittedIsOnAMajority", voters=3, observers=2)
def observers_count(patches):
    def fetched(self, key, offset, log_end_offset, now_ms):
        rose = right(self, key, offset, log_end_offset, now_ms)
        ends = [each.end_offset or 0 for each in [*self.voter_states(), *self.observer_states(now_ms)]]
        reached = sorted(ends, reverse=True)[len(list(self.voter_states())) // 2]
        if reached > max(self.epoch_start_offset, self.high_watermark or 0):
            self.high_watermark = reached
            return True
        return rose

    right = LeaderState.follower_fetched
    patches.set(LeaderState, "follower_fetched", fetched)


@fault(
    "A new leader tells its old high watermark at once",
    "HighWatermarkOfALaterLeaderIsHigher",
    voters=3,
    first=6,
)
def high_watermark_of_the_follower(patches):
    def to_leader(self, end_offset, now_ms):
        known = self.state.high_watermark
        leader = right(self, end_offset, now_ms)
        leader.high_watermark = known
        return leader

    right = QuorumState.to_leader
    patches.set(QuorumState, "to_leader", to_leader)


@fault("Records are appended without a look at their CRC and offsets", "LogsMatch", "CoreAssertion", flip=0.1)
def records_unchecked(patches):
    class Unchecked:
        crc_ok = True

        def __init__(self, header):
            self.header = header

        def __getattr__(self, name):
            return getattr(self.header, name)

    right = fetching.batch_headers
    patches.set(fetching, "batch_headers", lambda data: [Unchecked(header) for header in right(data)])


# ---------------------------------------------------------------- snapshots


@fault(
    "A snapshot is named by its offset alone, without the epoch there",
    *("SnapshotsHaveTheEpochOfTheLog", "LogsMatch", "CoreAssertion"),
    voters=3,
)
def snapshot_without_epoch(patches):
    def response(core, leader, request):
        found = right(core, leader, request)
        if found.snapshot_id is not None:
            return found._replace(snapshot_id=OffsetAndEpoch(found.snapshot_id.offset, leader.epoch))
        return found

    def request(core, token, asked, now_ms):
        latest = core.log.latest_snapshot_id()
        named = asked.snapshot_id
        if latest is not None and latest.offset == named.offset:
            asked = asked._replace(snapshot_id=latest)
        out = RaftCore.respond

        def respond(self, token, response):
            out(self, token, response._replace(snapshot_id=named))

        own = Patches()
        own.set(RaftCore, "respond", respond)
        try:
            handle(core, token, asked, now_ms)
        finally:
            own.end()

    right = fetching.fetch_response
    patches.set(fetching, "fetch_response", response)
    handle = snapshot_fetching.handle_fetch_snapshot_request
    patch_request(patches, handle, request)


def patch_request(patches, handler, other):
    """Puts another handler in place of one in the replica's table."""
    from bowstring.engine.raft import handlers

    table = dict(handlers.REQUESTS)
    table.update({cls: other for cls, each in table.items() if each is handler})
    patches.set(handlers, "REQUESTS", table)


@fault(
    "A leader goes on after records that it could not write",
    "CoreAssertion",
    voters=3,
)
def goes_on_after_what_it_could_not_write(patches):
    right = fetching.append_collected

    def append(core, leader):
        right(core, leader)
        return True

    patches.set(fetching, "append_collected", append)


@fault(
    "A snapshot counts as installed before it is",
    "HighWatermarkNeverGoesBack",
    "CoreAssertion",
    "ClaimsAreDurable",
)
def snapshot_installed_too_early(patches):
    def install(self, effect):
        self.world.after(self.sync_ms(), self.installed, (self.life, effect.id))
        core_says = self.replica.snapshot_installed(effect.id, self.now_ms())
        self.carry_out(core_says)

    from bowstring.engine.raft import effects

    table = dict(SimulatedNode.EFFECTS)
    table[effects.InstallSnapshot] = install
    patches.set(SimulatedNode, "EFFECTS", table)


@fault(
    "A snapshot covers records that are not committed",
    "SnapshotsHaveTheEpochOfTheLog",
    "StateMachinesAgree",
    first=9,
)
def snapshot_of_uncommitted_records(patches):
    def take(self, numbers):
        self.apply_to(self.disk.end_offset)
        committed = self.replica.high_watermark
        if self.applied > committed:
            batch = self.disk.view.at(self.applied - 1)
            id = OffsetAndEpoch(self.applied, batch.epoch)
            self.world.snapshotted(self, id)

    patches.set(SimulatedNode, "take_snapshot", take)


# ---------------------------------------------------------------- voters


@fault("Two voters change at once", "VotersChangeOneByOne", **DYNAMIC, first=40)
def two_voters_at_once(patches):
    def error(core):
        leader = core.quorum.state
        if leader.high_watermark is None:
            return Errors.REQUEST_TIMED_OUT, None
        leader.change = None
        return Errors.NONE, None

    patches.set(voter_changes, "change_error", error)


@fault(
    "The voters change before a record of the leader's epoch is committed",
    "VotersChangeOneByOne",
    **DYNAMIC,
    first=22,
)
def voters_change_too_early(patches):
    def error(core):
        leader = core.quorum.state
        busy = leader.change is not None
        return (Errors.REQUEST_TIMED_OUT if busy else Errors.NONE), None

    patches.set(voter_changes, "change_error", error)


@fault(
    "The voters of records that were cut off stay",
    "VotersAreThoseOfTheLog",
    "VotersChangeOneByOne",
    **DYNAMIC,
    first=4,
)
def truncation_keeps_the_voters(patches):
    patches.set(ControlState, "truncated", lambda self, end_offset: None)


@fault(
    "New voters count only once their record is committed",
    *("CommittedIsOnAMajority", "VotersAreThoseOfTheLog", "OneLeaderPerEpoch", "CoreAssertion"),
    **DYNAMIC,
)
def voters_count_when_committed(patches):
    patches.set(LeaderState, "update_voters", lambda self, voters: None)


@fault("A leader that is removed still counts itself", "CommittedIsOnAMajority", **DYNAMIC, first=40)
def removed_leader_counts(patches):
    right = LeaderState.update_voters

    def update(self, voters):
        if not voters.is_voter(self.local.key):
            voters = voters.with_voter(self.local) or voters
        right(self, voters)

    patches.set(LeaderState, "update_voters", update)
