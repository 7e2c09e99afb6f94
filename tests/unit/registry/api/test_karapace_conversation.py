"""The same requests as Karapace was sent: answers agree, but for the differences that are named here.

`karapace.json` has the facts of Karapace's answers: `python -m tests.support.conversations registry URL FILE` records
them. docs/internals/karapace.md says why each kind of difference is wanted.
"""

import json
from pathlib import Path

import pytest

from tests.support.conversations.exchange import agree, facts
from tests.support.conversations.registry_conversation import registry_requests
from tests.support.registry_double import RegistryDouble

JSON = "application/vnd.schemaregistry.v1+json"
THEIRS = json.loads(Path(__file__).with_name("karapace.json").read_text())
DIFFERENCES = json.loads(Path(__file__).with_name("differences.json").read_text())
PAGE = Path(__file__).parents[4] / "docs/internals/karapace.md"


@pytest.fixture(scope="module")
def ours():
    registry = RegistryDouble()
    found = {}
    for each in registry_requests():
        status, _, body = registry.ask(each.method, each.target, each.sent, each.headers(JSON).items())
        found[each.name] = facts(status, body)
    return found


def test_every_request_was_recorded(ours):
    assert list(ours) == list(THEIRS)


def test_answers_agree_but_for_the_differences_that_are_named(ours):
    expected = {name: found for kind in DIFFERENCES.values() for name, found in kind.items()}
    different = {name: ours[name] for name in ours if not agree(THEIRS[name], ours[name])}
    assert different == expected


def test_the_page_has_each_kind_of_difference():
    text = PAGE.read_text()
    assert [kind for kind in DIFFERENCES if f"| {kind} |" not in text] == []
