"""Answers of every operation to requests that schemathesis makes of the OpenAPI document."""

import json

import bowstring
from bowstring.rest.app import RestApp
from bowstring.rest.options import RestOptions
from tests.support.api_cases import change_body, check_answers, chosen
from tests.support.registry_double import RegistryDouble
from tests.support.rest_client import RestClient
from tests.support.served_site import served

TOPICS = ["answers-1", "answers-2", "answers-none", "n%C3%B6"]
KNOWN = {
    "topic_name": TOPICS,
    "partition_id": [0, 0, 1, 7],
    "broker_id": [0, 1, 2],
    "name": ["retention.ms", "cleanup.policy", "log.retention.ms", "nothing"],
    "consumer_group_id": ["answers", "nobody"],
    "group_name": ["answers"],
    "instance": ["one", "two"],
}


def small(body):
    """A body that makes few partitions, of topics of this test."""
    if isinstance(body.get("partitions_count"), int):
        body["partitions_count"] = min(body["partitions_count"], 3)
    if "topic_name" in body:
        body["topic_name"] = chosen(TOPICS, body)
    body.pop("replicas_assignments", None)
    return body


def adapt(case):
    """Does not wait for records that never come."""
    query = case.query
    if query.get("format") == "events":
        query["format"] = "csv"
    if "timeout" in query:
        query["timeout"] = 1
    if case.operation.path.endswith("/records") and case.method == "GET":
        case.headers = {**(case.headers or {}), "accept": "*/*"}
    change_body(case, small)


def test_answers_are_those_of_the_document():
    # A broker of its own, because requests change its configs.
    with bowstring.Broker() as broker, served(RegistryDouble().app) as registry:
        with bowstring.Admin(broker.bootstrap_servers) as admin:
            admin.create_topic(TOPICS[0], 2, 1)
        options = RestOptions(broker.bootstrap_servers, schema_registry=registry.url, consumer_wait_s=0.01)
        with served(RestApp(options)) as site:
            rest = RestClient(site.port)
            form = "json"
            records = {"records": [{"value": {"a": 1}}, {"value": 2, "partition": 1}]}
            assert rest.v2("POST", f"/topics/{TOPICS[0]}", json.dumps(records), form)[0] == 200
            for name in KNOWN["instance"]:
                given = {"name": name, "auto.offset.reset": "earliest"}
                assert rest.v2("POST", "/consumers/answers", given)[0] == 200
            known = KNOWN | {"cluster_id": [rest.cluster]}
            assert check_answers(site.url, known, adapt, 3) > 200
