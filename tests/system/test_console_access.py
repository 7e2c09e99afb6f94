"""The console's pages of users, rules, quotas and transactions; what users without rights see."""

import html
import re
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

import bowstring
from bowstring.clients.admin.acls import AclBinding
from bowstring.clients.admin.scram_users import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from bowstring.console.app import create_app
from bowstring.console.connect import connect_access
from bowstring.console.options import ConsoleOptions
from tests.support.access import STANDARD
from tests.support.connect_double import connect_double
from tests.support.console_patience import be_patient
from tests.support.schema_registry_double import schema_registry
from tests.support.waiting import wait_until

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PASSWORDS = {"admin": "a-secret", "alice": "b-secret"}
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
PLACE = bowstring.TopicPartition("secret-topic", 0)
PAGES = ("/groups", "/share-groups", "/transactions", "/transactions/hanging?minutes=0", "/users", "/acls")


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Pages wait for the cluster, however busy this machine is."""
    be_patient(monkeypatch)


@pytest.fixture(scope="module")
def broker():
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    config = {
        "listeners": "OUTER://127.0.0.1:0",
        "listener.security.protocol.map": "OUTER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "OUTER",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.outer.plain.sasl.jaas.config": (
            f'{LOGIN} username="admin" password="{PASSWORDS["admin"]}" {users};'
        ),
        "authorizer.class.name": STANDARD,
        "super.users": "User:admin",
    }
    with bowstring.Broker(config=config) as broker:
        yield broker


def settings_of(user):
    return SASL | {"sasl.username": user, "sasl.password": PASSWORDS[user]}


@pytest.fixture(scope="module")
def admin(broker):
    with bowstring.Admin(f"127.0.0.1:{broker.port}", security=settings_of("admin")) as admin:
        admin.create_topic("secret-topic")
        admin.alter_offsets("secret-group", {("secret-topic", 0): 0})
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion("carol", scram, "c-secret")])
        admin.create_acls([AclBinding("group", "secret-group", "literal", "User:bob", "*", "read", "allow")])
        admin.alter_client_quotas({"user": "carol"}, {"producer_byte_rate": 2 << 20})
        yield admin


def signed_in(broker, user, **options):
    options = ConsoleOptions(f"127.0.0.1:{broker.port}", security=SASL, sign_in=True, write=True, **options)
    client = TestClient(create_app(options), base_url="http://localhost:8080")
    form = {"name": user, "password": PASSWORDS[user], "csrf_token": csrf_of(client.get("/sign-in"))}
    assert client.post("/sign-in", data=form, follow_redirects=False).status_code == 303
    return client


@pytest.fixture
def operator(broker, admin):
    with signed_in(broker, "admin") as client:
        yield client


@pytest.fixture
def nobody(broker, admin):
    with signed_in(broker, "alice") as client:
        yield client


def csrf_of(page):
    return re.search(r'name="csrf_token" value="([^"]+)"', page.text)[1]


def test_users_rules_and_quotas_are_sentences_without_secrets(operator):
    users = operator.get("/users").text
    assert "carol" in users and "SCRAM-SHA-256" in users
    assert "User:bob may read (and describe) group secret-group" in operator.get("/acls").text
    assert "user carol may produce at most 2.0 MiB/s on each broker" in operator.get("/quotas").text
    assert "No rule matches" in operator.get("/acls?q=nothing").text


def test_decisions_are_explained(operator):
    query = {"user": "bob", "operation": "describe", "resource": "group:secret-group"}
    page = html.unescape(operator.get("/acls/explain", params=query).text)
    assert "User:bob may describe group secret-group: a rule decides" in page
    denied = operator.get("/acls/explain", params=query | {"user": "eve"}).text
    assert "User:eve may not describe group secret-group" in denied
    assert "is not a resource" in operator.get("/acls/explain", params=query | {"resource": "x"}).text


def test_rules_are_added_and_removed(admin, operator):
    fields = {
        "permission": "allow",
        "principal": "dave",
        "operation": "write",
        "kind": "topic",
        "resource": "orders-",
        "pattern": "prefixed",
        "host": "*",
    }
    asked = operator.get("/acls/change", params=fields | {"change": "add"})
    meaning = "User:dave may write (and describe) every topic whose name begins with orders-"
    assert meaning in asked.text
    form = fields | {"csrf_token": csrf_of(asked)}
    assert operator.post("/acls/add", data=form, follow_redirects=False).status_code == 303
    assert meaning in operator.get("/acls?q=dave").text
    assert operator.post("/acls/remove", data=form, follow_redirects=False).status_code == 303
    assert "User:dave" not in {each.principal for each in admin.describe_acls()}
    wrong = operator.post("/acls/add", data=form | {"operation": "alter-everything"})
    assert wrong.status_code == 400 and "is not an operation" in wrong.text


def test_users_are_added_get_new_passwords_and_are_deleted(broker, admin, operator):
    form = {"name": "dora", "password": "d-secret", "mechanism": "SCRAM-SHA-256"}
    form["csrf_token"] = csrf_of(operator.get("/users"))
    assert operator.post("/users/set", data=form, follow_redirects=False).status_code == 303
    listed = operator.get("/users?q=dora").text
    assert "dora" in listed and "d-secret" not in listed
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "dora",
    }
    for password in ("d-secret", "another secret"):
        assert operator.post("/users/set", data=form | {"password": password}).status_code == 200
        with bowstring.Admin(
            f"127.0.0.1:{broker.port}", security=login | {"sasl.password": password}
        ) as dora:
            assert dora.describe_cluster().cluster_id
    asked = operator.get("/users/delete?name=dora")
    assert "Delete user dora?" in asked.text
    gone = {"name": "dora", "csrf_token": csrf_of(asked)}
    assert operator.post("/users/delete", data=gone, follow_redirects=False).status_code == 303
    assert "dora" not in admin.describe_user_scram_credentials()
    again = operator.post("/users/delete", data=gone)
    assert again.status_code == 400 and "no user" in again.text
    for wrong in ({"password": ""}, {"name": " "}, {"mechanism": "PLAIN"}, {"password": "x" * 2000}):
        assert operator.post("/users/set", data=form | wrong).status_code == 400


def test_quotas_are_set_and_removed(admin, operator):
    fields = {"whose": "both", "name": "carol", "client": "", "quota": "consumer_byte_rate", "value": "2048"}
    asked = operator.get("/quotas/change", params=fields | {"change": "set"})
    meaning = "user carol with each other client id may fetch at most 2.0 KiB/s on each broker"
    assert meaning in asked.text
    form = fields | {"csrf_token": csrf_of(asked)}
    assert operator.post("/quotas/set", data=form, follow_redirects=False).status_code == 303
    listed = operator.get("/quotas").text
    assert meaning in listed
    entity = frozenset({("user", "carol"), ("client-id", None)})
    assert admin.describe_client_quotas()[entity] == {"consumer_byte_rate": 2048.0}
    link = re.search(r'href="(/quotas/change\?change=remove[^"]*consumer_byte_rate[^"]*)"', listed)[1]
    asked = operator.get(html.unescape(link))
    assert "Remove this quota?" in asked.text and meaning in asked.text
    assert operator.post("/quotas/remove", data=form, follow_redirects=False).status_code == 303
    assert entity not in admin.describe_client_quotas()
    for wrong in ({"value": "much"}, {"value": "-1"}, {"value": "inf"}, {"whose": "all"}, {"quota": ""}):
        assert operator.post("/quotas/set", data=form | wrong).status_code == 400
    refused = operator.post("/quotas/set", data=form | {"quota": "no_such_rate"})
    assert refused.status_code == 400 and "The cluster refused" in refused.text


def test_changes_need_rights_and_a_token(nobody, operator):
    forms = {
        "/users/set": {"name": "eve", "password": "e", "mechanism": "SCRAM-SHA-512"},
        "/quotas/set": {"whose": "user", "name": "eve", "quota": "producer_byte_rate", "value": "1"},
        "/quotas/remove": {"whose": "user", "name": "carol", "quota": "producer_byte_rate"},
    }
    for path, form in forms.items():
        assert operator.post(path, data=form).status_code == 403, path
        refused = nobody.post(path, data=form | {"csrf_token": csrf_of(nobody.get("/groups"))})
        assert refused.status_code == 403 and "You need the right" in refused.text, path
    assert operator.post("/users/delete", data={"name": "carol"}).status_code == 403


def test_users_without_rights_see_nothing_that_rules_hide(nobody):
    for path in (*PAGES, "/quotas"):
        page = nobody.get(path)
        assert page.status_code == 200, path
        assert "secret-" not in page.text and "carol" not in page.text, path
    for path, right in (
        ("/users", "DESCRIBE on the cluster"),
        ("/acls", "DESCRIBE on the cluster"),
        ("/quotas", "DESCRIBE_CONFIGS on the cluster"),
    ):
        assert f"You need the right {right}" in nobody.get(path).text
    one = nobody.get("/groups/one?name=secret-group")
    assert "secret-topic" not in one.text and "DESCRIBE on the group" in one.text
    form = {"name": "secret-group", "csrf_token": csrf_of(nobody.get("/groups"))}
    refused = nobody.post("/groups/one/delete", data=form)
    assert refused.status_code == 403 and "DELETE on the group" in refused.text


def test_schemas_are_shown_to_those_who_see_their_topics(broker, admin):
    with schema_registry() as registry:
        for subject in ("secret-topic-value", "secret.Record"):
            registry.add(subject, {"schema": '"string"'})
        with signed_in(broker, "admin", schema_registry=registry.url) as operator:
            listed = operator.get("/schemas").text
            assert "secret-topic-value" in listed and "secret.Record" not in listed
            assert operator.get("/schemas/one?subject=secret-topic-value").status_code == 200
        with signed_in(broker, "alice", schema_registry=registry.url) as nobody:
            assert "secret" not in nobody.get("/schemas").text
            for subject in ("secret-topic-value", "secret.Record"):
                assert nobody.get(f"/schemas/one?subject={subject}").status_code == 404


def test_open_transactions_are_shown_and_aborted(broker, admin, operator):
    with bowstring.Producer(
        f"127.0.0.1:{broker.port}", transactional_id="open-one", security=settings_of("admin")
    ) as producer:
        producer.begin_transaction()
        offset = producer.send("secret-topic", b"x").result().offset
        listed = operator.get("/transactions?state=open").text
        assert "open-one" in listed and "Ongoing" in listed and " ago" in listed
        assert "/topics/secret-topic" in operator.get("/transactions/one?id=open-one").text
        assert "No transaction hangs" in operator.get("/transactions/hanging?minutes=0").text
        place = {"topic": "secret-topic", "partition": "0", "offset": str(offset)}
        form = place | {"csrf_token": csrf_of(operator.get("/transactions/abort", params=place))}
        done = operator.post("/transactions/abort", data=form, follow_redirects=False)
        assert done.status_code == 303
        (state,) = admin.describe_producers([PLACE])[PLACE]
        assert state.transaction_start_offset is None
        again = operator.post("/transactions/abort", data=form)
        assert again.status_code == 400 and "has ended meanwhile" in again.text
        producer.abort_transaction()
    gone = operator.get("/transactions/one?id=nothing")
    assert gone.status_code == 200 and "TRANSACTIONAL_ID_NOT_FOUND" in gone.text


def test_a_cluster_without_access_control_says_so():
    with bowstring.Broker() as plain:
        app = create_app(ConsoleOptions(bootstrap_servers=plain.bootstrap_servers))
        with TestClient(app, base_url="http://localhost:8080") as client:
            assert "no access control" in client.get("/acls").text
            query = "user=a&operation=read&resource=topic:t"
            assert "User:a may read topic t" in client.get(f"/acls/explain?{query}").text


# ---------------------------------------------------------------- sign-in


@pytest.fixture
def stranger(broker, admin, monkeypatch):
    monkeypatch.setattr("bowstring.console.pages.sign_in.FAILURE_S", 0.01)
    options = ConsoleOptions(f"127.0.0.1:{broker.port}", security=SASL, sign_in=True)
    with TestClient(create_app(options), base_url="http://localhost:8080", follow_redirects=False) as client:
        yield client


def attempt(client, name="admin", password=PASSWORDS["admin"], **more):
    form = {"name": name, "password": password, "csrf_token": csrf_of(client.get("/sign-in"))}
    return client.post("/sign-in", data=form | more)


@pytest.mark.parametrize("path", ["/", "/topics?q=a", "/topics/secret-topic", "/brokers", "/overview/live"])
def test_pages_need_a_sign_in(stranger, path):
    answer = stranger.get(path)
    assert answer.status_code == 303
    assert answer.headers["location"] == f"/sign-in?next={quote(path, safe='')}"
    assert "secret" not in answer.text


def test_a_sign_in_gives_another_id_and_a_sign_out_ends_it(stranger):
    stranger.get("/sign-in")
    before = dict(stranger.cookies)
    answer = attempt(stranger, next="/topics?q=x")
    assert answer.headers["location"] == "/topics?q=x"
    after = dict(stranger.cookies)
    assert before.keys() == after.keys() and before != after
    page = stranger.get("/topics")
    assert page.status_code == 200
    assert PASSWORDS["admin"] not in page.text
    assert stranger.post("/sign-out", data={"csrf_token": csrf_of(page)}).status_code == 303
    stranger.cookies.clear()
    for name, value in after.items():
        stranger.cookies.set(name, value)
    assert stranger.get("/topics").status_code == 303, "the id is of no use any more"


@pytest.mark.parametrize("path", ["//example.org", "https://example.org", "/\\example.org", "/a\nb"])
def test_a_sign_in_leads_to_no_other_site(stranger, path):
    assert attempt(stranger, next=path).headers["location"] == "/"


def test_wrong_passwords_are_refused_and_then_wait(stranger, monkeypatch):
    monkeypatch.setattr("bowstring.console.pages.sign_in.FAILURES_MAX", 2)
    for _ in range(2):
        answer = attempt(stranger, password="guessed<1>")
        assert answer.status_code == 403
        assert "guessed" not in answer.text
    assert attempt(stranger).status_code == 429
    assert stranger.get("/topics").status_code == 303


def test_sign_ins_need_the_token_of_the_form(stranger):
    answer = stranger.post("/sign-in", data={"name": "admin", "password": PASSWORDS["admin"]})
    assert answer.status_code == 403


def test_the_cluster_hides_what_a_user_may_not_see(nobody):
    for path in ("/", "/topics", "/topics?internal=1", "/brokers"):
        page = nobody.get(path)
        assert page.status_code == 200, path
        assert "secret" not in page.text
    assert "DESCRIBE on the cluster" in nobody.get("/topics").text
    for path in ("/topics/secret-topic", "/topics/secret-topic/configs", "/topics/secret-topic/change"):
        page = nobody.get(path)
        assert page.status_code == 403
        assert "lacks a right on the topic (such as DESCRIBE" in page.text
        # One that is not there is no different.
        assert nobody.get(path.replace("secret", "no-such")).status_code == 403
    token = csrf_of(nobody.get("/topics"))
    fields = {"name": "mine", "partitions": "1", "csrf_token": token}
    page = nobody.post("/topics-new", data=fields)
    assert page.status_code == 403
    assert "lacks" in page.text


def test_connectors_are_for_those_with_rights_on_the_cluster(broker, admin, monkeypatch):
    monkeypatch.setattr(connect_access, "RIGHTS_S", 0.0)
    cluster = ("cluster", "kafka-cluster", "literal", "User:alice", "*")
    with connect_double() as connect:
        connect.add("lines")
        with signed_in(broker, "alice", connect_urls=(connect.url,)) as alice:
            form = {"connect": connect.url, "name": "lines", "action": "stop"}
            form["csrf_token"] = csrf_of(alice.get("/topics-new"))
            for path in ("/connectors", "/connectors/one?name=lines", "/connectors/config?name=lines"):
                assert "You need the right DESCRIBE_CONFIGS" in alice.get(path).text
            assert alice.post("/connectors/act", data=form).status_code == 403
            for right in ("describe", "describe_configs"):
                admin.create_acls([AclBinding(*cluster, right, "allow")])
            wait_until(lambda: "lines" in alice.get("/connectors").text)
            refused = alice.post("/connectors/act", data=form)
            assert refused.status_code == 403 and "ALTER_CONFIGS" in refused.text
            assert not [each for each in connect.requests if not each.startswith("GET ")]
            admin.create_acls([AclBinding(*cluster, "alter_configs", "allow")])
            wait_until(lambda: alice.post("/connectors/act", data=form).history)
            assert connect.states["lines"] == "STOPPED"
