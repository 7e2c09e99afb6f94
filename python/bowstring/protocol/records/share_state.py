"""Declares the delivery state of share partitions in __share_group_state (KIP-932)."""

from __future__ import annotations

from bowstring.protocol.schema import (
    CoordinatorKey,
    CoordinatorValue,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class ShareSnapshotKey(CoordinatorKey, record_type=0, versions="0"):
    group_id: str = string("0")
    topic_id: bytes = uuid("0")
    partition: int = int32("0")


class StateBatch(Struct):
    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    delivery_state: int = int8("0+")
    delivery_count: int = int16("0+")


class ShareSnapshotValue(CoordinatorValue, record_type=0, versions="0", flexible="0+"):
    snapshot_epoch: int = int32("0+")
    state_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    delivery_complete_count: int = int32("0+", default=-1, tag=0)
    create_timestamp: int = int64("0+")
    write_timestamp: int = int64("0+")
    state_batches: list[StateBatch] = array(StateBatch, "0+")


class ShareUpdateKey(CoordinatorKey, record_type=1, versions="0"):
    group_id: str = string("0")
    topic_id: bytes = uuid("0")
    partition: int = int32("0")


class ShareUpdateValue(CoordinatorValue, record_type=1, versions="0", flexible="0+"):
    snapshot_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    delivery_complete_count: int = int32("0+", default=-1, tag=0)
    state_batches: list[StateBatch] = array(StateBatch, "0+")
