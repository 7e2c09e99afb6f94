"""Plans the offsets of a query: its partitions, their ends, and the JSON in checkpoints.

The JSON is that of Spark's Kafka source (`{"topic":{"0":23}}`, the next offset to read), so that either
engine can read a checkpoint.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping

from bowstring.clients.config.client import CONSUMER
from bowstring.clients.config.security import client_security
from bowstring.clients.errors import ClientError, ConfigError, OffsetOutOfRangeError, UnknownTopicError
from bowstring.clients.group.offset_queries import list_offsets
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.metadata import ClusterMetadata, parse_bootstrap
from bowstring.clients.records import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from bowstring.protocol.errors import Errors
from bowstring.spark.options import OffsetLimit, ReadOptions
from bowstring.spark.ranges import OffsetRange, Offsets, split

log = logging.getLogger("bowstring.spark")

OffsetJson = dict[str, dict[str, int]]
# Brokers that answer soon have metadata of a new topic, so wait less for a missing topic than for a broker.
TOPIC_TIMEOUT_S = 5.0
# A missing topic that a stream has read is most likely deleted, and every micro-batch looks for it.
GONE_TIMEOUT_S = 0.5
# Timeout for offsets of partitions that were just listed; then the partitions are listed again.
ENDS_TIMEOUT_S = 2.0


class DataLossError(ClientError):
    """Records that a query still had to read are gone, and failOnDataLoss is true."""

    def __init__(self, what: str):
        super().__init__(
            f"{what}. Some data may have been lost: it was deleted by retention, or its topic was deleted "
            "or created again, before the query read it. To continue with the remaining data, set the "
            "option failOnDataLoss to false"
        )


def to_json(offsets: Offsets) -> OffsetJson:
    """Returns the JSON for checkpoints, topics and partitions in order."""
    found: OffsetJson = {}
    for partition in sorted(offsets):
        found.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return found


def from_json(found: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """Reverses `to_json`."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, numbers in found.items()
        for partition, offset in numbers.items()
    }


class OffsetPlanner:
    """Requests the offsets of a query from brokers. Connections open on first use.

    Args:
        options: of the query.
    """

    def __init__(self, options: ReadOptions):
        self.options = options
        self._cluster: ClusterMetadata | None = None
        # Ids of topics at the last request for their ends; a topic that was created again has another id.
        self._ids: dict[str, bytes] = {}

    def close(self) -> None:
        """Closes the connections."""
        if self._cluster is not None:
            self._cluster.client.close()
            self._cluster = None

    def _connected(self) -> ClusterMetadata:
        if self._cluster is None:
            configs = self.options.configs
            client = NetworkClient(
                configs.get("client_id", "bowstring-spark"),
                request_timeout_ms=configs.get("request_timeout_ms", CONSUMER.defaults["request_timeout_ms"]),
                security=client_security(configs.get("security")),
            )
            self._cluster = ClusterMetadata(
                client, parse_bootstrap(self.options.bootstrap_servers), allow_auto_create=False
            )
        return self._cluster

    @property
    def _timeout_s(self) -> float:
        return (
            float(self.options.configs.get("default_timeout_ms", CONSUMER.defaults["default_timeout_ms"]))
            / 1000
        )

    # ------------------------------------------------------------ partitions

    def partitions(self, *, must_exist: bool = True) -> list[TopicPartition]:
        """Returns the present partitions of the subscribed topics, or the assigned ones.

        Args:
            must_exist: whether a missing named topic is an error; otherwise it has no partitions.

        Raises:
            UnknownTopicError: a named topic does not exist.
            ConfigError: a named partition does not exist.
            NoBrokerError: no broker answered.
        """
        cluster = self._connected()
        assigned = set(self.options.assigned)
        if self.options.pattern is not None:
            cluster.want_all = True
            cluster.refresh(self._timeout_s)
            # As in Kafka's clients, the pattern must match the whole name, and internal topics never match.
            names = [
                name
                for name, info in cluster.topics.items()
                if not info.internal and re.fullmatch(self.options.pattern, name)
            ]
        else:
            names = list(self.options.topics) or sorted({partition.topic for partition in assigned})
            for name in names:
                cluster.want(name)
            cluster.refresh(self._timeout_s)
        found: list[TopicPartition] = []
        patience_s = TOPIC_TIMEOUT_S if must_exist else GONE_TIMEOUT_S
        for name in names:
            try:
                topic = cluster.await_topic(name, min(patience_s, self._timeout_s))
            except UnknownTopicError:
                if must_exist:
                    raise
                continue
            found += [TopicPartition(name, number) for number in topic.partitions]
        if not assigned:
            return sorted(found)
        if must_exist and not assigned <= set(found):
            raise ConfigError(
                f"there is no partition {_names(assigned - set(found))}: check the option assign"
            )
        return sorted(assigned & set(found))

    # ------------------------------------------------------------ offsets

    def ends(
        self, partitions: Iterable[TopicPartition], end: int, timeout_s: float | None = None
    ) -> dict[TopicPartition, int]:
        """Returns the first (EARLIEST_TIMESTAMP) or end offset (LATEST_TIMESTAMP) of each partition."""
        found = self.at_times(dict.fromkeys(partitions, end), timeout_s)
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def at_times(
        self, times: Mapping[TopicPartition, int], timeout_s: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """Returns the first offset at or after each time in milliseconds; None if no record is that late."""
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        found = list_offsets(self._connected(), times, self.options.read_committed, timeout_s)
        return {partition: answer and answer.offset for partition, answer in found.items()}

    def resolve(self, limit: OffsetLimit, *, starting: bool) -> dict[TopicPartition, int]:
        """Resolves a limit to offsets.

        Raises:
            ConfigError: it names other partitions than exist, or a starting time without a record.
        """
        partitions = self.partitions()
        if limit.end is not None:
            return self.ends(partitions, limit.end)
        if limit.timestamp is not None:
            return self._resolve_times(dict.fromkeys(partitions, limit.timestamp), starting)
        named = limit.timestamps if limit.timestamps is not None else limit.offsets or {}
        if set(named) != set(partitions):
            raise ConfigError(
                f"the {'starting' if starting else 'ending'} offsets name {_names(named)}, but the query "
                f"reads {_names(partitions)}: name each of them, with -2 for its earliest offset and -1 for "
                "its latest"
            )
        if limit.timestamps is not None:
            return self._resolve_times(limit.timestamps, starting)
        found = dict(named)
        for end in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP):
            asked = [partition for partition, offset in named.items() if offset == end]
            if asked:
                found |= self.ends(asked, end)
        return found

    def _resolve_times(
        self, times: Mapping[TopicPartition, int], starting: bool
    ) -> dict[TopicPartition, int]:
        found = self.at_times(times)
        without = [partition for partition, offset in found.items() if offset is None]
        if without and starting and not self.options.latest_without_match:
            raise ConfigError(
                f"{_names(without)} has no record at or after {times[without[0]]} ms. Choose an earlier "
                "time, or set startingOffsetsByTimestampStrategy to latest"
            )
        latest = self.ends(without, LATEST_TIMESTAMP) if without else {}
        return {p: latest[p] if offset is None else offset for p, offset in found.items()}

    def latest(self, known: Offsets) -> dict[TopicPartition, int]:
        """Returns the present end of every partition; repeats the request if an end is below a known offset,
        because a broker may lag.

        A topic that was created again since the last call is missing in this call and new in the next, as if
        it had been looked up in between: its offsets have no relation to what was read before.

        Raises:
            DataLossError: partitions are gone, and failOnDataLoss is true. If it is false, `stream_ranges`
                reports them.
        """
        for attempt in range(self.options.fetch_retries):
            found = self._latest_of_existing()
            ids = {name: topic.topic_id for name, topic in self._connected().topics.items()}
            anew = {name for name, each in ids.items() if self._ids.get(name, each) != each}
            behind = [p for p, end in known.items() if found.get(p, -1) < end and p.topic not in anew]
            if not behind:
                break
            log.warning(
                "%s no longer exists, or ends below the offset already read (attempt %d); asking again",
                _names(behind),
                attempt + 1,
            )
            if attempt + 1 < self.options.fetch_retries:
                time.sleep(self.options.fetch_retry_interval_ms / 1000)
        self._ids |= ids
        found = {p: end for p, end in found.items() if p.topic not in anew or p not in known}
        # Raise before Spark's offset log records that they are gone: they may come back.
        if self.options.fail_on_data_loss and (gone := known.keys() - found.keys()):
            self._report(f"{_names(gone)} are gone")
        return found

    def _latest_of_existing(self) -> dict[TopicPartition, int]:
        """Returns the ends of existing partitions. If a topic is deleted between the two requests, lists the
        partitions again instead of waiting.
        """
        deadline = time.monotonic() + self._timeout_s
        while True:
            partitions = self.partitions(must_exist=False)
            try:
                return self.ends(partitions, LATEST_TIMESTAMP, min(ENDS_TIMEOUT_S, self._timeout_s))
            except ClientError as error:
                if not error.retriable or time.monotonic() >= deadline:
                    raise

    # ------------------------------------------------------------ ranges to read

    def batch_ranges(self) -> list[OffsetRange]:
        """Returns the ranges of a batch query, one for each partition.

        Raises:
            OffsetOutOfRangeError: a range begins or ends outside the log, and failOnDataLoss is true.
        """
        end = self.resolve(self.options.ending, starting=False)
        start = self.resolve(self.options.starting, starting=True)
        both = sorted(start.keys() & end.keys())
        self._check_named(start, end)
        for partition in both:
            if start[partition] > end[partition]:
                what = f"the query starts at {start[partition]} and ends at {end[partition]}, before it"
                self._lost(partition, what)
                end[partition] = start[partition]
        return [OffsetRange(*partition, start[partition], end[partition]) for partition in both]

    def _check_named(self, start: dict[TopicPartition, int], end: dict[TopicPartition, int]) -> None:
        """Checks explicit offsets against the log; does not wait for records that do not exist."""
        if self.options.starting.offsets is not None:
            first = self.ends(start, EARLIEST_TIMESTAMP)
            for partition, offset in start.items():
                if offset < first[partition]:
                    self._lost(
                        partition, f"offset {offset} is below the log's first offset, {first[partition]}"
                    )
                    start[partition] = first[partition]
        if self.options.ending.offsets is not None:
            last = self.ends(end, LATEST_TIMESTAMP)
            for partition, offset in end.items():
                if offset > last[partition]:
                    self._lost(partition, f"offset {offset} is beyond the log's end, {last[partition]}")
                    end[partition] = last[partition]

    def _lost(self, partition: TopicPartition, what: str) -> None:
        if self.options.fail_on_data_loss:
            raise OffsetOutOfRangeError(
                Errors.OFFSET_OUT_OF_RANGE.code,
                str(partition),
                f"{what}; to read the remaining records, set failOnDataLoss to false",
            )
        log.warning("%s: %s", partition, what)

    def split(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Splits ranges by minPartitions and maxRecordsPerPartition."""
        return split(ranges, self.options.min_partitions, self.options.max_records_per_partition)

    def stream_ranges(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """Returns the ranges of a micro-batch; new partitions are read from their beginning.

        Raises:
            DataLossError: records are gone, and failOnDataLoss is true.
        """
        added = sorted(end.keys() - start.keys())
        first = self.ends(end, EARLIEST_TIMESTAMP)
        for partition in added:
            if first.get(partition, 0) > 0:
                self._report(f"the new partition {partition} begins at {first[partition]} instead of 0")
        gone = sorted(start.keys() - end.keys())
        if gone:
            self._report(f"{_names(gone)} are gone")
        ranges = []
        for partition in sorted(end):
            begin = start.get(partition, first[partition])
            if end[partition] < begin:
                self._report(f"the end of {partition} moved back from {begin} to {end[partition]}")
            elif begin < first[partition] and begin < end[partition]:
                self._report(
                    f"{partition} begins at {first[partition]}, beyond offset {begin} where the query stopped"
                )
                begin = min(first[partition], end[partition])
            ranges.append(OffsetRange(*partition, begin, end[partition]))
        return self.split(ranges)

    def _report(self, what: str) -> None:
        if self.options.fail_on_data_loss:
            raise DataLossError(what)
        log.warning("%s; some data may have been lost", what)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(partition) for partition in sorted(partitions))
