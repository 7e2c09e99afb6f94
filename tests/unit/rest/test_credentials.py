"""The REST proxy acts with the credentials of each caller, against a broker with SASL and an authorizer."""

import base64
import http.client
import json

import pytest

from bowstring import Admin, Broker
from bowstring.rest.app import RestApp
from bowstring.rest.options import RestOptions
from tests.support.served_site import served
from tests.support.waiting import HANG_S

USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="a-secret" user_bob="b-secret";'
CONFIG = {
    "listeners": "INNER://127.0.0.1:0,OUTER://127.0.0.1:0",
    "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "INNER",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.outer.plain.sasl.jaas.config": USERS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:alice",
    "connection.failed.authentication.delay.ms": "1",
}
RECORD = '{"value":{"type":"STRING","data":"a"}}'


@pytest.fixture(scope="module")
def port():
    from tests.support.embedded import engine_of

    with Broker(config=CONFIG) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 1)
        (outer,) = [each for each in engine_of(broker).listeners if each.name == "OUTER"]
        security = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        app = RestApp(RestOptions(f"127.0.0.1:{outer.port}", security=security))
        with served(app) as site:
            yield site.port


def ask(port, method, path, body=None, user=None, header=None, kind=None):
    headers = {} if kind is None else {"content-type": kind}
    if user is not None:
        headers["authorization"] = "Basic " + base64.b64encode(f"{user}:{user[0]}-secret".encode()).decode()
    if header is not None:
        headers["authorization"] = header
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_S)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    data = answer.read()
    return answer.status, json.loads(data.splitlines()[0]) if data else None


def test_without_credentials_nothing_is_shown(port):
    for method, path, body in (
        ("GET", "/v3/clusters", None),
        ("POST", "/v3/clusters/c/topics/t/records", RECORD),
    ):
        status, found = ask(port, method, path, body)
        assert (status, found["error_code"]) == (401, 401)
    assert ask(port, "GET", "/v3/clusters", user="carol")[0] == 401
    assert ask(port, "GET", "/v3/clusters", header="Basic !")[0] == 401


def test_each_caller_has_its_own_rights(port):
    id = ask(port, "GET", "/v3/clusters", user="alice")[1]["data"][0]["cluster_id"]
    path = f"/v3/clusters/{id}"
    assert ask(port, "GET", f"{path}/topics", user="bob")[1]["data"] == []
    assert ask(port, "POST", f"{path}/topics/t/records", RECORD, user="alice")[1]["error_code"] == 200
    assert ask(port, "POST", f"{path}/topics/t/records", RECORD, user="bob")[1]["error_code"] == 40301
    assert ask(port, "GET", f"{path}/topics/t/records", user="bob")[1]["error_code"] == 40301
    assert ask(port, "DELETE", f"{path}/topics/t", user="bob")[0] in (403, 404)

    rule = {
        "resource_type": "TOPIC",
        "resource_name": "t",
        "pattern_type": "LITERAL",
        "principal": "User:bob",
        "host": "*",
        "operation": "ALL",
        "permission": "ALLOW",
    }
    assert ask(port, "POST", f"{path}/acls", json.dumps(rule), user="bob")[1]["error_code"] == 40301
    assert ask(port, "POST", f"{path}/acls", json.dumps(rule), user="alice")[0] == 201
    (found,) = ask(port, "GET", f"{path}/acls?principal=User:bob", user="alice")[1]["data"]
    assert found.items() >= rule.items()
    assert ask(port, "POST", f"{path}/topics/t/records", RECORD, user="bob")[1]["offset"] == 1
    assert ask(port, "GET", f"{path}/topics/t/records", user="bob")[1]["value"] == "a"
    wanted = {**rule, "operation": "READ"}
    assert ask(port, "POST", f"{path}/acls:batch", json.dumps({"data": [wanted]}), user="alice")[0] == 201
    every = "resource_type=topic&pattern_type=literal&operation=any&permission=any&principal=User:bob"
    assert ask(port, "DELETE", f"{path}/acls?resource_type=topic", user="alice")[0] == 400
    gone = ask(port, "DELETE", f"{path}/acls?{every}", user="alice")[1]["data"]
    assert sorted(each["operation"] for each in gone) == ["ALL", "READ"]
    assert ask(port, "GET", f"{path}/acls?operation=fly", user="alice")[0] == 400
    assert ask(port, "POST", f"{path}/acls", json.dumps({**rule, "operation": "ANY"}), user="alice")[0] == 400


def test_nobody_finds_another_callers_consumer_instance(port):
    made = [ask(port, "POST", "/consumers/g", '{"name": "n"}', user=user) for user in ("alice", "bob")]
    assert [status for status, _ in made] == [200, 200]
    path = "/consumers/g/instances/n"
    subscription = json.dumps({"topics": ["t"]})
    assert ask(port, "POST", f"{path}/subscription", subscription, user="bob")[0] == 204
    status, found = ask(port, "GET", f"{path}/records", user="bob")
    assert (status, found["error_code"]) == (403, 40301)
    assert ask(port, "GET", f"{path}/subscription", user="alice")[1] == {"topics": []}
    assert ask(port, "DELETE", path, user="bob")[0] == 204
    assert ask(port, "GET", f"{path}/subscription", user="bob")[1]["error_code"] == 40403
    assert ask(port, "GET", f"{path}/subscription")[0] == 401
    assert ask(port, "DELETE", path, user="alice")[0] == 204


def test_v2_produces_as_the_caller(port):
    body, kind = '{"records": [{"value": 1}]}', "application/vnd.kafka.json.v2+json"
    found = [ask(port, "POST", "/topics/t", body, user=user, kind=kind) for user in ("alice", "bob")]
    assert [status for status, _ in found] == [200, 403]
    assert ask(port, "POST", "/topics/t", body, kind=kind)[0] == 401
