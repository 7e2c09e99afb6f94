"""What the broker measures, as Prometheus metrics. Imported at the first scrape: the library is heavy.

Counters live in the data plane and the dispatcher; they are read here, never locked.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from bowstring.engine.broker.request_counters import LATENCY_BUCKETS
from bowstring.engine.protocol import API_VERSIONS

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker

_NATIVE_APIS: Final = ("produce", "fetch")


class BrokerCollector(Collector):
    """Reads a broker's counters for each scrape."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def collect(self) -> Iterable[Metric]:
        """Every metric of the broker."""
        yield from self._requests()
        yield from self._topics()
        yield from self._connections()
        yield from self._partitions()
        yield from self._cleaner()
        yield from self._write_ahead_logs()
        yield from self._storage()
        yield from self._scrubber()
        yield from self._local_reads()

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("bowstring_requests", "Requests answered.", labels=["api"])
        errors = CounterMetricFamily(
            "bowstring_request_errors", "Requests answered with an error as a whole.", labels=["api"]
        )
        latency = HistogramMetricFamily(
            "bowstring_request_seconds", "Time from a request's arrival to its answer.", labels=["api"]
        )
        for api, count, failed, total_us, buckets in self._request_counters():
            requests.add_metric([api], count)
            errors.add_metric([api], failed)
            latency.add_metric([api], _cumulative(buckets), total_us / 1e6)
        yield from (requests, errors, latency)

    def _request_counters(self) -> Iterator[tuple[str, int, int, int, list[int]]]:
        native = self._broker.plane.counters()
        for name in _NATIVE_APIS:
            counters = native["produce"] if name == "produce" else native["fetch"]
            yield (
                name.capitalize(),
                counters["requests"],
                counters["errors"],
                counters["total_us"],
                counters["latency_buckets"],
            )
        for key, each in sorted(self._broker.dispatcher.counters.items()):
            yield API_VERSIONS[key].name, each.requests, each.errors, each.total_us, each.buckets

    def _topics(self) -> Iterator[Metric]:
        families = [
            CounterMetricFamily("bowstring_topic_records_in", "Records appended.", labels=["topic"]),
            CounterMetricFamily("bowstring_topic_bytes_in", "Bytes appended.", labels=["topic"]),
            CounterMetricFamily(
                "bowstring_topic_records_out", "Records fetched, by their offsets.", labels=["topic"]
            ),
            CounterMetricFamily("bowstring_topic_bytes_out", "Bytes fetched.", labels=["topic"]),
            CounterMetricFamily(
                "bowstring_topic_failed_produces",
                "Batches refused.",
                labels=["topic"],
            ),
            CounterMetricFamily(
                "bowstring_topic_failed_fetches", "Partitions refused to fetches.", labels=["topic"]
            ),
        ]
        sizes = GaugeMetricFamily("bowstring_log_size_bytes", "Size of the topic's logs.", labels=["topic"])
        totals: dict[str, list[int]] = {}
        for topic, index, log in self._broker.logs:
            total = totals.setdefault(topic, [0] * (len(families) + 1))
            for i, value in enumerate(self._broker.plane.partition_counters(topic, index)):
                total[i] += value
            total[-1] += log.size_bytes
        for topic, total in totals.items():
            for family, value in zip(families, total, strict=False):
                family.add_metric([topic], value)
            sizes.add_metric([topic], total[-1])
        yield from (*families, sizes)

    def _connections(self) -> Iterator[Metric]:
        counters = self._broker.plane.counters()
        yield GaugeMetricFamily("bowstring_connections", "Connections open.", counters["connections"])
        yield GaugeMetricFamily(
            "bowstring_fetch_sessions", "Fetch sessions remembered.", counters["fetch_sessions"]
        )
        for name, help_text, value in (
            ("bowstring_connections_accepted", "Connections accepted.", counters["accepted"]),
            ("bowstring_received_bytes", "Bytes received from clients.", counters["received_bytes"]),
            ("bowstring_sent_bytes", "Bytes sent to clients.", counters["sent_bytes"]),
        ):
            yield CounterMetricFamily(name, help_text, value)

    def _partitions(self) -> Iterator[Metric]:
        image = self._broker.metadata.image
        under_replicated = offline = 0
        for topic in image.topics.values():
            for partition in topic.partitions:
                under_replicated += len(partition.in_sync) < len(partition.replicas)
                offline += partition.leader < 0
        directories = self._broker.directories
        for name, help_text, value in (
            (
                "bowstring_offline_log_directory_count",
                "Log directories that have failed.",
                directories.offline_count,
            ),
            ("bowstring_topics", "Topics.", len(image.topics)),
            ("bowstring_partitions", "Partitions.", image.partition_count),
            (
                "bowstring_under_replicated_partitions",
                "Partitions with fewer in-sync replicas than replicas.",
                under_replicated,
            ),
            (
                "bowstring_offline_partitions",
                "Partitions without a leader, or on a failed disk.",
                offline + self._broker.logs.offline_count,
            ),
        ):
            yield GaugeMetricFamily(name, help_text, value)
        yield self._slow_operations()

    def _slow_operations(self) -> Metric:
        family = CounterMetricFamily(
            "bowstring_log_directory_slow_operations",
            "Writes and syncs that took longer than bowstring.log.dir.slow.ms.",
            labels=["directory"],
        )
        for directory in self._broker.directories:
            family.add_metric([str(directory.path)], directory.health.slow_operations)
        return family

    def _storage(self) -> Iterator[Metric]:
        storage = self._broker.plane.counters()["storage"]
        for name, help_text, value in (
            ("bowstring_cold_reads", "Ranges read from disk, or checked, for fetches.", storage["reads"]),
            ("bowstring_cold_read_bytes", "Bytes of them.", storage["read_bytes"]),
            ("bowstring_failed_reads", "Of them, those that the disk failed.", storage["failed_reads"]),
        ):
            yield CounterMetricFamily(name, help_text, value)
        yield GaugeMetricFamily(
            "bowstring_corrupt_ranges",
            "Ranges of log files that fail their CRC and are not served.",
            sum(log.stats()["corrupt_ranges"] for _, _, log in self._broker.logs),
        )

    def _local_reads(self) -> Iterator[Metric]:
        local = self._broker.local
        if local is None:
            return
        yield CounterMetricFamily(
            "bowstring_local_requests", "Times local readers were given segment files.", local.answered
        )
        yield GaugeMetricFamily("bowstring_local_connections", "Local readers connected.", local.connections)

    def _scrubber(self) -> Iterator[Metric]:
        scrubber = self._broker.scrubber
        for name, help_text, value in (
            (
                "bowstring_scrubbed_bytes",
                "Bytes of logs whose CRCs the scrubber checked.",
                scrubber.scrubbed_bytes,
            ),
            (
                "bowstring_scrub_damaged_ranges",
                "Damaged or missing ranges the scrubber found.",
                scrubber.damaged_ranges,
            ),
            ("bowstring_scrub_rounds", "Rounds over all logs the scrubber has finished.", scrubber.rounds),
            (
                "bowstring_rebuilt_indexes",
                "Indexes made anew because a search found them wanting.",
                scrubber.rebuilt_indexes,
            ),
        ):
            yield CounterMetricFamily(name, help_text, value)
        yield GaugeMetricFamily(
            "bowstring_scrub_round_ended_seconds",
            "When the scrubber's last round ended, seconds since 1970; 0 before the first.",
            scrubber.round_ended_s,
        )

    def _write_ahead_logs(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for path, stats in self._broker.logs.durability.stats().items():
            for field, make, help_text in _WAL_METRICS:
                family = families.setdefault(
                    field, make(f"bowstring_wal_{field}", help_text, labels=["directory"])
                )
                family.add_metric([path], stats[field])  # type: ignore[attr-defined,literal-required]
        yield from families.values()

    def _cleaner(self) -> Iterator[Metric]:
        cleaner = self._broker.cleaner
        figures = cleaner.figures
        for name, help_text, value in (
            (
                "bowstring_cleaner_uncleanable_partitions",
                "Partitions that cannot be compacted; the log says why.",
                len(cleaner.uncleanable),
            ),
            (
                "bowstring_cleaner_max_dirty_percent",
                "Share of uncompacted bytes in the log where it is largest.",
                100 * figures.max_dirty_ratio,
            ),
            (
                "bowstring_cleaner_max_compaction_delay_seconds",
                "How far the latest log is beyond max.compaction.lag.ms.",
                figures.max_delay_s,
            ),
            (
                "bowstring_cleaner_recopy_percent",
                "Share of the last compacted log that stayed.",
                100 * figures.last_recopy_ratio,
            ),
            ("bowstring_cleaner_last_run_seconds", "How long the last run took.", figures.last_run_s),
            (
                "bowstring_cleaner_table_utilization_percent",
                "How full the last run's table of keys was.",
                100 * figures.last_table_utilization,
            ),
            (
                "bowstring_cleaner_seconds_since_last_look",
                "Time since the cleaner last looked for something to do.",
                time.monotonic() - figures.last_look,
            ),
        ):
            yield GaugeMetricFamily(name, help_text, value)
        for name, help_text, count in (
            ("bowstring_cleaner_runs", "Logs compacted.", figures.runs),
            ("bowstring_cleaner_failures", "Compactions that failed; they are tried again.", figures.failed),
            ("bowstring_cleaner_read_bytes", "Bytes of logs read to compact them.", figures.read_bytes),
            ("bowstring_cleaner_written_bytes", "Bytes of compacted logs written.", figures.written_bytes),
        ):
            yield CounterMetricFamily(name, help_text, count)


# Field of WalStats (wal.pyi), kind, what it says.
_WAL_METRICS: Final[tuple[tuple[str, Callable[..., Metric], str], ...]] = (
    ("segments", GaugeMetricFamily, "Files of the write-ahead log."),
    ("full_segments", GaugeMetricFamily, "Files of the write-ahead log that wait for a checkpoint."),
    ("staged_bytes", GaugeMetricFamily, "Bytes appended and not yet on the medium."),
    ("frames", CounterMetricFamily, "Group commits: frames written to the medium."),
    ("written_bytes", CounterMetricFamily, "Bytes written to the write-ahead log."),
    ("payload_bytes", CounterMetricFamily, "Bytes of batches among them."),
    ("waited_for_segment", CounterMetricFamily, "Commits that waited for a file to write to."),
)


def _cumulative(buckets: list[int]) -> list[tuple[str, float]]:
    """Prometheus's cumulative buckets from counts of less than 2**i microseconds."""
    total = 0
    found: list[tuple[str, float]] = []
    for i, count in enumerate(buckets):
        total += count
        bound = "+Inf" if i == LATENCY_BUCKETS - 1 else repr(2**i / 1e6)
        found.append((bound, total))
    return found


def registry(broker: "Broker") -> CollectorRegistry:
    """The broker's metrics and the process's own."""
    made = CollectorRegistry()
    made.register(BrokerCollector(broker))
    ProcessCollector(registry=made)
    return made


def text(metrics: CollectorRegistry) -> bytes:
    """The metrics as Prometheus reads them."""
    return generate_latest(metrics)
