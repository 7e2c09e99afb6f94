"""Schemas that are derived from classes, and instances made of decoded values."""

import datetime
import decimal
import enum
import json
import typing
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Literal, NotRequired, TypedDict

import msgspec
import pyarrow as pa
import pydantic
import pytest
from fastavro import parse_schema

from bowstring import Avro, Json, ValueSchemaError


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Order:
    id: int
    price: Annotated[decimal.Decimal, pa.decimal128(12, 2)]
    at: datetime.datetime
    day: datetime.date
    time: datetime.time
    color: Color
    lines: list[Line]
    rates: dict[str, float]
    raw: bytes
    key: uuid.UUID
    open: bool
    note: str | None
    kind: Literal["new", "old"] = "new"
    tags: list[str] = field(default_factory=list)


ORDER = Order(
    7,
    decimal.Decimal("12.50"),
    datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.UTC),
    datetime.date(2026, 1, 2),
    datetime.time(1, 2, 3, 4),
    Color.BLUE,
    [Line("apple", 2), Line("pear")],
    {"a": 1.5},
    b"\0\xff",
    uuid.UUID(int=5),
    True,
    None,
)


class Struct(msgspec.Struct, rename="camel"):
    order_id: int
    line_items: list[Line] = []


class Model(pydantic.BaseModel):
    id: int
    price: decimal.Decimal = pydantic.Field(max_digits=10, decimal_places=2)
    name: str = pydantic.Field(default="none", alias="fullName")
    line: Line | None = None


class Typed(TypedDict):
    id: int
    name: NotRequired[str]


def test_a_class_has_the_columns_of_other_schemas():
    assert Json(Order).schema == pa.schema(
        {
            "id": pa.int64(),
            "price": pa.decimal128(12, 2),
            "at": pa.timestamp("us", "UTC"),
            "day": pa.date32(),
            "time": pa.time64("us"),
            "color": pa.string(),
            "lines": pa.list_(pa.struct({"sku": pa.string(), "count": pa.int64()})),
            "rates": pa.map_(pa.string(), pa.float64()),
            "raw": pa.binary(),
            "key": pa.string(),
            "open": pa.bool_(),
            "note": pa.string(),
            "kind": pa.string(),
            "tags": pa.list_(pa.string()),
        }
    )
    assert Avro(Order).schema.equals(Json(Order).schema)


def test_required_fields_are_those_without_a_default():
    values, errors = Json(Typed).decode(pa.array([b'{"id":1}', b'{"name":"a"}']))
    assert values.to_pylist() == [{"id": 1, "name": None}, None]
    assert errors.to_pylist()[1].endswith("id is missing") or "id" in errors.to_pylist()[1]


@pytest.mark.parametrize("format_of", [Json, Avro])
@pytest.mark.parametrize(
    "value",
    [
        ORDER,
        Struct(3, [Line("apple")]),
        Model(id=1, price=decimal.Decimal("1.25"), fullName="Ada", line=Line("apple")),
        Typed(id=1),
    ],
)
def test_an_object_comes_back_as_it_was(format_of, value):
    form = format_of(Typed if isinstance(value, dict) else type(value))
    decoded, errors = form.decode(pa.array([form.encode_value(value)]))
    assert errors is None
    assert form.instance(decoded.to_pylist(maps_as_pydicts="strict")[0]) == value


def test_defaults_take_the_place_of_null():
    assert (
        Json(Order)
        .instance(
            {
                **json.loads(Json(Order).encode_value(ORDER)),
                "raw": b"",
                "kind": None,
                "tags": None,
                "lines": [],
            }
        )
        .kind
        == "new"
    )
    nested = Json(Struct).instance({"orderId": 1, "lineItems": [{"sku": "apple", "count": None}]})
    assert nested == Struct(1, [Line("apple", 1)])


def test_the_avro_schema_is_one_that_others_parse():
    document = Avro(Order).avro_schema
    parse_schema(json.loads(json.dumps(document)))
    fields = {each["name"]: each for each in document["fields"]}
    assert fields["price"]["type"] == {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
    assert fields["note"] == {"name": "note", "type": ["null", "string"], "default": None}
    assert fields["kind"] == {"name": "kind", "type": ["string", "null"], "default": "new"}
    assert fields["key"]["type"] == {"type": "string", "logicalType": "uuid"}


def test_a_class_that_is_used_twice_is_named_the_second_time():
    @dataclass
    class Trip:
        first: Line
        last: Line

    globals_of = typing.get_type_hints(Trip, localns=locals())
    assert globals_of
    document = Avro(Trip).avro_schema
    assert document["fields"][1] == {"name": "last", "type": "Line"}


@dataclass
class Node:
    next: "Node | None"


class Numbers(enum.IntEnum):
    ONE = 1
    TWO = 2


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (set, r"Given\.it is of the type <class 'set'>, .* use int, float"),
        (typing.Any, r"Given\.it is of the type typing\.Any"),
        (int | str, r"Given\.it is a union of several types"),
        (dict[int, str], r"Given\.it has keys of the type <class 'int'>; use dict\[str, X\]"),
        (tuple[int, str], r"Given\.it is a tuple of several types"),
        (Mixed, r"Given\.it has the values \[1, 'two'\]; make all text"),
        (Node, "the class Node contains itself"),
        (list[complex], r"Given\.it is of the type <class 'complex'>"),
    ],
)
def test_an_unsupported_type_is_named_with_its_field(annotation, words):
    class Given:
        pass

    Given.__annotations__ = {"it": annotation}
    for format_of in (Json, Avro):
        with pytest.raises(ValueSchemaError, match=words):
            format_of(dataclass(Given))


def test_whole_numbers_of_an_enum_are_whole_numbers():
    @dataclass
    class Given:
        it: Numbers

    assert Json(Given).schema.field("it").type == pa.int64()
    assert Json(Given).encode_value(Given(Numbers.TWO)) == b'{"it":2}'
