"""Registers schemas: ids, versions, what is the same schema, and what is refused."""

import pytest

from bowstring.registry.operations.compatibility import check_subject
from bowstring.registry.operations.configs import decide_set_config
from bowstring.registry.operations.deletion import decide_delete_subject, decide_delete_version
from bowstring.registry.operations.modes import decide_set_mode
from bowstring.registry.operations.registration import already_registered, decide_register
from bowstring.registry.operations.versions import schema_by_version
from bowstring.registry.registry_defaults import RegistryDefaults
from bowstring.registry.registry_error import RegistryError
from bowstring.registry.topic_records import CONFIG, TopicKey, encode_config
from tests.support.registry_log import RegistryLog, code, record_text


@pytest.fixture
def log():
    return RegistryLog()


def register(log, subject, schema, **members):
    return log.do(decide_register, subject, {"schema": schema, **members})


def test_the_same_schema_has_one_id_in_all_subjects_of_a_context(log):
    ids = [register(log, *each)["id"] for each in (("a", '"int"'), ("b", '"int"'), (":.c:a", '"int"'))]
    assert ids == [1, 1, 1]
    assert register(log, "a2", '"long"')["id"] == 2
    assert register(log, ":.c:a2", '"string"')["id"] == 2


def test_a_schema_that_is_there_needs_no_record(log):
    first = register(log, "a", '"int"')
    count = len(log.records)
    again = register(log, "a", ' { "type" : "int" } ')
    assert (again["id"], again["version"], again["guid"]) == (first["id"], 1, first["guid"])
    assert len(log.records) == count
    assert already_registered(log.image, "a", {"schema": '"int"'}) == again
    assert already_registered(log.image, "b", {"schema": '"int"'}) is None
    assert already_registered(log.image, "a", {"schema": '"int"', "id": 7}) is None


def test_answers_and_guids_are_confluents(log):
    # The guid is the MD5 of the text and what follows it.
    assert register(log, "a", '"string"') == {
        "id": 1,
        "version": 1,
        "guid": "095d71cf-1255-6b9d-5e33-0ad575b3df5d",
        "schemaType": "AVRO",
        "schema": '"string"',
    }


def test_versions_go_up_and_never_come_back(log):
    texts = [record_text("R", *fields) for fields in ((), ("a",), ("a", "b"))]
    assert [register(log, "a", text)["version"] for text in texts[:2]] == [1, 2]
    log.do(decide_delete_version, "a", "2")
    assert register(log, "a", texts[2])["version"] == 3
    assert register(log, "a", texts[1])["version"] == 4


def test_a_schema_comes_back_with_its_id_and_takes_the_place_of_its_deleted_version(log):
    register(log, "a", '"int"')
    log.do(decide_delete_subject, "a")
    assert (register(log, "a", '"int"')["id"], log.image.version("a", 1)) == (1, None)
    assert log.image.version("a", 2).id == 1


def test_a_deleted_version_that_others_need_stays(log):
    register(log, "a", record_text("A"))
    needs = [{"name": "A", "subject": "a", "version": 1}]
    register(log, "b", '{"type":"record","name":"B","fields":[{"name":"a","type":"A"}]}', references=needs)
    log.do(decide_delete_subject, "b")
    log.do(decide_delete_subject, "a")
    assert register(log, "a", record_text("A"))["version"] == 2
    assert log.image.version("a", 1).deleted


def test_incompatible_schemas_are_refused_unless_forced(log):
    register(log, "a", '"int"')
    with pytest.raises(RegistryError) as caught:
        register(log, "a", '"string"')
    assert (caught.value.status, caught.value.code) == (409, 40901)
    assert "TYPE_MISMATCH" in caught.value.message
    assert "compatibility: 'BACKWARD'" in caught.value.message
    assert log.do(decide_register, "a", {"schema": '"string"'}, force=True)["version"] == 2
    log.do(decide_set_config, "a", {"compatibility": "none"})
    assert register(log, "a", '"bytes"')["version"] == 3


def test_transitive_levels_look_at_every_version(log):
    log.do(decide_set_config, None, {"compatibility": "NONE"})
    for text in ('"string"', '"int"'):
        register(log, "a", text)
    log.do(decide_set_config, None, {"compatibility": "BACKWARD"})
    assert register(log, "a", '"long"')["version"] == 3
    log.do(decide_set_config, None, {"compatibility": "BACKWARD_TRANSITIVE"})
    with pytest.raises(RegistryError, match="oldSchemaVersion: 1"):
        register(log, "a", '"double"')


def test_only_versions_of_the_same_group_are_checked(log):
    log.do(decide_set_config, None, {"compatibilityGroup": "major"})

    def in_group(schema, group):
        return register(log, "a", schema, metadata={"properties": {"major": group}})["version"]

    assert in_group('"int"', "1") == 1
    assert in_group('"string"', "2") == 2
    assert in_group('"long"', "1") == 3
    assert code(in_group, '"int"', "2") == 40901


def test_references_are_resolved_numbered_and_in_the_context_of_the_subject(log):
    register(log, ":.c:a", record_text("A"))
    needs = [{"name": "A", "subject": "a", "version": -1}]
    outer = '{"type":"record","name":"B","fields":[{"name":"a","type":"A"}]}'
    assert code(register, log, "b", outer, references=needs) == 42201
    answer = register(log, ":.c:b", outer, references=needs)
    assert answer["references"] == [{"name": "A", "subject": "a", "version": 1}]
    # Written out, it is the same schema.
    written_out = outer.replace('"A"', record_text("A"))
    assert register(log, ":.c:b", written_out)["version"] == 1


def test_deleted_versions_cannot_be_referred_to_anew(log):
    register(log, "a", record_text("A"))
    log.do(decide_delete_subject, "a")
    needs = [{"name": "A", "subject": "a", "version": 1}]
    outer = '{"type":"record","name":"B","fields":[{"name":"a","type":"A"}]}'
    assert code(register, log, "b", outer, references=needs) == 42201


def test_circles_and_crowds_of_references_end():
    log = RegistryLog(RegistryDefaults(references_max=50))
    for i in range(60):
        needs = [{"name": f"R{i - 1}", "subject": f"r{i - 1}", "version": 1}] if i else []
        text = f'{{"type":"record","name":"R{i}","fields":[{{"name":"x","type":"R{i - 1}"}}]}}'
        schema = text if i else record_text("R0")
        if i > 50:
            assert code(register, log, f"r{i}", schema, references=needs) == 42201
            break
        register(log, f"r{i}", schema, references=needs)
    log.do(decide_set_mode, "r0", {"mode": "IMPORT"}, force=True)
    register(log, "r0", record_text("R0"), id=1000, version=2, references=[_reference("R9", "r9")])
    assert code(register, log, "z", record_text("Z"), references=[_reference("R0", "r0", 2)]) == 42201


def _reference(name, subject, version=1):
    return {"name": name, "subject": subject, "version": version}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, 42201),
        ({"schema": "  "}, 42201),
        ({"schema": "{"}, 42201),
        ({"schema": '"\ud800"'}, 42201),
        ({"schema": '"int"', "schemaType": "THRIFT"}, 42201),
        ({"schema": 5}, 400),
        ([], 400),
        ({"schema": '"int"', "version": "x"}, 400),
        ({"schema": '"int"', "id": 2**31}, 400),
        ({"schema": '"int"', "references": {}}, 400),
        ({"schema": '"int"', "references": [{"name": "x"}]}, 400),
        ({"schema": '"int"', "metadata": {"properties": {"a": 1}}}, 400),
        ({"schema": '"int"', "ruleSet": {"domainRules": [{"name": "1x", "type": "T"}]}}, 42210),
        ({"schema": '"int"', "ruleSet": {"domainRules": [{"name": "x"}]}}, 42210),
        (
            {"schema": '"int"', "ruleSet": {"domainRules": [{"name": "x", "type": "T", "mode": "UPGRADE"}]}},
            42210,
        ),
        ({"schema": '"int"', "id": 5}, 42205),
        ({"schema": '"int"', "version": 2}, 42201),
    ],
)
def test_wrong_bodies_are_refused(log, body, expected):
    assert code(log.do, decide_register, "a", body) == expected
    assert log.records == []


@pytest.mark.parametrize("subject", ["__GLOBAL", "__EMPTY", "a\x00", "a\x7f", ":.__GLOBAL:a"])
def test_wrong_subjects_are_refused(log, subject):
    assert code(register, log, subject, '"int"') == 42208


def test_long_schemas_are_refused():
    log = RegistryLog(RegistryDefaults(schema_max_bytes=100))
    assert code(register, log, "a", record_text("R" * 100)) == 42209


@pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE"])
def test_read_only_takes_what_it_has_and_nothing_else(log, mode):
    register(log, "a", '"int"')
    log.do(decide_set_mode, None, {"mode": mode})
    assert register(log, "a", '"int"')["id"] == 1
    assert code(register, log, "a", '"long"') == 42205
    log.do(decide_set_mode, "a", {"mode": "READWRITE"})
    assert register(log, "a", '"long"')["id"] == 2


def test_import_mode_takes_ids_and_versions_as_they_come(log):
    log.do(decide_set_mode, "a", {"mode": "IMPORT"})
    assert code(register, log, "a", '"int"') == 42205
    assert register(log, "a", '"int"', id=100, version=7)["version"] == 7
    assert register(log, "a", '"string"', id=90)["version"] == 8
    assert code(register, log, "a", '"bytes"', id=100) == 42205
    assert register(log, "b", '"long"')["id"] == 101


def test_an_id_that_was_imported_counts_for_other_subjects(log):
    log.do(decide_set_mode, "a", {"mode": "IMPORT"})
    register(log, "a", '"int"', id=100, version=1)
    assert register(log, "b", '"int"')["id"] == 100


def test_metadata_and_rules_make_another_schema_and_are_inherited(log):
    metadata = {"properties": {"owner": "me"}}
    rules = {"domainRules": [{"name": "r", "type": "CEL", "kind": "CONDITION", "mode": "WRITE"}]}
    plain = register(log, "a", record_text("R"))
    with_both = register(log, "a", record_text("R"), metadata=metadata, ruleSet=rules)
    assert with_both["id"] != plain["id"]
    inherited = register(log, "a", record_text("R", "x"))
    assert inherited["metadata"] == metadata
    assert inherited["ruleSet"]["domainRules"][0]["disabled"] is False
    # An empty schema is the latest one, with other metadata.
    again = register(log, "a", "", metadata={"properties": {"owner": "you"}})
    assert (again["schema"], again["metadata"]) == (
        inherited["schema"],
        {"properties": {"owner": "you"}},
    )


def test_defaults_and_overrides_of_the_config_are_merged(log):
    log.do(
        decide_set_config,
        "a",
        {
            "defaultMetadata": {"properties": {"a": "default", "b": "default"}},
            "overrideMetadata": {"properties": {"c": "override"}},
            "overrideRuleSet": {"domainRules": [{"name": "r", "type": "CEL"}]},
        },
    )
    answer = register(log, "a", '"int"', metadata={"properties": {"b": "own", "c": "own"}})
    assert answer["metadata"] == {"properties": {"a": "default", "b": "own", "c": "override"}}
    assert [rule["name"] for rule in answer["ruleSet"]["domainRules"]] == ["r"]


def test_the_version_goes_into_the_metadata_when_it_is_named(log):
    answer = register(log, "a", '"int"', version=-1)
    assert answer["metadata"] == {"properties": {"confluent:version": "1"}}
    answer = register(log, "a", '"long"')
    assert answer["metadata"] == {"properties": {"confluent:version": "2"}}
    # Without the property it is the same schema.
    assert register(log, "a", '"long"', version=-1)["version"] == 2


def test_reserved_fields_are_held_where_fields_are_validated(log):
    log.do(decide_set_config, None, {"validateFields": True})
    reserved = {"properties": {"confluent:reserved": "secret, other"}}
    assert code(register, log, "a", record_text("R", "secret"), metadata=reserved) == 40901
    register(log, "a", record_text("R"), metadata=reserved)
    fewer = {"properties": {"confluent:reserved": "other"}}
    with pytest.raises(RegistryError, match="'secret' is no longer reserved"):
        register(log, "a", record_text("R", "x"), metadata=fewer)


def test_normalized_schemas_are_the_same_in_any_order(log):
    log.do(decide_set_config, None, {"normalize": True})
    one = '{"type":"record","name":"R","fields":[],"aliases":["B","A"]}'
    other = '{"type":"record","name":"R","fields":[],"aliases":["A","B"]}'
    assert register(log, "a", one)["id"] == register(log, "b", other)["id"]


def test_a_format_shapes_the_answer_only(log):
    register(log, "a", record_text("A"))
    needs = [{"name": "A", "subject": "a", "version": 1}]
    outer = '{"type":"record","name":"B","fields":[{"name":"a","type":"A"}]}'
    body = {"schema": outer, "references": needs}
    answer = log.do(decide_register, "b", body, format="resolved")
    assert '"name":"A"' in answer["schema"].replace(" ", "")
    assert schema_by_version(log.image, "b", "1")["schema"] == outer


def test_no_ids_are_left_after_the_last(log):
    log.do(decide_set_mode, "a", {"mode": "IMPORT"})
    register(log, "a", '"int"', id=2**31 - 1, version=1)
    assert code(register, log, "b", '"long"') == 50001


def test_the_lenient_policy_bears_more_changes_of_json_schemas(log):
    closed = '{"type":"object","properties":{%s},"additionalProperties":false}'
    register(log, "a", closed % '"a":{},"b":{}', schemaType="JSON")
    smaller = {"schemaType": "JSON", "schema": closed % '"a":{}'}
    with pytest.raises(RegistryError) as caught:
        log.do(decide_register, "a", smaller)
    assert caught.value.status == 409
    log.do(decide_set_config, "a", {"compatibilityPolicy": "LENIENT"})
    assert log.do(decide_register, "a", smaller)["version"] == 2


def test_a_policy_of_confluents_registry_that_is_not_applied_lets_nothing_in(log):
    register(log, "a", '"int"')
    key, value = log.image.keyed(
        TopicKey(CONFIG, "a"), encode_config("a", {"compatibilityPolicy": "LOGICAL"})
    )[-1]
    log.append(key, value)
    with pytest.raises(RegistryError, match="set STRICT or LENIENT") as caught:
        register(log, "a", '"long"')
    assert caught.value.status == 409
    log.do(decide_set_config, "a", {"compatibilityPolicy": "STRICT"})
    register(log, "a", '"long"')


def nested(kind, depth):
    match kind:
        case "AVRO":
            return '{"type":"array","items":' * depth + '"int"' + "}" * depth
        case "JSON":
            return '{"type":"object","properties":{"a":' * depth + "{}" + "}}" * depth
    opened = "".join(f"message M{i} {{" for i in range(depth))
    return f'syntax="proto3"; {opened} int32 a = 1; {"}" * depth}'


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
@pytest.mark.parametrize("depth", [20, 100, 150, 250, 400, 1000, 20_000])
def test_deep_schemas_are_registered_and_read_or_refused(log, kind, depth):
    body = {"schemaType": kind, "schema": nested(kind, depth)}
    try:
        log.do(decide_register, "a", body, normalize=True)
    except RegistryError as error:
        assert error.code == 42201
        return
    assert log.do(decide_register, "b", body)["version"] == 1
    for format in ("resolved", "serialized", "ignore_extensions"):
        schema_by_version(log.image, "a", "1", format=format)
    check_subject(log.image, "a", {"schemaType": kind, "schema": nested(kind, depth - 1)})
