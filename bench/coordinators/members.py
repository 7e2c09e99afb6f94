"""Members of groups: join, keep their session alive, and follow rebalances, as Kafka's consumers do."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from bench.coordinators.loop import Loop, Wire, answer_of, frame_of
from bench.peers.wire import WireError
from bowstring.protocol import encode
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from bowstring.protocol.messages.heartbeat import HeartbeatRequest
from bowstring.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from bowstring.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from bowstring.protocol.records.consumer_protocol import ConsumerProtocolSubscription

CLASSIC_SESSION_MS = 45_000
RETRY_S = 0.05
# Successive multiples of it, modulo 1, are spread evenly for any number of members.
GOLDEN = 0.6180339887
JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, CONSUMER_VERSION = 9, 5, 4, 1

Partition = tuple[bytes, int]

REJOIN = frozenset({Errors.REBALANCE_IN_PROGRESS.code, Errors.UNKNOWN_MEMBER_ID.code})
AGAIN = frozenset(
    {
        Errors.COORDINATOR_LOAD_IN_PROGRESS.code,
        Errors.COORDINATOR_NOT_AVAILABLE.code,
        Errors.NOT_COORDINATOR.code,
    }
)

_numbers = itertools.count()


class Member:
    """The common part of both protocols.

    Args:
        loop: Its timers.
        wire: Its connection.
        group: The group's id.
        topic: What it subscribes to.

    Attributes:
        interval_s: Seconds between its heartbeats.
        is_stable: It has an assignment and sees no rebalance.
        latencies_s: Seconds of each heartbeat in the stable state.
        rebalances: How often it left the stable state.
    """

    def __init__(self, loop: Loop, wire: Wire, group: str, topic: str):
        self.loop = loop
        self.wire = wire
        self.group = group
        self.topic = topic
        self.member_id = ""
        self.interval_s = 3.0
        self.is_stable = False
        self.latencies_s: list[float] = []
        self.rebalances = 0
        self._dead = False
        self._phase = next(_numbers) * GOLDEN % 1

    def join(self) -> None:
        """Begins to join; the loop does the rest."""
        raise NotImplementedError

    def die(self) -> None:
        """Ends like a killed process: without a request."""
        self._dead = True
        self.loop.close(self.wire)

    def _first_wait_s(self) -> float:
        """Seconds until the first heartbeat: members that joined together do not beat together."""
        return self.interval_s * self._phase

    def _soon(self, call: Callable[[], None], seconds: float = RETRY_S) -> None:
        self.loop.at(time.monotonic() + seconds, lambda: None if self._dead else call())


class ClassicMember(Member):
    """A member by JoinGroup, SyncGroup and Heartbeat; the leader assigns nothing."""

    def __init__(self, loop: Loop, wire: Wire, group: str, topic: str):
        super().__init__(loop, wire, group, topic)
        self.generation = -1
        self._beat = b""
        self._steady = b""
        self._beats = 0

    def join(self) -> None:
        """Sends JoinGroup."""
        self.is_stable = False
        subscription = b"\x00\x01" + encode(ConsumerProtocolSubscription(topics=[self.topic]), 1)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=CLASSIC_SESSION_MS,
            rebalance_timeout_ms=300_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        self.wire.ask(request, JOIN_VERSION, self._joined)

    def _joined(self, answer: Any) -> None:
        if answer.error_code == Errors.MEMBER_ID_REQUIRED.code:
            self.member_id = answer.member_id
            return self.join()
        if self._is_refused(answer.error_code):
            return None
        self.member_id, self.generation = answer.member_id, answer.generation_id
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"")
                for each in answer.members
            ],
        )
        return self.wire.ask(request, SYNC_VERSION, self._synced)

    def _synced(self, answer: Any) -> None:
        if self._is_refused(answer.error_code):
            return
        self.is_stable = True
        beat = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)
        self._beat = frame_of(beat, HEARTBEAT_VERSION)
        self._beats += 1
        beats = self._beats
        self._soon(lambda: self._send_beat(beats), self._first_wait_s())

    def _send_beat(self, beats: int) -> None:
        if beats == self._beats:  # otherwise those of a later generation have begun
            self.wire.send(self._beat, self._alive)
            self._soon(lambda: self._send_beat(beats), self.interval_s)

    def _alive(self, frame: bytes, seconds: float) -> None:
        if frame == self._steady:
            self.latencies_s.append(seconds)
            return
        answer = answer_of(HeartbeatRequest, HEARTBEAT_VERSION, frame)
        if answer.error_code == Errors.NONE.code:
            self._steady = frame
            self.latencies_s.append(seconds)
        elif self.is_stable:
            self._is_refused(answer.error_code)

    def _is_refused(self, code: int) -> bool:
        """Joins again if the error requires it."""
        if code == Errors.NONE.code:
            return False
        self.rebalances += self.is_stable
        if code not in REJOIN and code not in AGAIN and code != Errors.ILLEGAL_GENERATION.code:
            raise WireError(f"a member of {self.group} got {Errors.of(code).name}")
        if code == Errors.UNKNOWN_MEMBER_ID.code:
            self.member_id = ""
        self.is_stable = False
        self._beats += 1
        self._soon(self.join, RETRY_S if code in AGAIN else 0.0)
        return True


class ConsumerMember(Member):
    """A member by ConsumerGroupHeartbeat (KIP-848).

    Attributes:
        owned: Its partitions.
        epoch: The member epoch.
        changed_at: When its assignment was last changed, on time.monotonic()'s clock.
        lost: Partitions that were revoked.
    """

    def __init__(self, loop: Loop, wire: Wire, group: str, topic: str):
        super().__init__(loop, wire, group, topic)
        self.member_id = str(uuid.uuid4())
        self.epoch = 0
        self.owned: frozenset[Partition] = frozenset()
        self.lost: set[Partition] = set()
        self.changed_at = 0.0
        self._beat = b""
        self._steady = b""
        self._is_fresh = True

    def join(self) -> None:
        """Sends the first heartbeat."""
        self.wire.send(
            frame_of(
                ConsumerGroupHeartbeatRequest(
                    group_id=self.group,
                    member_id=self.member_id,
                    member_epoch=0,
                    rebalance_timeout_ms=300_000,
                    subscribed_topic_names=[self.topic],
                    topic_partitions=[],
                ),
                CONSUMER_VERSION,
            ),
            self._answered,
        )

    def _answered(self, frame: bytes, seconds: float) -> None:
        if frame == self._steady:
            self.latencies_s.append(seconds)
            self._soon(self._send_beat, self.interval_s)
            return
        answer = answer_of(ConsumerGroupHeartbeatRequest, CONSUMER_VERSION, frame)
        if answer.error_code in AGAIN:
            self._soon(self._send_beat if self.epoch else self.join)
        elif answer.error_code in (Errors.FENCED_MEMBER_EPOCH.code, Errors.UNKNOWN_MEMBER_ID.code):
            self.epoch, self.is_stable, self.owned = 0, False, frozenset()
            self._soon(self.join)
        elif answer.error_code != Errors.NONE.code:
            raise WireError(f"a member of {self.group} got {Errors.of(answer.error_code).name}")
        else:
            self._accepted(answer, frame, seconds)

    def _accepted(self, answer: Any, frame: bytes, seconds: float) -> None:
        if self.is_stable:
            self.latencies_s.append(seconds)
        changed = answer.member_epoch != self.epoch
        self.epoch = answer.member_epoch
        self._beat = frame_of(self._heartbeat(None), CONSUMER_VERSION)
        if answer.assignment is None:
            self._steady = b"" if changed else frame
            self._soon(self._send_beat, self._first_wait_s() if self._is_fresh else self.interval_s)
            self._is_fresh = False
            return
        now_owned = frozenset(
            (topic.topic_id, index)
            for topic in answer.assignment.topic_partitions
            for index in topic.partitions
        )
        if now_owned != self.owned:
            self.lost |= self.owned - now_owned
            self.owned, self.changed_at = now_owned, time.monotonic()
        self.rebalances += self.is_stable
        self.is_stable = True
        # the acknowledgement is sent at once, as Kafka's consumer does after its callbacks
        self.wire.send(frame_of(self._heartbeat(_by_topic(now_owned)), CONSUMER_VERSION), self._answered)

    def _heartbeat(self, owned: Mapping[bytes, list[int]] | None) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            topic_partitions=None
            if owned is None
            else [
                TopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in owned.items()
            ],
        )

    def _send_beat(self) -> None:
        self.wire.send(self._beat, self._answered)


def _by_topic(partitions: frozenset[Partition]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(partitions):
        found.setdefault(topic_id, []).append(index)
    return found
