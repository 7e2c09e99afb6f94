"""Sends heartbeats of a group member, in a thread with its own connection (KIP-62)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bowstring.clients import forks
from bowstring.clients.errors import ClientError, ConfigError, ForkedError
from bowstring.clients.group.assignors import ASSIGNORS, Assignor
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.records import Node
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.heartbeat import HeartbeatRequest
from bowstring.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

if TYPE_CHECKING:
    from bowstring.security.client_settings import ClientSecurity

DEFAULT_ASSIGNORS = ("range", "cooperative-sticky")
SESSION_TIMEOUT_MS = 45_000
HEARTBEAT_INTERVAL_MS = 3_000

_REJOIN = (Errors.REBALANCE_IN_PROGRESS.code,)
_LOST = (
    Errors.UNKNOWN_MEMBER_ID.code,
    Errors.ILLEGAL_GENERATION.code,
    Errors.FENCED_INSTANCE_ID.code,
)
_COORDINATOR = (Errors.NOT_COORDINATOR.code, Errors.COORDINATOR_NOT_AVAILABLE.code)


@dataclass(slots=True)
class GroupConfig:
    """The consumer's group settings."""

    group_id: str
    group_instance_id: str | None
    assignors: list[Assignor]
    session_timeout_s: float
    heartbeat_interval_s: float
    max_poll_interval_s: float
    protocol: str = "classic"  # or "consumer" (KIP-848), or "auto" to choose when the coordinator is known
    remote_assignor: str | None = None
    rack: str | None = None


def group_config(
    protocol: str,
    group: tuple[str, str | None, int, str | None],
    classic: tuple[tuple[str, ...] | None, int | None, int | None],
    remote_assignor: str | None,
) -> GroupConfig:
    """Returns the group settings of a consumer.

    Args:
        protocol: "classic", "consumer" or "auto".
        group: group_id, group_instance_id, max_poll_interval_ms and client_rack.
        classic: assignors, session_timeout_ms and heartbeat_interval_ms, which only the classic protocol has;
            None for those that are not given.
        remote_assignor: the coordinator's assignor, which only the protocol "consumer" has.

    Raises:
        ConfigError: a setting does not go with the protocol.
    """
    names = ("assignors", "session_timeout_ms", "heartbeat_interval_ms")
    given = [name for name, value in zip(names, classic, strict=True) if value is not None]
    if protocol == "consumer" and given:
        raise ConfigError(
            f"{given[0]} is a setting of the classic protocol: leave it out, or set "
            "group_protocol='classic'. With group_protocol='consumer' the coordinator assigns and sets the "
            "times (consumer.session.timeout.ms and consumer.heartbeat.interval.ms of the group)"
        )
    if protocol == "classic" and remote_assignor is not None:
        raise ConfigError("group_remote_assignor needs group_protocol='consumer'")
    if protocol == "auto" and given:
        protocol = "classic"
    elif protocol == "auto" and remote_assignor is not None:
        protocol = "consumer"
    group_id, group_instance_id, max_poll_interval_ms, rack = group
    assignors, session_timeout_ms, heartbeat_interval_ms = classic
    return GroupConfig(
        group_id,
        group_instance_id,
        [ASSIGNORS[name] for name in assignors or DEFAULT_ASSIGNORS],
        (session_timeout_ms or SESSION_TIMEOUT_MS) / 1000,
        (heartbeat_interval_ms or HEARTBEAT_INTERVAL_MS) / 1000,
        max_poll_interval_ms / 1000,
        protocol,
        remote_assignor,
        rack,
    )


class Heartbeat:
    """Sends heartbeats to the coordinator as long as the consumer polls often enough.

    The thread leaves results in fields that the consumer's thread reads in its next poll: `rejoin` (the group
    rebalances), `lost` (error code: the member was removed from the group), `coordinator_moved`, and
    `overdue` (max_poll_interval_ms passed without a poll).
    """

    def __init__(
        self,
        client_id: str,
        config: GroupConfig,
        on_news: Callable[[], None],
        security: ClientSecurity | None = None,
    ):
        self._client_id, self._security = client_id, security
        self._group = config.group_id
        self._interval_s = config.heartbeat_interval_s
        self._session_timeout_s = config.session_timeout_s
        self._max_poll_interval_s = config.max_poll_interval_s
        self._on_news = on_news
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._member: tuple[Node, str, int, str | None] | None = None
        self._ended = False
        self.last_poll = time.monotonic()
        self.rejoin = False
        self.lost = 0
        self.coordinator_moved = False
        self.overdue = False
        forks.watch(self)

    def after_fork(self, error: ForkedError) -> None:
        """Resets the state in a forked child: the thread does not exist there, and may have held the lock."""
        self._wake = threading.Condition()
        self._thread = self._member = None
        self._ended = True

    def start(self, node: Node, member_id: str, generation: int, group_instance_id: str | None) -> None:
        """Starts heartbeats after the member has joined."""
        with self._wake:
            self._member = (node, member_id, generation, group_instance_id)
            self.rejoin = self.coordinator_moved = self.overdue = False
            self.lost = 0
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="bowstring-heartbeat", daemon=True)
                self._thread.start()
            self._wake.notify()

    def stop(self) -> None:
        """Stops heartbeats until `start`, because the member is about to rejoin or leave."""
        with self._wake:
            self._member = None

    def close(self) -> None:
        """Ends the thread."""
        with self._wake:
            self._member = None
            self._ended = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(self._session_timeout_s)

    def _run(self) -> None:
        client = NetworkClient(
            self._client_id,
            request_timeout_ms=int(self._session_timeout_s * 1000),
            security=self._security,
        )
        try:
            while not self._ended:
                with self._wake:
                    member = self._member
                    self._wake.wait(self._interval_s if member is not None else None)
                    if self._ended or member is None or self._member is not member:
                        continue
                self._beat(client, member)
        finally:
            client.close()

    def _beat(self, client: NetworkClient, member: tuple[Node, str, int, str | None]) -> None:
        node, member_id, generation, instance_id = member
        if time.monotonic() - self.last_poll > self._max_poll_interval_s:
            with self._wake:
                if self._member is not member:
                    return  # the member has rejoined meanwhile
                self._member = None
                self.overdue = True
            self._leave(client, member)
            return

        def request(version: int) -> HeartbeatRequest:
            return HeartbeatRequest(
                group_id=self._group,
                generation_id=generation,
                member_id=member_id,
                group_instance_id=instance_id if version >= 3 else None,
            )

        client.poll(0)  # detects a connection that was closed meanwhile
        try:
            code = client.wait(
                client.send(node, HeartbeatRequest, request), self._session_timeout_s
            ).error_code
        except ClientError:
            code = Errors.NOT_COORDINATOR.code
        with self._wake:
            if self._member is not member or not code:
                return
            self.rejoin = self.rejoin or code in _REJOIN
            self.lost = code if code in _LOST else self.lost
            self.coordinator_moved = self.coordinator_moved or code in _COORDINATOR
        self._on_news()

    def _leave(self, client: NetworkClient, member: tuple[Node, str, int, str | None]) -> None:
        """Leaves the group so that others get the partitions at once; a static member keeps its own until the
        session times out.
        """
        node, member_id, _, instance_id = member
        if instance_id is None:
            pending = client.send(
                node, LeaveGroupRequest, leave_request(self._group, member_id, "poll too late")
            )
            while not pending.done:
                client.poll(self._interval_s)


def leave_request(group: str, member_id: str, reason: str) -> Callable[[int], LeaveGroupRequest]:
    """Returns the request that removes a member from its group."""

    def build(version: int) -> LeaveGroupRequest:
        if version < 3:
            return LeaveGroupRequest(group_id=group, member_id=member_id)
        return LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id, reason=reason)])

    return build
