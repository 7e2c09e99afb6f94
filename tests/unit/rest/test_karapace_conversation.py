"""Requests of v2 as Karapace's REST proxy was sent them: answers agree, but for the differences that are named.

`karapace.json` has the facts of Karapace's answers, `differences.json` ours where they are others, by kind;
docs/internals/karapace.md says why. `python -m tests.support.conversations rest URL FILE BROKERS` records them.
"""

import json
from pathlib import Path

import pytest

from bowstring.rest.app import RestApp
from bowstring.rest.options import RestOptions
from tests.support.conversations.__main__ import rest_facts
from tests.support.conversations.exchange import agree
from tests.support.registry_double import RegistryDouble
from tests.support.served_site import served

THEIRS = json.loads(Path(__file__).with_name("karapace.json").read_text())
DIFFERENCES = json.loads(Path(__file__).with_name("differences.json").read_text())
PAGE = Path(__file__).parents[3] / "docs/internals/karapace.md"


@pytest.fixture(scope="module")
def ours(bootstrap):
    with served(RegistryDouble().app) as registry:
        options = RestOptions(bootstrap, schema_registry=registry.url)
        with served(RestApp(options)) as site:
            return rest_facts(site.url, bootstrap)


def test_answers_agree_but_for_the_differences_that_are_named(ours):
    assert list(ours) == list(THEIRS)
    expected = {name: found for kind in DIFFERENCES.values() for name, found in kind.items()}
    assert {name: ours[name] for name in ours if not agree(THEIRS[name], ours[name])} == expected


def test_the_page_has_each_kind_of_difference():
    text = PAGE.read_text()
    assert [kind for kind in DIFFERENCES if f"| {kind} |" not in text] == []
