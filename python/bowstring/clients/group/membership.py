"""Decides the heartbeats of a KIP-848 or KIP-932 member, and interprets the answers: pure.

The coordinator computes assignments. Each heartbeat reports only what changed: the subscription, and the
partitions that the member owns once it has taken over an assignment. `Membership` gets time as an argument;
member_thread.py runs it, consumer_member.py and clients/share use it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import consumer_group_heartbeat as consumer
from bowstring.protocol.messages import share_group_heartbeat as share
from bowstring.protocol.schema import Request

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
REGEX_VERSION = 1

RETRY_PAUSE_S = 0.1
RETRY_PAUSE_MAX_S = 1.0

# A partition by the id of its topic.
Place = tuple[bytes, int]

_COORDINATOR = (Errors.NOT_COORDINATOR.code, Errors.COORDINATOR_NOT_AVAILABLE.code)
_LOST = (Errors.FENCED_MEMBER_EPOCH.code, Errors.UNKNOWN_MEMBER_ID.code)
# The member stays and retries: access to a topic may be granted later.
_PASSING = (Errors.TOPIC_AUTHORIZATION_FAILED.code, Errors.COORDINATOR_LOAD_IN_PROGRESS.code)


class Phase(Enum):
    """Progress of a member.

    LOST means that the coordinator removed the member, or that it left because its consumer did not poll: it
    joins again when `release` says that its partitions are given up. FAILED means that waiting cannot help:
    once the error has been raised, the next poll tries to join again.
    """

    OUTSIDE = "outside"
    JOINING = "joining"
    MEMBER = "member"
    LOST = "lost"
    LEAVING = "leaving"
    FAILED = "failed"


class Refusal(NamedTuple):
    """An error that the caller must raise; `joined` says whether the member had joined before."""

    code: int
    message: str | None
    joined: bool


class Membership(ABC):
    """One member. Every method is called with the lock of its thread.

    Args:
        group_id: the group.
        member_id: unique; made by the member, as Kafka requests (KIP-1082).
        group_instance_id: makes the member static (KIP-345).
        rack: where the member is.
    """

    api: type[Request]

    def __init__(
        self,
        group_id: str,
        member_id: str,
        *,
        group_instance_id: str | None = None,
        rack: str | None = None,
    ):
        self.group_id = group_id
        self.member_id = member_id
        self.phase = Phase.OUTSIDE
        self.epoch = -1
        self.target: frozenset[Place] | None = None
        """An assignment that the consumer has not taken over yet."""
        self.refusal: Refusal | None = None
        self._group_instance_id = group_instance_id
        self._rack = rack
        self._topics: tuple[str, ...] = ()
        self._regex: str | None = None
        self._used_regex = False  # once sent, an empty one must replace it
        self._owned: frozenset[Place] = frozenset()
        self._told_owned: frozenset[Place] | None = None
        self._told_topics: tuple[tuple[str, ...], str | None] | None = None
        self._must_leave = False
        # whether the last request was the leave; an earlier heartbeat may be in flight before it
        self._told_leave = False
        self._failures = 0
        self._due_at = 0.0

    # ------------------------------------------------------------ calls of the consumer

    def subscribe(self, topics: Iterable[str], regex: str | None = None) -> None:
        """Joins with this subscription, or changes it."""
        self._topics, self._regex = tuple(sorted(topics)), regex
        self._used_regex = self._used_regex or regex is not None
        if self.phase is Phase.OUTSIDE:
            self._join()
        elif self.phase is Phase.FAILED and self.refusal is None:
            due_at = self._due_at
            self._join()
            self._due_at = due_at
        elif self.phase is Phase.MEMBER and self._told_topics != (self._topics, regex):
            self._due_at = 0.0

    def settle(self, owned: Iterable[Place]) -> None:
        """Reports that the consumer has adopted the assignment: it owns just these partitions."""
        self._owned, self._told_owned = frozenset(owned), None
        if self.phase is Phase.MEMBER:
            self._due_at = 0.0

    def release(self) -> None:
        """Reports that a lost member's partitions are given up; it joins again."""
        if self.phase is Phase.LOST:
            self._must_leave = False
            self._join()

    def leave(self) -> bool:
        """Leaves the group; returns whether a request to the coordinator is needed."""
        told = self.phase in (Phase.JOINING, Phase.MEMBER)
        self.phase = Phase.LEAVING if told else Phase.OUTSIDE
        self._due_at = 0.0
        if not told:
            self._forget()
        return told

    def expire(self) -> None:
        """Leaves because the consumer did not poll for max_poll_interval_ms."""
        self._lose()
        self._must_leave = True
        self._due_at = 0.0

    def _join(self) -> None:
        self._forget()
        self.phase = Phase.JOINING
        self.epoch = JOIN_EPOCH
        self._due_at = 0.0

    def _forget(self) -> None:
        self.epoch = -1
        self.target = None
        self._owned = frozenset()
        self._failures = 0
        self._tell_all()

    def _tell_all(self) -> None:
        self._told_owned = self._told_topics = None

    def _lose(self) -> None:
        self.phase = Phase.LOST
        self.target = None

    # ------------------------------------------------------------ requests and answers

    @property
    def due_at(self) -> float | None:
        """When the next request is due; None while there is none."""
        return self._due_at if self.phase in (Phase.JOINING, Phase.MEMBER) or self._is_leaving else None

    @property
    def _is_leaving(self) -> bool:
        return self.phase is Phase.LEAVING or self._must_leave

    @property
    def alive(self) -> bool:
        """Whether the group may assign partitions to the member."""
        return self.phase in (Phase.JOINING, Phase.MEMBER)

    def request(self) -> Callable[[int], Request]:
        """Returns the body of the request that is due, by its version."""
        self._told_leave = self._is_leaving
        if self._told_leave:
            return self._leave_body()
        topics = None if self._told_topics == (self._topics, self._regex) else (self._topics, self._regex)
        owned = None if self._told_owned == self._owned else self._owned
        self._told_topics, self._told_owned = (self._topics, self._regex), self._owned
        return self._body(topics, owned)

    @abstractmethod
    def _body(
        self, topics: tuple[tuple[str, ...], str | None] | None, owned: frozenset[Place] | None
    ) -> Callable[[int], Request]:
        """Returns a heartbeat that reports the subscription and the owned partitions, unless None."""

    @abstractmethod
    def _leave_body(self) -> Callable[[int], Request]: ...

    def failed(self, now: float) -> None:
        """Notes that there was no answer: the coordinator may have received the request or not."""
        if self._told_leave:
            self._left()
            return
        if self._is_leaving:
            return
        self._tell_all()
        self._failures += 1
        self._due_at = now + min(RETRY_PAUSE_MAX_S, RETRY_PAUSE_S * 2 ** min(self._failures - 1, 10))

    def answered(self, answer: Any, now: float) -> bool:
        """Applies an answer; returns whether the coordinator is another broker."""
        if self._told_leave:
            if self._is_leaving and answer.error_code in _COORDINATOR and self._failures < 2:
                self._failures += 1
                return True
            self._left()
            return False
        if self._is_leaving:  # a heartbeat from before; the leave is due
            return answer.error_code in _COORDINATOR
        if answer.error_code:
            return self._refused(answer, now)
        if not self.alive:
            return False  # expired meanwhile
        self._failures = 0
        self.phase = Phase.MEMBER
        self.member_id = answer.member_id or self.member_id
        self.epoch = answer.member_epoch
        self._due_at = now + answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            self.target = frozenset(
                (topic.topic_id, number)
                for topic in answer.assignment.topic_partitions
                for number in topic.partitions
            )
        if self._told_topics != (self._topics, self._regex) or self._told_owned != self._owned:
            self._due_at = now
        return False

    def _refused(self, answer: Any, now: float) -> bool:
        code = answer.error_code
        if code in _LOST:
            if self.epoch > JOIN_EPOCH or self._group_instance_id is not None:
                self._lose()
            else:
                self._join()
                self._due_at = now + RETRY_PAUSE_S
        elif code in _COORDINATOR:
            self.failed(now)
            return True
        elif code in _PASSING or Errors.of(code).retriable:
            self.failed(now)
            if code in _PASSING[:1]:
                self.refusal = Refusal(code, answer.error_message, self.epoch > JOIN_EPOCH)
        else:
            self.fail(code, answer.error_message, now)
        return False

    def fail(self, code: int, message: str | None, now: float) -> None:
        """Stops with an error that the consumer must raise.

        Args:
            code: the coordinator's error; -1 for one of the client.
        """
        self.refusal = Refusal(code, message, self.epoch > JOIN_EPOCH)
        self.phase = Phase.FAILED
        self._due_at = now + RETRY_PAUSE_S  # polls in a loop do not flood the coordinator

    def _left(self) -> None:
        self._must_leave = False
        if self.phase is Phase.LEAVING:
            self.phase = Phase.OUTSIDE
            self._forget()


class ConsumerMembership(Membership):
    """A member of a consumer group (KIP-848).

    Args:
        rebalance_timeout_ms: time that the coordinator gives the member to give up partitions.
        server_assignor: name of the assignor that the member requests; None for the coordinator's first.
    """

    api = consumer.ConsumerGroupHeartbeatRequest

    def __init__(
        self,
        group_id: str,
        member_id: str,
        *,
        rebalance_timeout_ms: int,
        server_assignor: str | None = None,
        group_instance_id: str | None = None,
        rack: str | None = None,
    ):
        super().__init__(group_id, member_id, group_instance_id=group_instance_id, rack=rack)
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._server_assignor = server_assignor

    def _body(
        self, topics: tuple[tuple[str, ...], str | None] | None, owned: frozenset[Place] | None
    ) -> Callable[[int], Request]:
        all_fields = topics is not None or self.phase is Phase.JOINING
        fields: dict[str, Any] = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self._group_instance_id,
        }
        regex = (self._regex or "") if all_fields and self._used_regex else None
        if all_fields:
            fields["subscribed_topic_names"] = list(self._topics)
            fields["rebalance_timeout_ms"] = self._rebalance_timeout_ms
            fields["server_assignor"] = self._server_assignor
            fields["rack_id"] = self._rack
        if self.phase is Phase.JOINING:
            fields["topic_partitions"] = []
        elif owned is not None:
            fields["topic_partitions"] = [
                consumer.TopicPartitions(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in by_topic_id(owned).items()
            ]

        def build(version: int) -> consumer.ConsumerGroupHeartbeatRequest:
            if version >= REGEX_VERSION:
                return consumer.ConsumerGroupHeartbeatRequest(**fields, subscribed_topic_regex=regex)
            return consumer.ConsumerGroupHeartbeatRequest(**fields)

        return build

    def _leave_body(self) -> Callable[[int], Request]:
        # A static member is expected back: its partitions wait until its session is over (KIP-345).
        epoch = LEAVE_STATIC_EPOCH if self._group_instance_id is not None else LEAVE_EPOCH
        return lambda _: consumer.ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self._group_instance_id,
        )


class ShareMembership(Membership):
    """A member of a share group (KIP-932): it reports no owned partitions."""

    api = share.ShareGroupHeartbeatRequest

    def _body(
        self, topics: tuple[tuple[str, ...], str | None] | None, owned: frozenset[Place] | None
    ) -> Callable[[int], Request]:
        body = share.ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch
        )
        if topics is not None or self.phase is Phase.JOINING:
            body.subscribed_topic_names = list(self._topics)
            body.rack_id = self._rack
        return lambda _: body

    def _leave_body(self) -> Callable[[int], Request]:
        return lambda _: share.ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH
        )


def by_topic_id(places: Iterable[Place]) -> Mapping[bytes, list[int]]:
    """Returns partition numbers by topic id, both in order."""
    found: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(places):
        found.setdefault(topic_id, []).append(number)
    return found
