"""The property `confluent:version`: which registrations and lookups are of one schema.

The steps and ids are those of Confluent's registry.
"""

import pytest

from bowstring.registry.operations.deletion import decide_delete_version
from bowstring.registry.operations.lookup import look_up
from bowstring.registry.operations.modes import decide_set_mode
from bowstring.registry.operations.registration import decide_register
from bowstring.registry.operations.versions import schema_by_version
from tests.support.registry_log import RegistryLog, code

SCHEMA = '{"type":"record","name":"R","fields":[{"name":"f","type":"string"}]}'


def numbered(number):
    return {"properties": {"confluent:version": str(number)}}


OWN = {"properties": {"mykey": "myvalue"}}


class Subject:
    """Registrations and lookups of one schema."""

    def __init__(self):
        self.log = RegistryLog()

    def register(self, version=None, metadata=None):
        """The id, and the version that is the latest afterwards with its `confluent:version`."""
        body = {"schema": SCHEMA, "version": version, "metadata": metadata}
        schema_id = self.log.do(decide_register, "a", body)["id"]
        return schema_id, *self.seen(schema_by_version(self.log.image, "a", "latest"))

    def look_up(self, metadata=None, **options):
        return self.seen(look_up(self.log.image, "a", {"schema": SCHEMA, "metadata": metadata}, **options))

    @staticmethod
    def seen(schema):
        properties = schema.get("metadata", {}).get("properties", {})
        return schema["version"], properties.get("confluent:version")


def test_registrations_and_lookups():
    subject = Subject()
    assert subject.register() == (1, 1, None)
    assert subject.register(-1) == (1, 1, None)
    assert subject.register(2) == (2, 2, "2")
    assert subject.register(-1) == (2, 2, "2")
    assert subject.look_up() == (1, None)
    assert subject.look_up(numbered(1)) == (1, None)
    assert subject.look_up(numbered(2)) == (2, "2")
    subject.log.do(decide_delete_version, "a", "1")
    assert subject.look_up() == (2, "2")
    assert subject.register() == (2, 2, "2")
    assert subject.register(3) == (3, 3, "3")
    assert subject.register(-1) == (3, 3, "3")
    assert code(subject.register, 3) == 42201
    assert subject.register(4) == (4, 4, "4")
    assert subject.look_up() == (4, "4")
    assert subject.register(metadata=numbered(-1)) == (5, 5, "5")
    assert subject.register(metadata=numbered(2)) == (2, 5, "5")
    assert subject.register(metadata=numbered(3)) == (3, 5, "5")
    assert subject.register(metadata=numbered(0)) == (6, 6, "6")
    assert subject.register(metadata={}) == (6, 6, "6")
    assert subject.register(metadata=OWN) == (7, 7, None)
    assert subject.register(-1) == (8, 8, "8")
    assert subject.look_up(OWN) == (7, None)
    subject.log.do(decide_delete_version, "a", "7")
    assert subject.look_up(OWN) == (8, "8")


@pytest.mark.parametrize("metadata", [None, OWN])
def test_an_import_comes_again_with_its_version_and_id(metadata):
    subject = Subject()
    subject.log.do(decide_set_mode, None, {"mode": "IMPORT"})
    for version in (1, 2, 1):
        body = {"schema": SCHEMA, "version": version, "id": 7, "metadata": metadata}
        answer = subject.log.do(decide_register, "a", body)
        assert (answer["id"], answer["version"]) == (7, version)
    assert len(subject.log.records) == 4
    assert subject.look_up(metadata)[0] == 2
