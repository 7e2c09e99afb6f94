"""The states of a replica that does not lead, and which votes it grants in each (KIP-595, KIP-996).

Kafka 4's states: a voter that has voted is `Unattached` or `Prospective` with `voted` set, and an observer is
`Unattached` or `Follower` without a deadline. All times are the shell's steady clock in ms.
"""

import math

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


class Unattached:
    """Waits for a leader; may have voted. A voter becomes prospective at the deadline."""

    __slots__ = ("election_deadline_ms", "epoch", "high_watermark", "leader_id", "voted")

    def __init__(
        self,
        epoch: int,
        leader_id: int,
        voted: ReplicaKey | None,
        high_watermark: int | None,
        election_deadline_ms: float,
    ) -> None:
        self.epoch = epoch
        self.leader_id = leader_id
        self.voted = voted
        self.high_watermark = high_watermark
        self.election_deadline_ms = election_deadline_ms

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


class Prospective:
    """Requests pre-votes before it begins an election; keeps its epoch, leader and vote."""

    __slots__ = (
        "election_deadline_ms",
        "epoch",
        "high_watermark",
        "leader_endpoints",
        "leader_id",
        "voted",
        "votes",
    )

    def __init__(
        self,
        epoch: int,
        leader_id: int,
        leader_endpoints: Endpoints,
        *,
        voted: ReplicaKey | None,
        votes: EpochElection,
        high_watermark: int | None,
        election_deadline_ms: float,
    ) -> None:
        self.epoch = epoch
        self.leader_id = leader_id
        self.leader_endpoints = leader_endpoints
        self.voted = voted
        self.votes = votes
        self.high_watermark = high_watermark
        self.election_deadline_ms = election_deadline_ms

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


class Candidate:
    """Requests votes in a new epoch, after it voted for itself."""

    __slots__ = ("election_deadline_ms", "epoch", "high_watermark", "local", "votes")

    def __init__(
        self,
        epoch: int,
        local: ReplicaKey,
        votes: EpochElection,
        high_watermark: int | None,
        election_deadline_ms: float,
    ) -> None:
        self.epoch = epoch
        self.local = local
        self.votes = votes
        self.high_watermark = high_watermark
        self.election_deadline_ms = election_deadline_ms

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


class SnapshotFetch:
    """A snapshot that a follower gets from its leader."""

    __slots__ = ("id", "position")

    def __init__(self, id: OffsetAndEpoch) -> None:
        self.id = id
        self.position = 0


class Follower:
    """Fetches from a leader. A voter becomes prospective at the fetch deadline.

    Attributes:
        has_told_directory: Whether the leader of configured voters has this voter's directory.
        has_fetched: Whether it has contact with the leader: its last request to it did not fail.
    """

    __slots__ = (
        "epoch",
        "fetch_deadline_ms",
        "fetching_snapshot",
        "has_fetched",
        "has_told_directory",
        "high_watermark",
        "leader_endpoints",
        "leader_id",
        "update_voter_at_ms",
        "voted",
    )

    def __init__(
        self,
        epoch: int,
        leader_id: int,
        leader_endpoints: Endpoints,
        *,
        voted: ReplicaKey | None,
        high_watermark: int | None,
        fetch_deadline_ms: float,
        update_voter_at_ms: float,
    ) -> None:
        self.epoch = epoch
        self.leader_id = leader_id
        self.leader_endpoints = leader_endpoints
        self.voted = voted
        self.high_watermark = high_watermark
        self.fetch_deadline_ms = fetch_deadline_ms
        self.update_voter_at_ms = update_voter_at_ms
        self.has_fetched = False
        self.has_told_directory = False
        self.fetching_snapshot: SnapshotFetch | None = None

    def election(self) -> ElectionState:
        """What must be durable."""
        return ElectionState(self.epoch, self.leader_id, self.voted)

    def can_grant_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Whether to grant a vote: none while it has contact with a leader. A pre-vote otherwise does no
        harm.
        """
        return pre_vote and not self.has_fetched and up_to_date


class Resigned:
    """Led this epoch, and announces to voters that it no longer does. It takes part in the next epoch only,
    so that it neither votes in its own epoch nor writes other records in it.
    """

    __slots__ = (
        "election_deadline_ms",
        "epoch",
        "leader_endpoints",
        "local",
        "preferred_successors",
        "unacknowledged",
    )

    def __init__(
        self,
        epoch: int,
        local: ReplicaKey,
        leader_endpoints: Endpoints,
        *,
        unacknowledged: set[int],
        preferred_successors: tuple[ReplicaKey, ...],
        election_deadline_ms: float,
    ) -> None:
        self.epoch = epoch
        self.local = local
        self.leader_endpoints = leader_endpoints
        self.unacknowledged = unacknowledged
        self.preferred_successors = preferred_successors
        self.election_deadline_ms = election_deadline_ms

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
