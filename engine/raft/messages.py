"""The messages that replicas exchange, without the nesting and the versions of the wire (`wire` converts
them).
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from bowstring.engine.errors import Error, Errors
from bowstring.engine.raft.keys import NO_LEADER, OffsetAndEpoch, ReplicaKey
from bowstring.engine.raft.voters import Endpoints, VersionRange


def _no_error() -> Error:
    # A default that is no factory would be queried for its name in the class, which errors have elsewhere.
    return Errors.NONE


class LeaderAndEpoch(NamedTuple):
    """The sender's epoch, its leader (`NO_LEADER` when it has none), and where that listens as far as
    known.
    """

    leader_id: int = NO_LEADER
    epoch: int = -1
    endpoints: Endpoints = ()


@dataclass(slots=True)
class VoteRequest:
    """Requests a vote, or with `pre_vote` whether one would be granted. `voter` is None in old versions."""

    cluster_id: str | None
    voter: ReplicaKey | None
    candidate: ReplicaKey
    epoch: int
    end: OffsetAndEpoch
    pre_vote: bool


@dataclass(slots=True)
class VoteResponse:
    """Answers VoteRequest."""

    leader: LeaderAndEpoch
    error: Error = field(default_factory=_no_error)
    vote_granted: bool = False


@dataclass(slots=True)
class BeginQuorumEpochRequest:
    """Notifies a voter who leads."""

    cluster_id: str | None
    voter: ReplicaKey | None
    leader: LeaderAndEpoch


@dataclass(slots=True)
class BeginQuorumEpochResponse:
    """Answers BeginQuorumEpochRequest."""

    leader: LeaderAndEpoch
    error: Error = field(default_factory=_no_error)


@dataclass(slots=True)
class EndQuorumEpochRequest:
    """Notifies a voter that the leader resigns, and who should succeed it, the best first."""

    cluster_id: str | None
    leader: LeaderAndEpoch
    preferred_candidates: tuple[ReplicaKey, ...]


@dataclass(slots=True)
class EndQuorumEpochResponse:
    """Answers EndQuorumEpochRequest."""

    leader: LeaderAndEpoch
    error: Error = field(default_factory=_no_error)


@dataclass(slots=True)
class FetchRequest:
    """Requests records. A voter has everything below `end.offset` on its medium when it sends this.

    `high_watermark` is -1 when it is not known; versions before 18 have a value that is never below the
    leader's.
    """

    cluster_id: str | None
    replica: ReplicaKey
    leader_epoch: int
    end: OffsetAndEpoch
    high_watermark: int
    max_wait_ms: int
    max_bytes: int


@dataclass(slots=True)
class FetchResponse:
    """Answers FetchRequest: with records, the end that the follower truncates to, or a snapshot to fetch."""

    leader: LeaderAndEpoch
    error: Error = field(default_factory=_no_error)
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None
    records: bytes = b""


@dataclass(slots=True)
class FetchSnapshotRequest:
    """Requests bytes of a snapshot."""

    cluster_id: str | None
    replica: ReplicaKey
    leader_epoch: int
    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int


@dataclass(slots=True)
class FetchSnapshotResponse:
    """Answers FetchSnapshotRequest."""

    leader: LeaderAndEpoch
    error: Error = field(default_factory=_no_error)
    snapshot_id: OffsetAndEpoch | None = None
    size_bytes: int = 0
    position: int = 0
    data: bytes = b""


@dataclass(slots=True)
class AddVoterRequest:
    """Requests another voter from the leader."""

    cluster_id: str | None
    voter: ReplicaKey
    endpoints: Endpoints
    timeout_ms: int
    ack_when_committed: bool = True


@dataclass(slots=True)
class AddVoterResponse:
    """Answers AddVoterRequest."""

    error: Error = field(default_factory=_no_error)
    message: str | None = None


@dataclass(slots=True)
class RemoveVoterRequest:
    """Has the leader remove a voter."""

    cluster_id: str | None
    voter: ReplicaKey


@dataclass(slots=True)
class RemoveVoterResponse:
    """Answers RemoveVoterRequest."""

    error: Error = field(default_factory=_no_error)
    message: str | None = None


@dataclass(slots=True)
class UpdateVoterRequest:
    """Reports to the leader where a voter listens now, and what it supports."""

    cluster_id: str | None
    leader_epoch: int
    voter: ReplicaKey
    endpoints: Endpoints
    versions: VersionRange


@dataclass(slots=True)
class UpdateVoterResponse:
    """Answers UpdateVoterRequest."""

    leader: LeaderAndEpoch
    error: Error = field(default_factory=_no_error)


@dataclass(slots=True)
class ApiVersionsRequest:
    """Queries a node for the versions of kraft.version that it supports."""


@dataclass(slots=True)
class ApiVersionsResponse:
    """Answers ApiVersionsRequest."""

    error: Error = field(default_factory=_no_error)
    versions: VersionRange | None = None


@dataclass(slots=True)
class DescribeQuorumRequest:
    """Queries the leader how far the replicas are."""


class ReplicaProgress(NamedTuple):
    """A replica in DescribeQuorum. The times are on the leader's steady clock; -1 when not known."""

    key: ReplicaKey
    end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    endpoints: Endpoints


@dataclass(slots=True)
class DescribeQuorumResponse:
    """Answers DescribeQuorumRequest."""

    leader: LeaderAndEpoch
    error: Error = field(default_factory=_no_error)
    high_watermark: int = -1
    voters: tuple[ReplicaProgress, ...] = ()
    observers: tuple[ReplicaProgress, ...] = ()


@dataclass(slots=True)
class ErrorResponse:
    """An answer without content: the request failed as a whole, or there was no answer
    (BROKER_NOT_AVAILABLE).

    Attributes:
        refused: Nobody listens at the node's address: its process has ended.
    """

    error: Error
    refused: bool = False


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
    | ApiVersionsRequest
    | DescribeQuorumRequest
)
QuorumResponse = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | UpdateVoterResponse
)
"""The responses that say who leads."""
Response = (
    QuorumResponse
    | AddVoterResponse
    | RemoveVoterResponse
    | ApiVersionsResponse
    | DescribeQuorumResponse
    | ErrorResponse
)
