"""The messages that replicas exchange, without the nesting and the versions of the wire (`wire` converts
them). Functions import what they send: a quorum of one exchanges none, and starts sooner.
"""

from typing import NamedTuple

from bowstring.engine.raft.keys import NO_LEADER, OffsetAndEpoch, ReplicaKey
from bowstring.engine.raft.voters import Endpoints, VersionRange
from bowstring.protocol.errors import Error, Errors


class LeaderAndEpoch(NamedTuple):
    """The sender's epoch, its leader (`NO_LEADER` when it has none), and where that listens as far as
    known.
    """

    leader_id: int = NO_LEADER
    epoch: int = -1
    endpoints: Endpoints = ()


class VoteRequest(NamedTuple):
    """Requests a vote, or with `pre_vote` whether one would be granted. `voter` is None in old versions."""

    cluster_id: str | None
    voter: ReplicaKey | None
    candidate: ReplicaKey
    epoch: int
    end: OffsetAndEpoch
    pre_vote: bool


class VoteResponse(NamedTuple):
    """Answers VoteRequest."""

    leader: LeaderAndEpoch
    error: Error = Errors.NONE
    vote_granted: bool = False


class BeginQuorumEpochRequest(NamedTuple):
    """Announces the leader to a voter."""

    cluster_id: str | None
    voter: ReplicaKey | None
    leader: LeaderAndEpoch


class BeginQuorumEpochResponse(NamedTuple):
    """Answers BeginQuorumEpochRequest."""

    leader: LeaderAndEpoch
    error: Error = Errors.NONE


class EndQuorumEpochRequest(NamedTuple):
    """Announces the leader's resignation to a voter, and its successors, the best first."""

    cluster_id: str | None
    leader: LeaderAndEpoch
    preferred_candidates: tuple[ReplicaKey, ...]


class EndQuorumEpochResponse(NamedTuple):
    """Answers EndQuorumEpochRequest."""

    leader: LeaderAndEpoch
    error: Error = Errors.NONE


class FetchRequest(NamedTuple):
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


class FetchResponse(NamedTuple):
    """Answers FetchRequest: with records, the end that the follower truncates to, or a snapshot to fetch."""

    leader: LeaderAndEpoch
    error: Error = Errors.NONE
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None
    records: bytes = b""


class FetchSnapshotRequest(NamedTuple):
    """Requests bytes of a snapshot."""

    cluster_id: str | None
    replica: ReplicaKey
    leader_epoch: int
    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int


class FetchSnapshotResponse(NamedTuple):
    """Answers FetchSnapshotRequest."""

    leader: LeaderAndEpoch
    error: Error = Errors.NONE
    snapshot_id: OffsetAndEpoch | None = None
    size_bytes: int = 0
    position: int = 0
    data: bytes = b""


class AddVoterRequest(NamedTuple):
    """Requests another voter from the leader."""

    cluster_id: str | None
    voter: ReplicaKey
    endpoints: Endpoints
    timeout_ms: int
    ack_when_committed: bool = True


class AddVoterResponse(NamedTuple):
    """Answers AddVoterRequest."""

    error: Error = Errors.NONE
    message: str | None = None


class RemoveVoterRequest(NamedTuple):
    """Has the leader remove a voter."""

    cluster_id: str | None
    voter: ReplicaKey


class RemoveVoterResponse(NamedTuple):
    """Answers RemoveVoterRequest."""

    error: Error = Errors.NONE
    message: str | None = None


class UpdateVoterRequest(NamedTuple):
    """Reports to the leader a voter's current addresses and supported versions."""

    cluster_id: str | None
    leader_epoch: int
    voter: ReplicaKey
    endpoints: Endpoints
    versions: VersionRange


class UpdateVoterResponse(NamedTuple):
    """Answers UpdateVoterRequest."""

    leader: LeaderAndEpoch
    error: Error = Errors.NONE


class ApiVersionsRequest(NamedTuple):
    """Queries a node for the versions of kraft.version that it supports."""

    def __bool__(self) -> bool:
        return True  # an empty tuple would be false


class ApiVersionsResponse(NamedTuple):
    """Answers ApiVersionsRequest."""

    error: Error = Errors.NONE
    versions: VersionRange | None = None


class DescribeQuorumRequest(NamedTuple):
    """Queries the leader how far the replicas are."""

    def __bool__(self) -> bool:
        return True  # an empty tuple would be false


class ReplicaProgress(NamedTuple):
    """A replica in DescribeQuorum. The times are on the leader's steady clock; -1 when not known."""

    key: ReplicaKey
    end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    endpoints: Endpoints


class DescribeQuorumResponse(NamedTuple):
    """Answers DescribeQuorumRequest."""

    leader: LeaderAndEpoch
    error: Error = Errors.NONE
    high_watermark: int = -1
    voters: tuple[ReplicaProgress, ...] = ()
    observers: tuple[ReplicaProgress, ...] = ()


class ErrorResponse(NamedTuple):
    """An answer without content: the request failed as a whole, or there was no answer
    (BROKER_NOT_AVAILABLE).

    Attributes:
        refused: No process listens at the node's address: its process has ended.
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
"""The responses that name the leader."""
Response = (
    QuorumResponse
    | AddVoterResponse
    | RemoveVoterResponse
    | ApiVersionsResponse
    | DescribeQuorumResponse
    | ErrorResponse
)
