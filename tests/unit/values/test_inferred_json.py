"""The schema of JSON values, inferred from a sample."""

import pyarrow as pa
import pytest

import bowstring
from bowstring import ValueSchemaError
from bowstring.values.inferred_json import infer_json


def test_numbers_widen_and_missing_fields_are_null():
    values = [b'{"a":1,"b":[],"c":null,"big":1}', None, b"no JSON", b"[]", b'{"a":1.5,"b":[{"x":true}],"d":"t"}',
              b'{"big":12345678901234567890,"e":{"f":{}}}']  # fmt: skip
    form = infer_json(values, "t")
    assert form.schema == pa.schema(
        {
            "a": pa.float64(),
            "b": pa.list_(pa.struct({"x": pa.bool_()})),
            "c": pa.string(),
            "big": pa.decimal128(38, 0),
            "d": pa.string(),
            "e": pa.struct({"f": pa.struct([])}),
        }
    )
    decoded, errors = form.decode(pa.array(values))
    assert [each is None for each in errors.to_pylist()] == [True, True, False, False, True, True]
    assert decoded.to_pylist()[0]["a"] == 1.0 and decoded.to_pylist()[5]["e"] == {"f": {}}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([b'{"a":{"b":1}}', b'{"a":{"b":"x"}}'], r"a\.b is a number in one record and text in another"),
        ([b'{"a":[1]}', b'{"a":[[1]]}'], r"a\[\] is a number in one record and a list in another"),
        ([b'{"a":[1]}', b'{"a":{}}'], r"a is a list in one record and an object in another"),
        ([b'{"a":{}}', b'{"a":true}'], r"a is an object in one record and a boolean in another"),
        ([b"1", b"x"], r"topic 't': none of 2 values is a JSON object"),
    ],
)
def test_what_no_schema_fits_is_named(values, words):
    with pytest.raises(ValueSchemaError, match=words):
        infer_json(values, "t")


def test_a_read_infers_the_schema():
    with bowstring.Broker() as broker, bowstring.Producer(broker.bootstrap_servers) as producer:
        for number in range(1100):
            late = b',"late":1' if number == 1099 else b""
            producer.send("t", b'{"id":%d%s}' % (number, late), partition=0)
        producer.send("t", b'{"id":"x"}', partition=0)
        producer.flush()
        table = bowstring.read("t", value="json", bootstrap_servers=broker.bootstrap_servers)
        assert table.schema.field("value").type == pa.struct({"id": pa.int64()})
        assert table.column("value").to_pylist()[1099:] == [{"id": 1099}, None]
        assert "an integer is needed for id" in table.column("value_error").to_pylist()[1100]
        some = bowstring.read("t", 1100, value="json", bootstrap_servers=broker.bootstrap_servers)
        assert some.column("value").to_pylist() == [{"id": "x"}]
        producer.send("empty", None, partition=0)
        producer.flush()
        empty = bowstring.read("empty", value="json", bootstrap_servers=broker.bootstrap_servers)
        assert empty.column("value").to_pylist() == [None]
