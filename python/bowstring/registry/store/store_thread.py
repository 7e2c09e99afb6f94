"""Runs the connections of a registry's store: its membership in the group, claims and appends.

One thread, so that heartbeats go on while the event loop parses a large schema. elector.py decides what the
member sends, leadership.py (on the loop) what is claimed and appended. Outcomes return to the loop through
`post`."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from bowstring._native.client.produce_requests import Acknowledgements
from bowstring._native.record.encode import encode_batch
from bowstring.clients.config.security import client_security
from bowstring.clients.errors import BrokerError, ClientError, broker_error
from bowstring.clients.group.offset_requests import list_offsets_request
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.connection import Pending
from bowstring.clients.net.coordinators import GROUP, TRANSACTION, coordinator_request, found_coordinator
from bowstring.clients.net.metadata import ClusterMetadata, parse_bootstrap
from bowstring.clients.net.purposes import Purpose
from bowstring.clients.producer.requests import ProduceFrame, TopicBatches
from bowstring.clients.records import LATEST_TIMESTAMP, Node, TopicPartition
from bowstring.clients.troubles import Troubles
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.heartbeat import HeartbeatRequest
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest
from bowstring.protocol.messages.leave_group import LeaveGroupRequest
from bowstring.protocol.messages.list_offsets import ListOffsetsRequest
from bowstring.protocol.messages.produce import ProduceRequest
from bowstring.registry.store.command_runner import CommandRunner, Outcome
from bowstring.registry.store.elector import Ask, Elected, Elector
from bowstring.registry.store.leadership import Append, Claim, Refusal
from bowstring.registry.store.store_target import StoreTarget

_log = logging.getLogger("bowstring.registry")

RETRY_PAUSE_S = 0.05
FAILED_PAUSE_S = 1.0
REQUEST_TIMEOUT_S = 10.0
LEAVE_TIMEOUT_S = 2.0
LOG_EVERY_S = 30.0
IDLE_S = 1.0
ALL_REPLICAS = -1
# Only of transactions, of which there are none.
TRANSACTION_TIMEOUT_MS = 60_000

_MOVED = (
    Errors.NOT_COORDINATOR.code,
    Errors.COORDINATOR_NOT_AVAILABLE.code,
    Errors.COORDINATOR_LOAD_IN_PROGRESS.code,
)
TRANSACTIONAL_ID_ADVICE = (
    "registries fence earlier leaders by a transactional id; allow the registry's principal to write to {!r}"
)


class StoreEvents(Protocol):
    """What the thread reports; every method runs on the event loop."""

    def elected(self, elected: Elected) -> None:
        """The group has elected."""

    def claimed(self, term: int, producer_id: int, epoch: int) -> None:
        """A claim succeeded."""

    def claim_failed(self, term: int, error: ClientError) -> None:
        """A claim failed."""

    def appended(self, term: int, base_offset: int) -> None:
        """A batch is in the log of every replica in sync."""

    def refused(self, term: int, refusal: Refusal, error: ClientError) -> None:
        """A batch was not appended."""

    def recreated(self) -> None:
        """The topic was deleted and created again."""


class StoreThread:
    """The thread. Its methods belong to the event loop, except where they are private.

    Args:
        target: the cluster and names.
        elector: the member; it belongs to the thread once that is started.
        events: gets the outcomes.
        post: calls a function with arguments on the event loop.

    Raises:
        ConfigError: the settings are wrong.
    """

    def __init__(
        self,
        target: StoreTarget,
        elector: Elector,
        events: StoreEvents,
        post: Callable[..., None],
    ):
        self._target = target
        self._elector = elector
        self._events = events
        self._post = post
        self._troubles = Troubles(_log)
        self._client = NetworkClient(
            "bowstring-registry",
            request_timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
            troubles=self._troubles,
            security=client_security(target.security),
        )
        self._cluster = ClusterMetadata(
            self._client, parse_bootstrap(target.bootstrap_servers), allow_auto_create=False
        )
        self._cluster.want(target.topic)
        self._topic_id = b""
        self._group = _Coordinator(self._client, self._cluster, target.group_id, GROUP)
        self._claims = _Coordinator(self._client, self._cluster, target.transactional_id, TRANSACTION)
        self._commands: deque[Claim | Append | None] = deque()
        self._runner = CommandRunner()
        self._ends: deque[Callable[[int], None]] = deque()
        self._end_retry_at = 0.0
        self._told_number = -1
        self._logged_at = -LOG_EVERY_S
        self._rejoin = False
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="bowstring-registry-store", daemon=True)

    # ------------------------------------------------------------ calls of the loop

    def start(self) -> None:
        """Joins the group."""
        self._thread.start()

    def run_command(self, command: Claim | Append) -> None:
        """Runs a command; an earlier one that is not over is abandoned, so that its outcome is unknown."""
        self._commands.append(command)
        self._client.wakeup()

    def abandon(self) -> None:
        """Gives up the command, because its tenure is over."""
        self._commands.append(None)
        self._client.wakeup()

    def find_end(self, found: Callable[[int], None]) -> None:
        """Calls `found` on the loop with the end of the topic, as its leader has it now."""
        self._ends.append(found)
        self._client.wakeup()

    def rejoin(self) -> None:
        """Lets the group elect again."""
        self._rejoin = True
        self._client.wakeup()

    def lease_until(self) -> float:
        """Until when the group has not removed this member. In any thread."""
        return self._elector.lease_until

    def stop(self) -> None:
        """Leaves the group and ends the thread. Blocks up to about two seconds; in any thread."""
        self._stopping = True
        self._client.wakeup()
        if self._thread.is_alive():
            self._thread.join()

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            while not self._stopping:
                try:
                    self._client.poll(self._round())
                except ClientError as error:
                    self._note(error)
                    time.sleep(RETRY_PAUSE_S)
                except Exception:
                    # No answer, however strange, ends the heartbeats; the command is tried again.
                    _log.exception("the registry's store failed, and goes on")
                    time.sleep(FAILED_PAUSE_S)
            self._leave()
        finally:
            self._client.close()

    def _round(self) -> float:
        """Sends what is due; returns seconds until the next round."""
        self._cluster.maintain()
        now = time.monotonic()
        if self._rejoin:
            self._rejoin = False
            self._elector.rejoin(now)
        waits = [IDLE_S, self._cluster.maintain(), self._run_group(now), self._run_command(now)]
        waits.append(self._find_ends(now))
        self._look_at_topic()
        self._tell_election()
        self._troubles.deliver()
        return max(0.0, min(waits))

    def _look_at_topic(self) -> None:
        topic_id = self._cluster.topic_id(self._target.topic)
        if topic_id in (self._topic_id, bytes(16)):
            return
        known, self._topic_id = self._topic_id, topic_id
        if known:
            self._post(self._events.recreated)

    def _note(self, error: ClientError) -> None:
        now = time.monotonic()
        if now >= self._logged_at + LOG_EVERY_S:
            self._logged_at = now
            _log.error("the registry cannot write to its store: %s", error)

    # ------------------------------------------------------------ group

    def _run_group(self, now: float) -> float:
        if self._elector.coordinator_lost:
            self._elector.coordinator_lost = False
            self._group.lose(now)
        wait_s = self._group.find(now)
        if self._group.node is None:
            return wait_s
        for ask in self._elector.asks(now):
            self._send_ask(self._group.node, ask)
        return self._elector.due_at() - now

    def _send_ask(self, node: Node, ask: Ask) -> None:
        def answered(pending: Pending) -> None:
            now = time.monotonic()
            if pending.error is not None:
                self._elector.failed(ask, now)
            else:
                self._elector.answered(ask, pending.response, now)
            self._tell_election()

        # Heartbeats must not wait behind a JoinGroup, which takes as long as the slowest member.
        purpose = Purpose.GENERAL if ask.api is HeartbeatRequest else Purpose.COORDINATOR
        self._client.send(
            node, ask.api, ask.body, timeout_s=ask.timeout_s, callback=answered, purpose=purpose
        )

    def _tell_election(self) -> None:
        elected = self._elector.elected
        if elected.number != self._told_number:
            self._told_number = elected.number
            self._post(self._events.elected, elected)

    def _leave(self) -> None:
        request, node = self._elector.leave(), self._group.node
        if request is None or node is None:
            return
        pending = self._client.send(
            node, LeaveGroupRequest, request, timeout_s=LEAVE_TIMEOUT_S, purpose=Purpose.GENERAL
        )
        try:
            self._client.wait(pending, LEAVE_TIMEOUT_S)
        except ClientError as error:
            _log.info("the group learns by its session timeout that this registry stopped: %s", error)

    # ------------------------------------------------------------ commands

    def _run_command(self, now: float) -> float:
        while self._commands:
            self._runner.take(self._commands.popleft(), now)
        command = self._runner.to_send(now, self._elector.lease_until)
        if isinstance(command, Claim):
            self._send_claim(command, now)
        elif command is not None:
            self._send_append(command, now)
        if self._runner.trouble is not None:
            self._note(self._runner.trouble)
            self._runner.trouble = None
        return self._runner.due_at() - now

    def _send_claim(self, claim: Claim, now: float) -> None:
        self._claims.find(now)
        if self._claims.refused_code:
            code, self._claims.refused_code = self._claims.refused_code, 0
            self._end(self._runner.claim_answered(claim, code, -1, -1, now))
            return
        if self._claims.node is None:
            self._runner.unsent(claim, now)
            return

        def answered(pending: Pending) -> None:
            now = time.monotonic()
            if pending.error is not None:
                self._claims.lose(now)
                self._runner.unanswered(claim, now)
                return
            answer = pending.response
            if answer.error_code in _MOVED:
                self._claims.lose(now)
            outcome = (answer.error_code, answer.producer_id, answer.producer_epoch)
            self._end(self._runner.claim_answered(claim, *outcome, now))

        request = InitProducerIdRequest(
            transactional_id=self._target.transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        self._client.send(self._claims.node, InitProducerIdRequest, request, callback=answered)

    def _send_append(self, append: Append, now: float) -> None:
        leader = self._cluster.leader(self._target.topic, 0)
        if leader is None:
            self._cluster.invalidate()
            self._runner.unsent(append, now)
            return
        batch = encode_batch(
            [(key, value, append.timestamp_ms, None) for key, value in append.records],
            producer_id=append.producer_id,
            producer_epoch=append.epoch,
            base_sequence=append.sequence,
        )
        topic_id = self._cluster.topic_id(self._target.topic)
        topic = TopicBatches(self._target.topic, topic_id, [(0, memoryview(batch))])
        frame = ProduceFrame(ALL_REPLICAS, int(REQUEST_TIMEOUT_S * 1000), [topic])

        def answered(pending: Pending) -> None:
            now = time.monotonic()
            found = None if pending.error is not None else _produce_answer(pending.response)
            if found is None:
                self._cluster.invalidate()
                self._runner.unanswered(append, now)
                return
            if found[0]:
                self._cluster.invalidate()
            self._end(self._runner.append_answered(append, *found, now))

        self._client.send(leader, ProduceRequest, lambda _: frame, callback=answered)

    def _end(self, outcome: Outcome | None) -> None:
        """Reports how a command ended, if it has."""
        if outcome is None:
            return
        command, error, events = outcome.command, outcome.error, self._events
        if error is not None and error.name == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED":
            advice = TRANSACTIONAL_ID_ADVICE.format(self._target.transactional_id)
            error = broker_error(error.code, "claiming the registry's topic", advice)
        if error is not None:
            self._note(error)
        if outcome.refusal is not None and error is not None:
            self._rejoin = outcome.refusal in (Refusal.FENCED, Refusal.FENCED_LATE)
            self._post(events.refused, command.term, outcome.refusal, error)
        elif isinstance(command, Append):
            self._post(events.appended, command.term, outcome.base_offset)
        elif error is not None:
            self._post(events.claim_failed, command.term, error)
        else:
            self._post(events.claimed, command.term, outcome.producer_id, outcome.epoch)

    # ------------------------------------------------------------ the end of the topic

    def _find_ends(self, now: float) -> float:
        if not self._ends:
            return IDLE_S
        if now < self._end_retry_at:
            return self._end_retry_at - now
        leader = self._cluster.leader(self._target.topic, 0)
        if leader is None:
            self._cluster.invalidate()
            self._end_retry_at = now + RETRY_PAUSE_S
            return RETRY_PAUSE_S
        found = self._ends.popleft()

        def answered(pending: Pending) -> None:
            answer = None if pending.error is not None else pending.response.topics[0].partitions[0]
            if answer is not None and not answer.error_code:
                self._post(found, answer.offset)
                return
            self._cluster.invalidate()
            self._end_retry_at = time.monotonic() + RETRY_PAUSE_S
            self._ends.append(found)

        request = list_offsets_request({TopicPartition(self._target.topic, 0): LATEST_TIMESTAMP}, False)
        self._client.send(leader, ListOffsetsRequest, request, callback=answered)
        return 0.0


class _Coordinator:
    """Finds the broker that coordinates a group, or a transactional id.

    Attributes:
        node: that broker, once it is known.
        refused_code: an error that another attempt does not change; the caller resets it.
    """

    def __init__(self, client: NetworkClient, cluster: ClusterMetadata, key: str, kind: int):
        self.node: Node | None = None
        self.refused_code = 0
        self._client = client
        self._cluster = cluster
        self._key = key
        self._kind = kind
        self._asking = False
        self._retry_at = 0.0

    def lose(self, now: float) -> None:
        """Looks for the coordinator again."""
        self.node = None
        self._retry_at = max(self._retry_at, now + RETRY_PAUSE_S)

    def find(self, now: float) -> float:
        """Asks for the coordinator if it is unknown; returns seconds until the next look."""
        if self.node is not None or self._asking:
            return IDLE_S
        if now < self._retry_at:
            return self._retry_at - now
        self._asking = True
        self._retry_at = now + RETRY_PAUSE_S * 2
        self._client.send(
            self._cluster.any_node(),
            FindCoordinatorRequest,
            coordinator_request(self._key, kind=self._kind),
            callback=self._answered,
        )
        return IDLE_S

    def _answered(self, pending: Pending) -> None:
        self._asking = False
        if pending.error is not None:
            return
        try:
            self.node = found_coordinator(pending.response, self._key, self._kind)
        except BrokerError as error:
            if not error.retriable:
                self.refused_code = error.code


def _produce_answer(answer: Any) -> tuple[int, int] | None:
    """Returns the error code and base offset of one batch; None if the answer leaves it out."""
    if isinstance(answer, Acknowledgements):
        return next(((0, part[1]) for topic in answer.topics for part in topic[2]), None)
    parts = (part for topic in answer.responses for part in topic.partition_responses)
    return next(((part.error_code, part.base_offset) for part in parts), None)
