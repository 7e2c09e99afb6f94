"""Configs: where they are set, what they inherit, how requests change them."""

import pytest

from bowstring.registry.operations import aliases, configs, modes, registration, schemas
from tests.support.registry_log import RegistryLog, code


@pytest.fixture
def log():
    return RegistryLog()


def put(log, subject, **members):
    return log.do(configs.decide_set_config, subject, members)


def level(log, subject, scoped=True):
    return configs.config(log.image, subject, default_to_global=scoped)["compatibilityLevel"]


def test_a_config_is_looked_for_in_the_subject_its_context_and_everywhere(log):
    assert level(log, "a") == level(log, ":.c:a") == "BACKWARD"
    put(log, ":.__GLOBAL:", compatibility="FORWARD")
    assert (level(log, "a"), level(log, ":.c:a"), level(log, None)) == ("FORWARD", "FORWARD", "FORWARD")
    put(log, None, compatibility="FULL")
    assert (level(log, "a"), level(log, ":.c:a")) == ("FULL", "FORWARD")
    put(log, ":.c:", compatibility="NONE")
    assert (level(log, "a"), level(log, ":.c:a")) == ("FULL", "NONE")
    put(log, ":.c:a", compatibility="full_transitive")
    assert level(log, ":.c:a", scoped=False) == "FULL_TRANSITIVE"


def test_only_the_global_config_is_always_there(log):
    assert configs.config(log.image) == {"compatibilityLevel": "BACKWARD"}
    assert code(configs.config, log.image, "a") == 40408
    assert code(log.do, configs.decide_delete_config, "a") == 40401
    assert log.do(configs.decide_delete_config, None) == {"compatibilityLevel": "BACKWARD"}
    assert log.records == []


def test_the_empty_context_is_the_global_one(log):
    put(log, ":.:", compatibility="FULL")
    assert log.image.configs == {None: {"compatibilityLevel": "FULL"}}
    assert log.do(configs.decide_delete_config, "") == {"compatibilityLevel": "FULL"}
    assert log.image.configs == {}


def test_members_that_are_not_named_stay_and_null_clears(log):
    put(log, "a", compatibility="FULL", normalize=True, alias="b")
    assert put(log, "a", normalize=None) == {"alias": "b", "compatibility": "FULL"}
    assert put(log, "a", compatibility=None, alias="") == {}
    assert log.image.configs == {"a": {}}
    assert level(log, "a", scoped=False) == "BACKWARD"


def test_subjects_inherit_what_is_no_level_from_the_global_config(log):
    put(log, None, compatibility="FULL", normalize=True, compatibilityGroup="g", alias="z")
    put(log, "a", compatibility="NONE")
    assert configs.config(log.image, "a", default_to_global=True) == {
        "normalize": True,
        "compatibilityLevel": "NONE",
        "compatibilityGroup": "g",
    }


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"compatibility": "SIDEWAYS"}, 42203),
        ({"compatibility": 1}, 42203),
        ({"compatibilityPolicy": "LOGICAL"}, 42203),
        ({"compatibilityPolicy": "strct"}, 42203),
        ({"normalize": "yes"}, 400),
        ({"alias": 1}, 400),
        ({"defaultMetadata": []}, 400),
        ({"overrideRuleSet": {"domainRules": [{"name": "a"}]}}, 42210),
    ],
)
def test_wrong_members_are_refused(log, members, expected):
    assert code(put, log, "a", **members) == expected
    assert code(put, log, None, **members) == expected


def test_read_only_subjects_keep_their_config(log):
    put(log, "a", compatibility="FULL")
    log.do(modes.decide_set_mode, "a", {"mode": "READONLY"})
    assert code(put, log, "a", compatibility="NONE") == 42205
    assert code(log.do, configs.decide_delete_config, "a") == 42205


def test_what_may_not_have_schemas_may_not_have_a_config_but_contexts_may(log):
    assert code(put, log, "__GLOBAL", compatibility="FULL") == 42208
    assert put(log, ":.c:", compatibility="FULL") == {"compatibility": "FULL"}


def test_aliases_stand_for_other_subjects(log):
    put(log, "short", alias="a-long-name")
    put(log, ":.c:short", alias="a-long-name")
    put(log, "twice", alias="short")
    assert aliases.resolve(log.image, "short") == "a-long-name"
    assert aliases.resolve(log.image, ":.c:short") == ":.c:a-long-name"
    assert aliases.resolve(log.image, "twice") == "short"
    assert aliases.resolve(log.image, "other") == "other"
    log.do(registration.decide_register, "a-long-name", {"schema": '"int"'})
    assert schemas.list_schemas(log.image, "short") == []
    (found,) = schemas.list_schemas(log.image, "short", aliases=True)
    assert (found["subject"], found["aliases"]) == ("a-long-name", ["short"])
