"""One pair of schemas for each kind of change."""

import json

import pytest

from bowstring.schemas.compatibility import check
from bowstring.schemas.json_schema import parse
from bowstring.schemas.json_schema.change_kinds import CHANGE_KINDS, Borne
from tests.support.json_schema_cases import CASES, CLOSED, B


def schema(value):
    return parse(json.dumps(value), ())


@pytest.mark.parametrize(("original", "update", "kinds"), CASES)
def test_changes_have_confluents_names_and_paths(original, update, kinds):
    found = schema(update).changes(schema(original)).listed(100, all_of_them=True)
    assert sorted(f"{kind} {path}" for kind, path in found) == sorted(kinds)


@pytest.mark.parametrize(("original", "update", "kinds"), CASES)
def test_readers_bear_what_the_table_says(original, update, kinds):
    old, new = schema(original), schema(update)
    names = [kind.split()[0] for kind in kinds]
    strict = {name for name in names if CHANGE_KINDS[name].borne is not Borne.ALWAYS}
    never = {name for name in names if CHANGE_KINDS[name].borne is Borne.NEVER}
    assert {each.kind for each in new.differences(old)} == strict
    assert {each.kind for each in new.differences(old, is_lenient=True)} == never
    assert bool(check("BACKWARD", new, [old])) is bool(strict)
    assert bool(check("FORWARD", old, [new])) is bool(strict)


def test_there_is_a_case_for_every_kind():
    assert {kind.split()[0] for _, _, kinds in CASES for kind in kinds} == set(CHANGE_KINDS)


def test_a_message_names_the_kind_the_path_and_both_schemas():
    (found,) = check("BACKWARD", schema({**CLOSED, **B, "required": ["b"]}), [schema(CLOSED)])
    message = found.message()
    assert "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL" in message
    assert "#/properties/b" in message
    assert "new schema" in message
