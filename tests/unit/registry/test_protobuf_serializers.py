"""confluent-kafka's Protobuf serializer and deserializer with this registry: imports, references, both directions."""

import json
from urllib.parse import quote, urlencode

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

from tests.support.registry_double import RegistryDouble

CONTEXT = SerializationContext("orders", MessageField.VALUE)


CLIENT = "confluent_kafka.schema_registry._sync.schema_registry_client._RestClient.send_request"


@pytest.fixture
def registry(monkeypatch):
    double = RegistryDouble()

    def send_request(client, url, method, body=None, query=None):
        target = quote(f"/{url}", safe="/%?=&") + (f"?{urlencode(query)}" if query else "")
        status, _, answer = double.ask(method, target, body)
        found = json.loads(answer)
        if status >= 400:
            raise SchemaRegistryError(status, found["error_code"], found["message"])
        return found

    monkeypatch.setattr(CLIENT, send_request)
    return double


def new_client():
    """A client with caches of its own; its requests go to the application without a socket."""
    return SchemaRegistryClient({"url": "http://none.invalid"})


@pytest.fixture
def client(registry):
    return new_client()


def order_class(city_type=Field.TYPE_STRING):
    """The class of an order, whose address stands in another file."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    address = descriptor_pb2.FileDescriptorProto(name="shop/address.proto", package="shop", syntax="proto3")
    address.message_type.add(name="Address").field.add(name="city", number=1, label=1, type=city_type)
    order = descriptor_pb2.FileDescriptorProto(name="shop/order.proto", package="shop", syntax="proto3")
    order.dependency.extend(["google/protobuf/timestamp.proto", "shop/address.proto"])
    order.message_type.add(name="Line").field.add(name="sku", number=1, label=1, type=Field.TYPE_STRING)
    message = order.message_type.add(name="Order")
    entry = message.nested_type.add(name="LinesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=Field.TYPE_STRING)
    entry.field.add(name="value", number=2, label=1, type=Field.TYPE_MESSAGE, type_name=".shop.Line")
    for number, (name, label, kind) in enumerate(
        [
            ("at", 1, "google.protobuf.Timestamp"),
            ("to", 1, "shop.Address"),
            ("lines", 3, "shop.Order.LinesEntry"),
        ]
    ):
        message.field.add(
            name=name, number=number + 1, label=label, type=Field.TYPE_MESSAGE, type_name=f".{kind}"
        )
    pool.Add(address)
    pool.Add(order)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def an_order(kind):
    order = kind()
    order.at.seconds = 5
    order.to.city = "Bern"
    order.lines["a"].sku = "hat"
    return order


@pytest.mark.parametrize("skips_known_types", [True, False])
@pytest.mark.parametrize("normalizes", [False, True])
def test_imports_are_registered_and_records_read(registry, client, skips_known_types, normalizes):
    kind = order_class()
    settings = {"normalize.schemas": normalizes, "skip.known.types": skips_known_types}
    written = ProtobufSerializer(kind, client, settings)(an_order(kind), CONTEXT)
    known = [] if skips_known_types else ["google/protobuf/timestamp.proto"]
    subjects = registry.ask("GET", "/subjects")[2]
    assert sorted(json.loads(subjects)) == sorted([*known, "orders-value", "shop/address.proto"])
    stored = json.loads(registry.ask("GET", "/subjects/orders-value/versions/1")[2])
    assert stored["schema"].startswith(
        'syntax = "proto3";\npackage shop;\n\nimport "google/protobuf/timestamp.proto";'
    )
    assert {each["name"] for each in stored["references"]} == {*known, "shop/address.proto"}
    assert ("map<string, .shop.Line> lines = 3;" in stored["schema"]) is normalizes
    again = ProtobufSerializer(kind, client, settings | {"auto.register.schemas": False})
    assert again(an_order(kind), CONTEXT) == written
    read = ProtobufDeserializer(kind, {}, client)(written, CONTEXT)
    assert read == an_order(kind)


def test_the_latest_version_is_used_and_its_file_read(client):
    kind = order_class()
    ProtobufSerializer(kind, client)(an_order(kind), CONTEXT)
    latest = {"auto.register.schemas": False, "use.latest.version": True}
    written = ProtobufSerializer(kind, new_client(), latest)(an_order(kind), CONTEXT)
    reader = ProtobufDeserializer(kind, {"use.latest.version": True}, new_client())
    assert reader(written, CONTEXT) == an_order(kind)


def test_incompatible_imports_are_refused(client):
    kind = order_class()
    ProtobufSerializer(kind, client)(an_order(kind), CONTEXT)
    changed = order_class(Field.TYPE_BOOL)
    with pytest.raises(SchemaRegistryError, match="FIELD_SCALAR_KIND_CHANGED"):
        ProtobufSerializer(changed, client)(changed(), CONTEXT)


def test_formats_that_would_be_too_long_are_refused(registry):
    many = ", ".join(str(number) for number in range(1, 600))
    options = ", ".join(f"declaration = {{ number: {number} }}" for number in range(600))
    body = {"schemaType": "PROTOBUF", "schema": f"message A {{ extensions {many} [{options}]; }}"}
    assert registry.ask("POST", "/subjects/a/versions", body)[0] == 200
    for method, target in (("GET", "/subjects/a/versions/1"), ("POST", "/subjects/a/versions")):
        status, _, answer = registry.ask(
            method, f"{target}?format=serialized", body if method == "POST" else None
        )
        assert (status, json.loads(answer)["error_code"]) == (422, 42201)
