"""What must hold after every step, whatever happens; each class is one rule.

A rule observes nodes through its methods, and raises `Violation`. As far as possible, it judges by the nodes'
writes, messages, applied records and disks, not by the state of their cores.
"""

from bowstring.engine.raft.fetch_validation import Validity, validate_fetch
from bowstring.engine.raft.keys import ReplicaKey
from bowstring.engine.raft.leader import LeaderState
from bowstring.engine.raft.messages import (
    EndQuorumEpochRequest,
    ErrorResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    UpdateVoterRequest,
    VoteRequest,
    VoteResponse,
)
from bowstring.engine.raft.states import NEVER, Candidate, Follower
from bowstring.protocol.errors import Errors


class Violation(AssertionError):
    """A rule is broken; `rule` is its name."""

    def __init__(self, rule, text):
        super().__init__(f"{rule}: {text}")
        self.rule = rule


class Invariant:
    """A rule. Its methods are called after a node has acted; undefined ones are not called."""

    def __init__(self, world):
        self.world = world

    def fail(self, text):
        raise Violation(type(self).__name__, text)


class OneLeaderPerEpoch(Invariant):
    """Two replicas never lead the same epoch, not even one after the other."""

    def __init__(self, world):
        super().__init__(world)
        self.leaders: dict[int, tuple[ReplicaKey, int]] = {}

    def check(self, node):
        state = node.replica.state
        # Until its leadership is durable, it neither announces it nor writes.
        if isinstance(state, LeaderState) and not node.is_blocked:
            here = (node.key, node.life)
            there = self.leaders.setdefault(state.epoch, here)
            if there != here:
                self.fail(f"{here} and {there} lead epoch {state.epoch}")


class EpochNeverBack(Invariant):
    """A replica's epoch never decreases, not even by a crash."""

    def __init__(self, world):
        super().__init__(world)
        self.told: dict[ReplicaKey, int] = {}

    def check(self, node):
        epoch = node.replica.state.epoch
        if epoch < self.told.get(node.key, 0):
            self.fail(f"{node.key} was in epoch {self.told[node.key]} and is in {epoch}")

    def answers(self, node, request, response):
        leader = getattr(response, "leader", None)
        if leader is not None:
            self.told[node.key] = max(self.told.get(node.key, 0), leader.epoch)


class OneVotePerEpoch(Invariant):
    """A replica votes for one candidate in an epoch, also after a crash."""

    def __init__(self, world):
        super().__init__(world)
        self.votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}

    def vote(self, voter, epoch, candidate):
        before = self.votes.setdefault((voter, epoch), candidate)
        if before != candidate:
            self.fail(f"{voter} votes for {before} and {candidate} in epoch {epoch}")

    def answers(self, node, request, response):
        if isinstance(response, VoteResponse) and response.vote_granted and not request.pre_vote:
            self.vote(node.key, request.epoch, request.candidate)

    def sends(self, node, request):
        if isinstance(request, VoteRequest) and not request.pre_vote:
            self.vote(node.key, request.epoch, node.key)


class ClaimsAreDurable(Invariant):
    """A replica that fetches or requests votes has the log that it claims on its medium."""

    def sends(self, node, request):
        if isinstance(request, FetchRequest | VoteRequest):
            end, durable = request.end.offset, node.disk.durable.end
            if end > durable:
                self.fail(f"{node.key} says that it has {end}, of which {durable} is durable")


class PreVoteBindsNobody(Invariant):
    """A pre-vote changes neither the epoch nor the vote of the replica that receives it."""

    def handled(self, node, request, before):
        if isinstance(request, VoteRequest) and request.pre_vote and request.epoch <= before.epoch:
            state = node.replica.state
            deadline = getattr(before, "election_deadline_ms", getattr(before, "fetch_deadline_ms", NEVER))
            if deadline <= node.now_ms():
                return  # the timeout may have caused the change
            is_same = (state.epoch, state.voted) == (before.epoch, before.voted)
            stood = isinstance(state, Candidate) and not isinstance(before, Candidate)
            if not is_same and not stood:
                self.fail(f"{node.key}: {before} becomes {state}")


class PreVoteDisturbsNobody(Invariant):
    """No replica grants a pre-vote while its leader answers, or begins an epoch without winning the pre-vote."""

    def __init__(self, world):
        super().__init__(world)
        self.granted: dict[tuple[int, int], set[int]] = {}
        self.last: dict[int, tuple] = {}
        self.loyal: dict[int, tuple] = {}

    def answers(self, node, request, response):
        if isinstance(response, VoteResponse) and response.vote_granted and request.pre_vote:
            state = node.replica.state
            followed, heard_at = self.loyal.get(node.id, (None, 0))
            is_fresh = self.world.now - heard_at < node.config.fetch_timeout_ms / 2
            # The answer may have waited for a sync while the state changed.
            if followed is state and is_fresh and not self.world.slow_syncs:
                self.fail(f"{node.key} hears from its leader and votes against it: {request}")

    def handled(self, node, request, before):
        if isinstance(request, EndQuorumEpochRequest):
            self.loyal.pop(node.id, None)  # the leader has resigned

    def heard(self, node, asked, response, before):
        state = node.replica.state
        follows = isinstance(response, FetchResponse) and isinstance(state, Follower) and state is before[0]
        # A late or refused answer does not move the deadline.
        if follows and state.fetch_deadline_ms > before[1]:
            self.loyal[node.id] = (state, self.world.now)
        if isinstance(response, ErrorResponse) and response.error is Errors.BROKER_NOT_AVAILABLE:
            self.loyal.pop(node.id, None)  # its leader's process may have ended
        if isinstance(response, VoteResponse) and response.vote_granted:
            self.granted.setdefault((node.id, response.leader.epoch), set()).add(asked)

    def check(self, node):
        state, before = node.replica.state, self.last.get(node.id)
        if before is not None and before[0] is state:
            return
        self.last[node.id] = (state, node.life)
        goes_on = before is None or before[1] != node.life
        if isinstance(state, Candidate) and not goes_on and self.world.all_know_pre_votes:
            voters = node.replica.voters
            granted = {id for id in self.granted.get((node.id, state.epoch - 1), ()) if voters.get(id)}
            if len(granted | {node.id}) <= len(voters) // 2:
                self.fail(f"{node.key} begins epoch {state.epoch} with the pre-votes of {granted}")


class LogsMatch(Invariant):
    """Batches with the same offset and epoch are the same, and so are the ones before them."""

    def __init__(self, world):
        super().__init__(world)
        self.batches: dict[tuple[int, int], tuple] = {}

    def appended(self, node, batch):
        view = node.disk.view
        if len(view.batches) > 1:
            before = view.batches[-2].epoch
        else:
            id = node.disk.latest_snapshot_id()
            before = id.epoch if id is not None and id.offset == batch.base else 0
        entry = (before, batch.data)
        known = self.batches.setdefault((batch.base, batch.epoch), entry)
        if known != entry:
            self.fail(f"{node.key} has another batch at {batch.base} in epoch {batch.epoch} than others")


class CommittedIsNeverLost(Invariant):
    """All replicas agree on a committed offset's batch, and each later leader has it."""

    def __init__(self, world):
        super().__init__(world)
        self.batches: list = []
        # The epoch in which each was first reported as committed.
        self.epochs: list[int] = []
        self.at: dict[int, int] = {}
        self.end = 0
        self.checked: dict[tuple[int, int], int] = {}
        self.led: set[tuple[int, int]] = set()

    def committed(self, node, high_watermark):
        view = node.disk.view
        offset = max(self.checked.get((node.id, node.life), 0), view.start)
        while offset < high_watermark:
            batch = view.at(offset)
            if batch is None:
                self.fail(f"{node.key} calls {high_watermark} committed and has no record at {offset}")
            self.compare(node, batch)
            offset = batch.end
        self.checked[node.id, node.life] = offset

    def compare(self, node, batch):
        place = self.at.get(batch.base)
        if place is not None:
            if self.batches[place] != batch:
                self.fail(f"{node.key} has {batch}, but {self.batches[place]} is committed")
        elif batch.base == self.end:
            self.at[batch.base] = len(self.batches)
            self.batches.append(batch)
            self.epochs.append(node.replica.state.epoch)
            self.end = batch.end
        else:
            self.fail(f"{node.key} has {batch}, and {self.end} is committed elsewhere")

    def check(self, node):
        state = node.replica.state
        if isinstance(state, LeaderState) and (node.id, state.epoch) not in self.led:
            self.led.add((node.id, state.epoch))
            places = reversed(range(len(self.batches)))
            place = next((each for each in places if self.epochs[each] < state.epoch), None)
            if place is None:
                return
            last, disk = self.batches[place], node.disk
            snapshot = disk.latest_snapshot_id()
            covered = snapshot is not None and snapshot.offset >= last.end
            if not covered and disk.view.at(last.base) != last:
                self.fail(f"{node.key} leads epoch {state.epoch} without {last}, which is committed")


class CommittedIsOnAMajority(Invariant):
    """What a leader reports as committed is on the media of a majority of the voters."""

    def __init__(self, world):
        super().__init__(world)
        self.high_watermarks: dict[tuple[int, int], int] = {}

    def check(self, node):
        state = node.replica.state
        if not isinstance(state, LeaderState) or state.high_watermark is None:
            return
        seen = self.high_watermarks.get((node.id, state.epoch), 0)
        if state.high_watermark <= seen:
            return
        self.high_watermarks[node.id, state.epoch] = state.high_watermark
        last = node.disk.view.at(state.high_watermark - 1)
        if last is None:
            return
        voters = node.replica.voters
        having = [key for key in voters.keys if self.world.has_durable(key, last)]
        if len(having) <= len(voters) // 2:
            self.fail(f"{node.key} calls {last} committed, which only {having} of {voters.keys} have")


class HighWatermarkOfALaterLeaderIsHigher(Invariant):
    """The leader of a later epoch never reports a lower high watermark than an earlier one."""

    def __init__(self, world):
        super().__init__(world)
        self.highest: dict[int, int] = {}

    def check(self, node):
        state = node.replica.state
        if isinstance(state, LeaderState) and state.high_watermark is not None:
            known = self.highest.get(state.epoch, -1)
            if state.high_watermark < known:
                self.fail(f"{node.key} goes back from {known} to {state.high_watermark}")
            if state.high_watermark > known:
                self.highest[state.epoch] = state.high_watermark
                before = max((high for epoch, high in self.highest.items() if epoch < state.epoch), default=0)
                if known < 0 and state.high_watermark < before:
                    self.fail(
                        f"epoch {state.epoch} begins with {state.high_watermark}, but {before} was told"
                    )


class HighWatermarkNeverGoesBack(Invariant):
    """At each replica, the high watermark only rises, and the log reaches it."""

    def __init__(self, world):
        super().__init__(world)
        self.highest: dict[tuple[int, int], int] = {}

    def check(self, node):
        high_watermark, where = node.replica.high_watermark, (node.id, node.life)
        if high_watermark < self.highest.get(where, 0):
            self.fail(f"{node.key} goes back from {self.highest[where]} to {high_watermark}")
        if high_watermark > node.disk.end_offset:
            self.fail(f"{node.key} has {node.disk.end_offset} of {high_watermark}")
        self.highest[where] = high_watermark


class StateMachinesAgree(Invariant):
    """Two replicas that applied up to the same offset are in the same state, also from a snapshot."""

    def __init__(self, world):
        super().__init__(world)
        self.digests: dict[int, bytes] = {}

    def applied(self, node):
        known = self.digests.setdefault(node.applied, node.digest)
        if known != node.digest:
            self.fail(f"{node.key} is in another state at {node.applied} than others")

    loaded = applied


class SnapshotsHaveTheEpochOfTheLog(Invariant):
    """The id of a snapshot has the epoch of the last record that it covers."""

    def loaded(self, node):
        self.look(node, node.disk.latest_snapshot_id())

    def snapshotted(self, node, id):
        self.look(node, id)

    def look(self, node, id):
        committed = self.world.rule(CommittedIsNeverLost)
        batch = next((each for each in reversed(committed.batches) if each.end <= id.offset), None)
        if batch is not None and batch.end == id.offset and batch.epoch != id.epoch:
            self.fail(f"{node.key} has the snapshot {id}, but the epoch there is {batch.epoch}")


class VotersChangeOneByOne(Invariant):
    """One voter is added or removed at a time, and only after the previous change is committed.

    A record of the leader's epoch must be committed, too.
    """

    def __init__(self, world):
        super().__init__(world)
        self.last: dict[int, tuple] = {}

    def check(self, node):
        replica = node.replica
        here = (node.life, replica.state.epoch, replica.voters_offset, replica.voters)
        before = self.last.get(node.id)
        if before is not None and before[3] is here[3]:
            return
        self.last[node.id] = here
        state = replica.state
        if before is None or before[:2] != here[:2] or not isinstance(state, LeaderState):
            return
        voters_before, voters = before[3], replica.voters
        is_first = replica.voters_offset <= state.epoch_start_offset + 2
        if not is_first and not voters_before.overlaps(voters):
            self.fail(f"{node.key} goes from {voters_before.keys} to {voters.keys}")
        if not is_first and state.high_watermark is None:
            self.fail(f"{node.key} changes the voters before it has committed a record of its epoch")
        if not is_first and before[2] >= state.high_watermark:
            self.fail(f"{node.key} changes the voters at {before[2]}, which are not committed")


class VotersAreThoseOfTheLog(Invariant):
    """The voters of a replica are those of the last record of voters in its log, or in its newest snapshot."""

    def __init__(self, world):
        super().__init__(world)
        self.records: dict[tuple[int, int], int] = {}

    def check(self, node):
        offset = node.replica.voters_offset
        if offset is None or offset < 0:
            return
        id = node.disk.latest_snapshot_id()
        if offset >= node.disk.end_offset and not (id is not None and offset < id.offset):
            self.fail(f"{node.key} has voters of {offset}, and its log ends at {node.disk.end_offset}")


class AcknowledgedIsCommitted(Invariant):
    """A record that a leader reports as committed to its controller is in the committed log there."""

    def acknowledged(self, node, offset, value):
        committed = self.world.rule(CommittedIsNeverLost)
        place = next((each for each in reversed(committed.batches) if each.base <= offset), None)
        if place is None or offset >= place.end or value not in place.data:
            self.fail(f"{node.key} acknowledged {value!r} at {offset}, where {place} is committed")


class LeaderHearsAMajority(Invariant):
    """A leader without fetches from a majority within one and a half fetch timeouts resigns."""

    def __init__(self, world):
        super().__init__(world)
        # For a leader: since when it waits for a majority, and the replicas that have fetched since then.
        self.waits: dict[tuple, tuple[float, set[int]]] = {}

    def where(self, node, epoch):
        return node.id, node.life, epoch, node.replica.voters_offset

    def handled(self, node, request, before):
        if not isinstance(before, LeaderState):
            return
        here = self.where(node, before.epoch)
        since, fetched = self.waits.get(here, (self.world.now, set()))
        voters = node.replica.voters
        if isinstance(request, UpdateVoterRequest):
            since, fetched = self.world.now, set()
        elif self.counts(node, request, before.epoch) and voters.is_voter(request.replica):
            fetched.add(request.replica.id)
        if len(fetched) >= len(voters) // 2 + 1 - voters.is_voter(node.key):
            since, fetched = self.world.now, set()
        self.waits[here] = (since, fetched)

    def counts(self, node, request, epoch):
        if isinstance(request, FetchRequest):
            valid = validate_fetch(node.disk, *request.end).kind == Validity.VALID
            return valid and request.leader_epoch == epoch
        return isinstance(request, FetchSnapshotRequest) and request.leader_epoch == epoch

    def check(self, node):
        state, now = node.replica.state, self.world.now
        if not isinstance(state, LeaderState):
            return
        here = self.where(node, state.epoch)
        since, fetched = self.waits.setdefault(here, (now, set()))
        # Clocks drift, and a paused process does not resign.
        limit = 1.2 * node.config.check_quorum_timeout_ms
        is_alone = node.replica.voters.is_only_voter(node.key)
        if is_alone or node.paused_until > now - limit:
            self.waits[here] = (now, fetched)
        elif now - since > limit:
            self.fail(f"{node.key} leads epoch {state.epoch} for {limit} ms without a majority")


INVARIANTS = (
    OneLeaderPerEpoch,
    EpochNeverBack,
    OneVotePerEpoch,
    ClaimsAreDurable,
    PreVoteBindsNobody,
    PreVoteDisturbsNobody,
    LogsMatch,
    CommittedIsNeverLost,
    CommittedIsOnAMajority,
    HighWatermarkOfALaterLeaderIsHigher,
    HighWatermarkNeverGoesBack,
    StateMachinesAgree,
    SnapshotsHaveTheEpochOfTheLog,
    VotersChangeOneByOne,
    VotersAreThoseOfTheLog,
    AcknowledgedIsCommitted,
    LeaderHearsAMajority,
)
