"""Reads the bodies of produce requests: what each record's key and value are as bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from bowstring.rest.client_failure import bad_request
from bowstring.rest.records.schema_encoding import SchemaChoice, SchemaEncoding, encoded
from bowstring.rest.v2.v2_call import decoded
from bowstring.web.http_error import HttpError

ABSENT = Raw(b"null")
ID_MAX = (1 << 31) - 1
RECORDS_MAX = 250_000
"""Of a request: an empty one has three bytes, and takes a hundred times as much memory."""
OBJECTS_MAX = 4 * RECORDS_MAX
"""Counted before a body is decoded, those in values, too."""
_TYPES = {"avro": "AVRO", "jsonschema": "JSONSCHEMA", "protobuf": "PROTOBUF"}


class BinaryRecord(Struct, forbid_unknown_fields=True):
    """A record whose key and value are base64."""

    key: bytes | None = None
    value: bytes | None = None
    partition: int | None = None


class JsonRecord(Struct, forbid_unknown_fields=True):
    """A record whose key and value are JSON."""

    key: Raw = ABSENT
    value: Raw = ABSENT
    partition: int | None = None


class SchemaRecord(Struct, forbid_unknown_fields=True):
    """A record whose key and value are JSON of a schema."""

    key: Any = None
    value: Any = None
    partition: int | None = None


class _Schemas(Struct, forbid_unknown_fields=True, kw_only=True):
    key_schema: str | None = None
    key_schema_id: int | None = None
    value_schema: str | None = None
    value_schema_id: int | None = None


class BinaryData(_Schemas, kw_only=True):
    """A body of base64."""

    records: list[BinaryRecord]


class JsonData(_Schemas, kw_only=True):
    """A body of JSON."""

    records: list[JsonRecord]


class SchemaData(_Schemas, kw_only=True):
    """A body of JSON by schemas."""

    records: list[SchemaRecord]


class ProducedRecords(NamedTuple):
    """What a request produces.

    Attributes:
        rows: key, value and partition of each record.
        key_schema_id, value_schema_id: of the registry; None without.
    """

    rows: list[tuple[bytes | None, bytes | None, int | None]]
    key_schema_id: int | None = None
    value_schema_id: int | None = None


def plain_records(data: bytes, format: str) -> ProducedRecords:
    """Returns the records of a body of base64 or JSON. Values of JSON lose their white space.

    Args:
        data: the body.
        format: "binary" or "json".

    Raises:
        HttpError: 400, the body is wrong; 422, it has no records, or more than RECORDS_MAX.
    """
    _check_count(data)
    if format == "binary":
        binary = _some(decoded(data, BinaryData).records)
        return ProducedRecords([(each.key, each.value, each.partition) for each in binary])
    try:
        compact = msgspec.json.format(data, indent=-1)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"the body of the request is wrong: {error}") from None
    records = _some(decoded(compact, JsonData).records)
    return ProducedRecords([(_json(each.key), _json(each.value), each.partition) for each in records])


def _json(raw: Raw) -> bytes | None:
    found = bytes(raw)
    return None if found == b"null" else found


def schema_records(data: bytes, format: str, topic: str, schemas: SchemaEncoding) -> ProducedRecords:
    """Returns the records of a body by schemas. Blocks while the registry is asked.

    Args:
        data: the body.
        format: "avro", "jsonschema" or "protobuf".
        topic: where records go.
        schemas: encodes.

    Raises:
        HttpError: 400, the body is wrong, or does not fit the schema; 42201, 42202, a schema is missing;
            42205, 42207, it cannot be used.
    """
    _check_count(data)
    body = decoded(data, SchemaData)
    records = _some(body.records)
    keys = [each.key for each in records]
    values = [each.value for each in records]
    key_id, key_bytes = _encoded(
        schemas, topic, _choice(format, body.key_schema, body.key_schema_id), keys, True
    )
    value_id, value_bytes = _encoded(
        schemas, topic, _choice(format, body.value_schema, body.value_schema_id), values, False
    )
    partitions = [each.partition for each in records]
    return ProducedRecords(list(zip(key_bytes, value_bytes, partitions, strict=True)), key_id, value_id)


def _check_count(data: bytes) -> None:
    """Refuses a body with so many objects that decoding them would take far more memory than the body."""
    if data.count(b"{") > OBJECTS_MAX:
        raise HttpError(422, 422, f"the request has more than {OBJECTS_MAX} objects; send fewer at once")


def _some(records: list[Any]) -> list[Any]:
    if not records:
        raise HttpError(422, 422, "records must not be empty")
    if len(records) > RECORDS_MAX:
        raise HttpError(422, 422, f"the request has more than {RECORDS_MAX} records; send fewer at once")
    return records


def _choice(format: str, schema: str | None, schema_id: int | None) -> SchemaChoice | None:
    """Returns the schema that a request names; an id wins over a text."""
    if schema_id is not None:
        return SchemaChoice(schema_id=schema_id)
    return None if schema is None else SchemaChoice(type=_TYPES[format], schema=schema)


def _encoded(
    schemas: SchemaEncoding, topic: str, choice: SchemaChoice | None, data: list[Any], is_key: bool
) -> tuple[int | None, list[bytes | None]]:
    what = "key" if is_key else "value"
    if choice is None:
        if any(each is not None for each in data):
            raise HttpError(
                422,
                42201 if is_key else 42202,
                f"the request has {what}s, and no schema for them: add {what}_schema or {what}_schema_id",
            )
        return None, [None] * len(data)
    try:
        encoder = schemas.encoder(topic, is_key, choice)
    except HttpError as error:
        if error.status == 400:
            raise HttpError(422, 42205, f"Invalid schema: {error.message}") from error
        raise
    found = msgspec.json.decode(b"{" + encoder.members[:-1] + b"}")
    return found["schema_id"], [
        None if each is None else encoder.start + encoded(encoder, each, what) for each in data
    ]
