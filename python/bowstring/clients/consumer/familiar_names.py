"""Provides the consumer methods of confluent-kafka and kafka-python under their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from bowstring.clients.consumer.partition_state import PartitionState
from bowstring.clients.errors import ConfigError
from bowstring.clients.net.metadata import ClusterMetadata
from bowstring.clients.records import OffsetAndMetadata, Record, TopicInfo, TopicPartition
from bowstring.clients.single_thread import SingleThread

if TYPE_CHECKING:
    from bowstring.clients.consumer.coordinator import OnCommit


class FamiliarNames:
    """Mixed into Consumer; each method calls Consumer's own."""

    _cluster: ClusterMetadata
    _owner: SingleThread

    if TYPE_CHECKING:

        def _seconds(self, timeout: float | None) -> float: ...

        def _state(self, partition: TopicPartition | tuple[str, int]) -> PartitionState: ...

        def poll(  # noqa: D102
            self, timeout: float | None = 1.0, *, max_records: int | None = None
        ) -> list[Record]: ...

        def partitions_for(  # noqa: D102
            self, topic: str, timeout: float | None = None
        ) -> list[TopicPartition]: ...

        def beginning_offsets(  # noqa: D102
            self, partitions: Iterable[TopicPartition], timeout: float | None = None
        ) -> dict[TopicPartition, int]: ...

        def end_offsets(  # noqa: D102
            self, partitions: Iterable[TopicPartition], timeout: float | None = None
        ) -> dict[TopicPartition, int]: ...

        def commit(  # noqa: D102
            self,
            offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | Record | None = None,
            *,
            asynchronous: bool = False,
            on_commit: OnCommit | None = None,
            timeout: float | None = None,
        ) -> None: ...

    def consume(self, num_messages: int = 1, timeout: float | None = 1.0) -> list[Record]:
        """confluent-kafka's name for `poll(timeout, max_records=num_messages)`; returns as soon as it has a
        record.

        Args:
            num_messages: most records.
            timeout: seconds to wait for the first record; None or -1 waits without limit.
        """
        return self.poll(timeout, max_records=num_messages)

    def get_watermark_offsets(
        self, partition: TopicPartition | tuple[str, int], timeout: float | None = None, cached: bool = False
    ) -> tuple[int, int]:
        """confluent-kafka's name for the first offset and the one after the last; `cached`: the last known
        values, or -1.

        Args:
            partition: topic and partition number.
            timeout: seconds to wait for brokers; None for default_timeout_ms.
            cached: sends no request.
        """
        if cached:
            state = self._state(partition)
            return state.log_start_offset, state.high_watermark
        asked = TopicPartition(*partition)
        low = self.beginning_offsets([asked], timeout)[asked]
        return low, self.end_offsets([asked], timeout)[asked]

    def highwater(self, partition: TopicPartition | tuple[str, int]) -> int | None:
        """kafka-python's name for the high watermark of the last fetch; None before the first.

        Args:
            partition: an assigned partition.
        """
        known = self._state(partition).high_watermark
        return known if known >= 0 else None

    def list_topics(self, topic: str | None = None, timeout: float | None = None) -> dict[str, TopicInfo]:
        """confluent-kafka's name for metadata by name of `topic`, or of all topics.

        Args:
            topic: name of one topic; None for all.
            timeout: seconds to wait for brokers; None for default_timeout_ms.

        Raises:
            UnknownTopicError, NoBrokerError: not answered within `timeout` seconds.
        """
        with self._owner:
            cluster = self._cluster
            if topic is not None:
                return {topic: cluster.await_topic(topic, self._seconds(timeout))}
            everything, cluster.want_all = cluster.want_all, True
            try:
                cluster.refresh(self._seconds(timeout))
                return dict(cluster.topics)
            finally:
                cluster.want_all = everything

    def topics(self, timeout: float | None = None) -> set[str]:
        """kafka-python's name for the names of all topics except internal ones.

        Args:
            timeout: seconds to wait for brokers; None for default_timeout_ms.
        """
        return {name for name, info in self.list_topics(timeout=timeout).items() if not info.internal}

    def partitions_for_topic(self, topic: str, timeout: float | None = None) -> set[int]:
        """kafka-python's name for the partition numbers of a topic. Raises like `partitions_for`.

        Args:
            topic: name of the topic.
            timeout: seconds to wait for brokers; None for default_timeout_ms.
        """
        return {partition.partition for partition in self.partitions_for(topic, timeout)}

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | Record | None = None,
        callback: OnCommit | None = None,
    ) -> None:
        """kafka-python's name for `commit(offsets, asynchronous=True, on_commit=callback)`.

        Args:
            offsets: as for `commit`.
            callback: called with the offsets and None, or the error.
        """
        if callback is not None and not callable(callback):
            raise ConfigError(f"the callback is a {type(callback).__name__}; give a function")
        self.commit(offsets, asynchronous=True, on_commit=callback)
