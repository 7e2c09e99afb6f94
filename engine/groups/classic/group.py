"""Holds a classic consumer group: its members, its generation and the protocol they agree on.

Only bookkeeping is here; `join`, `sync` and `membership` apply requests and timeouts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum

from bowstring.engine.groups.consumer_protocol import subscribed_topics
from bowstring.protocol.errors import Error, Errors

CONSUMER_PROTOCOL_TYPE = "consumer"
UNKNOWN_MEMBER_ID = ""


class GroupState(StrEnum):
    """States of a classic group, spelled as in ListGroups and DescribeGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_PREVIOUS = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.PREPARING_REBALANCE: {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY},
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.DEAD: set(GroupState),
}


@dataclass(slots=True)
class Member:
    """One member. `join_token` and `sync_token` are its parked JoinGroup and SyncGroup requests."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    # (name, metadata), most preferred first
    protocols: list[tuple[str, bytes]]
    assignment: bytes = b""
    join_token: object | None = None
    sync_token: object | None = None
    # not answered yet, so it does not have its id and cannot send heartbeats
    is_new: bool = False

    @property
    def is_static(self) -> bool:
        """Whether the member has a group.instance.id (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def heartbeat_satisfied(self) -> bool:
        """Whether a parked request replaces heartbeats; new members expire even while parked."""
        return not self.is_new and (self.join_token is not None or self.sync_token is not None)

    def metadata(self, protocol_name: str) -> bytes:
        """Returns the member's metadata for a protocol that it supports."""
        return next(metadata for name, metadata in self.protocols if name == protocol_name)

    def vote(self, candidates: set[str]) -> str:
        """Returns the member's most preferred protocol among `candidates`."""
        return next(name for name, _ in self.protocols if name in candidates)


class ClassicGroup:
    """Members, leader, generation and state of one group; keeps its counts and indexes consistent."""

    group_type = "classic"

    def __init__(self, group_id: str, state_timestamp_ms: int | None) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        # wall time of the last state change; None in a group read from a record without it
        self.state_timestamp_ms = state_timestamp_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        # in order of arrival; the next leader is the longest-serving member
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_join_members: set[str] = set()
        self.pending_sync_members: set[str] = set()
        self.awaiting_join = 0
        self.subscribed_topics: frozenset[str] | None = None
        # the initial rebalance is prolonged as long as members keep arriving
        self.new_member_added = False
        self.initial_delay_ms = 0
        self.initial_remaining_ms: int | None = None
        # Members that support a protocol. One that names it twice counts once.
        self.protocol_counts: Counter[str] = Counter()

    def __repr__(self) -> str:
        size = len(self.members)
        return f"ClassicGroup({self.group_id!r}, {self.state}, generation={self.generation}, {size} members)"

    # ---- questions

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members and waits for none (state Empty)."""
        return self.state is GroupState.EMPTY

    @property
    def is_simple(self) -> bool:
        """Whether the group holds offsets only: no member ever joined, so the log has no group metadata."""
        return self.protocol_type is None and self.is_empty and not self.pending_join_members

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether members are consumers, whose metadata the coordinator can decode."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def can_rebalance(self) -> bool:
        """Whether the state may change to PreparingRebalance."""
        return self.state in _PREVIOUS[GroupState.PREPARING_REBALANCE]

    @property
    def all_members_joined(self) -> bool:
        """Whether every known member waits for its JoinGroup answer and no member with a reserved id is
        missing.
        """
        return self.awaiting_join == len(self.members) and not self.pending_join_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_leader(self, member_id: str) -> bool:
        """Whether `member_id` computes the assignment."""
        return self.leader_id == member_id

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads `topic`; true for consumers whose subscription could not be read."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def supports_protocols(self, protocol_type: str, names: list[str]) -> bool:
        """Whether a member of this type and these protocols fits: every member supports one of them."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        size = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.protocol_counts[name] == size for name in names
        )

    def select_protocol(self) -> str:
        """Returns the protocol with most votes among those that every member supports."""
        size = len(self.members)
        if size == 1:
            (member,) = self.members.values()
            return member.protocols[0][0]
        candidates = {name for name, count in self.protocol_counts.items() if count == size}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    # ---- checks, each a row of the error table

    def check_member(self, member_id: str, instance_id: str | None) -> Error:
        """UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when the instance id belongs to another member id."""
        if instance_id is not None:
            holder = self.static_members.get(instance_id)
            if holder is None:
                return Errors.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return Errors.FENCED_INSTANCE_ID
        return Errors.NONE if member_id in self.members else Errors.UNKNOWN_MEMBER_ID

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        transactional: bool = False,
        api_version: int = 9,
    ) -> Error:
        """Checks commits: by members of this generation, and by anyone without a generation while the group
        is empty.
        """
        if self.state is GroupState.DEAD:
            return Errors.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.is_empty:
            return Errors.NONE
        error = Errors.NONE
        if generation >= 0 or member_id or instance_id is not None:
            error = self.check_member(member_id, instance_id)
            if not error and generation != self.generation:
                error = Errors.ILLEGAL_GENERATION
        elif not transactional:
            error = Errors.UNKNOWN_MEMBER_ID
        if not error and not transactional and self.state is GroupState.COMPLETING_REBALANCE:
            error = Errors.REBALANCE_IN_PROGRESS
        return error

    def partition_check(self, member_id: str, generation: int) -> None:
        """Checks nothing: a member of this generation may commit for all partitions."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> Error:
        """Allows anyone to read a classic group's offsets; KIP-848 ids have no meaning for it."""
        return Errors.GROUP_ID_NOT_FOUND if self.state is GroupState.DEAD else Errors.NONE

    def check_offset_delete(self) -> Error:
        """Refuses if there are members. Only consumer groups show which topics their members use."""
        if self.state is GroupState.DEAD:
            return Errors.GROUP_ID_NOT_FOUND
        if not self.is_empty and not self.uses_consumer_protocol:
            return Errors.NON_EMPTY_GROUP
        return Errors.NONE

    def check_delete(self) -> Error:
        """Allows deletion of empty groups only."""
        if self.state is GroupState.DEAD:
            return Errors.GROUP_ID_NOT_FOUND
        return Errors.NONE if self.is_empty else Errors.NON_EMPTY_GROUP

    def offset_expiry_base_ms(self, commit_timestamp_ms: int) -> int | None:
        """Time from which offsets.retention.minutes counts for an offset; None while it must be kept
        (KIP-211).
        """
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.is_empty:
            return commit_timestamp_ms if self.state_timestamp_ms is None else self.state_timestamp_ms
        if (
            self.uses_consumer_protocol
            and self.subscribed_topics is not None
            and self.state is GroupState.STABLE
        ):
            return commit_timestamp_ms
        return None

    # ---- changes

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Changes the state to `state`. A transition that the protocol does not have is a bug."""
        assert self.state in _PREVIOUS[state], f"{self!r} cannot become {state}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def add(self, member: Member, join_token: object | None = None) -> None:
        """Adds a member whose protocols fit; the first one leads and sets the protocol type."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members, (self, member)
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        assert self.protocol_type == member.protocol_type, (self, member)
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.protocol_counts.update({name for name, _ in member.protocols})
        self.set_join_token(member, join_token)
        self.pending_join_members.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Removes a member or a reserved id; the next member in order of arrival leads."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._forget_protocols(member)
            self.set_join_token(member, None)
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.is_leader(member_id):
            self.leader_id = next(iter(self.members), None)
        self.pending_join_members.discard(member_id)
        self.pending_sync_members.discard(member_id)

    def replace_static_member(self, instance_id: str, old_id: str, new_id: str) -> Member:
        """Transfers the instance's place in the order of members to `new_id`. The old member's requests must
        have been answered.
        """
        old = self.members[old_id]
        assert old.join_token is None and old.sync_token is None, (self, old)
        new = replace(old, member_id=new_id, is_new=False)
        self.members = {
            member.member_id: member
            for member in (new if member is old else member for member in self.members.values())
        }
        if self.is_leader(old_id):
            self.leader_id = new_id
        self.static_members[instance_id] = new_id
        self.pending_sync_members.discard(old_id)
        return new

    def update(
        self,
        member: Member,
        protocols: list[tuple[str, bytes]],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        join_token: object | None,
    ) -> None:
        """Updates a member from its new JoinGroup."""
        if member.protocols != protocols:
            self._forget_protocols(member)
            self.protocol_counts.update({name for name, _ in protocols})
            member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self.set_join_token(member, join_token)

    def _forget_protocols(self, member: Member) -> None:
        self.protocol_counts.subtract({name for name, _ in member.protocols})
        # Unused names would fill the memory if clients made up new ones.
        self.protocol_counts = +self.protocol_counts

    def set_join_token(self, member: Member, token: object | None) -> None:
        """Parks or releases a member's JoinGroup, and updates the count of parked ones."""
        self.awaiting_join += (token is not None) - (member.join_token is not None)
        member.join_token = token

    def elect_joined_leader(self) -> bool:
        """Transfers leadership to a member that rejoined if the leader did not; false when no member
        rejoined.
        """
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].join_token is not None:
            return True
        joined = next((m.member_id for m in self.members.values() if m.join_token is not None), None)
        if joined is not None:
            self.leader_id = joined
        return joined is not None

    def start_generation(self, now_ms: int) -> None:
        """Ends the join phase: next generation, its protocol, and state CompletingRebalance or Empty."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.refresh_subscribed_topics()
        self.pending_sync_members.clear()
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)

    def refresh_subscribed_topics(self) -> None:
        """Decodes the members' subscriptions; None if they are not consumers or cannot be decoded."""
        self.subscribed_topics = None
        if not self.uses_consumer_protocol:
            return
        topics: set[str] = set()
        for member in self.members.values():
            if self.protocol_name is None:
                return
            found = subscribed_topics(member.metadata(self.protocol_name))
            if found is None:
                return
            topics.update(found)
        self.subscribed_topics = frozenset(topics)
