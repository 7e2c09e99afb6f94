"""Begins a leadership: ends what the last controller left open, and writes the first records of a new log."""

from collections.abc import Sequence

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.features import TRANSACTIONS_SINCE, missing_levels
from bowstring.engine.metadata.image import BROKER_RESOURCE, ClusterImage
from bowstring.protocol.features import ELIGIBLE_LEADER_REPLICAS, METADATA_VERSION
from bowstring.protocol.records.cluster_metadata.markers import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord, FeatureLevelRecord
from bowstring.protocol.schema import MetadataRecord


def activation_records(
    image: ClusterImage, bootstrap: Sequence[MetadataRecord], configs: BrokerConfigs
) -> list[MetadataRecord]:
    """Returns the first records of a leadership, to be appended in order.

    A metadata transaction that has not ended is aborted (KIP-868). A log without metadata.version gets the
    bootstrap records, in a transaction where that exists.

    Args:
        image: The image after all committed records.
        bootstrap: The records that formatting has left.
        configs: The configs of this node.
    """
    records: list[MetadataRecord] = []
    if image.in_transaction:
        records.append(AbortTransactionRecord(reason="Controller failover"))
    if METADATA_VERSION in image.features:
        return records
    first = list(bootstrap)
    levels = {each.name: each.feature_level for each in first if isinstance(each, FeatureLevelRecord)}
    for name, level in missing_levels(levels).items():
        levels[name] = level
        first.append(FeatureLevelRecord(name=name, feature_level=level))
    if levels.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0:
        first.append(
            ConfigRecord(
                resource_type=BROKER_RESOURCE,
                resource_name="",
                name="min.insync.replicas",
                value=configs.topic_default("min.insync.replicas"),
            )
        )
    if levels[METADATA_VERSION] < TRANSACTIONS_SINCE:
        return records + first
    return [*records, BeginTransactionRecord(name="Bootstrap records"), *first, EndTransactionRecord()]
