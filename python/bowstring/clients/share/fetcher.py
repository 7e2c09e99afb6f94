"""Fetches and acknowledges records of a share group: one request under way to each broker (KIP-932).

Owned by the consumer's thread. A fetch carries the acknowledgements for its broker along.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from bowstring.clients.errors import ClientError, broker_error
from bowstring.clients.group.membership import Place
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.connection import Api, Body, Pending
from bowstring.clients.net.metadata import ClusterMetadata
from bowstring.clients.net.purposes import Purpose
from bowstring.clients.records import Node, TopicPartition
from bowstring.clients.share.held import HeldRange, HeldRecords, Said
from bowstring.clients.share.records import Acknowledgement, OffsetRange, Outcome, ShareRecord
from bowstring.clients.share.session import LAST_EPOCH, ShareSession, acknowledged_topics
from bowstring.clients.troubles import GRACE_S
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from bowstring.protocol.messages.share_fetch import ShareFetchRequest

RETRY_PAUSE_S = 0.1
IDLE_S = 3600.0
CLOSE_TIMEOUT_S = 5.0

_SESSION_ERRORS = (
    Errors.SHARE_SESSION_NOT_FOUND.code,
    Errors.INVALID_SHARE_SESSION_EPOCH.code,
    Errors.SHARE_SESSION_LIMIT_REACHED.code,
)
# From this version on, requests contain how records are acquired, and whether they renew.
RENEW_VERSION = 2


@dataclass(slots=True)
class ShareConfig:
    """The consumer's settings for fetches."""

    group_id: str
    member_id: str
    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    max_records: int
    record_limit: bool


class Delivered(NamedTuple):
    """Records of one partition that have arrived and were not returned.

    Attributes:
        data: their batches, which may hold other records, too.
        until: time of `time.monotonic` at which the broker gives them to others.
        decoded: the records, if a poll has returned some and had room for no more.
    """

    partition: TopicPartition
    data: memoryview
    ranges: list[HeldRange]
    record_count: int
    until: float = math.inf
    decoded: list[ShareRecord] | None = None


class Way:
    """The state of requests to one broker."""

    def __init__(self) -> None:
        self.session = ShareSession()
        self.busy = False
        self.speaks = False
        """Whether the request under way acknowledges records."""
        self.retry_at = 0.0


class ShareFetcher:
    """Sends fetches and acknowledgements.

    Attributes:
        assigned: the group's assignment to this member, with the ids and numbers of partitions.
        delivered: the arrived records.
        outcomes: results of acknowledgements that were not reported yet.
        lock_timeout_ms: how long records stay with this consumer, by the brokers' last answers.
        error: the error that the next poll must raise.
    """

    def __init__(
        self, client: NetworkClient, cluster: ClusterMetadata, held: HeldRecords, config: ShareConfig
    ):
        self._client = client
        self._cluster = cluster
        self._held = held
        self._config = config
        self._ways: dict[Node, Way] = {}
        self._places: dict[TopicPartition, Place] = {}
        self.assigned: dict[TopicPartition, Place] = {}
        self.delivered: deque[Delivered] = deque()
        self.outcomes: deque[Outcome] = deque()
        self.lock_timeout_ms = 0
        self.error: ClientError | None = None

    # ------------------------------------------------------------ requests

    def assign(self, partitions: dict[TopicPartition, Place]) -> None:
        """Reads exactly these partitions from now on; records that are held stay."""
        self.assigned = partitions
        self._places.update(partitions)

    def forget(self) -> None:
        """Drops everything after the group removed the member: its records are delivered to others."""
        self.assigned = {}
        self.delivered.clear()
        self._held.drop()
        for way in self._ways.values():
            way.session.restart()

    def start(self, *, fetch: bool) -> float:
        """Sends due requests to idle brokers; returns seconds until more is due."""
        now, due_at = time.monotonic(), time.monotonic() + IDLE_S
        wanted: dict[Node, set[Place]] = {}
        for partition, place in self.assigned.items():
            node = self._cluster.leader(*partition)
            if node is None:
                self._cluster.invalidate()
                due_at = min(due_at, now + RETRY_PAUSE_S)
            else:
                wanted.setdefault(node, set()).add(place)
        speaking = self._held.nodes()
        for node in wanted.keys() | speaking:
            way = self._ways.setdefault(node, Way())
            if way.busy:
                continue
            if self._client.backing_off(node) or now < way.retry_at:
                due_at = min(due_at, now + RETRY_PAUSE_S)
            elif node in speaking and not way.session.is_new and self._held.renews(node):
                self._acknowledge(node, way)
            elif fetch and node in wanted:
                self._fetch(node, way, wanted[node])
            elif node in speaking and not way.session.is_new:
                self._acknowledge(node, way)
        return max(0.0, due_at - now)

    def _fetch(self, node: Node, way: Way, wanted: set[Place]) -> None:
        said = {} if way.session.is_new else self._held.take(node)
        topics, forgotten = way.session.fetch_topics(wanted, self._by_place(said))
        config, epoch = self._config, way.session.epoch
        # A fetch that waits for records would hold back the answer to its acknowledgements.
        max_wait_ms = 0 if said else config.max_wait_ms

        def request(version: int) -> ShareFetchRequest:
            body = ShareFetchRequest(
                group_id=config.group_id,
                member_id=config.member_id,
                share_session_epoch=epoch,
                max_wait_ms=max_wait_ms,
                min_bytes=config.min_bytes,
                max_bytes=config.max_bytes,
                max_records=config.max_records,
                batch_size=config.max_records,
                topics=topics,
                forgotten_topics_data=forgotten,
            )
            if version >= RENEW_VERSION:
                body.share_acquire_mode = 1 if config.record_limit else 0
            return body

        timeout_s = self._client.request_timeout_s + max_wait_ms / 1000
        self._send(node, way, (ShareFetchRequest, request), said, timeout_s=timeout_s)

    def _acknowledge(self, node: Node, way: Way, *, last: bool = False) -> None:
        said = {} if way.session.is_new else self._held.take(node)
        config, topics = self._config, acknowledged_topics(self._by_place(said))
        epoch = LAST_EPOCH if last else way.session.epoch
        renewed = bytes([Acknowledgement.RENEW])
        renews = any(renewed in run.types for runs in said.values() for run in runs)

        def request(version: int) -> ShareAcknowledgeRequest:
            body = ShareAcknowledgeRequest(
                group_id=config.group_id,
                member_id=config.member_id,
                share_session_epoch=epoch,
                topics=topics,
            )
            if version >= RENEW_VERSION:
                body.is_renew_ack = renews
            return body

        self._send(node, way, (ShareAcknowledgeRequest, request), said)

    def _send(
        self,
        node: Node,
        way: Way,
        request: tuple[Api, Body],
        said: dict[TopicPartition, list[Said]],
        *,
        timeout_s: float | None = None,
    ) -> None:
        way.busy = True
        way.speaks = bool(said)
        self._client.send(
            node,
            *request,
            timeout_s=timeout_s,
            callback=lambda pending: self._answered(pending, way, said),
        )

    def _by_place(self, said: dict[TopicPartition, list[Said]]) -> dict[Place, list[Said]]:
        return {self._places[partition]: runs for partition, runs in said.items()}

    # ------------------------------------------------------------ answers

    def _answered(self, pending: Pending, way: Way, said: dict[TopicPartition, list[Said]]) -> None:
        way.busy = way.speaks = False
        error = pending.error
        if error is None and pending.response.error_code:
            answer = pending.response
            error = broker_error(
                answer.error_code, f"share group {self._config.group_id!r}", answer.error_message
            )
            self._note_refusal(pending.node, answer.error_code, error)
        elif error is not None and not error.retriable:
            self.error = error
        if error is not None:
            way.session.restart()
            way.retry_at = time.monotonic() + RETRY_PAUSE_S
            self._cluster.invalidate()
            self._report(said, error)
            return
        way.session.advance()
        self._client.troubles.over(f"fetches from {pending.node}")
        self.lock_timeout_ms = pending.response.acquisition_lock_timeout_ms or self.lock_timeout_ms
        endpoints = {each.node_id: Node(*_endpoint(each)) for each in pending.response.node_endpoints}
        fetched = pending.api is ShareFetchRequest
        for topic in pending.response.responses:
            name = self._cluster.names.get(topic.topic_id)
            if name is None:
                continue
            for part in topic.partitions:
                partition = TopicPartition(name, part.partition_index)
                leader = part.current_leader
                self._cluster.learn_leader(partition, leader.leader_id, leader.leader_epoch, endpoints)
                runs = said.pop(partition, [])
                code = part.acknowledge_error_code if fetched else part.error_code
                if runs:
                    self._report({partition: runs}, self._of(code, f"acknowledging {partition}"))
                if fetched:
                    self._take(pending.node, way, partition, part)
        self._report(said, None)

    def _note_refusal(self, node: Node, code: int, error: ClientError) -> None:
        if code in _SESSION_ERRORS or error.retriable:
            if code not in _SESSION_ERRORS[:2]:
                self._client.troubles.note(f"fetches from {node}", error, grace_s=GRACE_S)
        elif code != Errors.UNKNOWN_MEMBER_ID.code:  # the next heartbeat gets that error, too
            self.error = error

    def _of(self, code: int, context: str) -> ClientError | None:
        return broker_error(code, context) if code else None

    def _report(self, said: dict[TopicPartition, list[Said]], error: ClientError | None) -> None:
        for partition, runs in said.items():
            self.outcomes.append(Outcome(partition, _told(runs), error))

    def _take(self, node: Node, way: Way, partition: TopicPartition, part: Any) -> None:
        if part.error_code:
            error = broker_error(part.error_code, f"reading {partition}", part.error_message)
            if error.retriable or part.error_code == Errors.INVALID_RECORD_STATE.code:
                self._client.troubles.note(f"partition {partition}", error, grace_s=GRACE_S)
                self._cluster.invalidate()
                way.retry_at = time.monotonic() + RETRY_PAUSE_S
            else:
                self.error = error
            return
        if not part.acquired_records:
            return
        ranges = [
            HeldRange(node, a.first_offset, a.last_offset, a.delivery_count) for a in part.acquired_records
        ]
        count = sum(len(each.said) for each in ranges)
        until = time.monotonic() + self.lock_timeout_ms / 1000 if self.lock_timeout_ms else math.inf
        data = memoryview(part.records or b"")
        self.delivered.append(Delivered(partition, data, ranges, count, until))

    # ------------------------------------------------------------ acknowledging

    @property
    def is_quiet(self) -> bool:
        """Whether no acknowledgement waits or is under way."""
        return not any(way.speaks for way in self._ways.values()) and not self._held.nodes()

    def speak(self, wait: Callable[[float], None], deadline: float) -> None:
        """Sends all acknowledgements and waits until they are answered, or until `deadline`."""
        while (left := deadline - time.monotonic()) > 0:
            wait_s = self.start(fetch=False)
            if self._unheard():
                self._renew_sessions()
            if self.is_quiet:
                return
            wait(min(left, wait_s, RETRY_PAUSE_S))

    def _unheard(self) -> bool:
        """Whether acknowledgements wait for a session that the broker no longer has."""
        return any(
            self._ways[node].session.is_new and not self._ways[node].busy for node in self._held.nodes()
        )

    def _renew_sessions(self) -> None:
        """Fails acknowledgements of sessions that ended: the broker has released their records."""
        code = Errors.SHARE_SESSION_NOT_FOUND.code
        for node in self._held.nodes():
            if self._ways[node].session.is_new and not self._ways[node].busy:
                self._report(self._held.take(node), broker_error(code, f"acknowledging at {node}"))

    def close(self, wait: Callable[[float], None]) -> None:
        """Ends the sessions: brokers release unacknowledged records, and those about to be sent."""
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        self.speak(wait, deadline)
        for node, way in self._ways.items():
            if way.busy and not way.speaks:
                self._client.hang_up(node, Purpose.FETCH)  # it waits for records; the session ends with it
            elif not way.busy and not way.session.is_new:
                self._acknowledge(node, way, last=True)
        while any(way.busy for way in self._ways.values()) and (left := deadline - time.monotonic()) > 0:
            wait(left)


def _endpoint(found: Any) -> tuple[int, str, int, str | None]:
    return found.node_id, found.host, found.port, found.rack


def _told(runs: list[Said]) -> list[OffsetRange]:
    """Returns the offsets of runs that are not mere gaps."""
    gap = bytes([Acknowledgement.GAP])
    return [(run.first, run.last) for run in runs if run.types != gap]
