"""The states of a replica that does not lead, and which votes it grants in each (KIP-595, KIP-996).

Kafka 4's states: a voter that has voted is `Unattached` or `Prospective` with `voted` set, and an observer is
`Unattached` or `Follower` without a deadline. All times are the shell's steady clock in ms.
"""

import math
from dataclasses import dataclass, field

from bowstring.engine.raft.election_state import ElectionState
from bowstring.engine.raft.keys import NO_LEADER, OffsetAndEpoch, ReplicaKey
from bowstring.engine.raft.voters import Endpoints, VoterSet

NEVER = math.inf


class EpochElection:
    """The votes of one election. One that `granting` has as a candidate counts if it is one of the voters."""

    def __init__(self, voters: VoterSet, granting: ReplicaKey) -> None:
        self._keys = {key.id: key for key in voters.keys}
        self._votes: dict[int, bool] = {granting.id: True}

    def record(self, id: int, *, granted: bool) -> None:
        """Records a vote. A voter that granted its vote cannot take it back."""
        if id in self._keys:
            self._votes[id] = granted or self._votes.get(id, False)

    @property
    def majority(self) -> int:
        """How many votes are needed."""
        return len(self._keys) // 2 + 1

    @property
    def granting(self) -> list[int]:
        """Ids of the voters that granted their vote."""
        return [id for id, granted in self._votes.items() if granted and id in self._keys]

    @property
    def unrecorded(self) -> list[ReplicaKey]:
        """Voters whose vote is not known."""
        return [key for id, key in self._keys.items() if id not in self._votes]

    @property
    def is_granted(self) -> bool:
        """Whether a majority granted its vote."""
        return len(self.granting) >= self.majority

    @property
    def is_rejected(self) -> bool:
        """Whether a majority is out of reach."""
        return len(self.granting) + len(self.unrecorded) < self.majority


@dataclass(slots=True)
class Unattached:
    """Waits for a leader; may have voted. A voter becomes prospective at the deadline."""

    epoch: int
    leader_id: int
    voted: ReplicaKey | None
    high_watermark: int | None
    election_deadline_ms: float

    @property
    def leader_endpoints(self) -> Endpoints:
        """Unknown."""
        return ()

    def election(self) -> ElectionState:
        """What must be durable."""
        return ElectionState(self.epoch, self.leader_id, self.voted)

    def can_grant_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Whether to grant a vote."""
        return can_grant_first_vote(self, candidate, up_to_date=up_to_date, pre_vote=pre_vote)


@dataclass(slots=True)
class Prospective:
    """Requests pre-votes before it begins an election; keeps its epoch, leader and vote."""

    epoch: int
    leader_id: int
    leader_endpoints: Endpoints
    voted: ReplicaKey | None
    votes: EpochElection
    high_watermark: int | None
    election_deadline_ms: float

    def election(self) -> ElectionState:
        """What must be durable."""
        return ElectionState(self.epoch, self.leader_id, self.voted)

    def can_grant_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Whether to grant a vote."""
        return can_grant_first_vote(self, candidate, up_to_date=up_to_date, pre_vote=pre_vote)


def can_grant_first_vote(
    state: Unattached | Prospective, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool
) -> bool:
    """Whether a replica that follows no leader grants a vote: one candidate per epoch, none when the epoch
    has a leader. A pre-vote has no such limit.
    """
    if pre_vote:
        return up_to_date
    if state.voted is not None:
        return candidate.is_meant_by(state.voted)
    return state.leader_id == NO_LEADER and up_to_date


@dataclass(slots=True)
class Candidate:
    """Requests votes in a new epoch, after it voted for itself."""

    epoch: int
    local: ReplicaKey
    votes: EpochElection
    high_watermark: int | None
    election_deadline_ms: float

    @property
    def leader_id(self) -> int:
        """There is none."""
        return NO_LEADER

    @property
    def leader_endpoints(self) -> Endpoints:
        """There is no leader."""
        return ()

    @property
    def voted(self) -> ReplicaKey:
        """Itself."""
        return self.local

    def election(self) -> ElectionState:
        """What must be durable."""
        return ElectionState(self.epoch, NO_LEADER, self.local)

    def can_grant_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Whether to grant a vote: its own is given."""
        return pre_vote and up_to_date


@dataclass(slots=True)
class SnapshotFetch:
    """A snapshot that a follower gets from its leader."""

    id: OffsetAndEpoch
    position: int = 0


@dataclass(slots=True)
class Follower:
    """Fetches from a leader. A voter becomes prospective at the fetch deadline.

    Attributes:
        has_told_directory: Whether the leader of configured voters has this voter's directory.
        has_fetched: Whether it has contact with the leader: its last request to it did not fail.
    """

    epoch: int
    leader_id: int
    leader_endpoints: Endpoints
    voted: ReplicaKey | None
    high_watermark: int | None
    fetch_deadline_ms: float
    update_voter_at_ms: float
    has_fetched: bool = False
    has_told_directory: bool = False
    fetching_snapshot: SnapshotFetch | None = None

    def election(self) -> ElectionState:
        """What must be durable."""
        return ElectionState(self.epoch, self.leader_id, self.voted)

    def can_grant_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Whether to grant a vote: none while it has contact with a leader. A pre-vote otherwise does no
        harm.
        """
        return pre_vote and not self.has_fetched and up_to_date


@dataclass(slots=True)
class Resigned:
    """Led this epoch, and announces to voters that it no longer does. It takes part in the next epoch only,
    so that it neither votes in its own epoch nor writes other records in it.
    """

    epoch: int
    local: ReplicaKey
    leader_endpoints: Endpoints
    unacknowledged: set[int] = field(default_factory=set)
    preferred_successors: tuple[ReplicaKey, ...] = ()
    election_deadline_ms: float = NEVER

    @property
    def leader_id(self) -> int:
        """Itself: it was elected."""
        return self.local.id

    @property
    def voted(self) -> None:
        """Not kept: the epoch has its leader."""
        return None

    @property
    def high_watermark(self) -> int | None:
        """Not kept."""
        return None

    def election(self) -> ElectionState:
        """What must be durable."""
        return ElectionState(self.epoch, self.local.id)

    def can_grant_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Whether to grant a vote: none in an epoch that has a leader."""
        return pre_vote and up_to_date
