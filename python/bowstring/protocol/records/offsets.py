"""Declares committed offsets in __consumer_offsets."""

from __future__ import annotations

from bowstring.protocol.schema import CoordinatorKey, CoordinatorValue, int32, int64, string, uuid


class OffsetCommitKey(CoordinatorKey, record_type=1, versions="0"):
    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")


class OffsetCommitValue(CoordinatorValue, record_type=1, versions="0-4", flexible="4+"):
    offset: int = int64("0+")
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string("0+")
    commit_timestamp: int = int64("0+")
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: bytes = uuid("4+", ignorable=True, tag=0)


class LegacyOffsetCommitKey(CoordinatorKey, record_type=0, versions="0"):
    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")


class LegacyOffsetCommitValue(CoordinatorValue, record_type=0, versions="0"):
    offset: int = int64("0")
    metadata: str = string("0")
    commit_timestamp: int = int64("0")
