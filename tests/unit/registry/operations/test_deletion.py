"""Deletes softly, then permanently, and never what others need."""

import pytest

from bowstring.registry.operations import configs, contexts, deletion, modes, registration, schemas, subjects
from tests.support.registry_log import RegistryLog, code, record_text


@pytest.fixture
def log():
    log = RegistryLog()
    for fields in ((), ("x",), ("x", "y")):
        log.do(registration.decide_register, "a", {"schema": record_text("R", *fields)})
    return log


def delete_version(log, subject, version, **options):
    return log.do(deletion.decide_delete_version, subject, version, **options)


def delete_subject(log, subject, **options):
    return log.do(deletion.decide_delete_subject, subject, **options)


def test_a_soft_deleted_version_keeps_its_id(log):
    assert delete_version(log, "a", "latest") == 3
    assert delete_version(log, "a", "latest") == 2
    assert schemas.schema_by_id(log.image, 3)["deleted"] is True
    assert schemas.subjects_of_id(log.image, 3) == []
    assert schemas.subjects_of_id(log.image, 3, deleted=True) == ["a"]


def test_versions_are_deleted_softly_first_and_once(log):
    assert code(delete_version, log, "a", "1", permanent=True) == 40407
    delete_version(log, "a", "1")
    assert code(delete_version, log, "a", "1") == 40406
    assert delete_version(log, "a", "1", permanent=True) == 1
    assert code(delete_version, log, "a", "1", permanent=True) == 40402
    assert code(schemas.schema_by_id, log.image, 1) == 40403


def test_what_is_not_there_cannot_be_deleted(log):
    assert code(delete_version, log, "b", "1") == 40401
    assert code(delete_version, log, "a", "9") == 40402
    assert code(delete_version, log, "a", "0") == 42202
    assert code(delete_version, log, "a", "x") == 42202
    assert code(delete_subject, log, "b") == 40401
    assert code(delete_subject, log, ":.c:") == 40401


def test_subjects_are_deleted_softly_first_and_once(log):
    assert code(delete_subject, log, "a", permanent=True) == 40405
    delete_version(log, "a", "2")
    assert delete_subject(log, "a") == [1, 3]
    assert code(delete_subject, log, "a") == 40404
    assert subjects.list_subjects(log.image) == []
    assert subjects.list_subjects(log.image, deleted=True) == ["a"]
    assert delete_subject(log, "a", permanent=True) == [1, 2, 3]
    assert subjects.list_subjects(log.image, deleted=True) == []


def test_the_last_version_takes_config_and_mode_along(log):
    log.do(configs.decide_set_config, "a", {"compatibility": "FULL"})
    log.do(modes.decide_set_mode, "a", {"mode": "READWRITE"})
    for version in "123":
        delete_version(log, "a", version)
    for version in "12":
        delete_version(log, "a", version, permanent=True)
    assert "a" in log.image.configs
    delete_version(log, "a", "3", permanent=True)
    assert (log.image.configs, log.image.modes) == ({}, {})


def test_referred_versions_stay(log):
    needs = [{"name": "R", "subject": "a", "version": 1}]
    schema = '{"type":"record","name":"B","fields":[{"name":"r","type":"R"}]}'
    log.do(registration.decide_register, "b", {"schema": schema, "references": needs})
    assert code(delete_version, log, "a", "1") == 42206
    assert code(delete_subject, log, "a") == 42206
    delete_subject(log, "b")
    delete_subject(log, "a")
    # A soft delete can be undone, so the reference still counts.
    assert code(delete_subject, log, "a", permanent=True) == 42206
    assert code(delete_version, log, "a", "1", permanent=True) == 42206
    delete_subject(log, "b", permanent=True)
    assert delete_subject(log, "a", permanent=True) == [1, 2, 3]


def test_a_subject_may_refer_to_itself(log):
    needs = [{"name": "R", "subject": "b", "version": 1}]
    log.do(registration.decide_register, "b", {"schema": record_text("R")})
    log.do(configs.decide_set_config, "b", {"compatibility": "NONE"})
    schema = '{"type":"record","name":"B","fields":[{"name":"r","type":"R"}]}'
    log.do(registration.decide_register, "b", {"schema": schema, "references": needs})
    assert delete_subject(log, "b") == [1, 2]
    assert delete_subject(log, "b", permanent=True) == [1, 2]


def test_read_only_subjects_keep_their_versions(log):
    log.do(modes.decide_set_mode, "a", {"mode": "READONLY"})
    assert code(delete_version, log, "a", "1") == 42205
    assert code(delete_subject, log, "a") == 42205


def test_contexts_go_when_they_are_empty(log):
    log.do(registration.decide_register, ":.c:a", {"schema": '"int"'})
    assert contexts.list_contexts(log.image) == [".", ".c"]
    delete_subject(log, ":.c:a")
    assert code(log.do, contexts.decide_delete_context, ":.c:") == 42211
    delete_subject(log, ":.c:a", permanent=True)
    assert log.do(contexts.decide_delete_context, ":.c:") is None
    assert contexts.list_contexts(log.image) == ["."]
    assert contexts.list_contexts(log.image, prefix=".c") == []
