"""Runs a membership of KIP-848 or KIP-932: sends its heartbeats in a thread with connections of its own.

The thread finds the coordinator itself, so that the member stays while its consumer is busy with records. The
consumer's thread reads news in its polls: an assignment to take over, or the loss of the membership.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from bowstring.clients import forks
from bowstring.clients.errors import ClientError, ForkedError
from bowstring.clients.group.membership import Membership, Phase, Place, Refusal
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.coordinators import coordinator_request, found_coordinator
from bowstring.clients.records import Node
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest

if TYPE_CHECKING:
    from bowstring.security.client_settings import ClientSecurity

REQUEST_TIMEOUT_S = 10.0
LEAVE_TIMEOUT_S = 2.0


class MemberThread:
    """The heartbeats of one member. Its methods are for the consumer's thread.

    Args:
        membership: guarded by the lock of this object from now on.
        max_poll_interval_s: the member leaves when its consumer does not poll for this long.
        request_timeout_s: a request without an answer is repeated after this; at most REQUEST_TIMEOUT_S.
        on_news: called on the thread when the next poll has something to do.
        security: TLS and SASL of its connections.
    """

    def __init__(
        self,
        client_id: str,
        membership: Membership,
        *,
        max_poll_interval_s: float,
        request_timeout_s: float,
        on_news: Callable[[], None],
        security: ClientSecurity | None = None,
    ):
        self._client_id, self._security = client_id, security
        self._membership = membership
        self._max_poll_interval_s = max_poll_interval_s
        self._request_timeout_s = min(request_timeout_s, REQUEST_TIMEOUT_S)
        self._on_news = on_news
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._nodes: list[Node] = []
        self._coordinator: Node | None = None
        self._ended = False
        self.last_poll = time.monotonic()
        self.error: ClientError | None = None
        """Why no coordinator answers at present."""
        forks.watch(self)

    def after_fork(self, error: ForkedError) -> None:
        """Resets the state in a forked child: the thread does not exist there, and may have held the lock."""
        self._wake = threading.Condition()
        self._thread = None
        self._ended = True

    # ------------------------------------------------------------ for the consumer's thread

    def subscribe(self, nodes: Iterable[Node], topics: Iterable[str], regex: str | None = None) -> None:
        """Joins with this subscription, or changes it.

        Args:
            nodes: brokers to contact for the coordinator.
            topics: names of topics.
            regex: RE2 expression that the coordinator resolves.
        """
        with self._wake:
            self._nodes = list(nodes)
            before = self._membership.due_at
            self._membership.subscribe(topics, regex)
            if self._thread is None and not self._ended:
                self._thread = threading.Thread(target=self._run, name="bowstring-member", daemon=True)
                self._thread.start()
            elif self._membership.due_at != before:
                self._wake.notify_all()

    @property
    def member(self) -> tuple[str, int]:
        """Id and epoch of the member; the epoch is below 1 while it has not joined."""
        with self._wake:
            return self._membership.member_id, self._membership.epoch

    @property
    def phase(self) -> Phase:
        """Progress of the member."""
        return self._membership.phase

    def take_target(self) -> frozenset[Place] | None:
        """Returns, once, an assignment to take over."""
        with self._wake:
            target, self._membership.target = self._membership.target, None
            return target

    def take_refusal(self) -> Refusal | None:
        """Returns, once, an error of the coordinator that the consumer must raise."""
        with self._wake:
            refusal, self._membership.refusal = self._membership.refusal, None
            return refusal

    def settle(self, owned: Iterable[Place]) -> None:
        """Reports the owned partitions after an assignment is taken over."""
        with self._wake:
            self._membership.settle(owned)
            self._wake.notify_all()

    def release(self) -> None:
        """Reports that a lost member's partitions are given up; it joins again."""
        with self._wake:
            self._membership.release()
            self._wake.notify_all()

    def leave(self) -> None:
        """Leaves the group and waits a short time until the coordinator has removed it."""
        with self._wake:
            if self._membership.leave() and self._thread is not None:
                self._wake.notify_all()
                self._wake.wait_for(lambda: self._membership.phase is Phase.OUTSIDE, LEAVE_TIMEOUT_S)

    def close(self) -> None:
        """Ends the thread; call `leave` first to leave the group."""
        with self._wake:
            self._ended = True
            self._wake.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(LEAVE_TIMEOUT_S)

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        client = NetworkClient(
            self._client_id,
            request_timeout_ms=int(self._request_timeout_s * 1000),
            security=self._security,
        )
        try:
            while (asked := self._next()) is not None:
                if self._tell(client, *asked):
                    self._on_news()
        finally:
            client.close()

    def _next(self) -> tuple[Callable[[int], Any], bool] | None:
        """Waits until a request is due; returns it and whether it leaves the group. None at the end."""
        with self._wake:
            while not self._ended:
                now = time.monotonic()
                member = self._membership
                expires_at = self.last_poll + self._max_poll_interval_s if member.alive else math.inf
                if now >= expires_at:
                    member.expire()
                due_at = member.due_at
                if due_at is not None and now >= due_at:
                    leaving = not member.alive
                    return member.request(), leaving
                wait_s = min(expires_at, math.inf if due_at is None else due_at) - now
                self._wake.wait(None if wait_s == math.inf else wait_s)
            return None

    def _tell(self, client: NetworkClient, body: Callable[[int], Any], leaving: bool) -> bool:
        """Sends a request; returns whether the consumer has something to do."""
        answer = None
        try:
            if self._coordinator is None:
                self._coordinator = self._locate(client)
            client.poll(0)  # detects a connection that was closed meanwhile
            timeout_s = LEAVE_TIMEOUT_S if leaving else self._request_timeout_s
            pending = client.send(self._coordinator, self._membership.api, body, timeout_s=timeout_s)
            answer = client.wait(pending)
            self.error = None
        except ClientError as error:
            self.error = error
            self._coordinator = None
        with self._wake:
            member = self._membership
            if answer is None:
                if self.error is not None and not self.error.retriable:
                    member.fail(-1, str(self.error), time.monotonic())
                else:
                    member.failed(time.monotonic())
            elif member.answered(answer, time.monotonic()):
                self._coordinator = None
            self._wake.notify_all()
            return member.target is not None or member.refusal is not None or member.phase is Phase.LOST

    def _locate(self, client: NetworkClient) -> Node:
        """Finds the coordinator; raises a retriable ClientError when no broker names it now."""
        failure: ClientError | None = None
        for node in self._nodes:
            if client.backing_off(node):
                failure = client.last_failure(node)
                continue
            request = coordinator_request(self._membership.group_id)
            try:
                answer = client.wait(client.send(node, FindCoordinatorRequest, request))
                return found_coordinator(answer, self._membership.group_id)
            except ClientError as error:
                failure = error
        assert failure is not None
        raise failure
