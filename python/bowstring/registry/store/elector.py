"""Decides what a registry sends as a member of its group, and who leads by the answers: pure.

It is a classic member of Kafka's group protocol with the protocol type "sr", as Confluent's and Karapace's
registries are, so that mixed deployments elect one leader. It is a static one (KIP-345), with its URL as the
id: a registry that is started again after a crash takes its place at once, instead of waiting until the group
removes the former member. Time is an argument, in seconds of a monotonic
clock; store_thread.py does the I/O.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.heartbeat import HeartbeatRequest
from bowstring.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from bowstring.protocol.messages.leave_group import LeaveGroupRequest
from bowstring.protocol.messages.leave_group import MemberIdentity as Leaving
from bowstring.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from bowstring.protocol.schema import Request
from bowstring.registry.store.leader_assignment import NO_ERROR, LeaderAssignment, elect
from bowstring.registry.store.member_identity import MemberIdentity

_log = logging.getLogger("bowstring.registry")
_NO_ID = re.compile(r"[^A-Za-z0-9._-]+")

PROTOCOL_TYPE = "sr"
PROTOCOL_NAME = "v0"
RETRY_PAUSE_S = 0.1
REFUSED_PAUSE_S = 1.0  # after an error that does not pass by itself
LOG_EVERY_S = 30.0
# The coordinator answers JoinGroup within the rebalance timeout; this is extra time for the network.
JOIN_GRACE_S = 5.0
# Versions with the ids of static members (KIP-345), and with the protocol (KIP-559).
JOIN_INSTANCE_VERSION, INSTANCE_VERSION, SYNC_PROTOCOL_VERSION = 5, 3, 5
# How long a member waits that another one with its URL replaced.
REPLACED_PAUSE_S = 30.0
# Where brokers want longer sessions; Confluent's and Karapace's default.
LONGER_SESSION_S = 10.0
# So many heartbeats that are not answered end a session.
BEATS_OF_A_SESSION = 3

_COORDINATOR = (
    Errors.NOT_COORDINATOR.code,
    Errors.COORDINATOR_NOT_AVAILABLE.code,
    Errors.COORDINATOR_LOAD_IN_PROGRESS.code,
)
_LOST = (Errors.UNKNOWN_MEMBER_ID.code, Errors.ILLEGAL_GENERATION.code)


class GroupTimes(NamedTuple):
    """Times of the group, in seconds. Brokers take no shorter sessions by default."""

    session_timeout_s: float = 6.0
    rebalance_timeout_s: float = 30.0
    heartbeat_interval_s: float = 1.0


class Step(Enum):
    """Progress of the member."""

    OUTSIDE = "outside"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"


class Ask(NamedTuple):
    """A request to the group's coordinator. `life` tells answers to an earlier member apart."""

    api: type[Request]
    body: Callable[[int], Request]
    timeout_s: float
    life: int
    generation: int
    asked_at: float


class Elected(NamedTuple):
    """What the last election says.

    Attributes:
        leads: this member leads.
        url: where the leader serves; None without a leader.
        after_foreign: the leader before this election was not a Bowstring registry, which nothing fences.
        number: counts the elections that this member has seen.
    """

    leads: bool = False
    url: str | None = None
    after_foreign: bool = False
    number: int = 0


class Elector:
    """One member of the group of registries.

    Args:
        group_id: the group.
        identity: what this registry says about itself.
        times: of the group.

    Attributes:
        elected: the outcome of the last election.
        lease_until: until then the coordinator has not removed this member: it counts from when the last
            answered heartbeat was sent.
        coordinator_lost: the coordinator is another broker; the caller looks for it and resets this.
    """

    def __init__(self, group_id: str, identity: MemberIdentity, times: GroupTimes):
        self.elected = Elected()
        self.lease_until = 0.0
        self.coordinator_lost = False
        self.member_id = ""
        self.generation = -1
        self.step = Step.OUTSIDE
        self._group_id = group_id
        self._identity = identity
        self._times = times
        self._instance_id = _NO_ID.sub("-", identity.url)
        self._life = 0
        self._asking = False  # a JoinGroup or SyncGroup is in flight
        self._beating = False
        self._rejoin = True
        self._assignments: dict[str, bytes] = {}
        self._protocol = PROTOCOL_NAME
        self._due_at = 0.0
        self._beat_at = 0.0
        self._logged: tuple[int, float] = (0, -LOG_EVERY_S)

    # ------------------------------------------------------------ requests

    def asks(self, now: float) -> list[Ask]:
        """Returns the requests that are due; each of them needs an `answered` or a `failed`."""
        found = []
        if self._beats and now >= self._beat_at and not self._beating:
            self._beating = True
            found.append(self._heartbeat(now))
        if not self._asking and now >= self._due_at:
            if self.step is Step.SYNCING:
                self._asking = True
                found.append(self._sync(now))
            elif self._rejoin or self.step is not Step.STABLE:
                self._asking = True
                found.append(self._join(now))
        return found

    def due_at(self) -> float:
        """When the next request is due, unless an answer comes first."""
        times = [self._beat_at] if self._beats and not self._beating else []
        if not self._asking and (self._rejoin or self.step is not Step.STABLE):
            times.append(self._due_at)
        return min(times, default=float("inf"))

    @property
    def _beats(self) -> bool:
        # Also while it joins anew: the coordinator keeps members waiting for one another.
        return self.generation >= 0

    def _join(self, now: float) -> Ask:
        times = self._times
        self.step = Step.JOINING
        self._rejoin = False
        identity, member_id = self._identity._replace(leader=self.elected.leads), self.member_id

        def body(version: int) -> JoinGroupRequest:
            return JoinGroupRequest(
                group_id=self._group_id,
                session_timeout_ms=int(times.session_timeout_s * 1000),
                rebalance_timeout_ms=int(times.rebalance_timeout_s * 1000),
                member_id=member_id,
                group_instance_id=self._instance_id if version >= JOIN_INSTANCE_VERSION else None,
                protocol_type=PROTOCOL_TYPE,
                protocols=[JoinGroupRequestProtocol(name=PROTOCOL_NAME, metadata=identity.encode())],
            )

        return Ask(
            JoinGroupRequest, body, times.rebalance_timeout_s + JOIN_GRACE_S, self._life, self.generation, now
        )

    def _sync(self, now: float) -> Ask:
        assignments = [
            SyncGroupRequestAssignment(member_id=member, assignment=data)
            for member, data in self._assignments.items()
        ]

        def body(version: int) -> SyncGroupRequest:
            request = SyncGroupRequest(
                group_id=self._group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                assignments=assignments,
            )
            if version >= INSTANCE_VERSION:
                request.group_instance_id = self._instance_id
            if version >= SYNC_PROTOCOL_VERSION:
                request.protocol_type, request.protocol_name = PROTOCOL_TYPE, self._protocol
            return request

        return Ask(
            SyncGroupRequest,
            body,
            self._times.rebalance_timeout_s + JOIN_GRACE_S,
            self._life,
            self.generation,
            now,
        )

    def _heartbeat(self, now: float) -> Ask:
        member_id, generation = self.member_id, self.generation

        def body(version: int) -> HeartbeatRequest:
            return HeartbeatRequest(
                group_id=self._group_id,
                generation_id=generation,
                member_id=member_id,
                group_instance_id=self._instance_id if version >= INSTANCE_VERSION else None,
            )

        return self._ask(HeartbeatRequest, body, self._times.session_timeout_s / BEATS_OF_A_SESSION, now)

    def _ask(self, api: type[Request], body: Any, timeout_s: float, now: float) -> Ask:
        return Ask(api, body, timeout_s, self._life, self.generation, now)

    def leave(self) -> Callable[[int], LeaveGroupRequest] | None:
        """Ends the membership; returns the request that lets another lead at once, if there is any."""
        member_id = self.member_id
        self._forget()
        self.elected = Elected(number=self.elected.number)
        if not member_id:
            return None

        def body(version: int) -> LeaveGroupRequest:
            if version < INSTANCE_VERSION:
                return LeaveGroupRequest(group_id=self._group_id, member_id=member_id)
            leaving = Leaving(
                member_id=member_id, group_instance_id=self._instance_id, reason="the registry stops"
            )
            return LeaveGroupRequest(group_id=self._group_id, members=[leaving])

        return body

    def rejoin(self, now: float, pause_s: float = 0.0) -> None:
        """Makes the group elect anew."""
        self._rejoin = True
        self._due_at = max(self._due_at, now + pause_s)

    # ------------------------------------------------------------ answers

    def failed(self, ask: Ask, now: float) -> None:
        """Notes that a request was not answered."""
        if ask.life != self._life:
            return
        self.coordinator_lost = True
        if ask.api is HeartbeatRequest:
            self._beating = False
            self._beat_at = now + RETRY_PAUSE_S
            return
        self._asking = False
        self.step = Step.OUTSIDE
        self._due_at = now + RETRY_PAUSE_S

    def answered(self, ask: Ask, answer: Any, now: float) -> None:
        """Applies an answer."""
        if ask.life != self._life:
            return
        if ask.api is HeartbeatRequest:
            self._beaten(ask, answer.error_code, now)
            return
        self._asking = False
        if ask.api is JoinGroupRequest:
            self._joined(ask, answer, now)
        elif answer.error_code:
            self._refused(answer.error_code, now)
        else:
            self._synced(ask, answer.assignment, now)

    def _beaten(self, ask: Ask, code: int, now: float) -> None:
        self._beating = False
        self._beat_at = max(self._beat_at, ask.asked_at + self._times.heartbeat_interval_s)
        if ask.generation != self.generation:
            return  # the next generation has begun meanwhile
        if code in (0, Errors.REBALANCE_IN_PROGRESS.code):
            self._extend_lease(ask)
            if code and self.step is Step.STABLE:
                self._rejoin = True
        elif code in _COORDINATOR:
            self.coordinator_lost = True
            self._beat_at = now + RETRY_PAUSE_S
        elif code == Errors.ILLEGAL_GENERATION.code and self.step is not Step.STABLE:
            return  # the next generation has begun, and its answer is on the way
        elif code in _LOST:
            self._forget()
        elif code == Errors.FENCED_INSTANCE_ID.code:
            self._replaced(now)
        else:
            self._note(code, "sending a heartbeat to", now)
            self._beat_at = now + REFUSED_PAUSE_S

    def _joined(self, ask: Ask, answer: Any, now: float) -> None:
        code = answer.error_code
        if code == Errors.MEMBER_ID_REQUIRED.code:
            self.member_id = answer.member_id
            self._rejoin = True
            self._due_at = now
            return
        if code:
            self._refused(code, now)
            return
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self._protocol = answer.protocol_name or PROTOCOL_NAME
        self._extend_lease(ask)
        self._beat_at = now + self._times.heartbeat_interval_s
        self._assignments = {}
        if answer.leader == answer.member_id:
            self._assignments = elect({each.member_id: each.metadata for each in answer.members})
        self.step = Step.SYNCING
        self._due_at = now

    def _synced(self, ask: Ask, data: bytes, now: float) -> None:
        self._extend_lease(ask)
        self.step = Step.STABLE
        self._logged = (0, -LOG_EVERY_S)
        before, number = self.elected, self.elected.number + 1
        try:
            found = LeaderAssignment.decode(data)
        except ValueError as error:
            _log.error("the group %r of registries has no leader: %s", self._group_id, error)
            found = LeaderAssignment()
        if found.error != NO_ERROR:
            _log.error(
                "the group %r of registries has members with the same URL, so it has no leader; give each "
                "registry an advertised URL of its own. This one has %s",
                self._group_id,
                self._identity.url,
            )
            found = LeaderAssignment(found.error)
        identity = found.identity
        if identity is None:
            self.elected = Elected(number=number, after_foreign=before.after_foreign)
            return
        # By URL: a registry that was restarted gets the assignment that names its former member id.
        leads = identity.url == self._identity.url and self._identity.eligible
        # `after_foreign` stays true in followers for the election after this one.
        foreign = before.after_foreign if leads else not identity.is_bowstring
        if before.leads and leads:
            foreign = False
        self.elected = Elected(leads, identity.url, foreign, number)

    def _refused(self, code: int, now: float) -> None:
        self.step = Step.OUTSIDE
        self._rejoin = True
        self._due_at = now + RETRY_PAUSE_S
        if code in _LOST:
            self._forget()
        elif code == Errors.FENCED_INSTANCE_ID.code:
            self._replaced(now)
        elif code in _COORDINATOR:
            self.coordinator_lost = True
        elif code == Errors.INVALID_SESSION_TIMEOUT.code and self._times.session_timeout_s < LONGER_SESSION_S:
            self._times = self._times._replace(session_timeout_s=LONGER_SESSION_S)
            self._due_at = now
        elif code != Errors.REBALANCE_IN_PROGRESS.code:
            self._note(code, "joining", now)
            self._due_at = now + REFUSED_PAUSE_S
        else:
            self._due_at = now

    def _extend_lease(self, ask: Ask) -> None:
        self.lease_until = max(self.lease_until, ask.asked_at + self._times.session_timeout_s)

    def _forget(self) -> None:
        """Drops the membership: the coordinator has removed it."""
        self._life += 1
        self.member_id, self.generation = "", -1
        self.step = Step.OUTSIDE
        self._asking = self._beating = False
        self._rejoin = True
        self.lease_until = 0.0
        if self.elected.leads:
            self.elected = Elected(number=self.elected.number + 1)

    def _replaced(self, now: float) -> None:
        """Leaves the group to another registry with the same URL: this one was taken for dead."""
        _log.error(
            "another registry has joined the group %r with the URL %s; stop one of them, or give it another "
            "advertised URL",
            self._group_id,
            self._identity.url,
        )
        self._forget()
        self._due_at = now + REPLACED_PAUSE_S

    def _note(self, code: int, doing: str, now: float) -> None:
        if self._logged[0] == code and now < self._logged[1] + LOG_EVERY_S:
            return
        self._logged = (code, now)
        row = Errors.of(code)
        _log.error("%s the group %r of registries: %s [%s]", doing, self._group_id, row.message, row.name)
