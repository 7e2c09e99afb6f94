"""Converts a snapshot of the metadata log between an image, records and bytes (KIP-630).

A snapshot is a sequence of record batches with its own offsets: a control batch with the header (and, when
voters are in the log, kraft.version and voters), the records of the image, a control batch with the footer. A
snapshot without a footer is incomplete.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from bowstring._native.record.decode import decode_batches
from bowstring._native.record.encode import encode_batch
from bowstring._native.record.types import CorruptBatch, Record
from bowstring.engine.metadata.image import BrokerImage, ClusterImage, MetadataError, PartitionImage
from bowstring.engine.metadata.quorum import QuorumFacts, control_record
from bowstring.engine.metadata.records import decode_record, encode_record
from bowstring.protocol import ProtocolError
from bowstring.protocol.features import HIGHEST_METADATA_VERSION, METADATA_VERSION
from bowstring.protocol.records.cluster_metadata.nodes import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from bowstring.protocol.records.cluster_metadata.settings import (
    ConfigRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
)
from bowstring.protocol.records.cluster_metadata.topics import PartitionRecord, TopicRecord
from bowstring.protocol.records.control import SnapshotFooterRecord, SnapshotHeaderRecord
from bowstring.protocol.records.control_batch import ControlRecordType, decode_control_key
from bowstring.protocol.schema import MetadataRecord

# Kafka's own snapshots have this many records in a batch.
_RECORDS_PER_BATCH: Final = 1024


class SnapshotId(NamedTuple):
    """A snapshot holds the effect of the records below `end_offset`, the last of them in `epoch`."""

    end_offset: int
    epoch: int


BOOTSTRAP_ID: Final = SnapshotId(0, 0)
"""Of the snapshot that formatting writes. Its records are not in effect: the first leader appends them."""


class SnapshotError(Exception):
    """Bytes that are not a complete snapshot; the message says what is wrong."""


def image_records(image: ClusterImage) -> Iterator[MetadataRecord]:
    """Returns the records that lead from an empty image to this one, in Kafka's order."""
    levels = sorted(image.features.items(), key=lambda each: (each[0] != METADATA_VERSION, each[0]))
    for name, level in levels:
        yield FeatureLevelRecord(name=name, feature_level=level)
    for broker in image.brokers.values():
        yield _registration(broker)
    yield from image.kept.of(RegisterControllerRecord)
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.id)
        for index, partition in enumerate(topic.partitions):
            yield _partition(topic.id, index, partition)
    for (kind, resource), configs in image.configs.items():
        for name, value in configs.items():
            yield ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
    yield from image.client_quotas.records()
    if image.next_producer_id > 0:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from image.acls.records()
    yield from image.scram.records()
    yield from image.delegation_tokens.records()


def encode_snapshot(
    image: ClusterImage, quorum: QuorumFacts, id: SnapshotId, last_timestamp_ms: int, now_ms: int
) -> Iterator[bytes]:
    """Returns the batches of a snapshot in order. `last_timestamp_ms` is the timestamp of the last record
    covered.
    """
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_timestamp_ms)
    head = [control_record(ControlRecordType.SNAPSHOT_HEADER, header), *quorum.records()]
    offset = 0

    def batch(records: Sequence[tuple[bytes | None, bytes]], control: bool) -> bytes:
        entries = [(key, value, now_ms, None) for key, value in records]
        return encode_batch(entries, base_offset=offset, leader_epoch=id.epoch, control=control)

    yield batch(head, control=True)
    offset += len(head)
    metadata_version = image.features.get(METADATA_VERSION, HIGHEST_METADATA_VERSION)
    waiting: list[tuple[bytes | None, bytes]] = []
    for record in image_records(image):
        waiting.append((None, encode_record(record, metadata_version)))
        if len(waiting) == _RECORDS_PER_BATCH:
            yield batch(waiting, control=False)
            offset += len(waiting)
            waiting = []
    if waiting:
        yield batch(waiting, control=False)
        offset += len(waiting)
    footer = control_record(ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0))
    yield batch([footer], control=True)


def decode_snapshot(data: bytes, id: SnapshotId) -> tuple[ClusterImage, QuorumFacts]:
    """Returns the image and the quorum facts in a snapshot.

    The image of the one that formatting writes is empty: other nodes do not have its records (KIP-1170).

    Raises:
        SnapshotError: The snapshot is truncated, fails a CRC, or holds records that this version cannot read.
    """
    image, quorum = ClusterImage(), QuorumFacts()
    try:
        for record in _whole(data):
            if record.control:
                quorum.apply(decode_control_key(record.key or b""), record.value or b"")
            elif id != BOOTSTRAP_ID:
                image.apply(decode_record(record.value or b""))
    except (ProtocolError, MetadataError) as error:
        raise SnapshotError(str(error)) from error
    return image, quorum


def decode_bootstrap(data: bytes) -> list[MetadataRecord]:
    """Returns the records of a snapshot unchanged, as the first records of a new metadata log.

    Raises:
        SnapshotError: As for `decode_snapshot`.
    """
    try:
        return [decode_record(record.value or b"") for record in _whole(data) if not record.control]
    except ProtocolError as error:
        raise SnapshotError(str(error)) from error


def _whole(data: bytes) -> list[Record]:
    """Returns all records of a snapshot after checking that it has its header and its footer."""
    try:
        records = decode_batches(data)
    except CorruptBatch as error:
        raise SnapshotError(str(error)) from error
    for at, kind in ((0, ControlRecordType.SNAPSHOT_HEADER), (-1, ControlRecordType.SNAPSHOT_FOOTER)):
        found = records[at] if records else None
        if found is None or not found.control or decode_control_key(found.key or b"") is not kind:
            raise SnapshotError(f"its {'footer' if at else 'header'} is missing")
    return records


def _registration(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(
                name=each.listener, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in broker.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, low, high in broker.features
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=list(broker.cordoned) or None,
    )


def _partition(topic_id: bytes, index: int, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.in_sync),
        removing_replicas=list(partition.removing),
        adding_replicas=list(partition.adding),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.eligible_leaders) or None,
        last_known_elr=list(partition.last_known_leaders) or None,
    )
