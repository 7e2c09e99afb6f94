"""The console's pages of schemas: subjects, versions, texts, and what hides them."""

import html

import pytest
from starlette.testclient import TestClient

import bowstring
from bowstring.console.app import create_app
from bowstring.console.options import ConsoleOptions
from tests.support.schema_registry_double import schema_registry

AVRO = {"schema": '{"type":"record","name":"Order","fields":[{"name":"pears","type":"int"}]}'}
PROTO = {"schema": 'syntax = "proto3";\nmessage Order { int32 pears = 1; }\n', "schemaType": "PROTOBUF"}
HOSTILE = {"schema": '{"type":"enum","name":"E","symbols":["A"],"doc":"<script>alert(1)</script>"}'}


@pytest.fixture(scope="module")
def registry():
    with schema_registry() as double:
        double.add("orders-value", AVRO)
        double.add("orders-value", HOSTILE)
        double.add("orders-key", {"schema": '"string"'})
        double.add("shop.Order", PROTO)
        yield double


@pytest.fixture(scope="module")
def broker():
    with bowstring.Broker() as broker, bowstring.Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders")
        yield broker


@pytest.fixture
def pages(broker, registry):
    options = ConsoleOptions(broker.bootstrap_servers, schema_registry=registry.url)
    with TestClient(create_app(options), base_url="http://localhost:8080") as client:
        yield client


def test_subjects_are_listed_with_their_topics(pages):
    listed = pages.get("/schemas").text
    assert all(
        each in listed for each in ("orders-value", "orders-key", "shop.Order", 'href="/topics/orders"')
    )
    found = pages.get("/schemas?q=SHOP").text
    assert "shop.Order" in found and "orders-value" not in found


def test_a_schema_is_shown_as_it_was_registered(pages, registry):
    newest = pages.get("/schemas/one?subject=orders-value")
    assert newest.status_code == 200 and "<script>alert" not in newest.text
    assert "<script>alert(1)</script>" in html.unescape(newest.text) and "Version 1" in newest.text
    first = html.unescape(pages.get("/schemas/one?subject=orders-value&version=1").text)
    assert '"name": "pears"' in first and "AVRO" in first
    proto = html.unescape(pages.get("/schemas/one?subject=shop.Order").text)
    assert "int32 pears = 1;" in proto and "PROTOBUF" in proto


@pytest.mark.parametrize(
    "query", ["subject=none", "", "subject=orders-value&version=9", "subject=orders-value&version=x"]
)
def test_what_is_not_there_is_not_found(pages, query):
    page = pages.get(f"/schemas/one?{query}")
    assert page.status_code == 404
    assert "no subject" in page.text or "no such version" in page.text


def test_without_a_registry_the_page_says_what_to_do(broker):
    with TestClient(
        create_app(ConsoleOptions(broker.bootstrap_servers)), base_url="http://localhost:8080"
    ) as client:
        for path in ("/schemas", "/schemas/one?subject=x"):
            assert "--schema-registry" in client.get(path).text


def test_a_registry_that_is_away_is_named(broker):
    options = ConsoleOptions(broker.bootstrap_servers, schema_registry="http://127.0.0.1:1")
    with TestClient(create_app(options), base_url="http://localhost:8080") as client:
        page = client.get("/schemas")
        assert page.status_code == 200 and "check its address" in page.text
