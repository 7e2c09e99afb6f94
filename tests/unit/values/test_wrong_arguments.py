"""Wrong arguments of formats are one clear error that names them and says what to give."""

import dataclasses
from typing import Any

import pyarrow as pa
import pytest

import bowstring
from bowstring import ClientError, Json, Producer

SCHEMA = pa.schema({"id": pa.int64()})
UNTYPED: Any = bowstring
"""What type checkers do not look at: they refuse most of these calls."""


@dataclasses.dataclass
class Order:
    id: int


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: UNTYPED.Json(int), "schema is the class int, it must be a pyarrow schema, such as"),
        (lambda: UNTYPED.Json(5), "schema is a int, it must be"),
        (lambda: UNTYPED.Json([("id", pa.int64())]), "schema is a list, it must be"),
        (lambda: UNTYPED.Json({"id": int}), "no type is known for .*a schema is a pyarrow schema"),
        (lambda: UNTYPED.Json({"id": pa.int64()}), "no type is known for .*a schema is a pyarrow schema"),
        (lambda: UNTYPED.Avro(int), "schema is the class int, it must be a dataclass, TypedDict"),
        (lambda: UNTYPED.Protobuf(Order), "not a Protobuf message"),
        (
            lambda: UNTYPED.Json(SCHEMA, on_error="drop"),
            'on_error is \'drop\', it must be "column", "raise" or a DeadLetter',
        ),
        (lambda: UNTYPED.Json(SCHEMA, framing="x"), "framing is 'x', it must be \"confluent\" or None"),
        (lambda: UNTYPED.Json(SCHEMA, schema_id="7"), "schema_id is '7', it must be a whole number"),
        (lambda: UNTYPED.Json(SCHEMA).decode([b"{}"]), "array is a list, it must be an Arrow array"),
        (lambda: UNTYPED.Json(SCHEMA).encode([{"id": 1}]), "columns is a list, it must be Arrow structs"),
        (lambda: UNTYPED.kernel(5), "takes a function that is written with def, not a int"),
    ],
)
def test_a_wrong_argument_is_named(call, words):
    with pytest.raises(ClientError, match=words):
        call()


def test_a_dict_without_a_format_is_refused():
    with (
        Producer("127.0.0.1:1", value=Json(SCHEMA)) as producer,
        pytest.raises(
            ClientError, match=r"the key is a dict; give bytes, text or None, or a format: Producer\(key="
        ),
    ):
        producer.send("t", b"", key={"id": 1})


def test_a_format_that_encodes_columns_only_is_named():
    class Columns:
        schema = SCHEMA

        def encode(self, rows, /):
            return rows

    with (
        Producer("127.0.0.1:1", value=Columns()) as producer,
        pytest.raises(ClientError, match=r"the value is a dict; .* value= has no encode_value\(\)"),
    ):
        producer.send("t", {"id": 1})


def test_the_format_of_a_read_is_named():
    with pytest.raises(
        ClientError, match=r"value is 'jsn', it must be .*, such as bowstring\.Json\(schema\)"
    ):
        UNTYPED.read("t", "127.0.0.1:1", value="jsn")
