"""One object is encoded as the row of a table is; what the schema does not fit is refused by name."""

import collections
import datetime
import decimal
import threading

import pyarrow as pa
import pytest
from google.protobuf.struct_pb2 import Value as ProtobufValue  # noqa: F401
from google.protobuf.type_pb2 import Field
from hypothesis import given, settings
from hypothesis import strategies as st

import bowstring
from bowstring import Avro, Json, Protobuf, ValueEncodeError

PARTS = {
    "b": (pa.bool_(), st.booleans()),
    "i8": (pa.int8(), st.integers(-128, 127)),
    "u32": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "u64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "i64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "f": (pa.float32(), st.floats(width=32)),
    "d": (pa.float64(), st.floats()),
    "s": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]))),
    "y": (pa.binary(), st.binary()),
    "dec": (pa.decimal128(20, 3), st.decimals(-(10**16), 10**16, places=3)),
    "day": (pa.date32(), st.dates()),
    "t": (pa.time64("us"), st.times()),
    "at": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(datetime.UTC))),
    "local": (pa.timestamp("us"), st.datetimes()),
    "l": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(-(2**31), 2**31 - 1))),
    "m": (
        pa.map_(pa.string(), pa.bool_()),
        st.dictionaries(st.sampled_from("abc"), st.none() | st.booleans()),
    ),
    "deep": (
        pa.list_(pa.struct({"x": pa.string(), "y": pa.list_(pa.bool_())})),
        st.lists(
            st.none()
            | st.fixed_dictionaries(
                {"x": st.sampled_from(["", "ä"]), "y": st.none() | st.lists(st.booleans())}
            )
        ),
    ),
}
TABLE = Json(pa.schema({name: kind for name, (kind, _) in PARTS.items()}))


@settings(max_examples=150, deadline=None)
@given(st.fixed_dictionaries({name: st.none() | values for name, (_, values) in PARTS.items()}))
def test_an_object_is_encoded_as_a_row_of_a_table(row):
    as_table = pa.array([row], TABLE.type)
    assert TABLE.encode_value(row) == TABLE.encode(as_table)[0].as_py()


def test_many_values_after_one_another_do_not_mix():
    for count in (0, 3, 70, 1, 0):
        row = {**dict.fromkeys(PARTS), "l": list(range(count)), "b": count > 1}
        assert TABLE.encode_value(row) == TABLE.encode(pa.array([row], TABLE.type))[0].as_py()


def test_avro_and_protobuf_encode_objects():
    schema = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":["null","string"]}]}'
    avro = Avro(schema, framing="confluent", schema_id=300)
    assert avro.encode_value({"a": 1, "b": "x"}) == b"\0\0\0\1\x2c\x02\x02\x02x"
    assert avro.encode_value({"a": 1}) == b"\0\0\0\1\x2c\x02\0"
    with pytest.raises(ValueEncodeError, match=r"^a: null, which the schema does not allow"):
        avro.encode_value({})
    message = Field(name="size", number=3, kind=Field.TYPE_INT32)
    form = Protobuf(Field)
    assert Field.FromString(form.encode_value({"name": "size", "number": 3, "kind": "TYPE_INT32"})) == message
    assert form.encode_value(message) == message.SerializeToString()


ORDERS = Json(
    pa.schema(
        [
            pa.field("id", pa.int32(), nullable=False),
            pa.field("at", pa.timestamp("ms", "UTC")),
            pa.field("price", pa.decimal128(6, 2)),
            pa.field("lines", pa.list_(pa.struct({"sku": pa.string()}))),
            pa.field("rates", pa.map_(pa.string(), pa.float64())),
        ]
    )
)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({}, r"^id is missing; it must be a whole number from -2147483648 to 2147483647$"),
        ({"id": 2**31}, r"^id is 2147483648 \(int\), it must be a whole number from"),
        ({"id": True}, r"^id is True \(bool\)"),
        ({"id": 1.0}, r"^id is 1\.0 \(float\)"),
        ({"id": 1, "lines": [{"sku": 3}]}, r"^lines\[\]\.sku is 3 \(int\), it must be text \(str\)$"),
        ({"id": 1, "lines": "text"}, r"^lines is 'text' \(str\), it must be a list$"),
        (
            {"id": 1, "lines": [5]},
            r"^lines\[\] is 5 \(int\), it must be a dict or an object with the fields sku$",
        ),
        ({"id": 1, "rates": {"a": "b"}}, r"^rates\{\} is 'b' \(str\), it must be a number$"),
        ({"id": 1, "rates": {1: 1.0}}, r"^a key of rates is 1 \(int\), it must be text"),
        ({"id": 1, "at": datetime.datetime(2026, 1, 1)}, r"^at is .* it must be a datetime with a time zone"),
        (
            {"id": 1, "at": datetime.datetime(2026, 1, 1, 0, 0, 0, 1, datetime.UTC)},
            r"^at is .* in whole milliseconds$",
        ),
        (
            {"id": 1, "price": decimal.Decimal("1.001")},
            r"^price is .* it must be a Decimal of at most 6 digits, 2 ",
        ),
        ({"id": 1, "price": 1.5}, r"^price is 1\.5 \(float\)"),
        (
            {"id": 1, "idd": 1},
            r"^the value has 'idd', which the schema does not have; its fields are id, at,",
        ),
        ({"id": 1, "lines": [{"sku": "\ud800"}]}, r"^lines\[\]\.sku is '\\ud800' \(str\), it must be text"),
        ("text", r"^the value is 'text' \(str\), it must be a dict or an object with the fields id, at"),
        (5, r"^the value is 5 \(int\)"),
        (ORDERS, r"^the value is Json"),
    ],
)
def test_what_does_not_fit_is_named(value, words):
    with pytest.raises(ValueEncodeError, match=words):
        ORDERS.encode_value(value)
    assert ORDERS.encode_value({"id": 1, "price": 2}) == (
        b'{"id":1,"at":null,"price":2.00,"lines":null,"rates":null}'
    )


def test_a_decimal_with_too_many_digits_is_refused():
    with pytest.raises(ValueEncodeError, match="price is"):
        ORDERS.encode_value({"id": 1, "price": decimal.Decimal(12345)})


def test_mappings_bytes_and_null():
    assert ORDERS.encode_value(collections.ChainMap({"id": 1})).startswith(b'{"id":1,')
    assert ORDERS.encode_value(b"as it is") == b"as it is"
    assert ORDERS.encode_value(None) is None


def test_an_object_may_use_the_format_while_it_is_read():
    class Odd:
        lines = None
        rates = None
        at = None
        price = None

        @property
        def id(self):
            return len(ORDERS.encode_value({"id": 1}))

    assert ORDERS.encode_value(Odd()).startswith(b'{"id":57,')


def test_threads_share_a_format():
    found = []

    def run(number):
        found.extend(
            (number, ORDERS.encode_value({"id": number, "lines": [{"sku": str(number)}] * 20}))
            for _ in range(300)
        )

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {
        (number, ORDERS.encode_value({"id": number, "lines": [{"sku": str(number)}] * 20}))
        for number in range(4)
    } == set(found)


def test_send_encodes_by_the_format():
    keys = Json(pa.schema({"id": pa.int32()}))
    with (
        bowstring.Broker() as broker,
        bowstring.Producer(broker.bootstrap_servers, value=ORDERS, key=keys) as producer,
    ):
        producer.send("orders", {"id": 1}, key={"id": 5})
        producer.send("orders", b"encoded already", key=b"k")
        producer.send("orders", None, key={"id": 5})
        producer.flush()
        with pytest.raises(ValueEncodeError, match=r"^topic 'orders', value: id is 'x' \(str\)"):
            producer.send("orders", {"id": "x"})
        with pytest.raises(ValueEncodeError, match=r"^topic 'orders', key: the value has 'z'"):
            producer.send("orders", {"id": 1}, key={"z": 1})
        rows = bowstring.read("orders", bootstrap_servers=broker.bootstrap_servers).to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == [
        (b'{"id":5}', b'{"id":1,"at":null,"price":null,"lines":null,"rates":null}'),
        (b"k", b"encoded already"),
        (b'{"id":5}', None),
    ]
