"""A topic that Karapace wrote says the same to ours: `karapace_topic.json` has its records, and what it answered.

The requests were those of the recorded conversation, see api/test_karapace_conversation.py.
"""

import json
from pathlib import Path

import pytest

from tests.support.registry_double import RegistryDouble

KARAPACE = json.loads(Path(__file__).with_name("karapace_topic.json").read_text())
SUBJECTS = KARAPACE["subjects"]


@pytest.fixture(scope="module")
def ours():
    registry = RegistryDouble()
    for offset, (key, value) in enumerate(KARAPACE["records"]):
        registry.node.image.apply(key.encode(), None if value is None else value.encode(), offset)
    return registry


def answer(registry, target):
    status, found = registry.json("GET", target)
    return found if status == 200 else None


def test_subjects_and_levels(ours):
    with_versions = [name for name, each in SUBJECTS.items() if each["versions"]]
    assert answer(ours, "/subjects?deleted=true") == sorted(with_versions)
    levels = {name: answer(ours, f"/config/{name}") for name in SUBJECTS}
    assert {name: found and found["compatibilityLevel"] for name, found in levels.items()} == {
        name: each["config"] for name, each in SUBJECTS.items()
    }


@pytest.mark.parametrize("subject", [name for name, each in SUBJECTS.items() if each["versions"]])
def test_versions_ids_and_texts(ours, subject):
    assert (answer(ours, f"/subjects/{subject}/versions") or []) == SUBJECTS[subject]["live"]
    versions = answer(ours, f"/subjects/{subject}/versions?deleted=true")
    assert versions == [int(each) for each in SUBJECTS[subject]["versions"]]
    for version, (schema_id, kind, schema, references) in SUBJECTS[subject]["versions"].items():
        found = answer(ours, f"/subjects/{subject}/versions/{version}?deleted=true")
        text = found["schema"] if kind == "PROTOBUF" else json.loads(found["schema"])
        assert (found["id"], found["schemaType"], text) == (schema_id, kind, schema)
        assert found.get("references") == references
        by_id = answer(ours, f"/schemas/ids/{schema_id}")["schema"]
        assert (by_id if kind == "PROTOBUF" else json.loads(by_id)) == schema


def test_the_next_id_is_above_all_of_karapaces(ours):
    status, found = ours.json("POST", "/subjects/next/versions", {"schema": '"bytes"'})
    ids = [each[0] for subject in SUBJECTS.values() for each in subject["versions"].values()]
    assert (status, found["id"]) == (200, max(ids) + 1)


def test_schemas_that_karapace_wrote_are_registered_already(ours):
    for subject in ("avro", "json"):
        schema_id, kind, schema, _ = SUBJECTS[subject]["versions"]["1"]
        body = {"schema": json.dumps(schema, indent=2), "schemaType": kind}
        status, found = ours.json("POST", f"/subjects/{subject}/versions", body)
        assert (status, found["id"], found["version"]) == (200, schema_id, 1)
