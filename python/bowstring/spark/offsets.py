"""Offsets of a query: which partitions there are, where they begin and end, and the JSON they are kept in.

The JSON is that of Spark's Kafka source (`{"topic":{"0":23}}`, the next offset to be read), so that a
checkpoint can be read by either engine.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping

from bowstring.clients.cluster import Cluster, parse_bootstrap
from bowstring.clients.errors import ClientError, ConfigError, OffsetOutOfRangeError, UnknownTopicError
from bowstring.clients.network import NetworkClient
from bowstring.clients.offset_queries import list_offsets
from bowstring.clients.records import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from bowstring.engine.errors import Errors
from bowstring.spark.options import OffsetLimit, ReadOptions
from bowstring.spark.ranges import OffsetRange, Offsets, split

log = logging.getLogger("bowstring.spark")

OffsetJson = dict[str, dict[str, int]]
DEFAULT_TIMEOUT_MS = 60_000
# Brokers that answer know a new topic soon; one that does not exist is not waited for as long as a broker.
TOPIC_TIMEOUT_S = 5.0
# One that a stream has read is most likely gone, and every micro-batch looks for it.
GONE_TIMEOUT_S = 0.5


class DataLossError(ClientError):
    """Records that a query had still to read are gone, and failOnDataLoss is true."""

    def __init__(self, what: str):
        super().__init__(
            f"{what}. Some data may have been lost: it was deleted by retention, or its topic was deleted or "
            "made anew, before the query read it. To go on with what is there, set the option "
            "failOnDataLoss to false"
        )


def to_json(offsets: Offsets) -> OffsetJson:
    """The form that Spark keeps in checkpoints, topics and partitions in order."""
    found: OffsetJson = {}
    for partition in sorted(offsets):
        found.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return found


def from_json(found: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """What `to_json` made."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, numbers in found.items()
        for partition, offset in numbers.items()
    }


class OffsetPlanner:
    """Asks brokers what a query has to read. Its connections open when they are first needed.

    Args:
        options: of the query.
    """

    def __init__(self, options: ReadOptions):
        self.options = options
        self._cluster: Cluster | None = None

    def close(self) -> None:
        """Closes the connections."""
        if self._cluster is not None:
            self._cluster.client.close()
            self._cluster = None

    def _connected(self) -> Cluster:
        if self._cluster is None:
            configs = self.options.configs
            client = NetworkClient(
                configs.get("client_id", "bowstring-spark"),
                request_timeout_ms=configs.get("request_timeout_ms", 30_000),
            )
            self._cluster = Cluster(
                client, parse_bootstrap(self.options.bootstrap_servers), allow_auto_create=False
            )
        return self._cluster

    @property
    def _timeout_s(self) -> float:
        return float(self.options.configs.get("default_timeout_ms", DEFAULT_TIMEOUT_MS)) / 1000

    # ------------------------------------------------------------ partitions

    def partitions(self, *, must_exist: bool = True) -> list[TopicPartition]:
        """The partitions there are now of what was subscribed to or assigned.

        Args:
            must_exist: whether a topic that was named and is not there is an error; else it has none.

        Raises:
            UnknownTopicError: a topic that was named does not exist.
            NoBrokerError: no broker answered.
        """
        if self.options.assigned:
            return list(self.options.assigned)
        cluster = self._connected()
        if self.options.pattern is not None:
            cluster.want_all = True
            cluster.refresh(self._timeout_s)
            # As in Kafka's clients, the whole name has to match, and internal topics never do.
            names = [
                name
                for name, info in cluster.topics.items()
                if not info.internal and re.fullmatch(self.options.pattern, name)
            ]
        else:
            names = list(self.options.topics)
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
        return sorted(found)

    # ------------------------------------------------------------ offsets

    def ends(self, partitions: Iterable[TopicPartition], end: int) -> dict[TopicPartition, int]:
        """First (EARLIEST_TIMESTAMP) or behind-last offset (LATEST_TIMESTAMP) of each partition."""
        found = self.at_times(dict.fromkeys(partitions, end))
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """First offset at or after each time in milliseconds; None where no record is as late."""
        found = list_offsets(self._connected(), times, self.options.read_committed, self._timeout_s)
        return {partition: answer and answer.offset for partition, answer in found.items()}

    def resolve(self, limit: OffsetLimit, *, starting: bool) -> dict[TopicPartition, int]:
        """Real offsets for a limit.

        Raises:
            ConfigError: it names other partitions than there are, or a starting time without a record.
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
                f"no record of {_names(without)} is as late as {times[without[0]]} ms. Choose an earlier "
                "time, or set startingOffsetsByTimestampStrategy to latest"
            )
        latest = self.ends(without, LATEST_TIMESTAMP) if without else {}
        return {p: latest[p] if offset is None else offset for p, offset in found.items()}

    def latest(self, known: Offsets) -> dict[TopicPartition, int]:
        """Where every partition ends now; asked again while a broker that lags answers less than is known.

        Topics that are gone are for `stream_ranges` to report.
        """
        partitions = self.partitions(must_exist=False)
        for attempt in range(self.options.fetch_retries):
            found = self.ends(partitions, LATEST_TIMESTAMP)
            behind = [p for p, offset in found.items() if offset < known.get(p, 0)]
            if not behind:
                break
            log.warning("%s ends before what was read already (attempt %d)", _names(behind), attempt + 1)
            if attempt + 1 < self.options.fetch_retries:
                time.sleep(self.options.fetch_retry_interval_ms / 1000)
        return found

    # ------------------------------------------------------------ what to read

    def batch_ranges(self) -> list[OffsetRange]:
        """The ranges of a batch query, one for each partition.

        Raises:
            OffsetOutOfRangeError: it begins or ends outside the log, and failOnDataLoss is true.
        """
        end = self.resolve(self.options.ending, starting=False)
        start = self.resolve(self.options.starting, starting=True)
        both = sorted(start.keys() & end.keys())
        self._check_named(start, end)
        return [OffsetRange(*partition, start[partition], end[partition]) for partition in both]

    def _check_named(self, start: dict[TopicPartition, int], end: dict[TopicPartition, int]) -> None:
        """Offsets that were written out are held against the log; what is not there is not waited for."""
        if self.options.starting.offsets is not None:
            first = self.ends(start, EARLIEST_TIMESTAMP)
            for partition, offset in start.items():
                if offset < first[partition]:
                    self._lost(partition, f"offset {offset} is before the log's first, {first[partition]}")
                    start[partition] = first[partition]
        if self.options.ending.offsets is not None:
            last = self.ends(end, LATEST_TIMESTAMP)
            for partition, offset in end.items():
                if offset > last[partition]:
                    self._lost(partition, f"offset {offset} is behind the log's end, {last[partition]}")
                    end[partition] = last[partition]

    def _lost(self, partition: TopicPartition, what: str) -> None:
        if self.options.fail_on_data_loss:
            raise OffsetOutOfRangeError(
                Errors.OFFSET_OUT_OF_RANGE.code,
                str(partition),
                f"{what}; to read what is there, set failOnDataLoss to false",
            )
        log.warning("%s: %s", partition, what)

    def split(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """By minPartitions and maxRecordsPerPartition."""
        return split(ranges, self.options.min_partitions, self.options.max_records_per_partition)

    def stream_ranges(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """The ranges of a micro-batch; new partitions are read from their beginning.

        Raises:
            DataLossError: something is gone, and failOnDataLoss is true.
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
                self._report(f"{partition} begins at {first[partition]}, behind offset {begin} read last")
                begin = min(first[partition], end[partition])
            ranges.append(OffsetRange(*partition, begin, end[partition]))
        return self.split(ranges)

    def _report(self, what: str) -> None:
        if self.options.fail_on_data_loss:
            raise DataLossError(what)
        log.warning("%s; some data may have been lost", what)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(partition) for partition in sorted(partitions))
