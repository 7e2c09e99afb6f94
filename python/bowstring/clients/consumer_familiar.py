"""What users of confluent-kafka and kafka-python look for in a consumer, under the names they know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from bowstring.clients.cluster import Cluster
from bowstring.clients.errors import ConfigError
from bowstring.clients.ownership import OneThread
from bowstring.clients.positions import PartitionState
from bowstring.clients.records import OffsetAndMetadata, Record, TopicInfo, TopicPartition

if TYPE_CHECKING:
    from bowstring.clients.membership import OnCommit


class FamiliarNames:
    """Mixed into Consumer, whose own names these stand for."""

    _cluster: Cluster
    _owner: OneThread

    if TYPE_CHECKING:

        def _seconds(self, timeout: float | None) -> float: ...

        def _state(self, partition: TopicPartition | tuple[str, int]) -> PartitionState: ...

        def poll(  # noqa: D102
            self, max_records: int | None = None, timeout: float = 1.0
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

    def consume(self, num_messages: int = 1, timeout: float = 1.0) -> list[Record]:
        """confluent-kafka's `consume`: `poll(num_messages, timeout)`; it returns as soon as there are any."""
        return self.poll(num_messages, timeout)

    def get_watermark_offsets(
        self, partition: TopicPartition | tuple[str, int], timeout: float | None = None, cached: bool = False
    ) -> tuple[int, int]:
        """confluent-kafka's: the first offset and the one behind the last; `cached`: as last told, or -1."""
        if cached:
            state = self._state(partition)
            return state.log_start_offset, state.high_watermark
        asked = TopicPartition(*partition)
        low = self.beginning_offsets([asked], timeout)[asked]
        return low, self.end_offsets([asked], timeout)[asked]

    def highwater(self, partition: TopicPartition | tuple[str, int]) -> int | None:
        """kafka-python's: the high watermark as the last fetch told, None before that."""
        known = self._state(partition).high_watermark
        return known if known >= 0 else None

    def list_topics(self, topic: str | None = None, timeout: float | None = None) -> dict[str, TopicInfo]:
        """confluent-kafka's: metadata by name of `topic`, or of all.

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
        """kafka-python's: names of all topics but the cluster's own."""
        return {name for name, info in self.list_topics(timeout=timeout).items() if not info.internal}

    def partitions_for_topic(self, topic: str, timeout: float | None = None) -> set[int]:
        """kafka-python's: partition numbers of a topic. Raises what `partitions_for` raises."""
        return {partition.partition for partition in self.partitions_for(topic, timeout)}

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | Record | None = None,
        callback: OnCommit | None = None,
    ) -> None:
        """kafka-python's: `commit(offsets, asynchronous=True, on_commit=callback)`."""
        if callback is not None and not callable(callback):
            raise ConfigError(f"the callback is a {type(callback).__name__}; give a function")
        self.commit(offsets, asynchronous=True, on_commit=callback)
