from typing import ClassVar

import pytest

from bowstring.schemas.compatibility import EXPLAINED_CHARACTERS_MAX, LEVELS, check, explained
from bowstring.schemas.difference import Difference
from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.parsed_schema import ParsedSchema
from bowstring.schemas.parsing import SCHEMA_BYTES_MAX, parse_schema

HUGE = 1 << 40


class Numbered(ParsedSchema):
    """Reads what was written with an equal or smaller number."""

    kind: ClassVar[str] = "NUMBERED"

    def __init__(self, number: int) -> None:
        self.number = number

    @property
    def canonical(self) -> str:
        return "n" * self.number

    @property
    def name(self) -> None:
        return None

    def normalized(self) -> ParsedSchema:
        return self

    def formatted(self, format: str) -> str:
        return self.canonical

    def differences(self, previous: ParsedSchema, is_lenient: bool = False) -> list[Difference]:
        assert isinstance(previous, Numbered)
        if previous.number == HUGE:
            raise InvalidSchemaError("it takes too long")
        if previous.number <= self.number:
            return []
        return [Difference("TOO_LARGE", "/", "the {writer} schema is above the {reader} one", "n")]


class Other(Numbered):
    kind = "OTHER"


@pytest.mark.parametrize(
    ("level", "number", "compatible"),
    [
        ("NONE", 1, True),
        ("BACKWARD", 5, True),
        ("BACKWARD", 4, False),
        ("BACKWARD_TRANSITIVE", 8, False),
        ("BACKWARD_TRANSITIVE", 9, True),
        ("FORWARD", 5, True),
        ("FORWARD", 6, False),
        ("FORWARD_TRANSITIVE", 4, False),
        ("FORWARD_TRANSITIVE", 3, True),
        ("FULL", 5, True),
        ("FULL", 6, False),
        ("FULL", 4, False),
        ("FULL_TRANSITIVE", 5, False),
    ],
)
def test_levels_say_who_reads_whose_data(level, number, compatible):
    previous = [Numbered(5), Numbered(9), Numbered(3)]
    assert (check(level, Numbered(number), previous) == []) is compatible


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_a_first_schema_fits_every_level(level):
    assert check(level, Numbered(1), []) == []


def test_differences_name_both_schemas_and_the_older_one():
    previous = [Numbered(5), Numbered(9)]
    (backward,) = check("BACKWARD_TRANSITIVE", Numbered(6), previous)
    assert backward.description == "the old schema is above the new one"
    assert backward.previous == 1
    (forward,) = check("FULL", Numbered(6), previous)
    assert forward.description == "the new schema is above the old one"
    assert explained([backward], previous, [2, 1]) == [
        "{errorType:'TOO_LARGE', description:'the old schema is above the new one', additionalInfo:'n'}",
        "{oldSchemaVersion: 1}",
        "{oldSchema: 'nnnnnnnnn'}",
    ]


def test_long_schemas_are_cut_in_explanations():
    previous = [Numbered(EXPLAINED_CHARACTERS_MAX + 1)]
    (found,) = check("BACKWARD", Numbered(1), previous)
    assert explained([found], previous)[-1].startswith("{oldSchema: <truncated> 'nnn")
    assert len(explained([found], previous)[-1]) < EXPLAINED_CHARACTERS_MAX + 50


def test_a_schema_of_another_type_is_incompatible():
    (found,) = check("BACKWARD", Other(1), [Numbered(1)])
    assert "OTHER" in found.message()
    assert "NUMBERED" in found.message()
    assert check("NONE", Other(1), [Numbered(1)]) == []


def test_only_known_types_of_limited_size_are_parsed():
    with pytest.raises(InvalidSchemaError, match="use AVRO, JSON or PROTOBUF"):
        parse_schema("XML", "<a/>")
    with pytest.raises(InvalidSchemaError, match="at most"):
        parse_schema("AVRO", " " * (SCHEMA_BYTES_MAX + 1))


def test_what_cannot_be_compared_is_incompatible():
    (found,) = check("BACKWARD", Numbered(1), [Numbered(HUGE)])
    assert found.message() == "{errorType:'NOT_COMPARABLE', description:'it takes too long'}"


def test_the_lenient_policy_lets_properties_leave_closed_json_objects():
    closed = '{"type":"object","properties":{%s},"additionalProperties":false}'
    old, new = (parse_schema("JSON", closed % text) for text in ('"a":{},"b":{}', '"a":{}'))
    assert check("BACKWARD", new, [old])
    assert check("BACKWARD", new, [old], is_lenient=True) == []


def test_schemas_are_equivalent_by_kind_and_text():
    assert Numbered(1).equivalent(Numbered(1))
    assert not Numbered(1).equivalent(Numbered(2))
    assert not Numbered(1).equivalent(Other(1))
    assert not Numbered(1).has_top_level_field("n")
    assert Numbered(1).normalized().canonical == "n"
