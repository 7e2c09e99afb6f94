"""Reads: versions, ids, guids, lookups, compatibility, lists and pages."""

import pytest

from bowstring.registry.operations import (
    compatibility,
    configs,
    contexts,
    deletion,
    lookup,
    registration,
    schemas,
    subjects,
    versions,
)
from tests.support.registry_log import RegistryLog, code, record_text

USES_R = '{"type":"record","name":"B","fields":[{"name":"r","type":"R"}]}'
NEEDS_R = [{"name": "R", "subject": "a", "version": 1}]


@pytest.fixture
def log():
    """`a`: versions 1 and 3, 2 is deleted; `b` refers to `a`; `:.c:a`: another schema with id 1."""
    log = RegistryLog()
    for fields in ((), ("x",), ("x", "y")):
        log.do(registration.decide_register, "a", {"schema": record_text("R", *fields)})
    log.do(deletion.decide_delete_version, "a", "2")
    log.do(registration.decide_register, "b", {"schema": USES_R, "references": NEEDS_R})
    log.do(registration.decide_register, ":.c:a", {"schema": record_text("R")})
    log.do(registration.decide_register, ":.c:b", {"schema": USES_R, "references": NEEDS_R})
    return log


def test_versions(log):
    image = log.image
    assert versions.list_versions(image, "a") == [1, 3]
    assert versions.list_versions(image, "a", deleted=True) == [1, 2, 3]
    assert versions.list_versions(image, "a", deleted_only=True) == [2]
    assert versions.list_versions(image, "a", deleted_as_negative=True) == [1, -2, 3]
    assert versions.list_versions(image, "a", deleted=True, offset=1, limit=1) == [2]
    assert code(versions.list_versions, image, "z") == 40401
    assert code(versions.list_versions, image, "a", offset=-1) == 400


def test_one_version(log):
    found = versions.schema_by_version(log.image, "a", "latest")
    assert (found["subject"], found["version"], found["id"], found["ts"]) == ("a", 3, 3, 1002)
    assert versions.schema_by_version(log.image, "a", "1")["schema"] == record_text("R")
    assert versions.text_by_version(log.image, "a", "-1") == found["schema"]
    assert code(versions.schema_by_version, log.image, "a", "2") == 40402
    assert versions.schema_by_version(log.image, "a", "2", deleted=True)["deleted"] is True
    assert code(versions.schema_by_version, log.image, "z", "1") == 40401


@pytest.mark.parametrize("version", ["0", "-2", "x", "", "1.0", "2147483648", "²", "1_0", "9" * 5000])
def test_what_is_no_version(log, version):
    assert code(versions.schema_by_version, log.image, "a", version) == 42202


def test_a_subject_without_a_context_is_looked_for_in_all(log):
    log.do(registration.decide_register, ":.c:only", {"schema": '"int"'})
    assert versions.schema_by_version(log.image, "only", "1")["subject"] == ":.c:only"
    assert lookup.look_up(log.image, "only", {"schema": '"int"'})["subject"] == ":.c:only"
    assert code(versions.schema_by_version, log.image, ":.d:only", "1") == 40401


def test_formats_and_references(log):
    plain = versions.schema_by_version(log.image, ":.c:b", "1")
    assert plain["references"] == NEEDS_R
    qualified = versions.schema_by_version(log.image, ":.c:b", "1", reference_format="qualified")
    assert qualified["references"] == [{"name": "R", "subject": ":.c:a", "version": 1}]
    resolved = versions.schema_by_version(log.image, ":.c:b", "1", format="resolved")
    assert '"fields":[]' in resolved["schema"]
    assert resolved["guid"] == plain["guid"]


def test_referrers(log):
    b = versions.schema_by_version(log.image, "b", "1")["id"]
    assert versions.referenced_by(log.image, "a", "1") == [b]
    assert versions.referenced_by(log.image, ":.c:a", "1") == [2]
    log.do(deletion.decide_delete_subject, "b")
    assert versions.referenced_by(log.image, "a", "1") == []
    assert versions.referenced_by(log.image, "a", "1", deleted=True) == [b]


def test_ids(log):
    image = log.image
    assert schemas.schema_by_id(image, 1)["schema"] == record_text("R")
    assert "maxId" not in schemas.schema_by_id(image, 1)
    assert schemas.schema_by_id(image, 1, fetch_max_id=True)["maxId"] == 4
    assert schemas.schema_by_id(image, 2, ":.c:")["subject"] == ":.c:b"
    assert schemas.schema_by_id(image, 2, "b")["subject"] == ":.c:b"
    assert code(schemas.schema_by_id, image, 9) == 40403
    assert code(schemas.schema_by_id, image, 3, ":.c:") == 40403
    # An unknown subject: the id in its context counts.
    assert schemas.schema_by_id(image, 3, "unknown")["version"] == 3
    assert schemas.text_by_id(image, 1) == record_text("R")


def test_subjects_and_versions_of_an_id(log):
    log.do(registration.decide_register, "z", {"schema": record_text("R")})
    assert schemas.subjects_of_id(log.image, 1) == ["a", "z"]
    assert schemas.versions_of_id(log.image, 1, limit=1) == [{"subject": "a", "version": 1}]
    assert schemas.versions_of_id(log.image, 2, deleted=True) == [{"subject": "a", "version": 2}]
    assert code(schemas.subjects_of_id, log.image, 99) == 40403


def test_guids(log):
    guid = schemas.schema_by_id(log.image, 1)["guid"]
    found = schemas.schema_by_guid(log.image, guid)
    assert found["schema"] == record_text("R")
    assert not {"subject", "version", "id"} & found.keys()
    assert schemas.ids_of_guid(log.image, guid) == [{"context": ".", "id": 1}, {"context": ".c", "id": 1}]
    assert schemas.ids_of_guid(log.image, guid.replace("-", "")) != []
    assert schemas.ids_of_guid(log.image, "x") == []
    assert code(schemas.schema_by_guid, log.image, "x") == 40403


def test_lookups(log):
    assert lookup.look_up(log.image, "a", {"schema": record_text("R")})["version"] == 1
    deleted = {"schema": record_text("R", "x")}
    assert code(lookup.look_up, log.image, "a", deleted) == 40403
    assert lookup.look_up(log.image, "a", deleted, deleted=True)["version"] == 2
    assert code(lookup.look_up, log.image, "z", deleted) == 40401
    assert code(lookup.look_up, log.image, "a", {"schema": "{"}) == 42201
    written_out = USES_R.replace('"R"', record_text("R"))
    assert lookup.look_up(log.image, "b", {"schema": written_out})["version"] == 1


def test_lookups_find_what_registration_would_fill_in(log):
    metadata = {"properties": {"k": "v"}}
    log.do(registration.decide_register, "m", {"schema": '"int"', "metadata": metadata})
    assert lookup.look_up(log.image, "m", {"schema": '"int"'})["metadata"] == metadata


def test_texts_of_other_registries_are_found_however_they_are_spelled(log):
    text = '{"fields": [], "name": "K", "namespace": "x", "type": "record"}'
    spelled = text.replace('"', '\\"').encode()
    log.append(
        b'{"keytype":"SCHEMA","subject":"k","version":1,"magic":1}',
        b'{"subject":"k","version":1,"id":9,"schema":"' + spelled + b'","deleted":false}',
    )
    assert lookup.look_up(log.image, "k", {"schema": text})["id"] == 9
    assert log.do(registration.decide_register, "k", {"schema": text})["id"] == 9
    assert schemas.schema_by_id(log.image, 9)["schema"] == text


def test_latest_with_metadata(log):
    for version in ("1", "2"):
        body = {"schema": '"int"', "metadata": {"properties": {"v": version, "k": "x"}}}
        log.do(registration.decide_register, "m", body)
    assert versions.latest_with_metadata(log.image, "m", ["k"], ["x"])["version"] == 2
    assert versions.latest_with_metadata(log.image, "m", ["k", "v"], ["x", "1"])["version"] == 1
    assert code(versions.latest_with_metadata, log.image, "m", ["k"], ["y"]) == 40403
    assert code(versions.latest_with_metadata, log.image, "zz", ["k"], ["y"]) == 40401


def test_compatibility(log):
    wrong = {"schema": '"int"'}
    assert compatibility.check_version(log.image, "a", "latest", {"schema": record_text("R")}) == {
        "is_compatible": True
    }
    assert compatibility.check_version(log.image, "new", "latest", wrong) == {"is_compatible": True}
    found = compatibility.check_version(log.image, "a", "1", wrong, verbose=True)
    assert found["is_compatible"] is False
    assert found["messages"][-2:] == [
        f"{{oldSchema: '{record_text('R')}'}}",
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    ]
    assert compatibility.check_subject(log.image, "a", wrong) == {"is_compatible": False}
    assert code(compatibility.check_version, log.image, "a", "2", wrong) == 40402
    assert code(compatibility.check_version, log.image, "a", "1", {"schema": "{"}) == 42201
    found = compatibility.check_subject(log.image, "a", {"schema": ""}, verbose=True)
    assert (found["is_compatible"], len(found["messages"])) == (False, 1)
    log.do(configs.decide_set_config, "a", {"compatibility": "NONE"})
    assert compatibility.check_subject(log.image, "a", wrong) == {"is_compatible": True}


def test_lists_of_subjects(log):
    assert subjects.list_subjects(log.image) == [":.c:a", ":.c:b", "a", "b"]
    assert subjects.list_subjects(log.image, "") == ["a", "b"]
    assert subjects.list_subjects(log.image, offset=1, limit=2) == [":.c:b", "a"]
    log.do(deletion.decide_delete_subject, "b")
    assert subjects.list_subjects(log.image, "", deleted=True) == ["a", "b"]
    assert subjects.list_subjects(log.image, "", deleted_only=True, deleted=True) == ["b"]


def test_lists_of_schemas(log):
    def listed(*arguments, **options):
        found = schemas.list_schemas(log.image, *arguments, **options)
        return [(each["subject"], each["version"]) for each in found]

    assert listed() == [("a", 1), ("a", 3), ("b", 1)]
    assert listed("a", deleted=True) == [("a", 1), ("a", 2), ("a", 3)]
    assert listed(":*:a", latest_only=True) == [(":.c:a", 1), ("a", 3)]
    rules = {"domainRules": [{"name": "r", "type": "CEL"}]}
    log.do(registration.decide_register, "rules", {"schema": '"int"', "ruleSet": rules})
    assert listed(":*:", rule_type="CEL") == [("rules", 1)]


def test_lists_of_contexts_and_types(log):
    assert contexts.list_contexts(log.image) == [".", ".c"]
    assert set(schemas.kinds()) == {"AVRO", "JSON", "PROTOBUF"}


@pytest.mark.parametrize(
    ("kind", "text"),
    [("JSON", '{"type": "object"}'), ("PROTOBUF", 'syntax = "proto3";\n\nmessage M {\n  int32 a = 1;\n}\n')],
)
def test_other_types(log, kind, text):
    body = {"schemaType": kind, "schema": text}
    schema_id = log.do(registration.decide_register, "t", body)["id"]
    found = schemas.schema_by_id(log.image, schema_id)
    assert found["schemaType"] == kind
    assert lookup.look_up(log.image, "t", body)["version"] == 1
    assert compatibility.check_subject(log.image, "t", {"schema": '"int"'}) == {"is_compatible": False}
