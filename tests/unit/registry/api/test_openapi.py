"""The registry's OpenAPI document: every route, and what routes answer."""

import json
import re
from pathlib import Path

import pytest

from bowstring.registry.api import registry_app
from tests.support.registry_double import RegistryDouble, record_schema


@pytest.fixture(scope="module")
def document():
    status, headers, body = RegistryDouble().ask("GET", "/openapi.json")
    assert (status, headers["content-type"]) == (200, "application/json")
    return json.loads(body)


def test_the_document_has_every_route_once(document):
    names = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert len(names) == len(set(names))
    assert {"registerSchema", "getMode", "getModeGlobal", "getServerVersion", "metrics"} <= set(names)


def test_schemas_that_are_named_exist(document):
    names = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert names == set(document["components"]["schemas"])


def test_query_parameters_are_those_that_routes_read(document):
    """Those of the source, so that none is missing in the document."""
    folder = Path(registry_app.__file__).parent
    text = "".join(each.read_text() for each in folder.glob("*_routes.py"))
    read = set(re.findall(r'target\.(?:text|texts|flag|number)\(\s*"(\w+)"', text)) | {"offset", "limit"}
    described = {
        parameter["name"]
        for path in document["paths"].values()
        for each in path.values()
        for parameter in each.get("parameters", ())
        if parameter["in"] == "query"
    }
    assert described == read


def test_head_and_a_changed_document_of_others(document):
    assert RegistryDouble().ask("HEAD", "/openapi.json")[0] == 200
    registry = RegistryDouble()
    registry.json("POST", "/subjects/a/versions", {"schema": record_schema("x")})
    assert registry.json("GET", "/openapi.json")[1] == document
