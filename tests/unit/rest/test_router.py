"""bowstring.rest.router and the table of operations."""

import re

import pytest
from msgspec import json

from bowstring.rest.app import operations
from bowstring.rest.openapi import document
from bowstring.rest.router import Router
from bowstring.web.http_error import HttpError

ROUTER = Router(operations())
CLUSTER = "/v3/clusters/c"


@pytest.mark.parametrize(
    ("method", "path", "name", "parameters"),
    [
        ("GET", "/v3/clusters", "listKafkaClusters", {}),
        ("HEAD", "/v3/clusters/", "listKafkaClusters", {}),
        ("GET", f"{CLUSTER}/topics/-/configs", "listKafkaAllTopicConfigs", {"cluster_id": "c"}),
        (
            "GET",
            f"{CLUSTER}/topics/t/configs",
            "listKafkaTopicConfigs",
            {"cluster_id": "c", "topic_name": "t"},
        ),
        (
            "POST",
            f"{CLUSTER}/topics/t/configs:alter",
            "updateKafkaTopicConfigBatch",
            {"cluster_id": "c", "topic_name": "t"},
        ),
        (
            "POST",
            f"{CLUSTER}/topics/t/records:batch",
            "produceRecordsBatch",
            {"cluster_id": "c", "topic_name": "t"},
        ),
        (
            "GET",
            f"{CLUSTER}/consumer-groups/a%2Fb%20c",
            "getKafkaConsumerGroup",
            {"cluster_id": "c", "consumer_group_id": "a/b c"},
        ),
    ],
)
def test_finds_operations(method, path, name, parameters):
    operation, found = ROUTER.find(method, path)
    assert (operation.name, found) == (name, parameters)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/", 405),
        ("GET", "/v3/clusters//topics", 404),
        ("PUT", "/v3/clusters", 405),
        ("GET", "/v4", 404),
    ],
)
def test_refuses_other_paths(method, path, status):
    with pytest.raises(HttpError) as refusal:
        ROUTER.find(method, path)
    assert refusal.value.status == status


def test_the_document_has_every_operation_and_schema():
    found = json.decode(document(operations()))
    names = [each["operationId"] for path in found["paths"].values() for each in path.values()]
    assert len(names) == len(set(names))
    assert {each.name for each in operations()} < set(names)
    references = re.findall(rb'"#/components/schemas/(\w+)"', document(operations()))
    assert {each.decode() for each in references} <= set(found["components"]["schemas"])
