"""Keeps metadata of the cluster: brokers, topics and leaders, refreshed when they turn out to be wrong."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from bowstring._native.protocol.message_codec import ProtocolError as CodecError
from bowstring.clients.errors import (
    AuthenticationError,
    ClientError,
    ConfigError,
    NoBrokerError,
    broker_error,
)
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.connection import Api, Body, Pending
from bowstring.clients.net.frames import Meant
from bowstring.clients.net.resolution import Resolution
from bowstring.clients.records import Node, PartitionInfo, TopicInfo, TopicPartition
from bowstring.clients.troubles import GRACE_S, broker_name, topic_name
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from bowstring.protocol.whole_numbers import whole_number

DEFAULT_PORT = 9092
RETRY_PAUSE_S = 0.02
RETRY_PAUSE_MAX_S = 1.0
RETRY_PART = 1 / 8
CALM_S = 2.0
SILENCE_S = 1.0
# How long brokers may report a missing topic: it may be about to be created.
MISSING_TOPIC_GRACE_S = 5.0
ALIKE_MAX = 10_000
"""Partitions of which one object is kept for all that are equal."""

_MISSING = (Errors.UNKNOWN_TOPIC_OR_PARTITION.code, Errors.UNKNOWN_TOPIC_ID.code)


def parse_bootstrap(servers: str | Iterable[str]) -> list[Node]:
    """Parses `host:port,host:port` (or an iterable of such) into nodes with negative ids, as their ids are
    unknown.

    Raises:
        ConfigError: no server is named, or a port is not a number.
    """
    parts = servers.split(",") if isinstance(servers, str) else list(servers)
    nodes: list[Node] = []
    for part in (part.strip() for part in parts):
        if not part:
            continue
        host, port = _split_port(part.split("://", 1)[-1])
        number = whole_number(port, 65535)
        if not host or not number:
            raise ConfigError(f"bootstrap server {part!r} is not host:port")
        nodes.append(Node(-1 - len(nodes), host, number))
    if not nodes:
        raise ConfigError("bootstrap_servers is empty: give at least one host:port")
    return nodes


def _split_port(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":") or str(DEFAULT_PORT)
    host, colon, port = text.rpartition(":")
    return (host, port) if colon else (text, str(DEFAULT_PORT))


def retry_pause_s(wrong_s: float) -> float:
    """Returns the seconds before the next request when answers have brought nothing new for `wrong_s`.

    A new leader is found soon, and brokers that are away for long are left alone.
    """
    return min(RETRY_PAUSE_MAX_S, max(RETRY_PAUSE_S, wrong_s * RETRY_PART))


class ClusterMetadata:
    """Metadata of a cluster, used to route requests. Owned by the thread that owns `client`.

    Args:
        client: the connections.
        bootstrap: brokers to contact first, and again when all known ones are lost (KIP-899).
        metadata_max_age_ms: topics in use are looked up again after this long.
        allow_auto_create: whether requesting a topic may create it.
        check_cluster: whether brokers check that a connection was meant for them (KIP-1242).
        resolve_timeout_ms: how long names of bootstrap servers may stay unresolved; None: for ever (KIP-909).

    Raises:
        ConfigError: with resolve_timeout_ms=0, no name resolves.
    """

    def __init__(
        self,
        client: NetworkClient,
        bootstrap: list[Node],
        *,
        metadata_max_age_ms: int = 300_000,
        allow_auto_create: bool = True,
        check_cluster: bool = True,
        resolve_timeout_ms: int | None = None,
    ):
        self.resolution = Resolution(bootstrap, resolve_timeout_ms, client.last_failure)
        self.client = client
        self.bootstrap = bootstrap
        if check_cluster:
            client.meant, client.misrouted = self._meant, self.rebootstrap
        self.brokers: dict[int, Node] = {}
        self.controller_id = -1
        self.cluster_id: str | None = None
        self._former_id: str | None = None
        self.topics: dict[str, TopicInfo] = {}
        self.topic_errors: dict[str, int] = {}
        self._alike: dict[PartitionInfo, PartitionInfo] = {}
        self._refused: dict[str, tuple[float, float]] = {}  # when its error was reported first and last
        self.names: dict[bytes, str] = {}
        self.wanted: set[str] = set()
        self.want_all = False
        self.version = 0
        self.stale = True
        self._troubles = client.troubles
        self._allow_auto_create = allow_auto_create
        self._max_age_s = metadata_max_age_ms / 1000
        self._refreshed_at = 0.0
        self._asked: set[Node] = set()  # by the request in flight
        self._question = 0
        self._asked_at = 0.0
        self._retry_at = 0.0
        self._wrong_since: float | None = None
        self._news = False
        self._told_by: tuple[str, int] | None = None
        self.denied: AuthenticationError | None = None  # why no broker takes this client
        self._rng = random.Random()

    # ------------------------------------------------------------ looking up

    def leader(self, topic: str, partition: int) -> Node | None:
        """Returns the leader of a partition, None while unknown."""
        info = self.topics.get(topic)
        found = info.partitions.get(partition) if info else None
        return self.brokers.get(found.leader) if found else None

    def led_in_rack(self, topic: str, rack: str) -> list[int]:
        """Returns the partitions of a topic whose leader is in a rack."""
        info = self.topics.get(topic)
        near = {node.id for node in self.brokers.values() if node.rack == rack}
        return [each.partition for each in info.partitions.values() if each.leader in near] if info else []

    def replica(self, topic: str, partition: int, broker_id: int) -> Node | None:
        """Returns a broker that has a replica of the partition; None if it has none, or is offline."""
        info = self.topics.get(topic)
        found = info.partitions.get(partition) if info else None
        if found is None or broker_id not in found.replicas or broker_id in found.offline_replicas:
            return None
        return self.brokers.get(broker_id)

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Returns the leader epoch from metadata, -1 when unknown."""
        info = self.topics.get(topic)
        found = info.partitions.get(partition) if info else None
        return found.leader_epoch if found else -1

    def topic_id(self, topic: str) -> bytes:
        """Returns the topic's id; zero when unknown or the broker has no ids (before KIP-516)."""
        info = self.topics.get(topic)
        return info.topic_id if info else bytes(16)

    def nodes(self) -> list[Node]:
        """Returns the known brokers; bootstrap servers if there are none."""
        return list(self.brokers.values()) or self.bootstrap

    def any_node(self) -> Node:
        """Returns the least busy broker that is not backing off, for requests that any broker answers.

        Of several rather one that is connected: another may be down.
        """
        usable = self._usable()
        if not usable:
            return self._rng.choice(list(self.brokers.values()) or self.bootstrap)
        return self._quietest(usable)

    def _usable(self) -> list[Node]:
        """Brokers that are not backing off; bootstrap servers if there are none."""
        usable = [node for node in self.brokers.values() if not self.client.backing_off(node)]
        return usable or [node for node in self.bootstrap if not self.client.backing_off(node)]

    def _others(self, asked: Iterable[Node]) -> list[Node]:
        """Brokers that are not backing off and not in `asked`. Bootstrap servers count, too: a broker may
        list only itself.
        """
        passed = {(node.host, node.port) for node in asked}
        found: dict[tuple[str, int], Node] = {}
        for node in [*self.brokers.values(), *self.bootstrap]:
            address = (node.host, node.port)
            if address not in passed and not self.client.backing_off(node):
                found.setdefault(address, node)
        return list(found.values())

    def _quietest(self, nodes: list[Node]) -> Node:
        self._rng.shuffle(nodes)
        return min(nodes, key=lambda node: (self.client.in_flight(node), not self.client.ready(node)))

    def refused_s(self, topic: str, since: float) -> float:
        """Returns for how many seconds after `since` answers have repeated an error of `topic`.

        It begins again when a broker does not answer: it may have gone down before it created the topic.

        Args:
            topic: name of the topic.
            since: a time of `time.monotonic`.
        """
        first, last = self._refused.get(topic, (since, since))
        return last - max(first, since)

    # ------------------------------------------------------------ refreshing

    def want(self, topic: str) -> None:
        """Keeps `topic` in the metadata from now on."""
        if topic not in self.wanted:
            self.wanted.add(topic)
            self.stale = True
            self._retry_at = 0.0  # the pause applies to topics that were requested before

    def forget(self, topic: str) -> None:
        """Drops `topic`, which is no longer used here, e.g. because it was deleted."""
        self.wanted.discard(topic)
        self.topics.pop(topic, None)
        self.topic_errors.pop(topic, None)
        self._refused.pop(topic, None)
        self._troubles.forget(topic_name(topic))

    def forget_missing(self, used: Iterable[str]) -> None:
        """Stops requesting missing topics except `used` ones."""
        for topic in (self.wanted & self.topic_errors.keys()).difference(used):
            self.forget(topic)

    def invalidate(self) -> None:
        """Marks the metadata as outdated: it is refreshed at the next opportunity."""
        now = time.monotonic()
        if self._wrong_since is None or now - self._refreshed_at > CALM_S:
            self._wrong_since = now
        self.stale = True

    def _meant(self, node: Node) -> Meant | None:
        """Returns the broker that `node` is taken for; None for a bootstrap server."""
        # A holder of a forgotten broker must not reach another one at its address.
        cluster_id = self.cluster_id or self._former_id
        return None if cluster_id is None or node.id < 0 else Meant(cluster_id, node.id)

    def rebootstrap(self) -> None:
        """Forgets the brokers, which turned out to be others, and contacts the bootstrap servers again."""
        self._former_id = self.cluster_id or self._former_id
        self.brokers, self.controller_id, self.cluster_id = {}, -1, None
        self._question += 1  # answers under way come from forgotten brokers
        self._asked.clear()
        self.version += 1
        self.invalidate()
        self._retry_at = 0.0

    def learn_leader(
        self, partition: TopicPartition, leader_id: int, leader_epoch: int, endpoints: Mapping[int, Node]
    ) -> bool:
        """Adopts the leader that a broker named when it refused a request (KIP-951).

        Args:
            leader_id, leader_epoch: -1 when the answer names no leader.
            endpoints: addresses in the same answer, by broker.

        Returns:
            Whether it is newer than the known one, and its address is known.
        """
        topic = self.topics.get(partition.topic)
        known = topic.partitions.get(partition.partition) if topic is not None else None
        node = endpoints.get(leader_id) or self.brokers.get(leader_id)
        if topic is None or known is None or node is None or leader_epoch <= known.leader_epoch:
            return False
        self.brokers[leader_id] = node
        topic.partitions[partition.partition] = known._replace(leader=leader_id, leader_epoch=leader_epoch)
        self.version += 1
        return True

    def maintain(self) -> float:
        """Starts a refresh when one is due; returns seconds until the next check."""
        now = time.monotonic()
        return min(self.resolution.look(now), self._maintain(now))

    def _maintain(self, now: float) -> float:
        if self._asked:
            return self._ask_another(now)
        due = self._refreshed_at + self._max_age_s
        if not self.stale and now < due:
            return due - now
        if now < self._retry_at:
            return self._retry_at - now
        if not self.stale:
            self._wrong_since = None
        self._start()
        return SILENCE_S  # then another broker gets a request, too

    def _start(self) -> None:
        self.stale = False  # before `wanted` is read: another thread may add a topic at any time
        self._ask(self._another_than_told() if self._refused else self.any_node())

    def _another_than_told(self) -> Node:
        """Returns a broker that was not the last one to answer: that one may be cut off, and lag behind."""
        others = [node for node in self.brokers.values() if (node.host, node.port) != self._told_by]
        usable = [node for node in others if not self.client.backing_off(node)]
        return self._rng.choice(usable) if usable else self.any_node()

    def _ask(self, node: Node) -> None:
        names = None if self.want_all else sorted(self.wanted)
        self._asked_at = time.monotonic()
        self._asked.add(node)
        answered = partial(self._refreshed, node, self._question)
        self.client.send(node, MetadataRequest, self._request(names), callback=answered)

    def _ask_another(self, now: float) -> float:
        """Sends to one more broker when the last one is silent: it may hang, or be cut off, without closing
        the connection. Returns seconds until the next check.
        """
        if now < self._asked_at + SILENCE_S:
            return self._asked_at + SILENCE_S - now
        others = self._others(self._asked)
        if others:
            self._ask(min(others, key=self.client.in_flight))
        return SILENCE_S

    def _request(self, names: list[str] | None) -> Callable[[int], MetadataRequest]:
        def build(version: int) -> MetadataRequest:
            topics = None
            if names is not None:
                topics = [MetadataRequestTopic(name=name) for name in names]
            if version >= 4:
                return MetadataRequest(topics=topics, allow_auto_topic_creation=self._allow_auto_create)
            return MetadataRequest(topics=topics)

        return build

    def _refreshed(self, node: Node, question: int, pending: Pending) -> None:
        if question != self._question:
            return  # another broker was faster
        self._asked.discard(node)
        if pending.error is not None and self._asked:
            return
        self._question += 1
        self._asked.clear()
        if pending.error is not None:
            if isinstance(pending.error, AuthenticationError) and not pending.error.retriable:
                self.denied = pending.error
            self.invalidate()
            self._refused.clear()
        else:
            self.denied = None
            self._told_by = (node.host, node.port)
            try:
                self.update(pending.response)
            except CodecError:  # in a topic of a large answer
                self.invalidate()
        now = time.monotonic()
        wrong_s = now - self._wrong_since if self._wrong_since is not None else 0.0
        self._retry_at = now + retry_pause_s(wrong_s)

    def update(self, response: MetadataResponse) -> None:
        """Applies a MetadataResponse."""
        self.resolution.done()
        before, self._news = self.brokers, False
        self.brokers = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        self.controller_id = response.controller_id
        self.cluster_id = response.cluster_id
        there: set[str | None] = set()
        for topic in response.topics:
            there.add(topic.name)
            if topic.name is not None:
                self._update_topic(topic.name, topic, before)
        if self._news:
            self._wrong_since = time.monotonic() if self.stale else None
        if self.want_all:
            for name in [name for name in self.topics if name not in there]:
                del self.topics[name]
        self.version += 1
        self._refreshed_at = time.monotonic()
        if self._troubles.active:
            self._forget_addresses()

    def _forget_addresses(self) -> None:
        """Stops reconnecting to bootstrap servers that are not a broker's address."""
        used = {(broker.host, broker.port) for broker in self.brokers.values()}
        for node in self.bootstrap:
            if (node.host, node.port) not in used:
                self._troubles.forget(broker_name(node.host, node.port))

    def _update_topic(
        self, name: str, topic: MetadataResponseTopic, brokers_before: Mapping[int, Node]
    ) -> None:
        if topic.error_code:
            if topic.error_code in _MISSING:
                self.topics.pop(name, None)
            if name in self.wanted:
                error = broker_error(topic.error_code, topic_name(name))
                self.topic_errors[name] = topic.error_code
                now = time.monotonic()
                self._refused[name] = (self._refused.get(name, (now, now))[0], now)
                if error.retriable:
                    self.invalidate()
                self._troubles.note(topic_name(name), error, grace_s=GRACE_S if error.retriable else 0.0)
            return
        self.topic_errors.pop(name, None)
        self._refused.pop(name, None)
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
            # A broker that lags behind may answer: a newer epoch stays (KIP-320).
            if (
                known is not None
                and before is not None
                and known.topic_id == topic.topic_id
                and 0 <= info.leader_epoch < before.leader_epoch
            ):
                info = before
                if before.leader in brokers_before:
                    self.brokers.setdefault(before.leader, brokers_before[before.leader])
            elif before is None or (before.leader, before.leader_epoch) != (info.leader, info.leader_epoch):
                self._news = True
            # Many partitions of many topics are alike, and most have not changed: they share one object.
            partitions[info.partition] = before if before == info else self._alike.setdefault(info, info)
        if len(self._alike) > ALIKE_MAX:
            self._alike.clear()
        leaderless = [info.partition for info in partitions.values() if info.leader < 0]
        if leaderless:
            self.invalidate()
            numbers = ", ".join(map(str, leaderless))
            error = broker_error(Errors.LEADER_NOT_AVAILABLE.code, f"{topic_name(name)}, partition {numbers}")
            self._troubles.note(topic_name(name), error, grace_s=GRACE_S)
        else:
            self._troubles.over(topic_name(name))
        self._keep(TopicInfo(name, topic.topic_id, topic.is_internal, partitions), known)

    def _keep(self, topic: TopicInfo, known: TopicInfo | None) -> None:
        """Replaces what is known of a topic; the same makes no second copy: answers share it."""
        if topic == known:
            return
        if known is not None:
            self.names.pop(known.topic_id, None)
        self.topics[topic.name] = topic
        self.names[topic.topic_id] = topic.name

    # ------------------------------------------------------------ blocking calls

    def check(self) -> None:
        """Raises BootstrapResolutionError, or once the AuthenticationError with which brokers refused
        this client in its last request for metadata.
        """
        self.resolution.check()
        denied, self.denied = self.denied, None
        if denied is not None and not any(map(self.client.ready, self.nodes())):
            raise denied

    def refresh(self, timeout_s: float) -> None:
        """Refreshes now and waits for the answer.

        Raises:
            NoBrokerError: no broker answered in time.
        """
        version, deadline = self.version, time.monotonic() + timeout_s
        self.invalidate()
        while self.version == version or not self.brokers:
            self.pause(self.maintain(), deadline, timeout_s)

    def await_topic(self, topic: str, timeout_s: float) -> TopicInfo:
        """Returns metadata of a topic; looks it up when it is unknown.

        Raises:
            NoBrokerError: no broker answered in time.
            UnknownTopicError: the topic does not exist: answers have said so for MISSING_TOPIC_GRACE_S, or
                until the time was over.
        """
        new = topic not in self.wanted
        self.want(topic)
        try:
            self._await_topic(topic, timeout_s)
        except ClientError:
            if new:
                self.forget(topic)  # otherwise it would be requested from now on without a user
            raise
        return self.topics[topic]

    def _await_topic(self, topic: str, timeout_s: float) -> None:
        began = time.monotonic()
        deadline = began + timeout_s
        while topic not in self.topics:
            failure = self.topic_errors.get(topic)
            if failure is not None and (
                time.monotonic() >= deadline
                or not Errors.of(failure).retriable
                or (failure in _MISSING and self.refused_s(topic, began) >= MISSING_TOPIC_GRACE_S)
            ):
                raise broker_error(failure, f"topic {topic!r}")
            if failure is not None:
                self.stale = True
            self.pause(self.maintain(), deadline, timeout_s, fail=failure is None)

    def pause(self, wait_s: float, deadline: float, timeout_s: float, *, fail: bool = True) -> None:
        """Polls until something happens or `wait_s` is over.

        Raises BootstrapResolutionError, or NoBrokerError at the deadline, unless metadata is there already:
        then the caller checks again.
        """
        self.check()
        left, version = deadline - time.monotonic(), self.version
        self.client.poll(max(0.0, min(wait_s, left)))
        if left <= 0 and fail and self.version == version:
            raise self.unreachable(timeout_s)
        self._troubles.deliver()

    def unreachable(self, waited_s: float) -> NoBrokerError:
        """Returns the error for an operation that found no broker."""
        failures: list[tuple[Node, str]] = []
        for node in [*self.brokers.values(), *self.bootstrap]:
            error = self.client.last_failure(node)
            if error is None and node.id < 0 and not self.brokers:
                failures.append((node, "no answer yet"))
            if error is not None and all((node.host, node.port) != (n.host, n.port) for n, _ in failures):
                failures.append((node, str(getattr(error, "reason", error))))
        return NoBrokerError(failures, waited_s)

    def ask_any(self, api: Api, body: Body, timeout_s: float) -> tuple[Any, Node]:
        """Sends to one broker after another until one answers; returns the answer and that broker.

        One that is silent for a second may hang, so another one gets the request, too: only for requests that
        change nothing, and that any broker answers.

        Raises:
            NoBrokerError: no broker answered in time.
            ClientError: an error that cannot be retried.
        """
        deadline = time.monotonic() + timeout_s
        pause_s = RETRY_PAUSE_S
        while (answered := self._first_answer(api, body, deadline)) is None:
            self.resolution.look(now := time.monotonic())
            self.check()
            if now >= deadline:
                raise self.unreachable(timeout_s)
            self.stale = True
            self._troubles.deliver()
            self._rest(pause_s, deadline)
            pause_s = min(RETRY_PAUSE_MAX_S, pause_s * 2)
        self.resolution.done()
        return answered.response, answered.node

    def _first_answer(self, api: Api, body: Body, deadline: float) -> Pending | None:
        """Returns the request that was answered first; None when all have failed, or time is over."""
        self.client.poll(0)  # detects connections that the broker closed while idle
        asked: list[Pending] = []
        another_at = 0.0
        while (now := time.monotonic()) < deadline:
            if now >= another_at:
                others = self._others(each.node for each in asked) if asked else self._usable()
                if others:
                    node = self._quietest(others)
                    asked.append(self.client.send(node, api, body, timeout_s=deadline - now))
                another_at = now + SILENCE_S
            for each in asked:
                if each.done and each.error is None:
                    return each
                if each.error is not None and not each.error.retriable:
                    raise each.error
            if all(each.done for each in asked):
                return None
            self.client.poll(min(another_at, deadline) - now)
        return None

    def _rest(self, pause_s: float, deadline: float) -> None:
        until = min(deadline, time.monotonic() + pause_s)
        while (now := time.monotonic()) < until:
            self.client.poll(until - now)

    def call(self, pick: Callable[[], Node | None], api: Api, body: Body, timeout_s: float) -> Any:
        """Sends to the node that `pick` chooses until one answers; retries retriable network errors.

        Raises:
            NoBrokerError: no broker answered in time.
            ClientError: an error that cannot be retried.
        """
        deadline = time.monotonic() + timeout_s
        pause_s = RETRY_PAUSE_S
        while True:
            self.resolution.look(time.monotonic())
            self.check()
            node = pick()
            if node is None:
                self.stale = True
                self.pause(min(self.maintain(), pause_s), deadline, timeout_s)
                continue
            # Detects connections that the broker closed while idle before the request is sent.
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
            self._troubles.deliver()
            self._rest(pause_s, deadline)
            pause_s = min(RETRY_PAUSE_MAX_S, pause_s * 2)


class Finding(NamedTuple):
    """How a client finds its cluster; the fields are arguments of `ClusterMetadata`."""

    metadata_max_age_ms: int
    allow_auto_create: bool
    check_cluster: bool
    resolve_timeout_ms: int | None

    def cluster(self, client: NetworkClient, bootstrap_servers: str | Iterable[str]) -> ClusterMetadata:
        """Returns the cluster of some bootstrap servers; raises ConfigError."""
        return ClusterMetadata(client, parse_bootstrap(bootstrap_servers), **self._asdict())
