"""The interface of a replica of the metadata log: every event in, its effects out.

    replica = RaftReplica(local, log, config, random, configured=voters, bootstrap=nodes, ...)
    carry_out(replica.start(stored, now_ms))
    carry_out(replica.receive_request(token, request, now_ms))
    wait_until(replica.deadline_ms), then carry_out(replica.poll(now_ms))

`effects` says how the shell carries effects out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bowstring.engine.raft import elections, fetching, polling, snapshot_fetching, voter_changes
from bowstring.engine.raft.accumulator import Entry
from bowstring.engine.raft.config import QuorumConfig, RandomBelow
from bowstring.engine.raft.core import RaftCore
from bowstring.engine.raft.effects import Effect
from bowstring.engine.raft.election_state import ElectionState
from bowstring.engine.raft.fetch_validation import Validity, validate_fetch
from bowstring.engine.raft.keys import OffsetAndEpoch
from bowstring.engine.raft.leader import LeaderState
from bowstring.engine.raft.log import RaftLog
from bowstring.engine.raft.quorum_state import EpochState
from bowstring.engine.raft.states import NEVER, Resigned
from bowstring.engine.raft.voters import Node, Voter, VoterSet
from bowstring.protocol.errors import Errors, KafkaError

if TYPE_CHECKING:
    from bowstring.engine.raft.messages import Request, Response


class RaftReplica:
    """One node's part in the quorum of the metadata log. Not thread-safe.

    `now_ms` is a steady clock's. A token identifies a request and is returned in exactly one `Respond`.

    Attributes:
        deadline_ms: When to call `poll` if nothing else happens before.
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
        can_become_voter: bool = True,
    ) -> None:
        self._core = RaftCore(
            *(local, log, config, random),
            configured=configured,
            bootstrap=bootstrap,
            cluster_id=cluster_id,
            listener=listener,
            can_become_voter=can_become_voter,
        )
        self.deadline_ms = NEVER

    # ------------------------------------------------------------ state

    @property
    def state(self) -> EpochState:
        """The present state."""
        return self._core.quorum.state

    @property
    def voters(self) -> VoterSet:
        """The latest voters, committed or not."""
        return self._core.control.voters

    @property
    def voters_offset(self) -> int | None:
        """Offset of the record with the latest voters; -1 when they are from the bootstrap snapshot, None
        when they are configured.
        """
        return self._core.control.voters_offset

    @property
    def kraft_version(self) -> int:
        """The latest kraft.version, committed or not."""
        return self._core.control.kraft_version

    @property
    def high_watermark(self) -> int:
        """Records below are committed. It never goes back while the node runs."""
        return self._core.committed

    @property
    def is_stopped(self) -> bool:
        """Whether a shutdown is complete: this node does not lead; voters have noticed or time is over."""
        core, state = self._core, self.state
        if core.stop_at_ms is None or isinstance(state, LeaderState):
            return False
        return not isinstance(state, Resigned) or not state.unacknowledged

    # ------------------------------------------------------------ events: time and the disk

    def start(self, stored: ElectionState | None, now_ms: int) -> list[Effect]:
        """Begins a life. `stored` is what the last `PersistElection` wrote; None on a new node."""
        core = self._core
        core.start_after_snapshot()
        core.quorum.initialize(stored, core.end, now_ms)
        if core.quorum.is_only_voter and not isinstance(self.state, LeaderState):
            elections.become_only_voter(core, now_ms)
        return self._done(now_ms)

    def poll(self, now_ms: int) -> list[Effect]:
        """Does the due work."""
        return self._done(now_ms)

    def election_persisted(self, now_ms: int) -> list[Effect]:
        """Reports that the oldest `PersistElection` in progress is durable."""
        self._core.election_persisted()
        return self._done(now_ms)

    def log_flushed(self, flush_id: int, now_ms: int) -> list[Effect]:
        """Reports that the `FlushLog` with this id, and those before it, have ended."""
        durable_end_offset = self._core.log_flushed(flush_id)
        if durable_end_offset is not None and isinstance(self.state, LeaderState):
            fetching.leader_log_flushed(self._core, self.state, durable_end_offset, now_ms)
        return self._done(now_ms)

    def snapshot_installed(self, id: OffsetAndEpoch, now_ms: int) -> list[Effect]:
        """Reports that the log begins after the fetched snapshot now."""
        snapshot_fetching.snapshot_installed(self._core, id)
        return self._done(now_ms)

    def snapshot_failed(self, id: OffsetAndEpoch, now_ms: int) -> list[Effect]:
        """Reports that the fetched snapshot was damaged, and is deleted."""
        assert self._core.installing == id, id
        self._core.installing = None
        return self._done(now_ms)

    # ------------------------------------------------------------ events: messages

    def receive_request(self, token: object, request: Request, now_ms: int) -> list[Effect]:
        """Handles a request of another node, or of a tool."""
        from bowstring.engine.raft import handlers

        handlers.REQUESTS[type(request)](self._core, token, request, now_ms)
        return self._done(now_ms)

    def receive_response(
        self, source: int, correlation_id: int, response: Response, now_ms: int
    ) -> list[Effect]:
        """Handles the answer to a `Send`; `source` is the id of its destination."""
        from bowstring.engine.raft import handlers

        core = self._core
        if core.requests.is_expected(source, correlation_id):
            success = handlers.RESPONSES[type(response)](core, source, response, now_ms)
            core.requests.answered(source, correlation_id, success=success, now_ms=now_ms)
        return self._done(now_ms)

    # ------------------------------------------------------------ events: the controller

    def append(self, epoch: int, entries: list[Entry], now_ms: int) -> tuple[int, list[Effect]]:
        """Collects records that are written as one batch; returns the offset of the last one.

        They are committed when the high watermark is above that offset while this node leads `epoch`. After
        another leader, only the log shows that.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER: this node does not lead `epoch`.
            ValueError: They are too large for a batch.
        """
        leader = self.state
        if not isinstance(leader, LeaderState) or leader.epoch != epoch or leader.resign_requested:
            raise KafkaError(Errors.NOT_LEADER_OR_FOLLOWER, f"this node does not lead epoch {epoch}")
        assert entries, "nothing to append"
        offset = leader.accumulator.append(entries, now_ms)
        return offset, self._done(now_ms)

    def kraft_version_refusal(self, version: int) -> str | None:
        """Returns why kraft.version cannot change to this one now; None when it can."""
        return voter_changes.upgrade_refusal(self._core, version)

    def upgrade_kraft_version(self, epoch: int, version: int, now_ms: int) -> tuple[int | None, list[Effect]]:
        """Raises kraft.version; `kraft_version_refusal` has found no reason against it.

        Returns:
            The offset of the last record, None when it has that version already; the effects.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER: this node does not lead `epoch`.
        """
        leader = self.state
        if not isinstance(leader, LeaderState) or leader.epoch != epoch or leader.resign_requested:
            raise KafkaError(Errors.NOT_LEADER_OR_FOLLOWER, f"this node does not lead epoch {epoch}")
        offset = voter_changes.upgrade(self._core, version, now_ms)
        return offset, self._done(now_ms)

    def resign(self, epoch: int, now_ms: int) -> list[Effect]:
        """Gives up the leadership of an epoch; does nothing if it is over."""
        leader = self.state
        if isinstance(leader, LeaderState) and leader.epoch == epoch:
            leader.resign_requested = True
        return self._done(now_ms)

    def shutdown(self, timeout_ms: int, now_ms: int) -> list[Effect]:
        """Begins an orderly end: a leader resigns, and no election is begun. See `is_stopped`."""
        self._core.stop_at_ms = now_ms + timeout_ms
        return self._done(now_ms)

    def snapshot_records(self, id: OffsetAndEpoch) -> list[tuple[bytes, bytes]]:
        """Returns the control records that a snapshot begins with, after its header.

        Raises:
            ValueError: There cannot be such a snapshot: `id` is not committed, or not at the begin of a
                batch.
        """
        core = self._core
        if id.offset > core.committed or id.offset < core.log.start_offset:
            raise ValueError(f"{id} is not between {core.log.start_offset} and {core.committed}")
        if validate_fetch(core.log, *id).kind == Validity.DIVERGING:
            raise ValueError(f"{id} has another epoch than the log")
        return core.control.snapshot_records(id)

    def snapshot_created(self, id: OffsetAndEpoch) -> None:
        """Reports a complete snapshot of this node."""
        self._core.control.snapshot_created(id)

    def _done(self, now_ms: int) -> list[Effect]:
        self.deadline_ms = polling.poll(self._core, now_ms)
        return self._core.take_effects()
