"""Encodes and decodes the records of ``__share_group_state``."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from bowstring._native.protocol.message_codec import ProtocolError, decode
from bowstring.engine.coordinators.effects import Record
from bowstring.engine.share.coordinator.partition import PartitionState, StateUpdate
from bowstring.engine.share.persister.interface import SharePartitionKey
from bowstring.protocol.records import share_state
from bowstring.protocol.records.coordinator import decode_value, encode_key, encode_value
from bowstring.protocol.share_batches import StateBatch

SNAPSHOT: Final = 0
UPDATE: Final = 1
_VERSION: Final = 0


class DecodedRecord(NamedTuple):
    """A record of a known type; `value` of None is a tombstone."""

    key: SharePartitionKey
    value: PartitionState | StateUpdate | None


def snapshot_record(key: SharePartitionKey, state: PartitionState) -> Record:
    """Encodes the whole state of a share partition."""
    value = share_state.ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.created_ms,
        write_timestamp=state.written_ms,
        state_batches=_encoded(state.batches),
    )
    return tombstone(key)[0], encode_value(value, _VERSION)


def update_record(key: SharePartitionKey, change: StateUpdate) -> Record:
    """Encodes a change of a share partition."""
    value = share_state.ShareUpdateValue(
        snapshot_epoch=change.snapshot_epoch,
        leader_epoch=change.leader_epoch,
        start_offset=change.start_offset,
        delivery_complete_count=change.delivery_complete_count,
        state_batches=_encoded(change.batches),
    )
    return encode_key(share_state.ShareUpdateKey(**key._asdict())), encode_value(value, _VERSION)


def tombstone(key: SharePartitionKey) -> Record:
    """Encodes that a share partition is deleted."""
    return encode_key(share_state.ShareSnapshotKey(**key._asdict())), None


def encoded(key: SharePartitionKey, change: PartitionState | StateUpdate | None) -> Record:
    """Encodes a snapshot, an update, or for None a tombstone."""
    if isinstance(change, PartitionState):
        return snapshot_record(key, change)
    return tombstone(key) if change is None else update_record(key, change)


def _encoded(batches: Sequence[StateBatch]) -> list[share_state.StateBatch]:
    return [share_state.StateBatch(**each._asdict()) for each in batches]


def _decoded(batches: Sequence[share_state.StateBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in batches
    )


def read_record(key: bytes, value: bytes | None) -> DecodedRecord | None:
    """Decodes a record; None for one of an unknown type.

    Raises:
        ProtocolError: Key or value is malformed, or of an unknown version.
    """
    kind = int.from_bytes(key[:2], "big", signed=True)
    if kind not in (SNAPSHOT, UPDATE):
        return None
    name = decode(share_state.ShareSnapshotKey, 0, key, 2)  # both types have the same key
    found = SharePartitionKey(name.group_id, name.topic_id, name.partition)
    if kind == SNAPSHOT:
        return DecodedRecord(found, None if value is None else _snapshot(value))
    if value is None:
        raise ProtocolError("ShareUpdateValue", _VERSION, "", 0, "an update has no tombstone")
    return DecodedRecord(found, _update(value))


def _snapshot(value: bytes) -> PartitionState:
    body = decode_value(share_state.ShareSnapshotValue, value)
    assert isinstance(body, share_state.ShareSnapshotValue)
    return PartitionState(
        body.snapshot_epoch,
        body.state_epoch,
        body.leader_epoch,
        body.start_offset,
        body.delivery_complete_count,
        _decoded(body.state_batches),
        body.create_timestamp,
        body.write_timestamp,
    )


def _update(value: bytes) -> StateUpdate:
    body = decode_value(share_state.ShareUpdateValue, value)
    assert isinstance(body, share_state.ShareUpdateValue)
    return StateUpdate(
        body.snapshot_epoch,
        body.leader_epoch,
        body.start_offset,
        body.delivery_complete_count,
        _decoded(body.state_batches),
    )
