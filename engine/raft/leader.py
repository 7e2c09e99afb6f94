"""The state of a leader: how far each replica has come, the high watermark, and whether a majority still
follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bowstring.engine.raft.accumulator import BatchAccumulator
from bowstring.engine.raft.config import QuorumConfig
from bowstring.engine.raft.control_state import ControlState, control_record
from bowstring.engine.raft.election_state import ElectionState
from bowstring.engine.raft.keys import ReplicaKey
from bowstring.engine.raft.states import NEVER
from bowstring.engine.raft.voters import Endpoints, Voter, VoterSet
from bowstring.protocol.records.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
)
from bowstring.protocol.records.control_batch import ControlRecordType

if TYPE_CHECKING:
    from bowstring.engine.raft.messages import FetchRequest

OBSERVER_SESSION_TIMEOUT_MS = 300_000
"""A leader forgets an observer that has not fetched for this long."""
CAUGHT_UP_WITHIN_MS = 3_600_000
"""An observer can become a voter when it fetched so recently, and has reached the log's end once."""

ADD, REMOVE, UPDATE = "add", "remove", "update"
"""Kinds of changes of voters."""


class ReplicaState:
    """What a leader has recorded about a replica.

    Attributes:
        end_offset: The replica has everything below it on its medium; None before its first fetch.
        last_fetch_ms, last_caught_up_ms: Steady times; None before the first.
    """

    __slots__ = ("end_at_last_fetch", "end_offset", "key", "last_caught_up_ms", "last_fetch_ms")

    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.end_offset: int | None = None
        self.last_fetch_ms: int | None = None
        self.last_caught_up_ms: int | None = None
        self.end_at_last_fetch = -1

    def fetched(self, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Notes a fetch: the replica has everything below `offset`."""
        if offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif 0 < self.end_at_last_fetch <= offset:
            # It has reached the end that the log had at its last fetch.
            self.last_caught_up_ms = max(self.last_caught_up_ms or 0, self.last_fetch_ms or 0)
        self.end_at_last_fetch = leader_end_offset
        self.last_fetch_ms = now_ms
        self.end_offset = offset


class DelayedFetch:
    """A Fetch that waits for records or for a higher high watermark."""

    __slots__ = ("deadline_ms", "high_watermark", "request", "token")

    def __init__(self, token: object, request: FetchRequest, high_watermark: int, deadline_ms: int) -> None:
        self.token = token
        self.request = request
        self.high_watermark = high_watermark
        self.deadline_ms = deadline_ms


class VoterChange:
    """The change of the voters in progress; there is at most one.

    Attributes:
        token: The request to answer; None when it has been answered.
        asked: The node whose supported versions are awaited; None when they are known or not needed.
        last_offset: The record of the new voters; None before it is appended.
    """

    __slots__ = ("ack_when_committed", "asked", "deadline_ms", "kind", "last_offset", "token", "voter")

    def __init__(self, kind: str, token: object | None, voter: Voter, deadline_ms: float) -> None:
        self.kind = kind
        self.token = token
        self.voter = voter
        self.deadline_ms = deadline_ms
        self.asked: int | None = None
        self.last_offset: int | None = None
        self.ack_when_committed = True


class LeaderState:
    """Leads an epoch.

    Attributes:
        epoch_start_offset: Offset of the epoch's first record, the leader change.
        high_watermark: None until a record of this epoch is committed.
        change: The change of voters in progress.
        told: Reports of configured voters by UpdateRaftVoter: directory and versions.
        delayed: Fetches that wait.
        resign_requested: Whether to resign at the next chance.
    """

    def __init__(
        self,
        local: Voter,
        control: ControlState,
        config: QuorumConfig,
        *,
        epoch: int,
        granting: list[int],
        end_offset: int,
        now_ms: int,
    ) -> None:
        self.epoch = epoch
        self.granting = granting
        self.local = local
        self.epoch_start_offset = end_offset
        self.high_watermark: int | None = None
        self.accumulator = BatchAccumulator(self.epoch, end_offset, config.append_linger_ms)
        self.change: VoterChange | None = None
        self.told = {local.key.id: local}
        self.delayed: list[DelayedFetch] = []
        self.resign_requested = False
        self.begin_quorum_epoch_at_ms = now_ms
        self._config = config
        self._voters = {key.id: ReplicaState(key) for key in control.voters.keys}
        self._observers: dict[ReplicaKey, ReplicaState] = {}
        self._fetched: set[int] = set()
        self._check_quorum_at_ms = now_ms + config.check_quorum_timeout_ms
        self.update_local_end(end_offset)

    # ------------------------------------------------------------ as all states

    @property
    def leader_id(self) -> int:
        """This node."""
        return self.local.key.id

    @property
    def leader_endpoints(self) -> Endpoints:
        """Where this node listens."""
        return self.local.endpoints

    @property
    def voted(self) -> None:
        """Not kept: the epoch has its leader."""
        return None

    def election(self) -> ElectionState:
        """What must be durable."""
        return ElectionState(self.epoch, self.local.key.id)

    def can_grant_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Whether to grant a vote: never."""
        return False

    # ------------------------------------------------------------ the epoch's first records

    def append_start_of_epoch(self, control: ControlState, now_ms: int) -> None:
        """Appends the leader change. A leader that finds other facts about itself in the voters of the log,
        or voters that only its bootstrap snapshot has, appends the voters as well.
        """
        message = LeaderChangeMessage(
            version=0,
            leader_id=self.local.key.id,
            voters=[LeaderChangeMessageVoter(voter_id=id) for id in self._voters],
            granting_voters=[LeaderChangeMessageVoter(voter_id=id) for id in self.granting],
        )
        entries = [control_record(ControlRecordType.LEADER_CHANGE, message)]
        if control.can_reconfigure:
            voters = control.voters
            if control.voters_offset == -1 or voters.needs_update(self.local):
                updated = voters.with_update(self.local)
                assert updated is not None, f"{self.local} leads without being one of {voters}"
                version = KRaftVersionRecord(version=0, kraft_version=control.kraft_version)
                entries.append(control_record(ControlRecordType.KRAFT_VERSION, version))
                entries.append(control_record(ControlRecordType.KRAFT_VOTERS, updated.to_record()))
        self.accumulator.append_control([*entries], now_ms)

    def append_voters(self, voters: VoterSet, now_ms: int) -> int:
        """Appends new voters; returns the record's offset."""
        record = control_record(ControlRecordType.KRAFT_VOTERS, voters.to_record())
        return self.accumulator.append_control([record], now_ms)

    def append_kraft_version(self, version: int, voters: VoterSet, now_ms: int) -> int:
        """Appends a kraft.version and the voters that the log has from then on; returns the last offset."""
        entries = [
            control_record(
                ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(version=0, kraft_version=version)
            ),
            control_record(ControlRecordType.KRAFT_VOTERS, voters.to_record()),
        ]
        return self.accumulator.append_control([*entries], now_ms)

    # ------------------------------------------------------------ progress of replicas

    def replica(self, key: ReplicaKey) -> ReplicaState:
        """Returns the state of a voter or observer."""
        state = self._voters.get(key.id)
        if state is not None and key.is_meant_by(state.key):
            return state
        return self._observers.setdefault(key, ReplicaState(key))

    def is_voter(self, key: ReplicaKey) -> bool:
        """Whether a replica counts for the high watermark."""
        state = self._voters.get(key.id)
        return state is not None and key.is_meant_by(state.key)

    @property
    def is_only_voter(self) -> bool:
        """Whether this leader is its own majority."""
        return list(self._voters) == [self.local.key.id]

    def update_local_end(self, durable_end_offset: int) -> bool:
        """Notes how much of its log the leader has on its medium; returns whether the high watermark rose."""
        self.replica(self.local.key).end_offset = durable_end_offset
        return self._update_high_watermark()

    def update_voters(self, voters: VoterSet) -> None:
        """Makes the voters of a record that was just appended count."""
        known = {**self._observers, **{state.key: state for state in self._voters.values()}}
        by_id = {state.key.id: state for state in self._voters.values()}
        before, self._voters = self._voters, {}
        for key in voters.keys:
            same = known.get(key) or by_id.get(key.id)
            if same is None or not key.is_meant_by(same.key):
                same = ReplicaState(key)
            same.key = key
            self._voters[key.id] = same
            self._observers.pop(key, None)
        for state in before.values():
            if state is not self._voters.get(state.key.id):
                self._observers.setdefault(state.key, state)
        self._fetched &= set(self._voters)

    def follower_fetched(self, key: ReplicaKey, offset: int, log_end_offset: int, now_ms: int) -> bool:
        """Notes a valid fetch; returns whether the high watermark rose."""
        if key.id < 0:
            return False
        self.replica(key).fetched(offset, log_end_offset, now_ms)
        self.heard_from(key, now_ms)
        return self.is_voter(key) and self._update_high_watermark()

    def _update_high_watermark(self) -> bool:
        """Raises the high watermark to what a majority has, once that includes a record of this epoch.

        Records of older epochs do not count by themselves: a majority may have one, and a later leader
        without it may still be elected (Raft, 5.4.2).
        """
        ends = sorted(-1 if each.end_offset is None else each.end_offset for each in self._voters.values())
        reached = ends[(len(ends) - 1) // 2]
        # A change of the voters can make this smaller than before. Committed records stay committed.
        if reached <= self.epoch_start_offset or reached <= (self.high_watermark or 0):
            return False
        self.high_watermark = reached
        return True

    # ------------------------------------------------------------ whether a majority follows

    @property
    def check_quorum_at_ms(self) -> float:
        """When to resign unless a majority fetches before."""
        return NEVER if self.is_only_voter else self._check_quorum_at_ms

    def heard_from(self, key: ReplicaKey, now_ms: int) -> None:
        """Notes a Fetch or FetchSnapshot."""
        if self.is_voter(key):
            self._fetched.add(key.id)
        majority = len(self._voters) // 2 + 1
        if self.is_voter(self.local.key):
            majority -= 1  # a leader that is being removed does not count itself
        if len(self._fetched) >= majority:
            self._fetched.clear()
            self._check_quorum_at_ms = now_ms + self._config.check_quorum_timeout_ms

    def follow_alone(self, now_ms: int) -> None:
        """Notes that the only voter follows itself, so that the next one has the whole time to fetch."""
        self._check_quorum_at_ms = now_ms + self._config.check_quorum_timeout_ms

    def silent_voters(self, now_ms: int) -> list[ReplicaKey]:
        """Voters that have not fetched lately, and perhaps do not have this leader."""
        since = now_ms - self._config.begin_quorum_epoch_interval_ms
        return [
            state.key
            for state in self._voters.values()
            if state.key.id != self.local.key.id
            and (state.last_fetch_ms is None or state.last_fetch_ms <= since)
        ]

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, the one with the longest log first."""
        others = [each for each in self._voters.values() if each.key.id != self.local.key.id]
        others.sort(key=lambda each: -1 if each.end_offset is None else each.end_offset, reverse=True)
        return tuple(each.key for each in others)

    def is_caught_up(self, key: ReplicaKey, now_ms: int) -> bool:
        """Whether an observer has reached the log's end, and still fetches."""
        state = self._observers.get(key)
        if state is None or state.last_caught_up_ms is None or state.last_fetch_ms is None:
            return False
        return state.last_fetch_ms > now_ms - CAUGHT_UP_WITHIN_MS

    # ------------------------------------------------------------ description

    def voter_states(self) -> Iterator[ReplicaState]:
        """The states of the voters."""
        yield from self._voters.values()

    def observer_states(self, now_ms: int) -> Iterator[ReplicaState]:
        """The states of observers that still fetch."""
        since = now_ms - OBSERVER_SESSION_TIMEOUT_MS
        for key, state in list(self._observers.items()):
            if (state.last_fetch_ms is None or state.last_fetch_ms <= since) and key != self.local.key:
                del self._observers[key]
            else:
                yield state
