"""Defines the effects that a replica requests of its shell. The shell carries them out in order.

The shell's contract:
- `PersistElection`: write `quorum-state` and sync it before any later effect, also of later events, is
  carried out; then call `RaftReplica.election_persisted`. What is behind it in the order says that the vote
  or the epoch is durable. Other events may be passed to the replica meanwhile.
- `FlushLog`: sync the log up to its present end, then call `RaftReplica.log_flushed`. Later effects need not
  wait: the replica holds back itself what needs the sync. Syncs may be merged, and end in order.
- `InstallSnapshot`: check and sync the incomplete snapshot and give it its name, then let the log start at
  its end (`truncate_fully_and_start_at`), then call `RaftReplica.snapshot_installed`. If the snapshot is
  damaged, delete it and call `RaftReplica.snapshot_failed`. Nothing else is done with the log meanwhile.
- `Send`: send the request, and pass the answer to `RaftReplica.receive_response`; if there is none (refused,
  closed), an `ErrorResponse` with BROKER_NOT_AVAILABLE that says whether the connection was refused, and if
  the node does not have the request's version, one with UNSUPPORTED_VERSION. The replica measures the timeout
  itself.
- `Respond`: answer the request with this token.
- `HighWatermarkAdvanced`: records below are committed; apply them. If the log starts above what was applied,
  load the newest snapshot first.
- `LeaderChanged`: inform those who wait for appended records: as the leader of another epoch, or as
no leader, the node cannot promise any more that they will be committed.
- `Note`: write a line to the broker's log.

Between events the shell waits until `RaftReplica.deadline_ms` of its steady clock, and then calls
`RaftReplica.poll`.
"""

from typing import TYPE_CHECKING, NamedTuple

from bowstring.engine.raft.election_state import ElectionState
from bowstring.engine.raft.keys import OffsetAndEpoch
from bowstring.engine.raft.voters import Node

if TYPE_CHECKING:
    from bowstring.engine.raft.messages import Request, Response


class PersistElection(NamedTuple):
    """Write `ElectionState.to_json(kraft_version, voter_ids)` to `quorum-state`."""

    state: ElectionState
    kraft_version: int
    voter_ids: list[int]


class FlushLog(NamedTuple):
    """Sync the log."""

    flush_id: int


class InstallSnapshot(NamedTuple):
    """Complete the fetched snapshot, and begin the log after it."""

    id: OffsetAndEpoch


class Send(NamedTuple):
    """Send a request."""

    destination: Node
    correlation_id: int
    request: "Request"


class Respond(NamedTuple):
    """Answer a request."""

    token: object
    response: "Response"


class HighWatermarkAdvanced(NamedTuple):
    """Apply the records below `offset`."""

    offset: int


class LeaderChanged(NamedTuple):
    """`leader_id` leads `epoch`, or no node does (-1)."""

    leader_id: int
    epoch: int


class Note(NamedTuple):
    """Write a line for operators to the broker's log."""

    text: str


Effect = (
    PersistElection
    | FlushLog
    | InstallSnapshot
    | Send
    | Respond
    | HighWatermarkAdvanced
    | LeaderChanged
    | Note
)
