"""bowstring.registry.api.access_rules: who may do what; and the API that holds to it."""

import base64
import json
import os

import pytest

from bowstring.clients.errors import ConfigError
from bowstring.registry.api.access_rules import AccessRules
from bowstring.registry.api.call import Right
from tests.support.registry_double import RegistryDouble
from tests.support.registry_double import record_schema as record

RULES = """
[[rules]]
users = ["ann", "CN=orders*"]
subjects = ["orders-*", ":.dev:*"]
operations = ["read", "write"]

[[rules]]
users = ["*"]
subjects = ["public"]
operations = ["read"]

[[rules]]
users = ["root"]
subjects = ["*"]
operations = ["all"]

[[rules]]
users = ["eve"]
subjects = ["orders-*", ":.dev:*"]
operations = ["all"]
"""


@pytest.fixture
def rules_file(tmp_path):
    found = tmp_path / "rules.toml"
    found.write_text(RULES)
    return str(found)


def test_rules_name_users_subjects_and_operations(rules_file):
    rules = AccessRules(rules_file)
    assert rules.allows("ann", Right.WRITE, "orders-value")
    assert rules.allows("CN=orders,O=x", Right.READ, ":.dev:x")
    assert rules.allows("", Right.READ, "public")
    assert rules.allows("root", Right.CONFIGURE, "")
    for user, right, subject in (
        ("ann", Right.DELETE, "orders-value"),
        ("ann", Right.READ, "order"),
        ("ann", Right.READ, ""),
        ("bob", Right.READ, "orders-value"),
        ("bob", Right.WRITE, "public"),
    ):
        assert not rules.allows(user, right, subject)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rules]", "cannot read"),
        ("users = []", "nothing else"),
        ("rules = 3", "nothing else"),
        ("rules = [3]", "must be a table"),
        ('[[rules]]\nusers = ["a"]\nsubjects = ["a"]', "operations must be a list"),
        ('[[rules]]\nusers = []\nsubjects = ["a"]\noperations = ["read"]', "users must be"),
        ('[[rules]]\nusers = ["a"]\nsubjects = [1]\noperations = ["read"]', "subjects must be"),
        ('[[rules]]\nusers = ["a"]\nsubjects = ["a"]\noperations = ["own"]', "'own' is no operation"),
        ('[[rules]]\nuser = ["a"]', "has user"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, text, message):
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        AccessRules(str(path))
    with pytest.raises(ConfigError, match="cannot read"):
        AccessRules(str(tmp_path / "none"))


def test_a_changed_file_is_read_again_and_a_wrong_one_is_not(rules_file, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("bowstring.registry.api.access_rules.time.monotonic", lambda: now[0])
    rules = AccessRules(rules_file)
    with open(rules_file, "w") as file:
        file.write("[[rules]]\nusers = ['bob']\nsubjects = ['*']\noperations = ['read']\n")
    assert not rules.refresh()  # not so soon
    now[0] += 5
    assert rules.refresh()
    assert rules.allows("bob", Right.READ, "x") and not rules.allows("ann", Right.READ, "orders-value")
    with open(rules_file, "w") as file:
        file.write("[[rules")
    now[0] += 5
    assert not rules.refresh()
    assert rules.allows("bob", Right.READ, "x")
    os.remove(rules_file)
    now[0] += 5
    assert not rules.refresh()
    assert rules.allows("bob", Right.READ, "x")


class Users:
    """Logs in every user whose password is right."""

    async def user(self, credentials, address):
        assert credentials.secret == "x"
        return credentials.user


def as_user(name):
    return [("authorization", "Basic " + base64.b64encode(f"{name}:x".encode()).decode())]


@pytest.fixture
def registry(rules_file):
    registry = RegistryDouble(
        rules=AccessRules(rules_file), log_ins=Users(), identifies=True, needs_user=True
    )
    for number, subject in enumerate(("orders-value", "payments", "public", ":.dev:orders")):
        body = {"schema": record(f"f{number}")}
        assert registry.json("POST", f"/subjects/{subject}/versions", body, as_user("root"))[0] == 200
    return registry


def test_without_a_log_in_nothing_is_served(registry):
    status, headers, _ = registry.ask("GET", "/subjects")
    assert status == 401
    assert headers["www-authenticate"].startswith("Basic")


def test_users_see_what_they_may_read(registry):
    ann = as_user("ann")
    assert registry.json("GET", "/subjects", headers=ann) == (200, [":.dev:orders", "orders-value", "public"])
    assert registry.json("GET", "/subjects?offset=1&limit=1", headers=ann) == (200, ["orders-value"])
    found = registry.json("GET", "/schemas?subjectPrefix=:*:", headers=ann)[1]
    assert [each["subject"] for each in found] == [":.dev:orders", "orders-value", "public"]
    assert registry.json("GET", "/contexts", headers=as_user("bob")) == (200, ["."])
    assert registry.json("GET", "/schemas/ids/1", headers=ann)[0] == 200
    for path in ("ids/2", "ids/2/schema", "ids/2/subjects", "ids/2/versions"):
        assert registry.json("GET", f"/schemas/{path}", headers=ann)[1]["error_code"] == 40301
    guid = registry.json("GET", "/subjects/payments/versions/1", headers=as_user("root"))[1]["guid"]
    for path in (f"guids/{guid}", f"guids/{guid}/ids"):
        assert registry.json("GET", f"/schemas/{path}", headers=ann)[0] == 403
        assert registry.json("GET", f"/schemas/{path}", headers=as_user("root"))[0] == 200


def test_a_schema_of_other_subjects_too_is_shown_as_one_of_the_users(registry):
    ann, root, body = as_user("ann"), as_user("root"), {"schema": record("shared")}
    for subject in ("accounts", "orders-2", ":.secret:accounts"):
        assert registry.json("POST", f"/subjects/{subject}/versions", body, root)[0] == 200
    found = registry.json("GET", "/subjects/accounts/versions/1", headers=root)[1]
    path = f"/schemas/ids/{found['id']}"
    for query in ("", "?subject=accounts", "?subject=orders-2"):
        status, shown = registry.json("GET", path + query, headers=ann)
        assert (status, shown.get("subject"), shown.get("schema")) == (200, "orders-2", record("shared"))
        assert registry.json("GET", f"{path}/versions{query}", headers=ann)[1] == [
            {"subject": "orders-2", "version": 1}
        ]
    ids = registry.json("GET", f"/schemas/guids/{found['guid']}/ids", headers=ann)
    assert ids == (200, [{"context": ".", "id": found["id"]}])
    assert len(registry.json("GET", f"/schemas/guids/{found['guid']}/ids", headers=root)[1]) == 2
    registry.json("DELETE", "/subjects/orders-2", headers=root)
    assert registry.json("GET", path, headers=ann)[1]["subject"] == "orders-2"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/subjects/payments/versions", 403),
        ("GET", "/subjects/:.:payments/versions", 403),
        ("GET", "/contexts/./subjects/payments/versions", 403),
        ("GET", "/subjects/orders-value/versions", 200),
        ("POST", "/subjects/orders-value/versions", 200),
        ("POST", "/subjects/public/versions", 403),
        ("POST", "/compatibility/subjects/payments/versions", 403),
        ("DELETE", "/subjects/orders-value", 403),
        ("PUT", "/config", 403),
        ("PUT", "/config/orders-value", 403),
        ("GET", "/config", 403),
        ("GET", "/config/orders-value?defaultToGlobal=true", 200),
        ("DELETE", "/contexts/.dev", 403),
    ],
)
def test_operations_need_their_right(registry, method, path, status):
    body = {"schema": record("f0"), "compatibility": "NONE"} if method in ("POST", "PUT") else None
    assert registry.json(method, path, body, as_user("ann"))[0] == status


@pytest.mark.parametrize(
    ("path", "mode", "status"),
    [
        ("/mode/orders-new", "import", 403),
        ("/mode/:.:orders-new", "IMPORT", 403),
        ("/mode/:.prod:orders-new", "IMPORT", 403),
        ("/mode/:.dev:new", "IMPORT", 200),
        ("/mode/:.dev:", "IMPORT", 422),
        ("/mode/orders-new", "READONLY", 200),
        ("/mode/orders-new", None, 200),
        ("/mode/orders-new", 7, 422),
    ],
)
def test_ids_of_a_context_are_not_one_subjects(registry, path, mode, status):
    """Who imports a schema near the last id leaves none to others."""
    assert registry.json("PUT", path, {"mode": mode}, as_user("eve"))[0] == status


def test_kept_answers_are_not_shared_between_users(registry):
    for user, status in (("root", 200), ("ann", 403), ("root", 200)):
        assert registry.ask("GET", "/schemas/ids/2", headers=as_user(user))[0] == status
        body = {"schema": record("f1")}
        assert registry.ask("POST", "/subjects/payments", body, as_user(user))[0] == status


def test_no_way_around_by_contexts_aliases_and_references(registry):
    ann, root = as_user("ann"), as_user("root")
    body = {"schema": record("secret")}
    assert registry.json("POST", "/subjects/:.prod:orders-key/versions", body, root)[0] == 200
    # Without a context, a version of another context may be found.
    for path in ("versions/1", "versions/1/schema", "versions/1/referencedby"):
        assert registry.json("GET", f"/subjects/orders-key/{path}", headers=ann)[0] == 403
        assert registry.json("GET", f"/subjects/orders-key/{path}", headers=root)[0] == 200
    assert registry.json("POST", "/subjects/orders-key", body, ann)[0] == 403
    assert registry.json("PUT", "/config/orders-alias", {"alias": "payments"}, root)[0] == 200
    assert registry.json("GET", "/subjects/orders-alias/versions", headers=ann)[0] == 403
    body = {"schema": '"A"', "references": [{"name": "A", "subject": "payments", "version": 1}]}
    for path in ("/subjects/orders-new/versions", "/subjects/orders-new"):
        assert registry.json("POST", path, body, ann)[0] == 403


def test_a_log_in_is_no_matter_for_pages_of_operators(rules_file):
    pages = {b"/health": lambda accept: (503, b"application/json", b"{}")}
    registry = RegistryDouble(
        rules=AccessRules(rules_file), log_ins=Users(), identifies=True, needs_user=True, pages=pages
    )
    assert registry.ask("GET", "/health")[0] == 503
    assert registry.ask("POST", "/health", b"{}", as_user("root"))[0] == 404


def test_where_nobody_logs_in_only_certificates_say_who_clients_are(rules_file):
    registry = RegistryDouble(rules=AccessRules(rules_file), identifies=True)
    body = json.dumps({"schema": record("a")}).encode()
    path = "/subjects/orders-value/versions"
    certificate = {"extensions": {"tls": {"client_cert_name": "CN=orders,O=x"}}}
    assert registry.ask("POST", path, body, as_user("root"))[0] == 403
    assert registry.ask("POST", path, body, as_user("root"), certificate)[0] == 200
    assert registry.ask("GET", "/config", headers=as_user("root"), scope=certificate)[0] == 403
