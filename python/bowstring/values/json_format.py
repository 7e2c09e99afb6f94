"""Implements JSON values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bowstring._native.values.json_decode import JsonDecoder
from bowstring._native.values.json_encode import JsonEncoder
from bowstring._native.values.json_objects import AnyJsonObjects, JsonObjects
from bowstring.values.class_schema import ClassSchema, is_schema_class
from bowstring.values.decoder_arrays import describe, nullable, storage_type
from bowstring.values.errors import ValueEncodeError, ValueSchemaError
from bowstring.values.format import Framing, OnError, ValueFormat
from bowstring.values.json_schema import JsonSchema, json_type
from bowstring.values.object_plan import object_plan

if TYPE_CHECKING:
    from bowstring._native.base.object_decoder import ObjectDecoder
    from bowstring._native.values.json_decode import Plan
    from bowstring._native.values.json_encode import EncodePlan

# In the order of json_decode.Kind.
(
    _BOOLEAN,
    _INTEGER,
    _FLOAT,
    _DOUBLE,
    _STRING,
    _BINARY,
    _DECIMAL,
    _DATE,
    _TIME,
    _TIMESTAMP,
    _LIST,
    _MAP,
    _STRUCT,
) = range(13)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class Json(ValueFormat):
    """Values that are JSON objects (RFC 8259).

    Fields are matched by name, in any order; unknown fields are skipped, missing ones are null. A value is
    bad if it is not JSON, or a field does not have its type. Timestamps and dates are strings (RFC 3339), or
    integers in the unit of their type; decimals are numbers or strings; bytes are base64.

    Args:
        schema: a pyarrow schema or struct type, a JSON Schema (a mapping, its text, or a file's path), or a
            class: a dataclass, TypedDict, msgspec struct or pydantic model. A value that lacks a
            non-nullable (`required`) field is bad. None: values of any kind, as objects of `Consumer.poll`
            only; integers have any size.
        on_error: "column", "raise", or a DeadLetter.
        framing: "confluent" for values that begin with a zero byte and a schema's id, which is ignored.
        schema_id: written by `encode` when framing is "confluent".
        omit_nulls: `encode` leaves out fields that are null.

    Raises:
        ValueSchemaError: the schema cannot be parsed, or cannot be represented by columns.

    Examples:
        >>> import bowstring, pyarrow as pa
        >>> orders = bowstring.Json(pa.schema({"id": pa.int64(), "tags": pa.list_(pa.string())}))
        >>> values, errors = orders.decode(pa.array([b'{"id": 1, "tags": ["new"]}', b'{"id": "x"}']))
        >>> values.to_pylist()
        [{'id': 1, 'tags': ['new']}, None]
        >>> errors.to_pylist()
        [None, 'at byte 7: an integer is needed for id']
    """

    def __init__(
        self,
        schema: JsonSchema | None = None,
        *,
        on_error: OnError = "column",
        framing: Framing = None,
        schema_id: int = 0,
        omit_nulls: bool = False,
    ):
        super().__init__(on_error, framing, schema_id)
        if isinstance(schema, type) and is_schema_class(schema):
            self._class = ClassSchema(schema)
        self._any = schema is None
        if schema is None:
            self._given = pa.struct([])
        else:
            self._given = json_type(schema) if self._class is None else self._class.type
        self._nulls = not omit_nulls
        self.schema = pa.schema(list(nullable(self._given)))
        self._plan = _plan(pa.field("", self._given), "")
        self._columns = describe(self.type)

    def __repr__(self) -> str:
        if self._any:
            return "Json()"
        return f"Json({', '.join(f'{field.name}: {field.type}' for field in self.schema)})"

    def _required_type(self) -> pa.StructType:
        return self._given

    def encode_value(self, value: Any) -> bytes | None:
        """Encodes one value, as `Producer.send` does.

        Args:
            value: as for the other formats; without a schema whatever the json module takes.

        Raises:
            ValueEncodeError: the value does not fit the schema, or is no JSON.
        """
        if not self._any or value is None or isinstance(value, bytes):
            return super().encode_value(value)
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            return self._first_bytes() + text.encode()
        except (TypeError, ValueError) as error:
            raise ValueEncodeError(f"the value is not JSON: {error}") from None

    def object_decoder(self) -> ObjectDecoder:
        """Returns a new decoder to objects, for one thread."""
        if self._any:
            return AnyJsonObjects(self.framing is not None)
        return self._instances(JsonObjects(self._make_decoder(), object_plan(self.type)))

    def _make_decoder(self) -> JsonDecoder:
        if self._any:
            raise ValueSchemaError(
                "Json() without a schema decodes to objects of poll() only: give a schema for Arrow, such as "
                "Json(pyarrow.schema({'id': pyarrow.int64()}))"
            )
        return JsonDecoder(self._columns, self.framing is not None, self._plan)

    def _make_encoder(self, start: bytes) -> JsonEncoder:
        if self._any:
            raise ValueSchemaError(
                "Json() without a schema cannot encode columns: give a schema, such as "
                "Json(pyarrow.schema({'id': pyarrow.int64()}))"
            )
        return JsonEncoder(start, _encode_plan(pa.field("", self.type)), self._nulls)


def _plan(field: pa.Field, path: str) -> Plan:
    """Returns the plan of json_decode for a field, see JsonDecoder."""
    types = pa.types
    kind = storage_type(field.type)
    required = not field.nullable
    most, precision, scale, per_second = 0, 0, 0, 1
    parts: list[Any] = []
    least = 0
    if types.is_struct(kind):
        code = _STRUCT
        parts = [_plan(part, f"{path}.{part.name}" if path else part.name) for part in kind]
    elif types.is_list(kind):
        code = _LIST
        parts = [_plan(pa.field("", kind.value_type), f"{path}[]")]
    elif types.is_map(kind):
        if storage_type(kind.key_type) != pa.string():
            raise ValueSchemaError(f"the keys of {path} must be strings")
        code = _MAP
        parts = [_plan(pa.field("", kind.item_type), f"{path}{{}}")]
    else:
        code = _leaf(kind, path)
        bits = kind.bit_width - types.is_signed_integer(kind) if types.is_integer(kind) else 0
        if code == _DECIMAL:
            precision, scale = kind.precision, kind.scale
        if code in (_DATE, _TIME, _TIMESTAMP):
            bits = kind.bit_width - 1
        if code in (_TIME, _TIMESTAMP):
            per_second = _PER_SECOND[kind.unit]
        if bits:
            most = 2**bits - 1
            least = 0 if types.is_unsigned_integer(kind) else 2**bits
        if code == _TIME:
            most, least = 86_400 * per_second - 1, 0
    return code, field.name.encode(), path, most, least, precision, scale, per_second, required, parts


def _encode_plan(field: pa.Field) -> EncodePlan:
    """Returns the plan of json_encode for a field, see JsonEncoder."""
    code, _, _, _, _, _, scale, per_second, _, _ = _plan(field, "")
    kind = storage_type(field.type)
    types = pa.types
    parts: list[pa.Field] = []
    if code == _STRUCT:
        parts = list(kind)
    elif code == _LIST:
        parts = [pa.field("", kind.value_type)]
    elif code == _MAP:
        parts = [pa.field("", kind.item_type)]
    utc = types.is_timestamp(kind) and kind.tz is not None
    name = json.dumps(field.name, ensure_ascii=False).encode() + b":"
    return (
        code,
        name,
        types.is_unsigned_integer(kind),
        scale,
        per_second,
        utc,
        [_encode_plan(part) for part in parts],
    )


def _leaf(kind: pa.DataType, path: str) -> int:
    types = pa.types
    checks = (
        (types.is_boolean, _BOOLEAN),
        (types.is_integer, _INTEGER),
        (types.is_float32, _FLOAT),
        (types.is_float64, _DOUBLE),
        (types.is_string, _STRING),
        (types.is_binary, _BINARY),
        (types.is_decimal128, _DECIMAL),
        (types.is_date32, _DATE),
        (types.is_time, _TIME),
        (types.is_timestamp, _TIMESTAMP),
    )
    for check, code in checks:
        if check(kind):
            return code
    raise ValueSchemaError(f"JSON cannot represent the type {kind} ({path})")
