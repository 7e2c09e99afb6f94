"""Holds the state of a replica, and makes the transitions that KRaft allows between states.

    Unattached -> Prospective (timeout), Follower (a leader is found), Unattached (a higher epoch; a vote)
    Prospective -> Candidate (a majority would vote), Follower or Unattached (it would not), Unattached
    Candidate -> Leader (a majority votes), Prospective (timeout), Follower, Unattached (higher epoch)
    Leader -> Resigned, Follower or Unattached (higher epoch)
    Resigned -> Unattached (in the next epoch), Follower (higher epoch)
    Follower -> Prospective (fetch timeout), Follower, Unattached (higher epoch)

Observers are only Unattached and Follower. A transition that changes durable state requests its persistence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bowstring.engine.raft.config import QuorumConfig, RandomBelow
from bowstring.engine.raft.control_state import ControlState
from bowstring.engine.raft.election_state import ElectionState
from bowstring.engine.raft.keys import NO_LEADER, OffsetAndEpoch, ReplicaKey
from bowstring.engine.raft.leader import LeaderState
from bowstring.engine.raft.states import (
    NEVER,
    Candidate,
    EpochElection,
    Follower,
    Prospective,
    Resigned,
    Unattached,
)
from bowstring.engine.raft.voters import Endpoints, Voter

if TYPE_CHECKING:
    from bowstring.engine.raft.messages import LeaderAndEpoch

EpochState = Unattached | Prospective | Candidate | LeaderState | Follower | Resigned


class QuorumState:
    """The state of a replica.

    Attributes:
        state: The present state.
    """

    def __init__(
        self,
        local: Voter,
        control: ControlState,
        config: QuorumConfig,
        random: RandomBelow,
        persist: Callable[[ElectionState], None],
        *,
        can_become_voter: bool,
    ) -> None:
        self.local = local
        self._control = control
        self._config = config
        self._random = random
        self._persist = persist
        self._can_become_voter = can_become_voter
        self.state: EpochState = Unattached(0, NO_LEADER, None, None, NEVER)

    # ------------------------------------------------------------ facts

    @property
    def epoch(self) -> int:
        """The highest epoch that this replica has seen."""
        return self.state.epoch

    @property
    def leader_id(self) -> int:
        """The leader of the epoch; NO_LEADER when it is not known."""
        return self.state.leader_id

    @property
    def has_leader(self) -> bool:
        """Whether the leader of the epoch is known."""
        return self.state.leader_id != NO_LEADER

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        """The leader and epoch for messages to others."""
        from bowstring.engine.raft.messages import LeaderAndEpoch

        state = self.state
        return LeaderAndEpoch(state.leader_id, state.epoch, state.leader_endpoints)

    @property
    def is_voter(self) -> bool:
        """Whether this replica is one of the latest voters."""
        return self._control.voters.is_voter(self.local.key)

    @property
    def can_stand(self) -> bool:
        """Whether this replica is a voter, or a controller that was one of those before, as far as they are
        remembered. See `RaftCore.may_stand`.
        """
        was_voter = self._control.left_at(self.local.key) is not None
        return self.is_voter or (was_voter and self._can_become_voter)

    @property
    def is_only_voter(self) -> bool:
        """Whether this replica is the only voter."""
        return self._control.voters.is_only_voter(self.local.key)

    # ------------------------------------------------------------ transitions

    def initialize(self, stored: ElectionState | None, end: OffsetAndEpoch, now_ms: int) -> None:
        """Continues in the state of the last life. A leader resigns: it must not write other records in its
        epoch, of which it may have lost some. A candidate continues.
        """
        stored = stored or ElectionState(0)
        voters, key = self._control.voters, self.local.key
        timeout_at_ms = self._election_deadline(now_ms)
        if stored.epoch < end.epoch:
            self._to(Unattached(end.epoch, NO_LEADER, None, None, timeout_at_ms))
        elif stored.leader_id == key.id:
            self._to(self._resigned(stored.epoch, (), timeout_at_ms))
        elif stored.voted is not None and key.is_meant_by(stored.voted) and self.can_stand:
            votes = EpochElection(voters, key)
            self._to(Candidate(stored.epoch, key, votes, None, timeout_at_ms))
        elif stored.leader_id != NO_LEADER and voters.endpoints(stored.leader_id):
            self._follow(stored, voters.endpoints(stored.leader_id), now_ms)
        else:
            self._to(Unattached(stored.epoch, stored.leader_id, stored.voted, None, timeout_at_ms))

    def to_unattached(self, epoch: int, leader_id: int, now_ms: int) -> None:
        """Waits for a leader: in a higher epoch, or as a prospective that could not win."""
        state = self.state
        same = epoch == state.epoch
        assert epoch > state.epoch or (same and isinstance(state, Prospective)), (epoch, state)
        keeps = isinstance(state, Candidate | Unattached | Resigned) or (
            isinstance(state, Prospective) and not state.votes.is_rejected
        )
        deadline_ms = self._election_deadline(now_ms)
        if not self.can_stand:
            deadline_ms = NEVER
        elif keeps and not isinstance(state, Follower | LeaderState) and state.election_deadline_ms < NEVER:
            deadline_ms = state.election_deadline_ms
        voted = state.voted if same else None
        self._to(Unattached(epoch, leader_id, voted, state.high_watermark, deadline_ms))

    def add_vote(self, candidate: ReplicaKey, now_ms: int) -> None:
        """Votes for a candidate. Its chances are at least as good as ours, so the deadline moves on."""
        state = self.state
        assert isinstance(state, Unattached | Prospective) and state.voted is None, state
        assert candidate.id != self.local.key.id, candidate
        deadline_ms = self._election_deadline(now_ms)
        if isinstance(state, Unattached):
            self._to(Unattached(state.epoch, state.leader_id, candidate, state.high_watermark, deadline_ms))
        else:
            votes = EpochElection(self._control.voters, self.local.key)
            self._to(
                Prospective(
                    *(state.epoch, state.leader_id, state.leader_endpoints),
                    voted=candidate,
                    votes=votes,
                    high_watermark=state.high_watermark,
                    election_deadline_ms=deadline_ms,
                )
            )

    def to_follower(self, epoch: int, leader_id: int, endpoints: Endpoints, now_ms: int) -> None:
        """Follows a leader. Within an epoch the vote is kept, so that there is no second one."""
        state = self.state
        assert endpoints and leader_id not in (NO_LEADER, self.local.key.id), (leader_id, endpoints)
        assert epoch >= state.epoch, (epoch, state)
        voted = None
        if epoch == state.epoch:
            assert not isinstance(state, LeaderState | Resigned), (leader_id, state)
            voted = state.voted
        self._follow(ElectionState(epoch, leader_id, voted), endpoints, now_ms)

    def to_prospective(self, now_ms: int) -> None:
        """Requests pre-votes. Nothing durable changes."""
        state = self.state
        assert self.can_stand and isinstance(state, Unattached | Follower | Candidate | Resigned), state
        self.state = Prospective(
            *(state.epoch, state.leader_id, state.leader_endpoints),
            voted=state.voted,
            votes=EpochElection(self._control.voters, self.local.key),
            high_watermark=state.high_watermark,
            election_deadline_ms=self._election_deadline(now_ms),
        )

    def to_candidate(self, now_ms: int) -> None:
        """Begins an epoch, and votes for itself."""
        state = self.state
        assert self.can_stand and isinstance(state, Prospective), state
        votes = EpochElection(self._control.voters, self.local.key)
        deadline_ms = self._election_deadline(now_ms)
        self._to(Candidate(state.epoch + 1, self.local.key, votes, state.high_watermark, deadline_ms))

    def to_leader(self, end_offset: int, now_ms: int) -> LeaderState:
        """Leads the epoch. The high watermark is unknown again until a record of this epoch is committed:
        only then it is certainly not below what older leaders reported.
        """
        state = self.state
        assert self.can_stand and isinstance(state, Candidate) and state.votes.is_granted, state
        leader = LeaderState(
            *(self.local, self._control, self._config),
            epoch=state.epoch,
            granting=state.votes.granting,
            end_offset=end_offset,
            now_ms=now_ms,
        )
        self._to(leader)
        return leader

    def to_resigned(self, now_ms: int) -> None:
        """Gives up the leadership, in the same epoch."""
        state = self.state
        assert isinstance(state, LeaderState), state
        self.state = self._resigned(state.epoch, state.successors(), self._election_deadline(now_ms))

    def _resigned(self, epoch: int, successors: tuple[ReplicaKey, ...], deadline_ms: float) -> Resigned:
        return Resigned(
            *(epoch, self.local.key, self.local.endpoints),
            unacknowledged={id for id in self._control.voters.ids if id != self.local.key.id},
            preferred_successors=successors,
            election_deadline_ms=deadline_ms,
        )

    def _to(self, state: EpochState) -> None:
        self.state = state
        self._persist(state.election())

    def _follow(self, election: ElectionState, endpoints: Endpoints, now_ms: int) -> None:
        self._to(
            Follower(
                *(election.epoch, election.leader_id, endpoints),
                voted=election.voted,
                high_watermark=self.state.high_watermark,
                fetch_deadline_ms=now_ms + self._config.fetch_timeout_ms,
                update_voter_at_ms=now_ms + self._config.update_voter_interval_ms,
            )
        )

    def _election_deadline(self, now_ms: int) -> float:
        timeout_ms = self._config.election_timeout_ms
        return now_ms + timeout_ms + self._random(max(timeout_ms, 1))
