"""bowstring.rest.records.schema_values: schemas that cannot be used are asked for a bounded number of times."""

import pytest

from bowstring.clients.errors import ClientError
from bowstring.clients.registry import failed_schemas
from bowstring.clients.registry.failed_schemas import FAILURES_MAX
from bowstring.clients.registry.registered_schema import RegisteredSchema
from bowstring.clients.registry.registry_errors import SchemaNotFoundError, SchemaRegistryError
from bowstring.rest.records.schema_values import SchemaValues


class Schemas:
    """A registry with schema 1; 3 does not answer, 4 is refused, 5 is not Avro."""

    address = "http://registry"

    def __init__(self):
        self.asked = []

    def by_id(self, id):
        self.asked.append(id)
        if id == 3:
            raise SchemaRegistryError("away", 0)
        if id == 4:
            raise SchemaRegistryError("refused", 403)
        if id not in {1, 5}:
            raise SchemaNotFoundError("none", 404)
        return RegisteredSchema("AVRO", '"int"' if id == 1 else '"intt"')


def value(id, body=b"\4"):
    return b"\0" + id.to_bytes(4, "big") + body


def test_failures_are_kept_and_bounded(monkeypatch):
    monkeypatch.setattr(failed_schemas, "FAILURES_PER_S", 0)
    registry = Schemas()
    values = SchemaValues(registry)
    for id, kind in ((4, SchemaRegistryError), (5, ClientError), (7, SchemaNotFoundError)):
        for _ in range(3):
            with pytest.raises(kind):
                values.tree("value", value(id), ())
    for _ in range(2):
        with pytest.raises(SchemaRegistryError):
            values.tree("value", value(3), ())
    assert registry.asked == [4, 5, 7, 3, 3]  # who is away now may answer next
    assert values.tree("value", value(1), ()) == 2
    for id in range(1000, 2000):
        with pytest.raises(ClientError):
            values.tree("value", value(id), ())
    assert len(registry.asked) == 6 + FAILURES_MAX - 3
    assert values.tree("value", value(1), ()) == 2
    monkeypatch.setattr(failed_schemas, "FAILURES_PER_S", 1e9)
    with pytest.raises(SchemaNotFoundError):
        values.tree("value", value(3000), ())


def test_long_keys_are_refused():
    key = b"\0\0\0\0\1" + b"\xfe\x01" + b"\2" * 127 + b"\2" * 254
    with pytest.raises(ValueError, match="more than 256"):
        SchemaValues(Schemas()).tree("value", b"\4", [("__value_schema_id", key)])
