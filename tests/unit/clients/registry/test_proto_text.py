"""Protobuf schemas as .proto text: registered as they are, and used without generated classes."""

import base64

import pyarrow as pa
import pytest

import bowstring
from bowstring.clients.errors import ConfigError
from bowstring.clients.registry.registry_client import RegistryClient
from bowstring.schemas.parsing import parse_schema
from tests.support.registry_double import RegistryDouble
from tests.support.served_site import served

ORDER = """
syntax = "proto3";
package shop;
import "shop/money.proto";

// What a customer buys.
message Order {
  int32 id = 1;
  repeated string hats = 2;
  shop.Money price = 3;
}
message Other { string a = 1; }
"""
MONEY = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'
VALUE = {"id": 7, "hats": ["top", "bowler"], "price": {"cents": 990}}


@pytest.fixture
def registry():
    double = RegistryDouble()
    body = {"schema": MONEY, "schemaType": "PROTOBUF"}
    assert double.json("POST", "/subjects/money/versions", body)[0] == 200
    with served(double.app) as site:
        yield site.url


def made(url, schema=ORDER):
    return bowstring.Registry(url, schema=schema, references=[("shop/money.proto", "money", 1)])


def test_values_are_written_and_read(registry):
    form = made(registry).for_topic("orders", "value")
    data = form.encode_value(VALUE)
    assert data[:6] == b"\0\0\0\0\2\0"
    found, errors = form.decode(pa.array([data]))
    assert errors is None and found.to_pylist() == [VALUE]
    # Without a schema: by the registry's.
    newest = bowstring.Registry(registry).for_topic("orders", "value")
    assert newest.encode_value(VALUE) == data


def test_the_text_is_what_is_registered(registry):
    form = made(registry).for_topic("orders", "value")
    form.prepare()
    found = RegistryClient(registry).as_registered("orders-value", 1)
    assert "message Order {" in found.text and found.references[0].name == "shop/money.proto"
    serialized = base64.b64decode(RegistryClient(registry).by_id(2).text)
    assert b"Money" in serialized


def test_a_file_is_read_and_names_subjects(registry, tmp_path):
    path = tmp_path / "order.proto"
    path.write_text(ORDER)
    for each in (path, str(path)):
        given = bowstring.Registry(
            registry, schema=each, strategy="record", references=[("shop/money.proto", "money", 1)]
        )
        assert given.for_topic("orders", "value").subject() == "shop.Order"
    assert parse_schema("PROTOBUF", ORDER, is_new=False).name == "shop.Order"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ('syntax = "proto3"; message A { int32 a = 1 }', "cannot be used"),
        ('syntax = "proto3";', "declares no message"),
        ("none.proto", "cannot be read"),
        ('syntax = "proto3"; message A { Missing a = 1; }', "Missing"),
    ],
)
def test_what_is_wrong_is_named(registry, schema, reason):
    with pytest.raises(ConfigError, match=reason):
        bowstring.Registry(registry, schema=schema)
