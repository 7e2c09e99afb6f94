"""The declared versions of every API beside the definitions in the jar of Kafka's clients."""

import json
import re
import zipfile
from typing import Any

import pytest

from bench.peers import install
from bowstring.engine.api.table import BY_BROKER
from bowstring.protocol import API_VERSIONS
from tests.support import peers


@pytest.fixture(scope="module")
def definitions() -> dict[int, dict[str, Any]]:
    """The JSON of each request that Kafka still has, by API key."""
    peers.tool("mvn", "Maven (Debian: maven)")
    jar = install.kafka_clients_jar()
    found = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"common/message/\w+Request\.json", name):
                text = archive.read(name).decode()
                definition = json.loads(re.sub(r"(?m)//[^\"\n]*$|^\s*//.*$", "", text))
                if definition["validVersions"] != "none":
                    found[definition["apiKey"]] = definition
    return found


def test_every_api_of_kafka_is_declared(definitions: dict[int, dict[str, Any]]) -> None:
    assert set(API_VERSIONS) == set(definitions)


@pytest.mark.parametrize("key", list(API_VERSIONS))
def test_an_api_has_the_versions_that_kafka_holds_for_final(
    definitions: dict[int, dict[str, Any]], key: int
) -> None:
    definition, api = definitions[key], API_VERSIONS[key]
    lowest, _, highest = definition["validVersions"].partition("-")
    newest = int(highest or lowest)
    final = newest - 1 if definition.get("latestVersionUnstable", False) else newest
    assert f"{api.name}Request" == definition["name"]
    assert (api.lowest, api.highest, api.highest_declared) == (int(lowest), final, newest)
    assert set(api.served_by) == set(definition["listeners"])
    assert key not in BY_BROKER.offered or "broker" in definition["listeners"]
    flexible = definition["flexibleVersions"]
    first = 0x7FFF if flexible == "none" else max(int(lowest), int(flexible.removesuffix("+")))
    assert api.flexible_from == first
