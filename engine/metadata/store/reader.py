"""Reads a metadata log for tools, without opening it or changing the directory."""

import mmap
from pathlib import Path
from typing import Final, NamedTuple

from bowstring._native.record.decode import decode_batches
from bowstring._native.record.types import CorruptBatch
from bowstring.engine.metadata.image import ClusterImage, MetadataError
from bowstring.engine.metadata.quorum import QuorumFacts
from bowstring.engine.metadata.records import decode_record
from bowstring.engine.metadata.store.snapshots import MetadataSnapshots
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.protocol import ProtocolError
from bowstring.protocol.records.control_batch import decode_control_key
from bowstring.protocol.whole_numbers import LONG_MAX, whole_number

_PREFIX_BYTES: Final = 12
_EPOCH_AT: Final = 12
_RECORD_LETTERS: Final = 500


def unusable_record(
    path: Path, offset: int, error: ProtocolError | MetadataError | CorruptBatch
) -> DataDirectoryError:
    """Returns the error for a record of a metadata log that cannot be applied, and what to do about it.

    Args:
        path: The directory of the log.
        offset: Of the record, or of the end of its metadata transaction.
    """
    if not isinstance(error, MetadataError):
        return DataDirectoryError(
            f"{path}, record {offset}: {error}; if a newer version wrote it, start that version; otherwise "
            "restore the directory from a copy"
        )
    return DataDirectoryError(
        f"{path}, record {offset} cannot be applied: {error}. It is {repr(error.record)[:_RECORD_LETTERS]}. "
        f"If a newer version wrote it, start that version; otherwise leave the record out: bowstring quorum "
        f"repair --directory {path.parent} --dry-run, and docs/how-to/repair-metadata.md"
    )


class MetadataState(NamedTuple):
    """Content of a metadata log.

    Attributes:
        end_offset: Offset of the next record.
        epoch: The latest leader epoch in it.
        torn_bytes: Bytes of an incomplete batch at the end, left by a crash.
    """

    image: ClusterImage
    quorum: QuorumFacts
    end_offset: int
    epoch: int
    torn_bytes: int


def read_metadata(directory: Path) -> MetadataState:
    """Returns the state after the newest snapshot in `directory` and the log after it.

    Raises:
        DataDirectoryError: It cannot be read; the message names the file and the record.
        OSError: A file cannot be opened.
    """
    loaded = MetadataSnapshots(directory).load_newest()
    image, quorum = (loaded.image, loaded.quorum) if loaded else (ClusterImage(), QuorumFacts())
    state = MetadataState(
        image, quorum, loaded.id.end_offset if loaded else 0, loaded.id.epoch if loaded else 0, 0
    )
    segments = sorted(
        path for path in directory.glob("*.log") if whole_number(path.stem, LONG_MAX) is not None
    )
    if segments and int(segments[0].stem) > state.end_offset:
        raise DataDirectoryError(
            f"{segments[0]} is the first segment, and no usable snapshot reaches it; restore a .checkpoint "
            "file or the directory from a copy"
        )
    for path in segments:
        if path.stat().st_size > 0:
            state = _read_segment(path, state)
    return state


def _read_segment(path: Path, state: MetadataState) -> MetadataState:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        position, size_bytes = 0, len(data)
        while position + _PREFIX_BYTES + 4 <= size_bytes:
            end = position + _PREFIX_BYTES + int.from_bytes(data[position + 8 : position + 12], "big")
            if end <= position + _PREFIX_BYTES or end > size_bytes:
                break
            try:
                offset = _apply_batch(data[position:end], state)
            except CorruptBatch:
                break
            except ProtocolError as error:
                raise DataDirectoryError(
                    f"{path}, byte {position}: {error}; a newer version may have written it"
                ) from error
            except MetadataError as error:
                first = int.from_bytes(data[position : position + 8], "big")
                raise unusable_record(path.parent, first, error) from error
            epoch = int.from_bytes(data[position + _EPOCH_AT : position + _EPOCH_AT + 4], "big", signed=True)
            state = state._replace(
                end_offset=max(state.end_offset, offset), epoch=max(state.epoch, epoch), torn_bytes=0
            )
            position = end
        return state._replace(torn_bytes=size_bytes - position)


def _apply_batch(batch: bytes, state: MetadataState) -> int:
    """Applies the records of a batch from the state's end on; returns the offset after the batch."""
    records = decode_batches(batch)
    for record in records:
        if record.offset < state.end_offset:
            continue
        if record.control:
            state.quorum.apply(decode_control_key(record.key or b""), record.value or b"")
        else:
            state.image.apply(decode_record(record.value or b""))
    return records[-1].offset + 1 if records else state.end_offset
