"""Replicas that are unreachable."""

from bowstring.engine.api.offline_replicas import offline_replicas
from bowstring.engine.metadata.image import PartitionImage

NODE = 1
PARTITION = PartitionImage((1, 2, 3), (1, 2, 3), 1, 0, 0, (bytes(16),) * 3)


def test_replicas_of_unreachable_brokers_are_offline():
    assert offline_replicas(PARTITION, {1, 3}, node_id=NODE, has_log=True) == [2]


def test_a_replica_without_a_log_is_offline():
    assert offline_replicas(PARTITION, {1, 2, 3}, node_id=NODE, has_log=False) == [1]


def test_none_is_offline_when_all_are_there():
    assert offline_replicas(PARTITION, {1, 2, 3}, node_id=NODE, has_log=True) == []
