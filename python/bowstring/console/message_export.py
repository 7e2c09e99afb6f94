"""Writes found records as JSON, CSV or Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from bowstring.clients.errors import MissingPackageError
from bowstring.console.message_view import cut_value, time_text
from bowstring.search.record_search import FoundRecord
from bowstring.search.value_decoder import Decoded, ValueDecoder, plain_json

TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
# Spreadsheets run cells that begin with these as formulas.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def exported(found: Sequence[FoundRecord], decoder: ValueDecoder, form: str) -> bytes:
    """Returns records in a form out of TYPES. `value_is_cut` marks values of which only the start is there.

    Raises:
        MissingPackageError: Parquet needs pyarrow.
    """
    if form == "parquet":
        return _parquet(found, decoder)
    return _csv(found, decoder) if form == "csv" else _json(found, decoder)


def _decoded(each: FoundRecord, decoder: ValueDecoder) -> Decoded:
    record = each.record
    if each.is_cut:
        return cut_value(record.value)
    return decoder.decode_of(record.value, record.headers, "value")


def _plain(decoded: Decoded, data: bytes | None) -> Any:
    """Returns what JSON can hold: a tree, a text, or bytes as {"hex": …}."""
    if decoded.kind == "bytes":
        return {"hex": (data or b"").hex()}
    return plain_json(decoded.value)


def _text(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def _json(found: Sequence[FoundRecord], decoder: ValueDecoder) -> bytes:
    rows = []
    for each in found:
        record, decoded = each.record, _decoded(each, decoder)
        row = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _text(record.key),
            "value": _plain(decoded, record.value),
            "headers": [{"key": name, "value": _text(value)} for name, value in record.headers],
        }
        if decoded.schema_id is not None:
            row["schema_id"] = decoded.schema_id
        if each.is_cut:
            row["value_is_cut"] = True
        rows.append(json.dumps(row, allow_nan=False))
    return ("[\n" + ",\n".join(rows) + "\n]\n").encode()


def _cell(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, dict) and content.keys() == {"hex"}:
        text = "0x" + content["hex"]
    elif isinstance(content, str):
        text = content
    else:
        text = json.dumps(content, ensure_ascii=False)
    text = str(text).encode(errors="replace").decode().replace("\0", "\ufffd")
    return "'" + text if text.startswith(_FORMULAS) else text


def _csv(found: Sequence[FoundRecord], decoder: ValueDecoder) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(
        ["topic", "partition", "offset", "time", "key", "value", "headers", "is_tombstone", "value_is_cut"]
    )
    for each in found:
        record = each.record
        headers = json.dumps({name: _text(value) for name, value in record.headers}) if record.headers else ""
        cells = [
            *(record.topic, record.partition, record.offset, time_text(record.timestamp)),
            *(_cell(_text(record.key)), _cell(_plain(_decoded(each, decoder), record.value)), _cell(headers)),
            *(int(record.value is None), int(each.is_cut)),
        ]
        writer.writerow(cells)
    return out.getvalue().encode()


def _parquet(found: Sequence[FoundRecord], decoder: ValueDecoder) -> bytes:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise MissingPackageError("pyarrow", "arrow") from error
    records = [each.record for each in found]
    decoded = [_decoded(each, decoder) for each in found]
    trees = [
        json.dumps(plain_json(each.value)) if each.kind in ("json", "avro", "protobuf") else None
        for each in decoded
    ]
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    headers = [
        [{"key": name.encode(errors="replace").decode(), "value": value} for name, value in record.headers]
        for record in records
    ]
    table = pa.table(
        {
            "topic": pa.array([record.topic for record in records], pa.string()),
            "partition": pa.array([record.partition for record in records], pa.int32()),
            "offset": pa.array([record.offset for record in records], pa.int64()),
            "timestamp": pa.array([record.timestamp for record in records], pa.timestamp("ms", "UTC")),
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "value_json": pa.array(trees, pa.string()),
            "headers": pa.array(headers, pa.list_(header)),
            "value_is_cut": pa.array([each.is_cut for each in found], pa.bool_()),
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()
