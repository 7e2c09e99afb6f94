"""Finds the names of topics whose ids came from a coordinator (KIP-848, KIP-932)."""

from __future__ import annotations

import time
from collections.abc import Iterable

from bowstring.clients.group.membership import Place
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.connection import Pending
from bowstring.clients.net.metadata import ClusterMetadata
from bowstring.clients.records import TopicPartition
from bowstring.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

ASK_PAUSE_S = 0.1


class TopicIds:
    """Looks topics up by id; owned by the thread that owns `client`."""

    def __init__(self, client: NetworkClient, cluster: ClusterMetadata):
        self._client = client
        self._cluster = cluster
        self._asked_at = 0.0
        self._pending: Pending | None = None

    def resolve(self, places: Iterable[Place]) -> tuple[dict[TopicPartition, Place], set[Place]]:
        """Returns partitions by name, and those without a known name; requests these from brokers."""
        found: dict[TopicPartition, Place] = {}
        unknown: set[Place] = set()
        for place in places:
            name = self._cluster.names.get(place[0])
            if name is None:
                unknown.add(place)
            else:
                found[TopicPartition(name, place[1])] = place
                self._cluster.want(name)
        if unknown:
            self._ask(sorted({topic_id for topic_id, _ in unknown}))
        return found, unknown

    def _ask(self, topic_ids: list[bytes]) -> None:
        now = time.monotonic()
        if self._pending is not None or now < self._asked_at + ASK_PAUSE_S:
            return
        self._asked_at = now
        topics = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        pending = self._client.send(
            self._cluster.any_node(), MetadataRequest, request, callback=self._answered
        )
        if not pending.done:
            self._pending = pending

    def _answered(self, pending: Pending) -> None:
        self._pending = None
        if pending.error is None and not self._cluster.want_all:
            self._cluster.update(pending.response)
        else:
            self._cluster.invalidate()
