"""Exports the offsets of the partitions that this broker leads, as Prometheus metrics."""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker

# Of this many partitions offsets are exported. Each is two lines of text in every scrape.
ROWS_MAX: Final = 2_000

_LABELS: Final = ("topic", "partition")


class PartitionMetrics(Collector):
    """Reads the offsets of a broker's leaders: what Kafka has as LogStartOffset and LogEndOffset."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def collect(self) -> Iterable[Metric]:
        """Yields the offsets, at most those of ROWS_MAX partitions, and how many are left out."""
        start = GaugeMetricFamily(
            "bowstring_partition_log_start_offset",
            "First offset of a partition that this broker leads.",
            labels=_LABELS,
        )
        end = GaugeMetricFamily(
            "bowstring_partition_high_watermark",
            "End of what consumers may read of a partition that this broker leads.",
            labels=_LABELS,
        )
        leaders = [
            (topic, index)
            for topic, index, partition in self._broker.replication.manager.partitions()
            if partition.leader == self._broker.node_id
        ]
        for topic, index in islice(leaders, ROWS_MAX):
            log = self._broker.logs.get(topic, index)
            if log is not None:
                labels = (topic, str(index))
                start.add_metric(labels, log.log_start_offset)
                end.add_metric(labels, log.high_watermark)
        left_out = GaugeMetricFamily(
            "bowstring_partition_offsets_left_out",
            f"Partitions led by this broker whose offsets are not exported, as there are over {ROWS_MAX:,}.",
            max(0, len(leaders) - ROWS_MAX),
        )
        yield from (start, end, left_out)
