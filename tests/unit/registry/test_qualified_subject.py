"""Names of subjects and contexts, as Confluent's registry reads them."""

import pytest

from bowstring.registry.qualified_subject import (
    in_context_of,
    is_default_context,
    is_valid,
    normalized,
    normalized_context,
    parse,
)


@pytest.mark.parametrize(
    ("name", "context", "subject"),
    [
        ("a", ".", "a"),
        ("", ".", ""),
        (":a", ".", ":a"),
        (":.c:a", ".c", "a"),
        (":.c:", ".c", ""),
        (":.c", ".c", ""),
        (":.:a", ".", "a"),
        (":.c:a:b", ".c", "a:b"),
        (":*:a", "*", "a"),
        ("*", ".", "*"),
    ],
)
def test_names_are_split(name, context, subject):
    assert parse(name) == (context, subject)


def test_names_are_written_in_one_way():
    assert normalized(":.:a") == "a"
    assert normalized(":.c") == ":.c:"
    assert normalized(":.c:a") == ":.c:a"


@pytest.mark.parametrize(
    ("parent", "name", "full"),
    [
        ("p", "a", "a"),
        (":.c:p", "a", ":.c:a"),
        (":.c:p", ":.d:a", ":.d:a"),
        ("p", ":.d:a", ":.d:a"),
        ("p", ":.:a", "a"),
    ],
)
def test_references_are_in_the_context_of_their_schema(parent, name, full):
    assert in_context_of(parent, name) == full


def test_contexts_are_written_in_one_way():
    assert [normalized_context(each) for each in ("c", ".c", ":.c:", ":c", ".", "", ":.:")] == [
        *[":.c:"] * 4,
        *[""] * 3,
    ]
    with pytest.raises(ValueError, match="colon"):
        normalized_context("a:b")


def test_which_names_may_have_schemas_and_settings():
    assert all(is_valid(each) for each in ("a", "", ":.c:a", "*", "a b", "ü"))
    assert not any(
        is_valid(each) for each in ("a\n", "\x7f", "\x85", "__GLOBAL", ":.c:__EMPTY", ":.__GLOBAL:a")
    )
    assert is_valid(":.__GLOBAL:", for_settings=True)
    assert [each for each in (None, "", ":.:", ":.", ":.c:", "a") if is_default_context(each)] == [
        None,
        "",
        ":.:",
        ":.",
    ]
