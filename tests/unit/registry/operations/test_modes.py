"""Modes: where they are set, what import mode needs, what deleting them takes along."""

import pytest

from bowstring.registry.operations import deletion, modes, registration
from bowstring.registry.registry_defaults import RegistryDefaults
from tests.support.registry_log import RegistryLog, code


@pytest.fixture
def log():
    return RegistryLog()


def put(log, subject, mode, **options):
    return log.do(modes.decide_set_mode, subject, {"mode": mode}, **options)


def test_a_mode_is_looked_for_in_the_subject_its_context_and_everywhere(log):
    def scoped(subject):
        return modes.mode(log.image, subject, default_to_global=True)["mode"]

    assert scoped("a") == scoped(None) == "READWRITE"
    put(log, ":.__GLOBAL:", "READONLY")
    assert (scoped("a"), scoped(":.c:a")) == ("READONLY", "READONLY")
    put(log, None, "READWRITE")
    assert (scoped("a"), scoped(":.c:a")) == ("READWRITE", "READONLY")
    put(log, ":.c:", "IMPORT")
    put(log, ":.c:b", "readonly_override")
    assert (scoped(":.c:a"), scoped(":.c:b")) == ("IMPORT", "READONLY_OVERRIDE")


def test_subjects_have_no_mode_of_their_own_until_it_is_set(log):
    assert modes.mode(log.image) == {"mode": "READWRITE"}
    assert code(modes.mode, log.image, "a") == 40409
    put(log, "a", "READONLY")
    assert modes.mode(log.image, "a") == {"mode": "READONLY"}
    assert put(log, "a", None) == {"mode": None}
    assert code(modes.mode, log.image, "a") == 40409


def test_import_mode_needs_an_empty_place(log):
    log.do(registration.decide_register, "a", {"schema": '"int"'})
    for place in ("a", None, ":.__GLOBAL:"):
        assert code(put, log, place, "IMPORT") == 42205
    put(log, ":.c:", "IMPORT")
    put(log, "b", "IMPORT")
    put(log, "a", "IMPORT", force=True)


def test_import_mode_deletes_what_is_soft_deleted_already(log):
    log.do(registration.decide_register, "a", {"schema": '"int"'})
    log.do(deletion.decide_delete_subject, "a")
    put(log, None, "IMPORT")
    assert log.image.schema_count() == 0
    assert (b'{"keytype":"CLEAR_SUBJECT","magic":0}', b"{}") in [each[1:] for each in log.records]


def test_import_mode_keeps_what_others_refer_to(log):
    log.do(registration.decide_register, "a", {"schema": '{"type":"record","name":"R","fields":[]}'})
    needs = [{"name": "R", "subject": "a", "version": 1}]
    schema = '{"type":"record","name":"B","fields":[{"name":"r","type":"R"}]}'
    log.do(registration.decide_register, "b", {"schema": schema, "references": needs})
    log.do(deletion.decide_delete_subject, "b")
    log.do(deletion.decide_delete_subject, "a")
    assert code(put, log, "a", "IMPORT") == 42206


def test_clear_subject_forgets_soft_deleted_versions_of_others_records(log):
    for subject in ("a", ":.c:a"):
        log.do(registration.decide_register, subject, {"schema": '"int"'})
        log.do(registration.decide_register, subject, {"schema": '"long"'})
        log.do(deletion.decide_delete_version, subject, "1")
    log.append(b'{"keytype":"CLEAR_SUBJECT","subject":":.c:","magic":0}', b'{"subject":":.c:"}')
    assert log.image.version(":.c:a", 1) is None
    assert log.image.version(":.c:a", 2) is not None
    assert log.image.version("a", 1) is not None


@pytest.mark.parametrize("body", [{}, [], {"mode": 1}, {"mode": "SIDEWAYS"}, {"mode": "FORWARD"}])
def test_wrong_modes_are_refused(log, body):
    assert code(log.do, modes.decide_set_mode, None, body) == 42204


def test_forward_mode_is_for_all_contexts(log):
    assert put(log, ":.__GLOBAL:", "FORWARD") == {"mode": "FORWARD"}
    assert code(put, log, ":.c:", "FORWARD") == 42204


def test_deleting_a_mode_answers_it_and_may_go_into_the_context(log):
    for place in (":.c:", ":.c:a", ":.c:b", "a"):
        put(log, place, "READONLY")
    assert log.do(modes.decide_delete_mode, ":.c:a") == {"mode": "READONLY"}
    assert code(log.do, modes.decide_delete_mode, ":.c:a") == 40401
    assert log.do(modes.decide_delete_mode, ":.c:", recursive=True) == {"mode": "READONLY"}
    assert log.image.modes == {"a": "READONLY"}
    assert log.do(modes.decide_delete_mode, ":.d:", recursive=True) == {}
    assert log.do(modes.decide_delete_mode, None, recursive=True) == {"mode": "READWRITE"}
    assert log.image.modes == {}


def test_modes_can_be_fixed():
    log = RegistryLog(RegistryDefaults(mode_mutability=False))
    assert code(put, log, None, "READONLY") == 42205
    assert code(log.do, modes.decide_delete_mode, None) == 42205
