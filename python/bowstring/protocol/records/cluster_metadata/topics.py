"""Declares the records of topics and partitions in __cluster_metadata."""

from __future__ import annotations

from bowstring.protocol.schema import MetadataRecord, array, int8, int32, string, uuid


class TopicRecord(MetadataRecord, key=2, versions="0", flexible="0+"):
    name: str = string("0+")
    topic_id: bytes = uuid("0+")


class RemoveTopicRecord(MetadataRecord, key=9, versions="0", flexible="0+"):
    topic_id: bytes = uuid("0+")


class PartitionRecord(MetadataRecord, key=3, versions="0-2", flexible="0+"):
    partition_id: int = int32("0+", default=-1)
    topic_id: bytes = uuid("0+")
    replicas: list[int] = array(int32, "0+")
    isr: list[int] = array(int32, "0+")
    removing_replicas: list[int] = array(int32, "0+")
    adding_replicas: list[int] = array(int32, "0+")
    leader: int = int32("0+", default=-1)
    leader_recovery_state: int = int8("0+", tag=0)
    leader_epoch: int = int32("0+", default=-1)
    partition_epoch: int = int32("0+", default=-1)
    directories: list[bytes] = array(uuid, "1+")
    eligible_leader_replicas: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=1)
    last_known_elr: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=2)


class PartitionChangeRecord(MetadataRecord, key=5, versions="0-2", flexible="0+"):
    partition_id: int = int32("0+", default=-1)
    topic_id: bytes = uuid("0+")
    isr: list[int] | None = array(int32, "0+", nullable="0+", default=None, tag=0)
    leader: int = int32("0+", default=-2, tag=1)
    replicas: list[int] | None = array(int32, "0+", nullable="0+", default=None, tag=2)
    removing_replicas: list[int] | None = array(int32, "0+", nullable="0+", default=None, tag=3)
    adding_replicas: list[int] | None = array(int32, "0+", nullable="0+", default=None, tag=4)
    leader_recovery_state: int = int8("0+", default=-1, tag=5)
    directories: list[bytes] | None = array(uuid, "1+", nullable="1+", default=None, tag=8)
    eligible_leader_replicas: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=6)
    last_known_elr: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=7)


class ClearElrRecord(MetadataRecord, key=28, versions="0", flexible="0+"):
    topic_name: str = string("0+")
