"""Exports what nodes measure of their cluster: replicas, the metadata quorum, the controller.

Names of Kafka's metrics stand in the help texts. Each metric is a row; metrics.py exports what concerns a
broker itself. Imported at the first scrape, as metrics.py.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bowstring.engine.controller.partition_index import NO_LEADER
from bowstring.engine.metadata.image import ClusterImage

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.controller.service import QuorumController
    from bowstring.engine.quorum.service import QuorumService

_COUNTER: Final = "counter"
_GAUGE: Final = "gauge"
_MIN_IN_SYNC: Final = "min.insync.replicas"


class Row(NamedTuple):
    """A metric: its kind, its name, its help text, and the function that reads it."""

    kind: str
    name: str
    help_text: str
    value: Callable[[Any], float]


# ---------------------------------------------------------------- partitions


@dataclass
class PartitionCounts:
    """Counts of a broker's partitions in trouble; except for the last, of those that it leads."""

    under_replicated: int = 0
    at_min_isr: int = 0
    under_min_isr: int = 0
    leaders: int = 0
    offline: int = 0


def partition_counts(broker: "Broker") -> PartitionCounts:
    """Counts the partitions of a broker."""
    found = PartitionCounts()
    image, node_id = broker.metadata.image, broker.node_id
    minima: dict[str, int] = {}
    for topic, _, partition in broker.replication.manager.partitions():
        if partition.leader < 0:
            found.offline += 1
        if partition.leader != node_id:
            continue
        minimum = minima.get(topic)
        if minimum is None:
            minimum = int(broker.configs.topic_value(_MIN_IN_SYNC, image.topic_configs(topic)))
            minima[topic] = minimum
        in_sync, needed = len(partition.in_sync), partition.min_in_sync(minimum)
        found.leaders += 1
        found.under_replicated += in_sync < len(partition.replicas)
        found.at_min_isr += in_sync == needed
        found.under_min_isr += in_sync < needed
    return found


def _max_lag(broker: "Broker") -> int:
    """Returns the largest lag of the partitions that a broker follows."""
    largest = 0
    replicas = broker.replication.plane_replicas
    for topic, index, partition in broker.replication.manager.partitions():
        if partition.leader != broker.node_id:
            try:
                largest = max(largest, replicas.lag(topic, index))
            except KeyError:
                continue  # its log is offline
    return largest


def _followed(broker: "Broker") -> int:
    return sum(each.leader != broker.node_id for _, _, each in broker.replication.manager.partitions())


REPLICAS: Final = (
    Row(
        _GAUGE,
        "bowstring_replica_max_lag",
        "Most records that a replica here is behind its leader (Kafka: ReplicaFetcherManager MaxLag).",
        _max_lag,
    ),
    Row(
        _GAUGE,
        "bowstring_followed_partitions",
        "Partitions that this broker follows.",
        _followed,
    ),
    Row(
        _COUNTER,
        "bowstring_followed_bytes",
        "Bytes fetched from leaders (Kafka: ReplicationBytesInPerSec).",
        lambda broker: broker.plane.counters()["followed_bytes"],
    ),
    Row(
        _COUNTER,
        "bowstring_isr_shrinks",
        "Sets of in-sync replicas that this leader has made smaller (Kafka: IsrShrinksPerSec).",
        lambda broker: broker.replication.manager.isr_changes.shrinks,
    ),
    Row(
        _COUNTER,
        "bowstring_isr_expands",
        "Sets of in-sync replicas that this leader has made larger (Kafka: IsrExpandsPerSec).",
        lambda broker: broker.replication.manager.isr_changes.expands,
    ),
    Row(
        _COUNTER,
        "bowstring_failed_isr_updates",
        "Requests to change in-sync replicas that no controller answered (Kafka: FailedIsrUpdatesPerSec).",
        lambda broker: broker.replication.manager.isr_changes.failures,
    ),
    Row(
        _COUNTER,
        "bowstring_repaired_ranges",
        "Corrupt ranges of logs that were fetched again from another replica.",
        lambda broker: broker.replication.repair.repaired,
    ),
    Row(
        _GAUGE,
        "bowstring_broker_fenced",
        "Whether the controller has fenced this broker, or not yet unfenced it (Kafka: BrokerState).",
        lambda broker: broker.lifecycle.is_fenced,
    ),
)
"""Of a broker."""

# ---------------------------------------------------------------- the quorum

_STATES: Final = (*("leader", "follower", "observer", "candidate", "prospective", "unattached", "resigned"),)

QUORUM: Final = (
    Row(
        _GAUGE,
        "bowstring_quorum_leader_id",
        "Node that leads the metadata quorum, -1 when none is known (Kafka: current-leader).",
        lambda quorum: quorum.leader_id,
    ),
    Row(
        _GAUGE,
        "bowstring_quorum_epoch",
        "Epoch of the metadata quorum (Kafka: current-epoch).",
        lambda quorum: quorum.leader_epoch,
    ),
    Row(
        _GAUGE,
        "bowstring_quorum_high_watermark",
        "Offset up to which the metadata log is committed, as this node knows (Kafka: high-watermark).",
        lambda quorum: quorum.high_watermark,
    ),
    Row(
        _GAUGE,
        "bowstring_quorum_log_end_offset",
        "End of the metadata log on this node (Kafka: log-end-offset).",
        lambda quorum: quorum.log_end_offset,
    ),
    Row(
        _GAUGE,
        "bowstring_quorum_last_applied_offset",
        "Last record of the metadata log that this node has applied (Kafka: last-applied-record-offset).",
        lambda quorum: quorum.end_offset - 1,
    ),
    Row(
        _GAUGE,
        "bowstring_quorum_voters",
        "Voters of the metadata quorum (Kafka: number-of-voters).",
        lambda quorum: len(quorum.voters.ids),
    ),
    Row(
        _COUNTER,
        "bowstring_quorum_commits",
        "Batches that this node has appended to the metadata log and that were committed.",
        lambda quorum: quorum.commits.count,
    ),
    Row(
        _COUNTER,
        "bowstring_quorum_commit_seconds",
        "Time from the append of these batches to their commit, together (Kafka: commit-latency-avg).",
        lambda quorum: quorum.commits.total_ns / 1e9,
    ),
)
"""Of any node."""
QUORUM_STATE: Final = "bowstring_quorum_state"
_STATE_HELP: Final = "Whether this node has the state in the metadata quorum (Kafka: current-state)."

# ---------------------------------------------------------------- the controller


def _brokers(controller: "QuorumController", *, fenced: bool) -> int:
    image: ClusterImage = controller.image
    return sum(each.fenced is fenced for each in image.brokers.values())


def _without_leader(controller: "QuorumController") -> int:
    return 0 if controller.index is None else len(controller.index.led(NO_LEADER))


CONTROLLER: Final = (
    Row(
        _GAUGE,
        "bowstring_controller_active",
        "Whether this controller is active; the sum over all is 1 (Kafka: ActiveControllerCount).",
        lambda controller: controller.is_active,
    ),
    Row(
        _GAUGE,
        "bowstring_controller_active_brokers",
        "Registered brokers that are not fenced (Kafka: ActiveBrokerCount).",
        lambda controller: _brokers(controller, fenced=False),
    ),
    Row(
        _GAUGE,
        "bowstring_controller_fenced_brokers",
        "Registered brokers that are fenced (Kafka: FencedBrokerCount).",
        lambda controller: _brokers(controller, fenced=True),
    ),
    Row(
        _GAUGE,
        "bowstring_controller_topics",
        "Topics of the cluster (Kafka: GlobalTopicCount).",
        lambda controller: len(controller.image.topics),
    ),
    Row(
        _GAUGE,
        "bowstring_controller_partitions",
        "Partitions of the cluster (Kafka: GlobalPartitionCount).",
        lambda controller: controller.image.partition_count,
    ),
    Row(
        _GAUGE,
        "bowstring_controller_offline_partitions",
        "Partitions without a leader; 0 where the controller is not active (Kafka: OfflinePartitionsCount).",
        _without_leader,
    ),
    Row(
        _GAUGE,
        "bowstring_controller_imbalanced_partitions",
        "Partitions that another replica leads than the preferred one; 0 where the controller is not active "
        "(Kafka: PreferredReplicaImbalanceCount).",
        lambda controller: 0 if controller.index is None else len(controller.index.imbalanced),
    ),
    Row(
        _GAUGE,
        "bowstring_controller_reassigning_partitions",
        "Partitions whose replicas are being changed; 0 where the controller is not active "
        "(Kafka: ReassigningPartitions).",
        lambda controller: 0 if controller.index is None else len(controller.index.reassigning),
    ),
    Row(
        _COUNTER,
        "bowstring_controller_leader_elections",
        "Leaders that this controller has elected (Kafka: LeaderElectionRateAndTimeMs).",
        lambda controller: controller.counters.elections,
    ),
    Row(
        _COUNTER,
        "bowstring_controller_unclean_leader_elections",
        "Those among them that may have lost records (Kafka: UncleanLeaderElectionsPerSec).",
        lambda controller: controller.counters.unclean,
    ),
)
"""Of a node with the role of a controller."""

# ---------------------------------------------------------------- collectors


def families(rows: Iterable[Row], source: Any) -> Iterable[Metric]:
    """Yields the metrics of rows, read from what they measure."""
    for row in rows:
        make = CounterMetricFamily if row.kind == _COUNTER else GaugeMetricFamily
        yield make(row.name, row.help_text, row.value(source))


def quorum_state(state: str) -> Metric:
    """Returns the metric of the state in the quorum."""
    family = GaugeMetricFamily(QUORUM_STATE, _STATE_HELP, labels=["state"])
    for each in _STATES:
        family.add_metric([each], each == state)
    return family


class QuorumCollector(Collector):
    """Reads the quorum of a node, and its controller if it has that role."""

    def __init__(self, quorum: "QuorumService", controller: "QuorumController | None") -> None:
        self._quorum = quorum
        self._controller = controller

    def collect(self) -> Iterable[Metric]:
        """Yields every metric of the quorum and the controller."""
        yield quorum_state(self._quorum.state_name)
        yield from families(QUORUM, self._quorum)
        if self._controller is not None:
            yield from families(CONTROLLER, self._controller)


class ReplicasCollector(Collector):
    """Reads the replicas of a broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def collect(self) -> Iterable[Metric]:
        """Yields every metric of the replicas."""
        yield from families(REPLICAS, self._broker)
