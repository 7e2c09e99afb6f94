"""What a client knows of its cluster: brokers, topics and leaders, refreshed when they turn out wrong."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from typing import Any

from bowstring.clients.connection import Api, Body, Pending
from bowstring.clients.errors import ClientError, ConfigError, NoBrokerError, broker_error
from bowstring.clients.network import NetworkClient
from bowstring.clients.records import Node, PartitionInfo, TopicInfo
from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

DEFAULT_PORT = 9092
RETRY_PAUSE_S = 0.02
RETRY_PAUSE_MAX_S = 1.0

_MISSING = (Errors.UNKNOWN_TOPIC_OR_PARTITION.code, Errors.UNKNOWN_TOPIC_ID.code)


def parse_bootstrap(servers: str | Iterable[str]) -> list[Node]:
    """Nodes of `host:port,host:port` (or an iterable of such); ids are negative, as they are not known yet.

    Raises:
        ConfigError: no server is named, or a port is not a number.
    """
    parts = servers.split(",") if isinstance(servers, str) else list(servers)
    nodes: list[Node] = []
    for part in (part.strip() for part in parts):
        if not part:
            continue
        host, port = _split_port(part.split("://", 1)[-1])
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(f"bootstrap server {part!r} is not host:port")
        nodes.append(Node(-1 - len(nodes), host, int(port)))
    if not nodes:
        raise ConfigError("bootstrap_servers is empty: give at least one host:port")
    return nodes


def _split_port(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":") or str(DEFAULT_PORT)
    host, colon, port = text.rpartition(":")
    return (host, port) if colon else (text, str(DEFAULT_PORT))


class Cluster:
    """Metadata of a cluster and the routing of requests by it. Owned by the thread that owns `client`.

    Args:
        client: the connections.
        bootstrap: brokers to ask first, and again when all known ones are lost (KIP-899).
        metadata_max_age_ms: topics in use are looked up again after this long.
        allow_auto_create: whether asking for a topic may create it.
    """

    def __init__(
        self,
        client: NetworkClient,
        bootstrap: list[Node],
        *,
        metadata_max_age_ms: int = 300_000,
        allow_auto_create: bool = True,
    ):
        self.client = client
        self.bootstrap = bootstrap
        self.brokers: dict[int, Node] = {}
        self.controller_id = -1
        self.cluster_id: str | None = None
        self.topics: dict[str, TopicInfo] = {}
        self.topic_errors: dict[str, int] = {}
        self.names: dict[bytes, str] = {}
        self.wanted: set[str] = set()
        self.want_all = False
        self.version = 0
        self.stale = True
        self._allow_auto_create = allow_auto_create
        self._max_age_s = metadata_max_age_ms / 1000
        self._refreshed_at = 0.0
        self._pending: Pending | None = None
        self._retry_at = 0.0
        self._pause_s = RETRY_PAUSE_S
        self._rng = random.Random()

    # ------------------------------------------------------------ looking up

    def leader(self, topic: str, partition: int) -> Node | None:
        """The broker that leads a partition, None while that is not known."""
        info = self.topics.get(topic)
        found = info.partitions.get(partition) if info else None
        return self.brokers.get(found.leader) if found else None

    def leader_epoch(self, topic: str, partition: int) -> int:
        """The leader epoch that metadata told, -1 when unknown."""
        info = self.topics.get(topic)
        found = info.partitions.get(partition) if info else None
        return found.leader_epoch if found else -1

    def topic_id(self, topic: str) -> bytes:
        """The topic's id; zero when unknown or the broker has no ids (before KIP-516)."""
        info = self.topics.get(topic)
        return info.topic_id if info else bytes(16)

    def any_node(self) -> Node:
        """A broker to ask what any broker knows: the least busy that is not backing off."""
        known = list(self.brokers.values())
        usable = [node for node in known if not self.client.backing_off(node)]
        if not usable:
            usable = [node for node in self.bootstrap if not self.client.backing_off(node)]
        if not usable:
            return self._rng.choice(known or self.bootstrap)
        self._rng.shuffle(usable)
        return min(usable, key=self.client.in_flight)

    # ------------------------------------------------------------ refreshing

    def want(self, topic: str) -> None:
        """Keeps `topic` in the metadata from now on."""
        if topic not in self.wanted:
            self.wanted.add(topic)
            self.stale = True

    def forget(self, topic: str) -> None:
        """Nobody here uses `topic` any more, e.g. because it was deleted."""
        self.wanted.discard(topic)
        self.topics.pop(topic, None)
        self.topic_errors.pop(topic, None)

    def invalidate(self) -> None:
        """What is known proved wrong: refresh at the next occasion."""
        self.stale = True

    def maintain(self) -> float:
        """Starts a refresh when one is due; seconds until the next look is needed."""
        now = time.monotonic()
        if self._pending is not None:
            return 3600.0
        due = self._refreshed_at + self._max_age_s
        if not self.stale and now < due:
            return due - now
        if now < self._retry_at:
            return self._retry_at - now
        self._start()
        return 3600.0

    def _start(self) -> None:
        names = None if self.want_all else sorted(self.wanted)
        self.stale = False
        self._pending = self.client.send(
            self.any_node(), MetadataRequest, self._request(names), callback=self._refreshed
        )

    def _request(self, names: list[str] | None) -> Callable[[int], MetadataRequest]:
        def build(version: int) -> MetadataRequest:
            topics = None
            if names is not None:
                topics = [MetadataRequestTopic(name=name) for name in names]
            if version >= 4:
                return MetadataRequest(topics=topics, allow_auto_topic_creation=self._allow_auto_create)
            return MetadataRequest(topics=topics)

        return build

    def _refreshed(self, pending: Pending) -> None:
        self._pending = None
        if pending.error is not None:
            self.stale = True
        else:
            self.update(pending.response)
        # What is not known yet is asked for again, ever more slowly.
        self._pause_s = min(RETRY_PAUSE_MAX_S, self._pause_s * 2) if self.stale else RETRY_PAUSE_S
        self._retry_at = time.monotonic() + self._pause_s

    def update(self, response: MetadataResponse) -> None:
        """Takes in a MetadataResponse."""
        self.brokers = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        self.controller_id = response.controller_id
        self.cluster_id = response.cluster_id
        for topic in response.topics:
            if topic.name is not None:
                self._update_topic(topic.name, topic)
        if self.want_all:
            there = {topic.name for topic in response.topics}
            for name in [name for name in self.topics if name not in there]:
                del self.topics[name]
        self.version += 1
        self._refreshed_at = time.monotonic()

    def _update_topic(self, name: str, topic: MetadataResponseTopic) -> None:
        if topic.error_code:
            self.topic_errors[name] = topic.error_code
            self.stale = self.stale or Errors.of(topic.error_code).retriable
            if topic.error_code in _MISSING:
                self.topics.pop(name, None)
            return
        self.topic_errors.pop(name, None)
        known = self.topics.get(name)
        partitions = {}
        for part in topic.partitions:
            info = PartitionInfo(
                part.partition_index,
                part.leader_id,
                part.leader_epoch,
                tuple(part.replica_nodes),
                tuple(part.isr_nodes),
                tuple(part.offline_replicas),
            )
            before = known.partitions.get(info.partition) if known else None
            # An answer may come from a broker that lags behind: a newer epoch once seen stays (KIP-320).
            if (
                known is not None
                and before is not None
                and known.topic_id == topic.topic_id
                and 0 <= info.leader_epoch < before.leader_epoch
            ):
                info = before
            partitions[info.partition] = info
            if info.leader < 0:
                self.stale = True
        if known is not None:
            self.names.pop(known.topic_id, None)
        self.topics[name] = TopicInfo(name, topic.topic_id, topic.is_internal, partitions)
        self.names[topic.topic_id] = name

    # ------------------------------------------------------------ blocking, for owners that may

    def refresh(self, timeout_s: float) -> None:
        """Asks now and waits for the answer.

        Raises:
            NoBrokerError: nobody answered in time.
        """
        version, deadline = self.version, time.monotonic() + timeout_s
        self.stale = True
        while self.version == version:
            self.pause(self.maintain(), deadline, timeout_s)

    def await_topic(self, topic: str, timeout_s: float) -> TopicInfo:
        """Metadata of a topic, looked up when it is not known.

        Raises:
            NoBrokerError: nobody answered in time.
            UnknownTopicError: the brokers do not have it.
        """
        self.want(topic)
        deadline = time.monotonic() + timeout_s
        while topic not in self.topics:
            if time.monotonic() >= deadline and topic in self.topic_errors:
                raise broker_error(self.topic_errors[topic], f"topic {topic!r}")
            failure = self.topic_errors.get(topic)
            if failure is not None and not Errors.of(failure).retriable:
                raise broker_error(failure, f"topic {topic!r}")
            if failure is not None:
                self.stale = True
            self.pause(self.maintain(), deadline, timeout_s, fail=failure is None)
        return self.topics[topic]

    def pause(self, wait_s: float, deadline: float, timeout_s: float, *, fail: bool = True) -> None:
        """Polls until something happens, `wait_s` is over, or the deadline: then raises NoBrokerError."""
        left = deadline - time.monotonic()
        if left <= 0 and fail:
            raise self.unreachable(timeout_s)
        self.client.poll(max(0.0, min(wait_s, left)))

    def unreachable(self, waited_s: float) -> NoBrokerError:
        """The error for an operation that found no broker."""
        failures: list[tuple[Node, str]] = []
        for node in [*self.brokers.values(), *self.bootstrap]:
            error = self.client.last_failure(node)
            if error is None and node.id < 0 and not self.brokers:
                failures.append((node, "no answer yet"))
            if error is not None and all((node.host, node.port) != (n.host, n.port) for n, _ in failures):
                failures.append((node, str(getattr(error, "reason", error))))
        return NoBrokerError(failures, waited_s)

    def call(self, pick: Callable[[], Node | None], api: Api, body: Body, timeout_s: float) -> Any:
        """Sends to the node that `pick` chooses until one answers; retriable network errors are retried.

        Raises:
            NoBrokerError: nobody answered in time.
            ClientError: what cannot be retried.
        """
        deadline = time.monotonic() + timeout_s
        pause_s = RETRY_PAUSE_S
        while True:
            node = pick()
            if node is None:
                self.stale = True
                self.pause(min(self.maintain(), pause_s), deadline, timeout_s)
                continue
            # A connection the broker closed while idle is noticed here, not after the request is sent.
            self.client.poll(0)
            left = deadline - time.monotonic()
            if left <= 0:
                raise self.unreachable(timeout_s)
            pending = self.client.send(node, api, body, timeout_s=min(left, self.client.request_timeout_s))
            try:
                return self.client.wait(pending)
            except ClientError as error:
                if not error.retriable:
                    raise
            self.stale = True
            retry_at = min(deadline, time.monotonic() + pause_s)
            while time.monotonic() < retry_at:
                self.client.poll(retry_at - time.monotonic())
            pause_s = min(1.0, pause_s * 2)
