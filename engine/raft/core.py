"""The shared state of a replica's parts, the transitions with their consequences, and the effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from bowstring._native.record.decode import batch_headers
from bowstring._native.record.types import BatchHeader
from bowstring.engine.raft import effects as raft_effects
from bowstring.engine.raft.config import QuorumConfig, RandomBelow
from bowstring.engine.raft.control_state import ControlState
from bowstring.engine.raft.effects import Effect
from bowstring.engine.raft.election_state import ElectionState
from bowstring.engine.raft.keys import NO_LEADER, OffsetAndEpoch
from bowstring.engine.raft.leader import ADD, REMOVE, LeaderState, VoterChange
from bowstring.engine.raft.log import NotAppendedError, RaftLog, end_of
from bowstring.engine.raft.quorum_state import QuorumState
from bowstring.engine.raft.request_manager import RequestManager
from bowstring.engine.raft.states import Follower
from bowstring.engine.raft.voters import Endpoints, Node, Voter, VoterSet, node_at
from bowstring.protocol.errors import Error, Errors

if TYPE_CHECKING:
    from bowstring.engine.raft.messages import (
        LeaderAndEpoch,
        Request,
        Response,
    )

_STALE: Final = (Errors.FENCED_LEADER_EPOCH, Errors.NOT_LEADER_OR_FOLLOWER)


class RaftCore:
    """The state of a replica.

    Attributes:
        local: This node, as the voters should have it.
        listener: The listener of controllers.
        can_become_voter: Whether this node is a controller. Its log is synced even while it is an observer.
        installing: The snapshot that the shell installs.
        committed: The highest high watermark that the shell got.
        vain_attempts: Pre-votes that were not won since the last leader was in contact.
        stop_at_ms: When a shutdown has lasted long enough; None when there is none.
    """

    def __init__(
        self,
        local: Voter,
        log: RaftLog,
        config: QuorumConfig,
        random: RandomBelow,
        *,
        configured: VoterSet,
        bootstrap: Sequence[Node],
        cluster_id: str,
        listener: str,
        can_become_voter: bool,
    ) -> None:
        self.local = local
        self.log = log
        self.config = config
        self.cluster_id = cluster_id
        self.listener = listener
        self.can_become_voter = can_become_voter
        self.control = ControlState(configured)
        self.control.load(log)
        self.quorum = QuorumState(
            *(local, self.control, config, random, self._persist), can_become_voter=can_become_voter
        )
        own = node_at(local.key.id, local.endpoints, listener)
        others = [each for each in bootstrap if own is None or each[1:] != own[1:]]
        self.requests = RequestManager(others, config, random)
        self.installing: OffsetAndEpoch | None = None
        self.committed = 0
        self.vain_attempts = 0
        self.stop_at_ms: int | None = None
        self._effects: list[Effect] = []
        self._persists_pending = 0
        self._flushes: list[tuple[int, int]] = []
        self._last_flush_id = 0
        self._told = (NO_LEADER, -1)
        self._is_refused = False

    # ------------------------------------------------------------ effects

    def take_effects(self) -> list[Effect]:
        """Returns the effects since the last call."""
        told = (self.quorum.leader_id, self.quorum.epoch)
        if told != self._told:
            self._told = told
            self.emit(raft_effects.LeaderChanged(*told))
        taken, self._effects = self._effects, []
        return taken

    def emit(self, effect: Effect) -> None:
        """Adds an effect for the shell, after those before it."""
        self._effects.append(effect)

    def respond(self, token: object, response: Response) -> None:
        """Answers a request."""
        self.emit(raft_effects.Respond(token, response))

    def send(self, destination: Node, request: Request, now_ms: int) -> None:
        """Sends a request to a node that is ready for one."""
        correlation_id = self.requests.sent(destination.id, now_ms)
        self.emit(raft_effects.Send(destination, correlation_id, request))

    def note(self, text: str) -> None:
        """Writes to the broker's log."""
        self.emit(raft_effects.Note(text))

    def _persist(self, state: ElectionState) -> None:
        effect = raft_effects.PersistElection(state, self.control.kraft_version, self.control.voters.ids)
        if self._effects and isinstance(self._effects[-1], raft_effects.PersistElection):
            self._effects[-1] = effect  # nothing has happened upon the state before, so none need know it
            return
        self._persists_pending += 1
        self.emit(effect)

    def election_persisted(self) -> None:
        """Notes that the oldest pending state is durable."""
        self._persists_pending -= 1

    @property
    def is_persisted(self) -> bool:
        """Whether the present election state is durable."""
        return self._persists_pending == 0

    # ------------------------------------------------------------ the log

    def start_after_snapshot(self) -> None:
        """Reports to the shell that the records covered by the newest snapshot are committed."""
        id = self.log.latest_snapshot_id()
        if id is not None:
            self.advance_high_watermark(id.offset)

    @property
    def end(self) -> OffsetAndEpoch:
        """The end of the log."""
        return end_of(self.log)

    @property
    def may_stand(self) -> bool:
        """Whether this replica may stand for election: as a voter, or as one that was removed by a record of
        which it has not learned that it is committed.

        Only this log may have that record and others before it, and then no other voter gets this vote. As a
        leader it does not count itself; once the others have committed the record it resigns (Ongaro,
        Consensus: Bridging Theory and Practice, 4.2.2). Kafka's replicas do not stand then. Nor does a node
        that was removed and is no controller any more: it could not lead.
        """
        if self.quorum.is_voter or not self.can_become_voter:
            return self.quorum.is_voter
        left = self.control.left_at(self.local.key)
        return left is not None and left >= self.committed

    @property
    def is_log_durable(self) -> bool:
        """Whether all of the log is on the medium.

        A voter's fetches and vote requests state what it has, and others rely on it. So it sends neither
        before.
        """
        return not self._flushes and self.installing is None

    def append(self, batches: Sequence[bytes], headers: list[BatchHeader] | None = None) -> bool:
        """Appends checked batches to the log, all or none, and lets control records take effect.

        Returns whether they are in the log; when they are not, another try may succeed.

        Args:
            headers: Those of the only element of `batches`, if they are known.
        """
        start = self.log.end_offset
        try:
            for batch in batches:
                self._append(batch, headers)
        except NotAppendedError as error:
            # They have no readers: the replica handles no event in between.
            if self.log.end_offset > start:
                self.truncate_to(start)
            if not self._is_refused:
                self.note(f"the metadata log takes no records now, which is tried again: {error}")
            self._is_refused = True
            return False
        self._is_refused = False
        return True

    def _append(self, batch: bytes, headers: list[BatchHeader] | None) -> None:
        self.log.append(batch)
        voters = self.control.voters
        self.control.batches_appended(batch, headers or batch_headers(batch))
        if self.control.voters is not voters:
            if not voters.overlaps(self.control.voters):
                self.note(f"the voters change by more than one: {voters}, then {self.control.voters}")
            if isinstance(self.quorum.state, LeaderState):
                self.quorum.state.update_voters(self.control.voters)

    def flush(self) -> None:
        """Has the shell sync the log."""
        self._last_flush_id += 1
        self._flushes.append((self._last_flush_id, self.log.end_offset))
        self.emit(raft_effects.FlushLog(self._last_flush_id))

    def log_flushed(self, flush_id: int) -> int | None:
        """Notes that a sync has ended; returns the offset below which the log is durable."""
        durable = None
        while self._flushes and self._flushes[0][0] <= flush_id:
            durable = self._flushes.pop(0)[1]
        return durable

    def truncate_to(self, offset: int) -> None:
        """Removes the records from `offset` on, none of which may be committed."""
        assert offset >= self.committed, f"cut at {offset}, below the high watermark {self.committed}"
        self.log.truncate_to(offset)
        self.control.truncated(offset)
        self._flushes = [(id, min(end, offset)) for id, end in self._flushes]

    def advance_high_watermark(self, offset: int) -> None:
        """Reports committed records to the shell."""
        if offset > self.committed:
            self.committed = offset
            self.emit(raft_effects.HighWatermarkAdvanced(offset))

    # ------------------------------------------------------------ transitions

    def to_unattached(self, epoch: int, now_ms: int, leader_id: int = NO_LEADER) -> None:
        """Waits for a leader."""
        self._leave_leadership()
        self.quorum.to_unattached(epoch, leader_id, now_ms)
        self.requests.reset_all()

    def to_follower(self, epoch: int, leader_id: int, endpoints: Endpoints, now_ms: int) -> None:
        """Follows a leader."""
        self._leave_leadership()
        self.quorum.to_follower(epoch, leader_id, endpoints, now_ms)
        self.requests.reset_all()

    def to_resigned(self, now_ms: int) -> None:
        """Gives the leadership up."""
        self._leave_leadership()
        self.quorum.to_resigned(now_ms)
        self.requests.reset_all()

    def _leave_leadership(self) -> None:
        leader = self.quorum.state
        if not isinstance(leader, LeaderState):
            return
        for each in leader.delayed:
            from bowstring.engine.raft.messages import FetchResponse

            self.respond(
                each.token, FetchResponse(self.quorum.leader_and_epoch, Errors.NOT_LEADER_OR_FOLLOWER)
            )
        leader.delayed = []
        self.end_change(leader, Errors.NOT_LEADER_OR_FOLLOWER)

    def end_change(self, leader: LeaderState, error: Error, message: str | None = None) -> None:
        """Ends the change of voters, and answers its request unless that has been done."""
        if leader.change is not None:
            self.answer_change(leader.change, error, message)
            leader.change = None

    def answer_change(self, change: VoterChange, error: Error, message: str | None = None) -> None:
        """Answers the request for a change of voters, once."""
        if change.token is not None:
            self.respond(change.token, self.change_response(change.kind, error, message))
            change.token = None

    def change_response(self, kind: str, error: Error, message: str | None = None) -> Response:
        """Returns the answer to a request for a change of voters."""
        from bowstring.engine.raft.messages import AddVoterResponse, RemoveVoterResponse, UpdateVoterResponse

        if kind == ADD:
            return AddVoterResponse(error, message)
        if kind == REMOVE:
            return RemoveVoterResponse(error, message)
        return UpdateVoterResponse(self.quorum.leader_and_epoch, error)

    def maybe_transition(self, leader: LeaderAndEpoch, now_ms: int) -> bool:
        """Acts on another replica's view of the epoch and its leader; returns whether the state
        changed.
        """
        quorum = self.quorum
        # A node that got a new disk may have led before with the old one. It does not have that epoch's
        # leader then.
        is_known = leader.leader_id not in (NO_LEADER, self.local.key.id)
        assert self._is_consistent(leader), f"{leader} contradicts {quorum.leader_and_epoch}"
        endpoints = leader.endpoints
        if is_known and not endpoints:
            endpoints = self.control.voters.endpoints(leader.leader_id)
        if leader.epoch > quorum.epoch:
            if is_known and endpoints:
                self.to_follower(leader.epoch, leader.leader_id, endpoints, now_ms)
            else:
                self.to_unattached(leader.epoch, now_ms, leader.leader_id if is_known else NO_LEADER)
            return True
        learns = not quorum.has_leader or len(endpoints) > len(quorum.state.leader_endpoints)
        if leader.epoch == quorum.epoch and is_known and endpoints and learns:
            self.to_follower(leader.epoch, leader.leader_id, endpoints, now_ms)
            return True
        return False

    def learn_endpoints(self, leader: LeaderAndEpoch) -> None:
        """Adopts the address that the leader itself reports.

        Others may have reported an old address: that of the latest voters, before the leader moved.
        """
        state = self.quorum.state
        if isinstance(state, Follower) and (leader.leader_id, leader.epoch) == (state.leader_id, state.epoch):
            said = {each.name for each in leader.endpoints}
            kept = tuple(each for each in state.leader_endpoints if each.name not in said)
            state.leader_endpoints = leader.endpoints + kept

    def _is_consistent(self, leader: LeaderAndEpoch) -> bool:
        """One epoch has one leader."""
        quorum = self.quorum
        if leader.epoch != quorum.epoch or NO_LEADER in (leader.leader_id, quorum.leader_id):
            return True
        return leader.leader_id == quorum.leader_id

    # ------------------------------------------------------------ checks shared by several messages

    def has_cluster_id(self, cluster_id: str | None) -> bool:
        """Whether a request is for this cluster; one without an id is."""
        return cluster_id is None or cluster_id == self.cluster_id

    def leader_error(self, request_epoch: int) -> Error:
        """Returns why a request to the leader of an epoch is refused, or NONE."""
        if request_epoch < self.quorum.epoch:
            return Errors.FENCED_LEADER_EPOCH
        if request_epoch > self.quorum.epoch:
            return Errors.UNKNOWN_LEADER_EPOCH
        if not isinstance(self.quorum.state, LeaderState):
            return Errors.NOT_LEADER_OR_FOLLOWER
        return Errors.NONE

    def handle_leader_of_response(self, error: Error, leader: LeaderAndEpoch, now_ms: int) -> bool | None:
        """Acts on the leader and the epoch in a response.

        Returns None when the response, or its error, concerns the present epoch and is to be handled;
        otherwise whether the request is worth repeating at once.
        """
        if leader.epoch < self.quorum.epoch or error is Errors.UNKNOWN_LEADER_EPOCH:
            return False  # the other one is behind
        if leader.epoch > self.quorum.epoch or error in _STALE:
            return self.maybe_transition(leader, now_ms)
        is_other = leader.leader_id not in (NO_LEADER, self.local.key.id)
        if is_other and not (self.quorum.has_leader and self.quorum.state.leader_endpoints):
            # An observer finds the leader, or where it listens, and gets records with one Fetch.
            changed = self.maybe_transition(leader, now_ms)
            return None if changed and not error else changed
        return None
