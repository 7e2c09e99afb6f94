"""Chooses leaders for partitions without one, when a node takes over a metadata log."""

from bowstring.engine.metadata.image import ClusterImage, PartitionImage
from bowstring.protocol.records.cluster_metadata.topics import PartitionChangeRecord
from bowstring.protocol.schema import MetadataRecord

NO_LEADER = -1
_RECOVERED = 0


def elect(image: ClusterImage, node_id: int) -> list[MetadataRecord]:
    """Returns the changes that make `node_id` leader of every partition that has no leader and may have this
    one.

    Kafka leaves partitions without a leader when their last broker stops. If the broker was killed, Kafka
    also removes it from the in-sync replicas (KIP-966); it is then one of the eligible or last known leaders.
    """
    return [
        _change(topic.id, index, partition, node_id)
        for topic in image.topics.values()
        for index, partition in enumerate(topic.partitions)
        if partition.leader == NO_LEADER and _may_lead(partition, node_id)
    ]


def _may_lead(partition: PartitionImage, node_id: int) -> bool:
    if partition.in_sync:
        return node_id in partition.in_sync
    if partition.eligible_leaders:
        return node_id in partition.eligible_leaders
    # Among several replicas the last known leader has lost the least; a lone replica has all remaining
    # records.
    return node_id in partition.last_known_leaders or partition.replicas == (node_id,)


def _change(topic_id: bytes, index: int, partition: PartitionImage, node_id: int) -> PartitionChangeRecord:
    change = PartitionChangeRecord(partition_id=index, topic_id=topic_id, leader=node_id)
    if node_id not in partition.in_sync:
        change.isr = [node_id]
        if partition.eligible_leaders:
            change.eligible_leader_replicas = [each for each in partition.eligible_leaders if each != node_id]
        if partition.last_known_leaders:
            change.last_known_elr = []
    if partition.leader_recovery_state != _RECOVERED:
        change.leader_recovery_state = _RECOVERED
    return change
