"""Forgets eligible leader replicas (KIP-966), but not where these are all that may lead.

Kafka forgets them there too: after a change of min.insync.replicas while the brokers of such a partition are
away it has no leader until an unclean election, whichever of them come back.
"""

from collections.abc import Iterator

from bowstring.engine.metadata.image import ClusterImage, PartitionImage
from bowstring.protocol.records.cluster_metadata.topics import ClearElrRecord, PartitionChangeRecord
from bowstring.protocol.schema import MetadataRecord


def forget(image: ClusterImage, topic: str) -> list[MetadataRecord]:
    """Returns the records for a topic, or for all with an empty name, that min.insync.replicas changes of.

    Nothing is committed while the ISR is empty, so an eligible replica stays eligible under any minimum.
    """
    kept = [
        PartitionChangeRecord(
            topic_id=topic_id,
            partition_id=index,
            eligible_leader_replicas=list(each.eligible_leaders),
            last_known_elr=list(each.last_known_leaders),
        )
        for topic_id, index, each in _without_others(image, topic)
    ]
    return [ClearElrRecord(topic_name=topic), *kept]


def end(image: ClusterImage) -> list[MetadataRecord]:
    """Returns the records for a cluster that has no eligible leaders from now on: the last replicas are in
    the ISR again.
    """
    kept = [
        PartitionChangeRecord(
            topic_id=topic_id, partition_id=index, isr=list(each.eligible_leaders or each.last_known_leaders)
        )
        for topic_id, index, each in _without_others(image, "")
    ]
    return [*kept, ClearElrRecord()]


def _without_others(image: ClusterImage, topic: str) -> Iterator[tuple[bytes, int, PartitionImage]]:
    """Yields partitions that only an eligible or the last known leader may lead: topic id, number, state."""
    for found in [image.topics[topic]] if topic else image.topics.values():
        for index, partition in enumerate(found.partitions):
            if not partition.in_sync and (partition.eligible_leaders or partition.last_known_leaders):
                yield found.id, index, partition
