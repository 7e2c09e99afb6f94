"""The loads on the group coordinator. Each returns its figures by name."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.coordinators.figures import Span, latencies_ms
from bench.coordinators.loop import Loop, Wire, answer_of, frame_of
from bench.coordinators.members import ClassicMember, ConsumerMember, Member
from bench.peers.wire import WireError
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bowstring.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from bowstring.protocol.partitioning import coordinator_partition

GROUP, TRANSACTION = 0, 1
COMMIT_VERSION, FETCH_VERSION = 9, 9
JOIN_SECONDS = 600.0
# This many members begin to join at once.
JOINING_AT_ONCE = 500
# A broker may gather joins for a second before it assigns.
ASSIGNMENT_SECONDS = 2.0
OFFSETS_PARTITIONS = 50
# Stands in a commit's frame in place of its offset.
MARK = 0x1122334455667788


@dataclass
class Order:
    """The task of a load.

    Attributes:
        load: Its name.
        bootstrap: The broker.
        pid: The broker's process, whose processor time is read.
        topic: A topic that exists.
        numbers: Amounts, by name.
    """

    load: str
    bootstrap: str
    pid: int
    topic: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    def count(self, name: str) -> int:
        """Returns an amount that is a whole number."""
        return int(self.numbers[name])


def find_coordinator(loop: Loop, wire: Wire, key: str, key_type: int = GROUP) -> None:
    """Repeats FindCoordinator until a key has a coordinator: the first request creates the internal topic."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    while True:
        answer: Any = loop.asked(wire, request, 4)
        if answer.coordinators[0].error_code == Errors.NONE.code:
            return
        loop.run_for(0.1)


def heartbeats(order: Order, kind: type[Member]) -> dict[str, float]:
    """Lets `members` in `groups` keep their sessions for `seconds`, each with its own connection.

    Raises:
        WireError: A group rebalanced meanwhile.
    """
    interval_s = order.numbers["interval_s"]
    with Loop(order.bootstrap) as loop:
        members = _joined(loop, order, kind)
        _await_quiet(loop, members, max(order.numbers["warm_seconds"], 1.2 * interval_s, ASSIGNMENT_SECONDS))
        span = Span(order.pid)
        loop.run_for(order.numbers["seconds"])
        figures = span.figures()
        rebalances = sum(each.rebalances for each in members)
        latencies = [seconds for each in members for seconds in each.latencies_s]
    if rebalances:
        raise WireError(f"{rebalances} members saw a rebalance while nothing changed")
    expected = len(members) * (order.numbers["seconds"] / interval_s)
    if not latencies or len(latencies) < 0.9 * expected - len(members) // 10:
        raise WireError(f"{len(latencies)} heartbeats were answered of {expected:.0f}")
    return {
        "cpu_percent": figures["cpu_percent"],
        "cpu_us_per_heartbeat": figures["cpu_seconds"] / len(latencies) * 1e6,
        "heartbeats_per_second": len(latencies) / figures["seconds"],
        **latencies_ms(latencies),
        "load_cpu_percent": 100 * figures["load_cpu_seconds"] / figures["seconds"],
    }


def classic_heartbeats(order: Order) -> dict[str, float]:
    """`heartbeats` of classic groups."""
    return heartbeats(order, ClassicMember)


def consumer_heartbeats(order: Order) -> dict[str, float]:
    """`heartbeats` of KIP-848's groups."""
    return heartbeats(order, ConsumerMember)


def _joined(loop: Loop, order: Order, kind: type[Member]) -> list[Member]:
    groups = [f"{order.topic}-{kind.__name__}-{number}" for number in range(order.count("groups"))]
    total = order.count("members")
    began = time.monotonic()
    members: list[Member] = []
    while len(members) < total:
        more: list[Member] = []
        for number in range(len(members), min(total, len(members) + JOINING_AT_ONCE)):
            group = groups[number * len(groups) // total]
            more.append(kind(loop, loop.connect(), group, order.topic))
            more[-1].interval_s = order.numbers["interval_s"]
            if not members and len(more) == 1:
                find_coordinator(loop, more[0].wire, group)
        for each in more:
            each.join()
        members += more
        _settle(loop, members, began)
    return members


def _settle(loop: Loop, members: Sequence[Member], began: float) -> None:
    left = began + JOIN_SECONDS - time.monotonic()
    loop.run(lambda: all(each.is_stable for each in members), left)


def _await_quiet(loop: Loop, members: Sequence[Member], seconds: float) -> None:
    """Works until no member has seen a rebalance for `seconds`, and clears their figures.

    Raises:
        TimeoutError: The groups rebalance again and again.
    """
    deadline = time.monotonic() + JOIN_SECONDS
    while time.monotonic() < deadline:
        for each in members:
            each.latencies_s.clear()
            each.rebalances = 0
        loop.run_for(seconds)
        if not any(each.rebalances for each in members):
            for each in members:
                each.latencies_s.clear()
            return
    raise TimeoutError(f"groups still rebalance after {JOIN_SECONDS:.0f} s")


class Committer:
    """Commits one offset after the other for a member that is alone in its group."""

    def __init__(self, member: ClassicMember, topic: str, partitions: int):
        request = OffsetCommitRequest(
            group_id=member.group,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=MARK, committed_metadata=""
                        )
                        for index in range(partitions)
                    ],
                )
            ],
        )
        self._wire = member.wire
        self._parts = frame_of(request, COMMIT_VERSION).split(struct.pack(">q", MARK))
        self._steady = b""
        self._offset = 0
        self.going = True
        self.latencies_s: list[float] = []

    def send(self) -> None:
        """Sends the next commit."""
        self._offset += 1
        self._wire.send(struct.pack(">q", self._offset).join(self._parts), self._answered)

    def _answered(self, frame: bytes, seconds: float) -> None:
        self.latencies_s.append(seconds)
        if frame != self._steady:
            answer = answer_of(OffsetCommitRequest, COMMIT_VERSION, frame)
            errors = {part.error_code for topic in answer.topics for part in topic.partitions}
            if errors != {Errors.NONE.code}:
                raise WireError(f"a commit was answered with {[Errors.of(each).name for each in errors]}")
            self._steady = frame
        if self.going:
            self.send()


def commits(order: Order) -> dict[str, float]:
    """Commits for `seconds` from `members`, each alone in its group, with one request in flight."""
    with Loop(order.bootstrap) as loop:
        members = _joined(loop, order, ClassicMember)
        committers = [
            Committer(each, order.topic, order.count("partitions"))
            for each in members
            if isinstance(each, ClassicMember)
        ]
        for each in committers:
            each.send()
        loop.run_for(order.numbers["warm_seconds"])
        for each in committers:
            each.latencies_s = []
        span = Span(order.pid)
        loop.run_for(order.numbers["seconds"])
        figures = span.figures()
        latencies = [seconds for each in committers for seconds in each.latencies_s]
        for each in committers:
            each.going = False
        loop.run_for(0.2)
    return {
        "commits_per_second": len(latencies) / figures["seconds"],
        "commits_per_cpu_second": len(latencies) / figures["cpu_seconds"],
        **latencies_ms(latencies),
        "load_cpu_percent": 100 * figures["load_cpu_seconds"] / figures["seconds"],
    }


# ---------------------------------------------------------------- loading


def groups_of(partition: int, count: int) -> list[str]:
    """Returns names of groups that one partition of __consumer_offsets coordinates."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        name = f"loaded-{number}"
        if coordinator_partition(name, OFFSETS_PARTITIONS) == partition:
            found.append(name)
        number += 1
    return found


LOADED_PARTITION, OTHER_PARTITION = 0, 1


def fill_offsets(order: Order) -> dict[str, float]:
    """Commits `partitions` offsets for each of `groups`, all of one coordinator, and one of another group."""
    partitions = order.count("partitions")
    with Loop(order.bootstrap) as loop:
        wire = loop.connect()
        (other,) = groups_of(OTHER_PARTITION, 1)
        find_coordinator(loop, wire, other)
        began = time.monotonic()
        for group in [*groups_of(LOADED_PARTITION, order.count("groups")), other]:
            _commit_all(loop, wire, group, order.topic, partitions if group != other else 1)
    return {"fill_seconds": time.monotonic() - began}


def _commit_all(loop: Loop, wire: Wire, group: str, topic: str, partitions: int) -> None:
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=index + 1, committed_metadata=""
                    )
                    for index in range(partitions)
                ],
            )
        ],
    )
    while True:
        answer: Any = loop.asked(wire, request, COMMIT_VERSION)
        errors = {part.error_code for each in answer.topics for part in each.partitions}
        if errors == {Errors.NONE.code}:
            return
        if not errors <= {Errors.COORDINATOR_LOAD_IN_PROGRESS.code, Errors.NOT_COORDINATOR.code}:
            raise WireError(f"commits were answered with {[Errors.of(each).name for each in errors]}")
        loop.run_for(0.1)


def await_offsets(order: Order) -> dict[str, float]:
    """Fetches an offset of the last loaded group, and of the other group, until the first is there.

    The clock starts when the load is called, just after the broker has answered ApiVersions.
    """
    began = time.monotonic()
    span = Span(order.pid)
    last = groups_of(LOADED_PARTITION, order.count("groups"))[-1]
    (other,) = groups_of(OTHER_PARTITION, 1)
    with Loop(order.bootstrap) as loop:
        loaded = _Asker(loop, last, order.topic, order.count("partitions") - 1)
        beside = _Asker(loop, other, order.topic, 0)
        loop.run(lambda: loaded.answered_at > 0 and beside.answered_at > 0)
        figures = span.figures()
    return {
        "load_seconds": loaded.answered_at - began,
        "others_answered_after_seconds": beside.answered_at - began,
        "others_max_ms": max(beside.latencies_s) * 1000,
        "others_asked": float(len(beside.latencies_s)),
        "cpu_seconds": figures["cpu_seconds"],
    }


class _Asker:
    """Fetches one offset repeatedly, every `PAUSE_S`."""

    PAUSE_S = 0.005

    def __init__(self, loop: Loop, group: str, topic: str, partition: int):
        self._loop = loop
        self._wire = loop.connect()
        asked = OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
        )
        self._frame = frame_of(OffsetFetchRequest(groups=[asked]), FETCH_VERSION)
        self._expected = partition + 1
        self.answered_at = 0.0
        self.latencies_s: list[float] = []
        self._send()

    def _send(self) -> None:
        self._wire.send(self._frame, self._answered)

    def _answered(self, frame: bytes, seconds: float) -> None:
        self.latencies_s.append(seconds)
        (group,) = answer_of(OffsetFetchRequest, FETCH_VERSION, frame).groups
        if group.error_code == Errors.NONE.code and not self.answered_at:
            found = group.topics[0].partitions[0].committed_offset
            if found != self._expected:
                raise WireError(f"offset {found} was loaded instead of {self._expected}")
            self.answered_at = time.monotonic()
        self._loop.at(time.monotonic() + self.PAUSE_S, self._send)


# ---------------------------------------------------------------- a member's death


def member_dies(order: Order) -> dict[str, float]:
    """One of `members` of a KIP-848 group over `partitions` dies; measures until the others own everything.

    The broker's session timeout is `session_s`, its heartbeat interval `interval_s`.
    """
    everything = order.count("partitions")

    with Loop(order.bootstrap) as loop:
        members = [each for each in _joined(loop, order, ConsumerMember) if isinstance(each, ConsumerMember)]
        _own_all(loop, members, everything, JOIN_SECONDS)
        _await_quiet(loop, members, 3 * order.numbers["interval_s"])
        for each in members:
            each.lost.clear()
        victim = members.pop(len(members) // 2)
        span = Span(order.pid)
        died_at = time.monotonic()
        victim.die()
        _own_all(loop, members, everything, 60 + order.numbers["session_s"])
        settled = max(each.changed_at for each in members) - died_at
        figures = span.figures()
        paused = set(victim.owned).union(*(each.lost for each in members))
        latencies = [seconds for each in members for seconds in each.latencies_s]
    return {
        "settled_after_session_seconds": settled - order.numbers["session_s"],
        "never_paused_percent": 100 * (1 - len(paused) / everything),
        "lost_by_others": float(len(paused) - len(victim.owned)),
        "cpu_seconds": figures["cpu_seconds"],
        **latencies_ms(latencies),
    }


def _own_all(loop: Loop, members: Sequence[ConsumerMember], partitions: int, timeout_s: float) -> None:
    def done() -> bool:
        if sum(len(each.owned) for each in members) != partitions:
            return False
        return len(frozenset().union(*(each.owned for each in members))) == partitions

    loop.run(done, timeout_s)


LOADS: dict[str, Callable[[Order], dict[str, float]]] = {
    "classic-heartbeats": classic_heartbeats,
    "consumer-heartbeats": consumer_heartbeats,
    "commits": commits,
    "fill-offsets": fill_offsets,
    "await-offsets": await_offsets,
    "member-dies": member_dies,
}
