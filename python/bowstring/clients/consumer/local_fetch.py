"""Fills a consumer's buffers from files of brokers on this machine, as far as records exist.

At the end of a partition the consumer waits over TCP like any other: a long poll is the cheapest way, and
returns the records too.
"""

from __future__ import annotations

import time

from bowstring._native.record.decode import Aborted
from bowstring.clients.consumer import record_batches
from bowstring.clients.consumer.partition_state import Chunk, PartitionState
from bowstring.clients.errors import ClientError, CorruptBatchError, LocalReadsUnavailableError
from bowstring.clients.local import discovery
from bowstring.clients.local.discovery import Local
from bowstring.clients.local.feed import LocalFeed
from bowstring.clients.local.local_connection import LocalConnection
from bowstring.clients.local.mapped_segments import WINDOW_BYTES
from bowstring.clients.net.metadata import ClusterMetadata
from bowstring.clients.records import Node, TopicPartition

DISCOVERY_TIMEOUT_S = 5.0
# A broker without local reads is tried again at growing intervals.
RETRY_AFTER_S = 5.0
RETRY_AFTER_MAX_S = 300.0
LEAVE_ALONE_S = 1.0


class LocalFetch:
    """Consulted by a Fetcher before it sends a request. Used on the consumer's thread.

    Args:
        local: True raises an error if a broker's files are unavailable; "auto" then reads over TCP.

    Attributes:
        filled_bytes: bytes read from files.
    """

    def __init__(self, cluster: ClusterMetadata, *, local: Local, read_committed: bool):
        self._cluster = cluster
        self._must = local is True
        self._read_committed = read_committed
        self._connections: dict[int, LocalConnection] = {}
        self._refused: dict[int, tuple[float, float]] = {}
        self._errors: dict[int, LocalReadsUnavailableError] = {}
        self._feeds: dict[TopicPartition, LocalFeed] = {}
        self._left_until: dict[TopicPartition, float] = {}
        self.filled_bytes = 0

    def fill(self, node: Node, partition: TopicPartition, state: PartitionState) -> bool:
        """Buffers the next records of a partition that `node` leads; returns False if they must be fetched
        over TCP.

        Raises:
            LocalReadsUnavailableError: the broker's files are unavailable, but required.
        """
        end = state.last_stable_offset if self._read_committed else state.high_watermark
        if 0 <= end <= state.fetch_offset or time.monotonic() < self._left_until.get(partition, 0.0):
            return False
        feed = self._feed(node, partition)
        if feed is None:
            return False
        try:
            return self._fill(feed, partition, state)
        except LocalReadsUnavailableError:
            self._lost(node)
        except (ClientError, OSError):
            # The fetch over TCP gets the same error, and the consumer handles it as usual.
            self._feeds.pop(partition).forget()
        self._left_until[partition] = time.monotonic() + LEAVE_ALONE_S
        return False

    def keep(self, partitions: set[TopicPartition]) -> None:
        """Closes the files of all other partitions."""
        for partition in self._feeds.keys() - partitions:
            self._feeds.pop(partition).forget()

    def close(self) -> None:
        """Closes the connections; returned records stay valid."""
        self.keep(set())
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # ------------------------------------------------------------ files

    def _fill(self, feed: LocalFeed, partition: TopicPartition, state: PartitionState) -> bool:
        size = WINDOW_BYTES
        window = feed.window(state.fetch_offset, size)
        state.high_watermark = feed.high_watermark
        state.last_stable_offset = feed.last_stable_offset
        state.log_start_offset = feed.log_start_offset
        if window is None:
            return False
        while True:
            try:
                whole, next_offset, count = record_batches.scan(window.data, partition, state.fetch_offset)
                break
            except CorruptBatchError:
                if window.is_whole or size > len(window.data):
                    raise
            size *= 2  # one batch is larger than the window
            window = feed.window(state.fetch_offset, size)
            assert window is not None
        next_offset = feed.advance(whole, next_offset)
        aborted = Aborted(window.aborted) if window.aborted else None
        state.buffer(Chunk(window.data[:whole], state.fetch_offset, next_offset, count, aborted))
        self.filled_bytes += whole
        return True

    def _feed(self, node: Node, partition: TopicPartition) -> LocalFeed | None:
        connection = self._connection(node)
        if connection is None:
            return None
        feed = self._feeds.get(partition)
        if feed is None or feed.connection is not connection:
            if feed is not None:
                feed.forget()
            feed = LocalFeed(
                connection,
                partition,
                read_committed=self._read_committed,
                topic_id=self._cluster.topic_id(partition.topic),
            )
            self._feeds[partition] = feed
        return feed

    # ------------------------------------------------------------ brokers

    def _connection(self, node: Node) -> LocalConnection | None:
        connection = self._connections.get(node.id)
        if connection is not None:
            return connection
        until, pause_s = self._refused.get(node.id, (0.0, RETRY_AFTER_S))
        if time.monotonic() < until:
            if (known := self._errors.get(node.id)) is not None:
                raise known
            return None
        try:
            connection = discovery.connect(self._cluster, node, DISCOVERY_TIMEOUT_S)
        except LocalReadsUnavailableError as error:
            self._refused[node.id] = (time.monotonic() + pause_s, min(RETRY_AFTER_MAX_S, 2 * pause_s))
            if self._must and not self._cluster.client.backing_off(node):
                self._errors[node.id] = error
                raise
            return None
        self._refused.pop(node.id, None)
        self._errors.pop(node.id, None)
        self._connections[node.id] = connection
        return connection

    def _lost(self, node: Node) -> None:
        connection = self._connections.pop(node.id, None)
        if connection is None:
            return
        connection.close()
        for partition in [p for p, feed in self._feeds.items() if feed.connection is connection]:
            self._feeds.pop(partition).forget()
