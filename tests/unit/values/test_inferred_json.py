"""The schema of JSON values, inferred from a sample."""

import polars
import pyarrow as pa
import pytest
from google.protobuf.wrappers_pb2 import Int64Value

import bowstring
from bowstring import ValueSchemaError
from bowstring.clients.consumer.partition_state import PartitionState
from bowstring.values.inferred_json import infer_json
from tests.support.waiting import HANG_S


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


def test_the_sample_is_all_that_its_consumer_fetches(monkeypatch):
    fetched = []
    buffer = PartitionState.buffer
    monkeypatch.setattr(
        PartitionState, "buffer", lambda state, chunk: fetched.append(len(chunk.data)) or buffer(state, chunk)
    )
    value = b'{"id":1,"pad":"%s"}' % bytes(500).hex().encode()
    with bowstring.Broker() as broker, bowstring.Producer(broker.bootstrap_servers) as producer:
        producer.send_arrow("t", pa.table({"value": [value] * 20_000})).result(HANG_S)
        bowstring.read("t", value="json", columns=["value"], bootstrap_servers=broker.bootstrap_servers)
    assert sum(fetched) < 1.3 * 20_000 * len(value)


def test_write_makes_json_of_the_columns():
    table = pa.table({"key": ["a", "b"], "id": [1, 2], "name": ["x", None], "tags": [["n"], []]})
    with bowstring.Broker() as broker:
        servers = broker.bootstrap_servers
        for topic, data in {
            "arrow": table,
            "pandas": table.to_pandas(),
            "polars": polars.from_arrow(table),
        }.items():
            assert bowstring.write(topic, data, value="json", bootstrap_servers=servers) == 2
            back = bowstring.read(topic, value="json", key="text", bootstrap_servers=servers)
            assert back.column("key").to_pylist() == ["a", "b"]
            assert back.column("value").to_pylist() == [
                {"id": 1, "name": "x", "tags": ["n"]},
                {"id": 2, "name": None, "tags": []},
            ]
        named = pa.table({"json": ["{}"]})
        assert bowstring.write("named", named, value="json", bootstrap_servers=servers) == 1
        with pytest.raises(bowstring.ValueSchemaError, match="JSON cannot represent the type"):
            wrong = pa.table({"id": pa.array([1], pa.decimal256(50))})
            bowstring.write("wrong", wrong, value="json", bootstrap_servers=servers)


AVRO = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
ROWS = pa.table({"id": [1, 2]})


@pytest.mark.parametrize(
    "form", [bowstring.Json(ROWS.schema), bowstring.Avro(AVRO), bowstring.Protobuf(Int64Value)]
)
def test_write_encodes_by_a_format(form):
    rows = ROWS.rename_columns(form.schema.names)
    with bowstring.Broker() as broker:
        servers = broker.bootstrap_servers
        assert bowstring.write("t", rows, value=form, bootstrap_servers=servers) == 2
        back = bowstring.read("t", value=form, columns=["value"], bootstrap_servers=servers)
        assert back.column("value").to_pylist() == rows.to_pylist()
        with pytest.raises(bowstring.ConfigError, match="'extra' is not in the schema"):
            bowstring.write("t", rows.append_column("extra", [[1, 2]]), value=form, bootstrap_servers=servers)
