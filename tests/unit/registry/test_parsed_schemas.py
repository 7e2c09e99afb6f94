"""Parsed schemas are kept up to a bound, and parsed once."""

import pytest

from bowstring.registry.parsed_schemas import ParsedSchemas
from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.resolved_reference import ResolvedReference
from tests.support.registry_log import record_text


def test_a_text_and_its_canonical_form_are_parsed_once():
    cache = ParsedSchemas()
    parsed = cache.parse("AVRO", '{"type": "int"}')
    assert cache.parse("AVRO", '{"type": "int"}') is parsed
    assert cache.parse("AVRO", '"int"') is parsed
    assert len(cache) == 2


def test_references_make_another_schema():
    cache = ParsedSchemas()
    outer = '{"type":"record","name":"B","fields":[{"name":"a","type":"A"}]}'
    one, other = (
        cache.parse("AVRO", outer, [ResolvedReference("A", "a", version, text)])
        for version, text in ((1, record_text("A")), (2, record_text("A", "x")))
    )
    assert one.meaning != other.meaning


def test_the_oldest_go():
    cache = ParsedSchemas(count_max=4)
    first = cache.parse("AVRO", record_text("R0"))
    for i in range(1, 5):
        cache.parse("AVRO", record_text(f"R{i}"))
    assert len(cache) == 4
    assert cache.parse("AVRO", record_text("R0")) is not first


def test_long_texts_leave_room_for_few():
    cache = ParsedSchemas(chars_max=10_000)
    for i in range(20):
        cache.parse("AVRO", record_text(f"R{i}", "x" * 3000))
    assert len(cache) == 3


def test_what_was_stored_may_break_rules_for_new_schemas():
    cache = ParsedSchemas()
    wrong_default = '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}'
    parsed = cache.parse("AVRO", wrong_default, is_new=False)
    assert cache.parse("AVRO", wrong_default, is_new=False) is parsed
    with pytest.raises(InvalidSchemaError):
        cache.parse("AVRO", wrong_default)
