"""Builds record batches in a slow, plain way, and reads the fields that log tests check."""

import contextlib
import struct
from dataclasses import dataclass
from pathlib import Path

from bowstring._native.base.crc import crc32c
from bowstring._native.log.partition_log import PartitionLog
from tests.support.reference_batch import encode_record

CONFIG = {
    "segment_bytes": 1 << 30,
    "segment_ms": 7 * 86400000,
    "segment_jitter_ms": 0,
    "segment_index_bytes": 10 << 20,
    "index_interval_bytes": 4096,
    "max_message_bytes": 1048588,
    "max_decompressed_message_bytes": 2147483639,
    "retention_ms": -1,
    "retention_bytes": -1,
    "file_delete_delay_ms": 60000,
    "timestamp_before_max_ms": (1 << 63) - 1,
    "timestamp_after_max_ms": 3600000,
    "producer_id_expiration_ms": 1 << 60,
    "flush_messages": (1 << 63) - 1,
    "flush_ms": (1 << 63) - 1,
    "log_append_time": 0,
    "compacted": 0,
    "delete_enabled": 1,
    "compression": -1,
    "schemas": 0,
}
NOW_MS = 1_700_000_000_000
TRANSACTIONAL = 0x10
CONTROL = 0x20
HEADER = struct.Struct(">qiibIhiqqqhii")


def record(offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None) -> bytes:
    return encode_record((key, value, 0, ()), timestamp_delta, offset_delta)


def batch(
    values=(b"v",),
    *,
    timestamp=NOW_MS,
    step_ms=1,
    producer_id=-1,
    epoch=-1,
    sequence=-1,
    attributes=0,
    keys=None,
) -> bytes:
    """Returns a batch as a producer sends it: base offset 0, record i at timestamp + i * step_ms."""
    records = b"".join(
        record(i, i * step_ms, keys[i] if keys else None, value) for i, value in enumerate(values)
    )
    n = len(values)
    largest = max(timestamp, timestamp + (n - 1) * step_ms) if n else timestamp
    body = (
        struct.pack(">hiqqqhii", attributes, n - 1, timestamp, largest, producer_id, epoch, sequence, n)
        + records
    )
    return struct.pack(">qiibI", 0, len(body) + 9, -1, 2, crc32c(body)) + body


def marker(producer_id: int, epoch: int, *, abort: bool, coordinator_epoch=0, timestamp=NOW_MS) -> bytes:
    """Returns the control batch that ends a transaction."""
    body = struct.pack(
        ">hiqqqhii", CONTROL | TRANSACTIONAL, 0, timestamp, timestamp, producer_id, epoch, -1, 1
    ) + record(0, 0, struct.pack(">hh", 0, 0 if abort else 1), struct.pack(">hi", 0, coordinator_epoch))
    return struct.pack(">qiibI", 0, len(body) + 9, -1, 2, crc32c(body)) + body


@dataclass
class Header:
    base_offset: int
    size_bytes: int
    leader_epoch: int
    last_offset: int
    max_timestamp: int
    attributes: int
    data: bytes


def headers(data: bytes) -> list[Header]:
    """Returns the header of every batch in `data`; checks that each is complete and has a good CRC."""
    found = []
    while data:
        fields = HEADER.unpack_from(data)
        size = fields[1] + 12
        assert len(data) >= size and fields[3] == 2 and crc32c(data[21:size]) == fields[4]
        found.append(
            Header(fields[0], size, fields[2], fields[0] + fields[6], fields[8], fields[5], data[:size])
        )
        data = data[size:]
    return found


def offsets(data: bytes) -> list[tuple[int, int]]:
    return [(h.base_offset, h.last_offset) for h in headers(data)]


def open_log(directory: Path, *, recovery_point=0, clean=True, start=0, **config) -> PartitionLog:
    return PartitionLog(
        str(directory),
        CONFIG | config,
        recovery_point=recovery_point,
        clean_shutdown=clean,
        log_start_offset=start,
    )


def fill(log: PartitionLog, batches: int, *, records=10, value=b"x" * 90, epoch=0, step_ms=100) -> None:
    """Appends batches whose base timestamps are NOW_MS + base offset * step_ms // records."""
    for _ in range(batches):
        end = log.log_end_offset
        log.append(batch([value] * records, timestamp=NOW_MS + end * step_ms // records), epoch, NOW_MS)


def crash(log: PartitionLog) -> None:
    """Simulates the death of the process: data outside the files is lost, and nothing is closed cleanly."""
    del log


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def open_files(directory: Path) -> int:
    """Returns the open files of this process below a directory, including unlinked ones, but not those of other logs."""
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # such as the descriptor of this listing
            links.append(str(descriptor.readlink()))
    return sum(link.startswith(f"{directory}/") for link in links)


def segment_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


def index_entries(directory: Path, base_offset: int) -> list[tuple[int, int]]:
    """Returns the (offset, position) entries of an .index file."""
    data = (directory / segment_name(base_offset, ".index")).read_bytes()
    return [(base_offset + relative, position) for relative, position in struct.iter_unpack(">ii", data)]


def time_entries(directory: Path, base_offset: int) -> list[tuple[int, int]]:
    """Returns the (timestamp, offset) entries of a .timeindex file."""
    data = (directory / segment_name(base_offset, ".timeindex")).read_bytes()
    return [(timestamp, base_offset + relative) for timestamp, relative in struct.iter_unpack(">qi", data)]


def everything(log):
    data, position = b"", log.log_start_offset
    while position < log.log_end_offset:
        data += log.read(position, 1 << 30, "log_end")
        position = headers(data)[-1].last_offset + 1
    return data
