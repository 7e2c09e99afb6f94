"""Associations, which this registry does not have: clients that ask for them go on without."""

import json

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.support.registry_double import RegistryDouble, record_schema
from tests.support.served_site import served


@pytest.fixture
def client():
    with served(RegistryDouble().app) as site:
        yield SchemaRegistryClient({"url": site.url})


def test_the_strategy_by_associations_falls_back_to_topics(client):
    settings = {"subject.name.strategy.type": "ASSOCIATED"}
    serialize = AvroSerializer(client, record_schema("a"), conf=settings)
    data = serialize({"a": 1}, SerializationContext("orders", MessageField.VALUE))
    assert data[:5] == b"\0\0\0\0\1"
    assert client.get_subjects() == ["orders-value"]


def test_there_are_none(client):
    with pytest.raises(SchemaRegistryError) as refusal:
        client.get_associations_by_resource_name("orders", "-", "topic", ["value"])
    assert refusal.value.http_status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        *("/exporters", "/exporters/a", "/dek-registry/v1/keks", "/dek-registry/v1/policy"),
        *("/associations/subjects/a", "/associations", "/associations/resources/-/orders"),
    ],
)
def test_what_plugins_serve_elsewhere_is_not_there(path):
    registry = RegistryDouble()
    for method in ("GET", "POST"):
        status, _, body = registry.ask(method, path, b"{}")
        assert (status, json.loads(body)["error_code"]) == (404, 404)
