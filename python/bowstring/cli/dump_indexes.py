"""Prints the files beside a segment for `dump-log`: indexes, snapshots, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bowstring.cli.dump_lines import MAX_INT32, Findings, Line, Options
from bowstring.cli.log_files import (
    LogFileError,
    base_offset,
    batch_at,
    check_index,
    checkpoint_entries,
    mapped,
    offset_entries,
    snapshot_entries,
    time_entries,
    transaction_entries,
)


def offset_index(path: Path, data: memoryview, options: Options, findings: Findings) -> Iterator[Line]:
    """Prints index entries and checks each against its batch."""
    if options.sanity_only and data:
        yield _sane(path, data, "offset")
        return
    entries = list(offset_entries(data, base_offset(path)))
    if not entries or entries == [(base_offset(path), 0)]:
        yield Line(f"{path} is empty.", {"empty": True})
        return
    wrong = []
    with _segment(path) as log:
        for entry in entries:
            header = batch_at(log, entry.position)
            found = header.last_offset if header is not None else -1
            if found != entry.offset:
                wrong.append(f"Index offset: {entry.offset}, log offset: {found}")
            if not options.verify_only:
                yield Line(f"offset: {entry.offset} position: {entry.position}", entry._asdict())
    if wrong:
        findings.add(f"Mismatches in :{path.absolute()}", *wrong)


def time_index(path: Path, data: memoryview, options: Options, findings: Findings) -> Iterator[Line]:
    """Prints index entries and checks each against the largest timestamp of its batch."""
    if options.sanity_only:
        yield _sane(path, data, "time")
        return
    base = base_offset(path)
    positions = _positions(path.with_suffix(".index"), base)
    with _segment(path) as log:
        position, before = 0, -1
        mismatched, unordered, missing = [], [], []
        for entry in time_entries(data, base):
            if entry.timestamp == 0 and entry.offset == base and not log:
                return
            position = positions.get(entry.offset, position)
            header = batch_at(log, position)
            while header is not None and header.last_offset < entry.offset:
                position += header.size_bytes
                header = batch_at(log, position)
            if header is None or header.last_offset != entry.offset:
                found = -1 if header is None else header.last_offset
                missing.append(f"Indexed offset: {entry.offset}, found log offset: {found}")
            else:
                if header.max_timestamp != entry.timestamp:
                    mismatched.append(
                        f"Index timestamp: {entry.timestamp}, log timestamp: {header.max_timestamp}"
                    )
                if before >= entry.timestamp:
                    unordered.append(
                        f"Index timestamp: {entry.timestamp}, Previously indexed timestamp: {before}"
                    )
            if not options.verify_only:
                yield Line(f"timestamp: {entry.timestamp} offset: {entry.offset}", entry._asdict())
            before = entry.timestamp
    if mismatched:
        findings.add(f"Found timestamp mismatch in :{path.absolute()}", *mismatched)
    if unordered:
        findings.add(f"Found out of order timestamp in :{path.absolute()}", *unordered)
    if missing:
        findings.add("The following indexed offsets are not found in the log.", *missing)


def _positions(index: Path, base: int) -> dict[int, int]:
    if not index.exists():
        return {}
    with mapped(index) as data:
        return {entry.offset: entry.position for entry in offset_entries(data, base)}


def _sane(path: Path, data: memoryview, kind: str) -> Line:
    check_index(path, data, kind)
    return Line(f"{path} passed sanity check.", {"sane": True})


def _segment(path: Path):  # type: ignore[no-untyped-def]
    log = path.with_suffix(".log")
    if not log.exists():
        raise LogFileError(f"{path} cannot be checked: {log.name} is missing beside it")
    return mapped(log)


def transaction_index(path: Path, data: memoryview, options: Options, findings: Findings) -> Iterator[Line]:
    """Prints aborted transactions."""
    for entry in transaction_entries(data):
        yield Line(
            f"version: {entry.version} producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
            f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}",
            entry._asdict(),
        )


def snapshot(path: Path, data: memoryview, options: Options, findings: Findings) -> Iterator[Line]:
    """Prints producers with their newest batch."""
    for entry in snapshot_entries(path, data):
        first_offset = entry.current_txn_first_offset
        started = f"OptionalLong[{first_offset}]" if first_offset >= 0 else "OptionalLong.empty"
        text = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
            f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: {started} "
            f"lastTimestamp: {entry.timestamp}"
        )
        if entry.last_offset >= 0:
            first_sequence = (entry.last_sequence - entry.offset_delta) & MAX_INT32
            text += (
                f" firstSequence: {first_sequence} lastSequence: {entry.last_sequence} "
                f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} "
                f"timestamp: {entry.timestamp}"
            )
        yield Line(text, entry._asdict())


def checkpoint(path: Path, data: memoryview, options: Options, findings: Findings) -> Iterator[Line]:
    """Prints leader epochs with their start offsets, or offsets by partition."""
    for fields in checkpoint_entries(path):
        if len(fields) == 2:
            epoch, offset = fields
            yield Line(
                f"epoch: {epoch} startOffset: {offset}", {"epoch": int(epoch), "startOffset": int(offset)}
            )
        elif len(fields) == 3:
            topic, partition, offset = fields
            yield Line(
                f"topic: {topic} partition: {partition} offset: {offset}",
                {"topic": topic, "partition": int(partition), "offset": int(offset)},
            )
        else:
            raise LogFileError(f"{path}: {' '.join(fields)!r} is not an entry of a checkpoint")
