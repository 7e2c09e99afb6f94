"""Exports what the broker measures as Prometheus metrics. Imported at the first scrape: the library is slow
to load.

Counters live in the data plane and the dispatcher. They are read here without locks.
"""

import gzip
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder, gzip_accepted
from prometheus_client.registry import Collector

from bowstring.engine.broker.cluster_metrics import QuorumCollector, ReplicasCollector, partition_counts
from bowstring.engine.broker.group_lags import ROWS_MAX, GroupLags
from bowstring.engine.broker.partition_metrics import PartitionMetrics
from bowstring.engine.broker.quota_metrics import QuotaMetrics
from bowstring.engine.broker.request_counters import EXPORTED_BUCKETS, RequestCounters
from bowstring.engine.storage.descriptor_reserve import descriptor_counters
from bowstring.protocol import API_VERSIONS
from bowstring.protocol.messages import ApiKeys
from bowstring.version import __version__

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.controller_node import ControllerNode
    from bowstring.engine.security.authorizer import Authorizer

_NATIVE_APIS: Final = ("produce", "fetch")


class BrokerMetrics(Collector):
    """Reads a broker's counters for each scrape."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._lags = GroupLags(
            broker.coordination.group_shards, broker.logs.get, broker.coordination.share_lags
        )

    def collect(self) -> Iterable[Metric]:
        """Yields every metric of the broker."""
        yield from self._requests()
        yield from self._topics()
        yield from self._connections()
        yield from self._tls()
        yield from self._slow_batches()
        yield from self._partitions()
        yield from self._cleaner()
        yield from self._write_ahead_logs()
        yield from self._storage()
        yield from self._scrubber()
        yield from self._local_reads()
        yield from self._groups()
        yield from self._group_lags()

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "bowstring_requests", "Requests that the broker answered, by API.", labels=["api"]
        )
        errors = CounterMetricFamily(
            "bowstring_request_errors",
            "Requests answered with an error for the whole request, by API.",
            labels=["api"],
        )
        latency = HistogramMetricFamily(
            "bowstring_request_seconds",
            "Time from the arrival of a request to its answer, in seconds.",
            labels=["api"],
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
        by_reactors = {
            ApiKeys.LIST_OFFSETS: native["list_offsets"],
            ApiKeys.HEARTBEAT: native["heartbeat"],
            ApiKeys.CONSUMER_GROUP_HEARTBEAT: native["consumer_group_heartbeat"],
        }
        own = self._broker.dispatcher.counters
        for key in sorted({*own, *(key for key, found in by_reactors.items() if found["requests"])}):
            each, name = own.get(key) or RequestCounters(), API_VERSIONS[key].name
            more = by_reactors.get(key)
            if more is None:
                yield name, each.requests, each.errors, each.total_us, each.buckets
                continue
            yield (
                name,
                each.requests + more["requests"],
                each.errors,
                each.total_us + more["total_us"],
                [sum(both) for both in zip(each.buckets, more["latency_buckets"], strict=True)],
            )

    def _topics(self) -> Iterator[Metric]:
        families = [
            CounterMetricFamily(
                "bowstring_topic_records_in",
                "Records that producers appended to the topic.",
                labels=["topic"],
            ),
            CounterMetricFamily(
                "bowstring_topic_bytes_in",
                "Bytes of record batches that producers appended to the topic.",
                labels=["topic"],
            ),
            CounterMetricFamily(
                "bowstring_topic_records_out",
                "Records of the topic that fetches returned, counted by offsets.",
                labels=["topic"],
            ),
            CounterMetricFamily(
                "bowstring_topic_bytes_out",
                "Bytes of record batches of the topic that fetches returned.",
                labels=["topic"],
            ),
            CounterMetricFamily(
                "bowstring_topic_failed_produces",
                "Produced batches for the topic that the broker rejected.",
                labels=["topic"],
            ),
            CounterMetricFamily(
                "bowstring_topic_failed_fetches",
                "Errors that fetches returned for partitions of the topic.",
                labels=["topic"],
            ),
        ]
        sizes = GaugeMetricFamily(
            "bowstring_log_size_bytes", "Size of all logs of the topic on disk, in bytes.", labels=["topic"]
        )
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
        yield GaugeMetricFamily(
            "bowstring_connections", "Client connections that are open.", counters["connections"]
        )
        yield GaugeMetricFamily(
            "bowstring_fetch_sessions",
            "Incremental fetch sessions (KIP-227) in the broker's cache.",
            counters["fetch_sessions"],
        )
        for name, help_text, value in (
            (
                "bowstring_connections_accepted",
                "Client connections accepted since the broker started.",
                counters["accepted"],
            ),
            ("bowstring_received_bytes", "Bytes received from clients.", counters["received_bytes"]),
            ("bowstring_sent_bytes", "Bytes sent to clients.", counters["sent_bytes"]),
        ):
            yield CounterMetricFamily(name, help_text, value)
        yield from self._authentications()
        yield from self._descriptors()

    def _authentications(self) -> Iterator[Metric]:
        authentication = self._broker.authentication
        if authentication is not None:
            yield CounterMetricFamily(
                "bowstring_authentications",
                "Times that clients authenticated, also again on open connections (KIP-368).",
                authentication.successes,
            )
            yield CounterMetricFamily(
                "bowstring_failed_authentications",
                "Connections that were closed because the client did not authenticate.",
                authentication.failures,
            )

    def _descriptors(self) -> Iterator[Metric]:
        held, shortages, refused = descriptor_counters()
        yield CounterMetricFamily(
            "bowstring_descriptor_shortages",
            "Times when no file descriptor was left and connections were refused to keep some for files.",
            shortages,
        )
        yield CounterMetricFamily(
            "bowstring_descriptor_refused_connections",
            "Connections that were refused because no file descriptor was left.",
            refused,
        )
        yield GaugeMetricFamily(
            "bowstring_descriptors_reserved",
            "File descriptors kept for files; fewer than usual while there are too few.",
            held,
        )

    def _tls(self) -> Iterator[Metric]:
        if self._broker.tls is None:
            return
        counters = self._broker.plane.counters()["tls"]
        yield CounterMetricFamily(
            "bowstring_tls_handshakes", "TLS handshakes that succeeded.", counters["handshakes"]
        )
        yield CounterMetricFamily(
            "bowstring_tls_resumptions",
            "TLS handshakes that resumed an earlier session, which is cheaper.",
            counters["resumed"],
        )
        yield CounterMetricFamily(
            "bowstring_tls_handshake_failures", "TLS handshakes that failed.", counters["failures"]
        )
        yield CounterMetricFamily(
            "bowstring_tls_reloads", "Times that a listener got new keys.", self._broker.tls.reloads
        )
        expires = GaugeMetricFamily(
            "bowstring_tls_certificate_expires_seconds",
            "When the certificate of a listener expires, in seconds since 1970.",
            labels=["listener"],
        )
        if self._broker.peer_security is not None:
            yield CounterMetricFamily(
                "bowstring_peer_keys_refused",
                "Changes of keys or settings for connections to other brokers that could not be used.",
                self._broker.peer_security.failed_reloads,
            )
        for listener, until_ms in self._broker.tls.valid_until_ms().items():
            expires.add_metric([listener], until_ms / 1000)
        yield expires

    def _slow_batches(self) -> Iterator[Metric]:
        counters = self._broker.plane.counters()["slow_batches"]
        family = GaugeMetricFamily(
            "bowstring_slow_batches_bytes",
            "Bytes of memory of produced batches that wait to be checked or recompressed, or are being so.",
            labels=["state"],
        )
        family.add_metric(["waiting"], counters["waiting_bytes"])
        family.add_metric(["working"], counters["working_bytes"])
        yield family
        yield GaugeMetricFamily(
            "bowstring_slow_batches_parked_connections",
            "Producers whose connections are not read until memory for their batches is free.",
            counters["parked_connections"],
        )

    def _partitions(self) -> Iterator[Metric]:
        image = self._broker.metadata.image
        counts = partition_counts(self._broker)
        directories = self._broker.directories
        for name, help_text, value in (
            (
                "bowstring_offline_log_directories",
                "Log directories that are offline because their disk failed.",
                directories.offline_count,
            ),
            ("bowstring_topics", "Topics that the broker has.", len(image.topics)),
            ("bowstring_partitions", "Partitions of all topics together.", image.partition_count),
            (
                "bowstring_under_replicated_partitions",
                "Partitions led here with replicas that are not in sync (Kafka: UnderReplicatedPartitions).",
                counts.under_replicated,
            ),
            (
                "bowstring_at_min_isr_partitions",
                "Partitions led here with just min.insync.replicas in sync (Kafka: AtMinIsrPartitionCount).",
                counts.at_min_isr,
            ),
            (
                "bowstring_under_min_isr_partitions",
                "Partitions led here with too few in sync for acks=all (Kafka: UnderMinIsrPartitionCount).",
                counts.under_min_isr,
            ),
            ("bowstring_leaders", "Partitions that this broker leads (Kafka: LeaderCount).", counts.leaders),
            (
                "bowstring_offline_partitions",
                "Partitions of this broker that have no leader, or whose log directory is offline.",
                counts.offline + self._broker.logs.offline_count,
            ),
        ):
            yield GaugeMetricFamily(name, help_text, value)
        yield self._slow_operations()
        yield from self._staged_tails()

    def _staged_tails(self) -> Iterator[Metric]:
        taken = GaugeMetricFamily(
            "bowstring_staged_tails_bytes",
            "Memory that staged tails of logs use, in bytes, by log directory and mode of durability.",
            labels=["directory", "mode"],
        )
        pool = GaugeMetricFamily(
            "bowstring_staged_tails_pool_bytes",
            "Memory that staged tails may use, in bytes; when all is used, batches go straight to files.",
            labels=["directory", "mode"],
        )
        for directory in self._broker.directories:
            for mode, taken_bytes in directory.tails.taken_bytes():
                taken.add_metric([str(directory.path), mode], taken_bytes)
                pool.add_metric([str(directory.path), mode], directory.tails.pool_bytes)
        yield from (taken, pool)

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
            (
                "bowstring_cold_reads",
                "Ranges of segment files that storage threads read from disk, or checked, for fetches.",
                storage["reads"],
            ),
            (
                "bowstring_cold_read_bytes",
                "Bytes of segment files that storage threads read from disk, or checked, for fetches.",
                storage["read_bytes"],
            ),
            (
                "bowstring_failed_reads",
                "Ranges of segment files that storage threads could not read from disk for fetches.",
                storage["failed_reads"],
            ),
        ):
            yield CounterMetricFamily(name, help_text, value)
        yield GaugeMetricFamily(
            "bowstring_corrupt_ranges",
            "Ranges of segment files whose batches fail their CRC, which fetches therefore leave out.",
            sum(log.stats()["corrupt_ranges"] for _, _, log in self._broker.logs),
        )

    def _local_reads(self) -> Iterator[Metric]:
        local = self._broker.local
        if local is None:
            return
        yield CounterMetricFamily(
            "bowstring_local_requests",
            "Requests for segment files from clients on this machine (local reads) that the broker answered.",
            local.answered,
        )
        yield GaugeMetricFamily(
            "bowstring_local_connections",
            "Clients on this machine connected to the socket for local reads.",
            local.connections,
        )

    def _groups(self) -> Iterator[Metric]:
        rebalances = CounterMetricFamily(
            "bowstring_group_rebalances",
            "Rebalances of groups that this broker coordinates, by group type: assignments of classic groups "
            "(Kafka: group-completed-rebalance-count), new epochs of the others "
            "(consumer-group-rebalance-count, share-group-rebalance-count, streams-group-rebalance-count).",
            labels=["type"],
        )
        for group_type, count in sorted(self._broker.coordination.group_rebalances().items()):
            rebalances.add_metric([group_type], count)
        in_flight = GaugeMetricFamily(
            "bowstring_share_in_flight_records",
            "Records of the partition, led here, that the share group has in flight: those between its start "
            "and end offsets (Kafka: InFlightMessageCount). Of the 2,000 partitions with most.",
            labels=["group", "topic", "partition"],
        )
        led = self._broker.coordination.led_share_partitions()
        for group, topic, partition, records in nlargest(ROWS_MAX, led, key=lambda row: row[3]):
            in_flight.add_metric([group, topic, str(partition)], records)
        yield from (rebalances, in_flight)
        written, lost = self._broker.coordination.dead_letter_counts()
        yield CounterMetricFamily(
            "bowstring_share_dead_letters",
            "Records that share groups gave up and this broker copied to their dead-letter topics (Kafka: "
            "DeadLetterQueueRecordCount).",
            written,
        )
        yield CounterMetricFamily(
            "bowstring_share_dead_letters_lost",
            "Records that share groups gave up without a copy, because the dead-letter topic could not be "
            "written. The broker's log says which.",
            lost,
        )

    def _group_lags(self) -> Iterator[Metric]:
        labels = ["group", "topic", "partition"]
        lags = GaugeMetricFamily(
            "bowstring_group_lag_records",
            "Records that the group has not committed in the partition: high watermark less committed "
            "offset; of a share group, those that it has not acknowledged. Of the 2,000 partitions most "
            "behind that this broker has a replica of, for groups that it coordinates.",
            labels=labels,
        )
        ages = GaugeMetricFamily(
            "bowstring_group_lag_seconds",
            "Age of the batch with the first record that the group has not committed, in seconds; 0 at the "
            "end. Of the same partitions, as soon as the time is read.",
            labels=labels,
        )
        for row in self._lags.rows():
            values = [row.group, row.topic, str(row.partition)]
            lags.add_metric(values, row.records)
            if row.seconds is not None:
                ages.add_metric(values, row.seconds)
        yield from (lags, ages)
        yield GaugeMetricFamily(
            "bowstring_group_lag_left_out",
            "Partitions in which a group is behind, but less than in those that are exported.",
            self._lags.left_out,
        )

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
                "Damaged or missing ranges of logs that the scrubber found.",
                scrubber.damaged_ranges,
            ),
            ("bowstring_scrub_rounds", "Rounds over all logs that the scrubber completed.", scrubber.rounds),
            (
                "bowstring_rebuilt_indexes",
                "Index files rebuilt because a search found them missing or damaged.",
                scrubber.rebuilt_indexes,
            ),
        ):
            yield CounterMetricFamily(name, help_text, value)
        yield GaugeMetricFamily(
            "bowstring_scrub_round_ended_seconds",
            "Time at which the scrubber's last round ended, in seconds since 1970; 0 before the first.",
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
                "Partitions that cannot be compacted; the broker's log lines say why.",
                len(cleaner.uncleanable),
            ),
            (
                "bowstring_cleaner_max_dirty_percent",
                "Largest share of bytes not yet compacted in any log of a compacted topic, in percent.",
                100 * figures.max_dirty_ratio,
            ),
            (
                "bowstring_cleaner_max_compaction_delay_seconds",
                "Longest time by which a log exceeds max.compaction.lag.ms, in seconds.",
                figures.max_delay_s,
            ),
            (
                "bowstring_cleaner_recopy_percent",
                "Share of the last compacted log's bytes that compaction kept, in percent.",
                100 * figures.last_recopy_ratio,
            ),
            (
                "bowstring_cleaner_last_run_seconds",
                "Duration of the cleaner's last run, in seconds.",
                figures.last_run_s,
            ),
            (
                "bowstring_cleaner_table_utilization_percent",
                "Share of the cleaner's key table that its last run filled, in percent.",
                100 * figures.last_table_utilization,
            ),
            (
                "bowstring_cleaner_seconds_since_last_look",
                "Time since the cleaner last looked for logs to compact, in seconds.",
                time.monotonic() - figures.last_look,
            ),
        ):
            yield GaugeMetricFamily(name, help_text, value)
        for name, help_text, count in (
            ("bowstring_cleaner_runs", "Compactions of a log that succeeded.", figures.runs),
            (
                "bowstring_cleaner_failures",
                "Compactions of a log that failed; the cleaner tries them again.",
                figures.failed,
            ),
            ("bowstring_cleaner_read_bytes", "Bytes that the cleaner read from logs.", figures.read_bytes),
            (
                "bowstring_cleaner_written_bytes",
                "Bytes that the cleaner wrote to compacted logs.",
                figures.written_bytes,
            ),
        ):
            yield CounterMetricFamily(name, help_text, count)


# Field of WalStats (wal.pyi), kind of metric, description.
_WAL_METRICS: Final[tuple[tuple[str, Callable[..., Metric], str], ...]] = (
    ("segments", GaugeMetricFamily, "Segment files of the directory's write-ahead log."),
    (
        "full_segments",
        GaugeMetricFamily,
        "Full segment files of the write-ahead log that wait for a checkpoint before reuse.",
    ),
    (
        "staged_bytes",
        GaugeMetricFamily,
        "Bytes appended to the write-ahead log that are not yet on the medium.",
    ),
    (
        "frames",
        CounterMetricFamily,
        "Frames that group commits wrote to the write-ahead log.",
    ),
    (
        "written_bytes",
        CounterMetricFamily,
        "Bytes written to the write-ahead log, with frame headers and padding.",
    ),
    ("payload_bytes", CounterMetricFamily, "Bytes of record batches written to the write-ahead log."),
    (
        "waited_for_segment",
        CounterMetricFamily,
        "Group commits that waited for a free segment file of the write-ahead log.",
    ),
)


def _cumulative(buckets: list[int]) -> list[tuple[str, float]]:
    """Converts counts of less than 2**i microseconds to cumulative buckets, of which there are fewer."""
    bounds = [(repr(2**i / 1e6), sum(buckets[: i + 1])) for i in EXPORTED_BUCKETS]
    return [*bounds, ("+Inf", sum(buckets))]


def registry(broker: "Broker") -> CollectorRegistry:
    """Returns a registry with the metrics of a broker, its replicas and the quorum, and the process's own."""
    made = _of_every_node()
    made.register(BrokerMetrics(broker))
    made.register(PartitionMetrics(broker))
    made.register(ReplicasCollector(broker))
    made.register(QuorumCollector(broker.quorum, broker.server.controller if broker.server else None))
    made.register(QuotaMetrics(broker.client_quotas, broker.connection_limits))
    _register_access(made, broker.authorizer)
    return made


def controller_registry(node: "ControllerNode") -> CollectorRegistry:
    """Returns a registry with the metrics of a node that is only a controller, and the process's own."""
    made = _of_every_node()
    made.register(QuorumCollector(node.quorum, node.server.controller))
    _register_access(made, node.authorizer)
    return made


class _Build(Collector):
    """Which program runs."""

    def collect(self) -> Iterable[Metric]:
        versions = (__version__, platform.python_version())
        build = GaugeMetricFamily(
            "bowstring_build_info",
            "Versions of Bowstring and of Python; always 1.",
            labels=("version", "python"),
        )
        build.add_metric(versions, 1)
        yield build


def _of_every_node() -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(_Build())
    ProcessCollector(registry=made)
    return made


def _register_access(made: CollectorRegistry, authorizer: "Authorizer") -> None:
    if authorizer.rules is not None:
        from bowstring.engine.broker.access_metrics import AccessMetrics

        made.register(AccessMetrics(authorizer.rules))


def exposition(metrics: CollectorRegistry, accept: str, accept_encoding: str) -> tuple[bytes, dict[str, str]]:
    """Formats the metrics as the scraper accepts them: OpenMetrics or Prometheus's text, perhaps with gzip.

    Args:
        metrics: What to format.
        accept: The scraper's header Accept; "" without one.
        accept_encoding: Its header Accept-Encoding.

    Returns:
        The body, and the headers that describe it.
    """
    encode, kind = choose_encoder(accept)
    body, headers = encode(metrics), {"Content-Type": kind}
    if gzip_accepted(accept_encoding):
        return gzip.compress(body, 1), {**headers, "Content-Encoding": "gzip"}
    return body, headers
