"""A consumer's buffers filled from the files of brokers on this machine, as far as there are records already.

At the end of a partition the consumer waits through TCP, as every other does: a long poll there costs least,
and brings the records with it.
"""

from __future__ import annotations

import time

from bowstring._native.aborted import Aborted
from bowstring.clients import batches, local_discovery
from bowstring.clients.cluster import Cluster
from bowstring.clients.errors import ClientError, CorruptBatchError, LocalReadsUnavailableError
from bowstring.clients.local_discovery import Local
from bowstring.clients.local_feed import LocalFeed
from bowstring.clients.local_files import WINDOW_BYTES
from bowstring.clients.local_wire import LocalConnection
from bowstring.clients.positions import Chunk, PartitionState
from bowstring.clients.records import Node, TopicPartition

DISCOVERY_TIMEOUT_S = 5.0
# A broker without local reads is asked again ever more slowly.
RETRY_AFTER_S = 5.0
RETRY_AFTER_MAX_S = 300.0
LEAVE_ALONE_S = 1.0


class LocalFetch:
    """What a Fetcher asks before it sends a request. Of the consumer's thread.

    Args:
        local: True makes it an error that a broker's files cannot be had; "auto" reads over TCP then.

    Attributes:
        filled_bytes: what came out of files.
    """

    def __init__(self, cluster: Cluster, *, local: Local, read_committed: bool):
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
        """Buffers the next records of a partition that `node` leads; False: TCP is to be asked for them.

        Raises:
            LocalReadsUnavailableError: the broker's files cannot be had, and must be.
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
            # TCP says what is wrong, and the consumer does what it always does about it.
            self._feeds.pop(partition).forget()
        self._left_until[partition] = time.monotonic() + LEAVE_ALONE_S
        return False

    def keep(self, partitions: set[TopicPartition]) -> None:
        """Lets go of the files of all others."""
        for partition in self._feeds.keys() - partitions:
            self._feeds.pop(partition).forget()

    def close(self) -> None:
        """Ends the connections; what was handed out stays."""
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
                whole, next_offset, count = batches.scan(window.data, False, partition)
                break
            except CorruptBatchError:
                if window.is_whole or size > len(window.data):
                    raise
            size *= 2  # one batch is larger
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
            connection = local_discovery.connect(self._cluster, node, DISCOVERY_TIMEOUT_S)
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
