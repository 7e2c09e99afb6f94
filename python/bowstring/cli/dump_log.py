"""Implements `bowstring dump-log`: prints the same lines as Kafka's DumpLogSegments."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring.cli.dump_lines import MAX_INT32, Findings, Line, Options
from bowstring.cli.output import header_key_bytes, payload_json, payload_text, print_error
from bowstring.clients.errors import ConfigError
from bowstring.protocol.whole_numbers import LONG_MAX, whole_number

if TYPE_CHECKING:
    from bowstring._native.record.types import BatchHeader, Record

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def dump_log(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE...", help="Segments, indexes, snapshots, checkpoints, or directories."),
    ] = None,
    files: Annotated[
        str | None, typer.Option("--files", help="The same as arguments, separated by commas.")
    ] = None,
    print_data_log: Annotated[bool, typer.Option("--print-data-log", help="Print keys and values.")] = False,
    deep_iteration: Annotated[bool, typer.Option("--deep-iteration", help="Print each record.")] = False,
    verify_index_only: Annotated[
        bool,
        typer.Option("--verify-index-only", help="Check indexes against the log without printing entries."),
    ] = False,
    index_sanity_check: Annotated[
        bool, typer.Option("--index-sanity-check", help="Only the checks of a broker's start.")
    ] = False,
    max_bytes: Annotated[
        int | None, typer.Option("--max-bytes", help="Print at most this many bytes of each log.")
    ] = None,
    skip_record_metadata: Annotated[
        bool,
        typer.Option("--skip-record-metadata", help="With --print-data-log: print only keys and values."),
    ] = False,
    offsets_decoder: Annotated[
        bool, typer.Option("--offsets-decoder", help="Decode records of __consumer_offsets.")
    ] = False,
    transaction_log_decoder: Annotated[
        bool, typer.Option("--transaction-log-decoder", help="Decode records of __transaction_state.")
    ] = False,
    share_group_state_decoder: Annotated[
        bool, typer.Option("--share-group-state-decoder", help="Decode records of __share_group_state.")
    ] = False,
    cluster_metadata_decoder: Annotated[
        bool, typer.Option("--cluster-metadata-decoder", help="Decode records of __cluster_metadata.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each entry.")] = False,
) -> None:
    """Print segments, indexes and snapshots like Kafka's DumpLogSegments; exit with 1 if a file is
    damaged.
    """
    decoder = _decoder(
        offsets=offsets_decoder,
        transaction_log=transaction_log_decoder,
        share_group_state=share_group_state_decoder,
        cluster_metadata=cluster_metadata_decoder,
    )
    options = Options(
        print_data=print_data_log or decoder is not None,
        deep=deep_iteration or print_data_log or decoder is not None,
        verify_only=verify_index_only,
        sanity_only=index_sanity_check,
        skip_metadata=skip_record_metadata,
        max_bytes=max_bytes,
        decoder=decoder,
    )
    _dump_all(_files(paths or [], files), options, json)


def _decoder(**wanted: bool) -> str | None:
    chosen = [name.replace("_", "-") for name, given in wanted.items() if given]
    if len(chosen) > 1:
        raise typer.BadParameter("give at most one decoder")
    return chosen[0] if chosen else None


def _dump_all(paths: list[Path], options: Options, json: bool) -> None:
    findings = Findings()
    for path in paths:
        _dump(path, options, findings, json)
    sys.stdout.flush()
    for problem in findings.problems:
        print(problem, file=sys.stderr)
    if findings.problems:
        raise typer.Exit(1)


def _files(paths: list[Path], names: str | None) -> list[Path]:
    given = [*paths, *(Path(name) for name in (names or "").split(",") if name)]
    if not given:
        raise ConfigError("give at least one file, as argument or with --files")
    found: list[Path] = []
    for path in given:
        if not path.exists():
            raise ConfigError(f"file {path} does not exist")
        found += sorted(p for p in path.iterdir() if _dumper(p)) if path.is_dir() else [path]
    return found


def _dump(path: Path, options: Options, findings: Findings, json: bool) -> None:
    from bowstring.cli.log_files import LogFileError, mapped

    dumper = _dumper(path)
    if not json:
        print(f"Dumping {path}")
    if dumper is None:
        print_error(f"ignoring unknown file {path}")
        return
    try:
        with mapped(path) as data:
            for line in dumper(path, data, options, findings):
                if json:
                    print(json_module.dumps({"file": str(path), **line.fields}, ensure_ascii=False))
                else:
                    print(line.text)
    except LogFileError as error:
        findings.add(str(error))


Dumper = Callable[[Path, memoryview, Options, Findings], Iterator[Line]]


def _dumper(path: Path) -> Dumper | None:
    from bowstring.cli import dump_indexes

    if path.name.endswith("checkpoint") and not path.name.endswith(".checkpoint"):
        return dump_indexes.checkpoint
    return {
        ".log": _log,
        ".checkpoint": _log,
        ".index": dump_indexes.offset_index,
        ".timeindex": dump_indexes.time_index,
        ".txnindex": dump_indexes.transaction_index,
        ".snapshot": dump_indexes.snapshot,
    }.get(path.suffix)


# ---------------------------------------------------------------- segments


def _log(path: Path, data: memoryview, options: Options, findings: Findings) -> Iterator[Line]:
    from bowstring.cli.log_files import base_offset, batches

    if path.suffix == ".log":
        base = base_offset(path)
        yield Line(f"Log starting offset: {base}", {"log_starting_offset": base})
    else:
        parts = path.name.removesuffix(".checkpoint").partition("-")
        end, epoch = whole_number(parts[0], LONG_MAX), whole_number(parts[2])
        if end is not None and epoch is not None:
            text = f"Snapshot end offset: {end}, epoch: {epoch}"
        else:
            text = "KRaft bootstrap snapshot"
        yield Line(text, {"snapshot": path.name})
    valid_bytes, last_offset = 0, -1
    jumps: list[str] = []
    for header in batches(data, options.max_bytes):
        yield Line(batch_text(header), batch_fields(header))
        valid_bytes += header.size_bytes
        if not header.crc_ok:
            findings.add(f"{path}: the batch at position {header.position} fails its CRC-32C")
        if options.deep:
            for record in _records(data, header, path, findings):
                if last_offset >= 0 and record.offset != last_offset + 1:
                    jumps.append(f"{last_offset} is followed by {record.offset}")
                last_offset = record.offset
                yield _record_line(header, record, options)
    trailing = len(data) - valid_bytes
    if trailing > 0 and options.max_bytes is None:
        text = f"Found {trailing} invalid bytes at the end of {path.name}"
        yield Line(text, {"invalid_bytes": trailing})
    if jumps:
        findings.add(f"Non-consecutive offsets in {path}", *jumps)


def _records(data: memoryview, header: BatchHeader, path: Path, findings: Findings) -> list[Record]:
    from bowstring._native.record.compression import CompressionError
    from bowstring._native.record.decode import decode_batches
    from bowstring._native.record.types import CorruptBatch

    end = header.position + header.size_bytes
    try:
        return decode_batches(data[header.position : end], verify_crc=False)
    except (CorruptBatch, CompressionError) as error:
        findings.add(f"{path}: the batch at position {header.position} cannot be decoded: {error}")
        return []


def batch_text(header: BatchHeader) -> str:
    """Returns the line of one batch."""
    f = batch_fields(header)
    horizon = header.delete_horizon_ms
    return (
        f"baseOffset: {f['baseOffset']} lastOffset: {f['lastOffset']} count: {f['count']} "
        f"baseSequence: {f['baseSequence']} lastSequence: {f['lastSequence']} "
        f"producerId: {f['producerId']} producerEpoch: {f['producerEpoch']} "
        f"partitionLeaderEpoch: {f['partitionLeaderEpoch']} "
        f"isTransactional: {_java(f['isTransactional'])} isControl: {_java(f['isControl'])} "
        f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'} "
        f"position: {f['position']} {f['timestampType']}: {f['maxTimestamp']} size: {f['size']} "
        f"magic: {f['magic']} compresscodec: {f['compresscodec']} crc: {f['crc']} "
        f"isvalid: {_java(f['isvalid'])}"
    )


def batch_fields(header: BatchHeader) -> dict[str, Any]:
    """Returns a batch's fields with the names of DumpLogSegments."""
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": _sequence(header, header.last_offset_delta),
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.transactional,
        "isControl": header.control,
        "deleteHorizonMs": header.delete_horizon_ms,
        "position": header.position,
        "timestampType": _timestamp_type(header),
        "maxTimestamp": header.max_timestamp,
        "size": header.size_bytes,
        "magic": 2,
        "compresscodec": CODECS[header.codec] if header.codec < len(CODECS) else str(header.codec),
        "crc": header.crc,
        "isvalid": header.crc_ok,
    }


def _record_line(header: BatchHeader, record: Record, options: Options) -> Line:
    parts = []
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    sequence = _sequence(header, record.offset - header.base_offset)
    names = ",".join(payload_text(header_key_bytes(name)) or "" for name, _ in record.headers)
    if not options.skip_metadata:
        parts.append(
            f"offset: {record.offset} {_timestamp_type(header)}: {record.timestamp} keySize: {key_size} "
            f"valueSize: {value_size} sequence: {sequence} headerKeys: [{names}]"
        )
        if header.control:
            from bowstring.cli.record_text import control_text

            parts.append(control_text(record))
    fields: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "keySize": key_size,
        "valueSize": value_size,
        "sequence": sequence,
        "headers": [
            {"key": payload_json(header_key_bytes(name)), "value": payload_json(value)}
            for name, value in record.headers
        ],
    }
    if options.print_data and not header.control:
        key, payload = _payload(record, options.decoder)
        if key is not None:
            parts.append(f"key: {key}")
        if payload is not None:
            parts.append(f"payload: {payload}")
        fields |= {"key": key, "payload": payload}
    return Line("| " + " ".join(parts), fields)


def _payload(record: Record, decoder: str | None) -> tuple[str | None, str | None]:
    """Returns key and value as text, None for null."""
    from bowstring._native.protocol.message_codec import ProtocolError
    from bowstring.cli.record_text import COORDINATOR_TOPICS, coordinator_record, metadata_record

    try:
        if decoder in COORDINATOR_TOPICS:
            return coordinator_record(COORDINATOR_TOPICS[decoder], record)
        if decoder == "cluster-metadata":
            return None, metadata_record(record)
    except ProtocolError as error:
        return None, f"Could not parse: {error}"
    return (
        None if record.key is None else record.key.decode("utf-8", "replace"),
        None if record.value is None else record.value.decode("utf-8", "replace"),
    )


def _sequence(header: BatchHeader, delta: int) -> int:
    """Returns a record's sequence number; sequence numbers wrap to 0 (KIP-98)."""
    return -1 if header.base_sequence < 0 else (header.base_sequence + delta) & MAX_INT32


def _timestamp_type(header: BatchHeader) -> str:
    return "LogAppendTime" if header.timestamp_type else "CreateTime"


def _java(value: bool) -> str:
    return "true" if value else "false"
