"""bowstring.registry.api: paths, statuses, codes, media types and shapes, as Confluent's clients see them."""

import json
import logging

import pytest

from bowstring.registry import schema_work
from bowstring.registry.api.answer_cache import AnswerCache
from bowstring.registry.api.forwarder import ForwardedAnswer
from bowstring.registry.registry_error import RegistryError
from bowstring.web.limits import RateLimit
from tests.support.registry_double import RegistryDouble
from tests.support.registry_double import record_schema as record

V1 = "application/vnd.schemaregistry.v1+json"


@pytest.fixture
def registry():
    return RegistryDouble()


def register(registry, subject, *fields, **more):
    status, found = registry.json(
        "POST", f"/subjects/{subject}/versions", {"schema": record(*fields), **more}
    )
    assert status == 200, found
    return found["id"]


def test_a_schema_is_registered_and_found_again(registry):
    assert register(registry, "orders-value", "a") == 1
    assert register(registry, "orders-value", "a") == 1
    assert registry.json("GET", "/subjects") == (200, ["orders-value"])
    assert registry.json("GET", "/subjects/orders-value/versions") == (200, [1])
    status, found = registry.json("GET", "/subjects/orders-value/versions/latest")
    assert status == 200
    assert list(found)[:5] == ["subject", "version", "id", "guid", "schemaType"]
    assert (found["id"], found["schemaType"], found["schema"]) == (1, "AVRO", record("a"))
    status, by_id = registry.json("GET", "/schemas/ids/1")
    assert (by_id["schema"], by_id["guid"]) == (record("a"), found["guid"])
    assert registry.json("GET", f"/schemas/guids/{found['guid']}/ids") == (200, [{"context": ".", "id": 1}])
    assert registry.json("GET", "/schemas/ids/1/versions") == (
        200,
        [{"subject": "orders-value", "version": 1}],
    )
    assert registry.json("GET", "/schemas/ids/1/subjects") == (200, ["orders-value"])
    looked_up = registry.json("POST", "/subjects/orders-value", {"schema": record("a")})
    assert looked_up[1]["version"] == 1
    assert registry.json("GET", "/schemas/types") == (200, ["JSON", "PROTOBUF", "AVRO"])
    assert [each["id"] for each in registry.json("GET", "/schemas")[1]] == [1]


def test_texts_are_sent_as_they_are(registry):
    register(registry, "a", "x")
    for path in ("/schemas/ids/1/schema", "/subjects/a/versions/1/schema"):
        assert registry.ask("GET", path)[2].decode() == record("x")


def test_names_may_have_slashes_spaces_and_other_letters(registry):
    for name in ("a%2Fb", "a%20b+c", "%C3%A4%F0%9F%98%80", "%25", "..", "a%3Fb", "subjects"):
        register(registry, name, "x")
    assert registry.json("GET", "/subjects")[1] == sorted(
        ["a/b", "a b+c", "ä😀", "%", "..", "a?b", "subjects"]
    )
    assert registry.json("DELETE", "/subjects/a%2Fb") == (200, [1])


def test_contexts_in_paths(registry):
    register(registry, "plain", "x")
    status, _ = registry.json("POST", "/contexts/.dev/subjects/orders/versions", {"schema": record("y")})
    assert status == 200
    assert registry.json("GET", "/contexts") == (200, [".", ".dev"])
    assert registry.json("GET", "/contexts/.dev/subjects") == (200, [":.dev:orders"])
    assert registry.json("GET", "/contexts/:.dev:/subjects") == (200, [":.dev:orders"])
    assert registry.json("GET", "/contexts/./subjects") == registry.json("GET", "/subjects?subjectPrefix=")
    assert registry.json("GET", "/subjects/:.dev:orders/versions") == (200, [1])
    assert registry.json("GET", "/contexts/dev/schemas/ids/1")[1]["schema"] == record("y")
    assert registry.json("GET", "/schemas/ids/1")[1]["schema"] == record("x")
    assert [each["subject"] for each in registry.json("GET", "/contexts/.dev/schemas")[1]] == [":.dev:orders"]
    assert registry.json("PUT", "/contexts/.dev/config", {"compatibility": "NONE"})[0] == 200
    assert registry.json("GET", "/config/:.dev:") == (200, {"compatibilityLevel": "NONE"})
    assert registry.json("GET", "/contexts/.dev/config") == (200, {"compatibilityLevel": "NONE"})
    assert registry.json("PUT", "/contexts/.dev/mode/orders", {"mode": "READONLY"})[0] == 200
    assert registry.json("GET", "/mode/:.dev:orders") == (200, {"mode": "READONLY"})
    assert registry.json("GET", "/contexts/a%3Ab/subjects")[0] == 400
    assert registry.json("DELETE", "/contexts/.dev")[1]["error_code"] == 42211


def test_an_empty_context_is_deleted_with_204(registry):
    registry.json("POST", "/contexts/.dev/subjects/a/versions", {"schema": record("y")})
    for query in ("", "?permanent=true"):
        assert registry.json("DELETE", f"/contexts/.dev/subjects/a{query}")[0] == 200
    assert registry.ask("DELETE", "/contexts/.dev") == (204, {}, b"")


def test_aliases_stand_for_subjects(registry):
    register(registry, "real", "x")
    assert registry.json("PUT", "/config/nick", {"alias": "real"})[0] == 200
    assert registry.json("GET", "/subjects/nick/versions") == (200, [1])
    assert registry.json("GET", "/schemas/ids/1?subject=nick")[1]["subject"] == "real"
    assert registry.json("GET", "/config/nick")[1]["alias"] == "real"


def test_compatibility_is_checked_and_enforced(registry):
    register(registry, "a", "x")
    check = "/compatibility/subjects/a/versions"
    for path in (check, f"{check}/latest", f"{check}/1"):
        assert registry.json("POST", path, {"schema": record("y")}) == (200, {"is_compatible": False})
        status, found = registry.json("POST", f"{path}?verbose=true", {"schema": record("y")})
        assert found["is_compatible"] is False
        assert any("READER_FIELD_MISSING_DEFAULT_VALUE" in each for each in found["messages"])
        assert registry.json("POST", path, {"schema": record()}) == (200, {"is_compatible": True})
    assert registry.json("POST", f"{check}/7", {"schema": record()})[1]["error_code"] == 40402
    status, found = registry.json("POST", "/subjects/a/versions", {"schema": record("y")})
    assert (status, found["error_code"]) == (409, 40901)
    assert registry.json("POST", "/subjects/a/versions?force=true", {"schema": record("y")})[0] == 200


def test_settings_are_changed_and_deleted(registry):
    assert registry.json("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert registry.json("PUT", "/config", {"compatibility": "full"}) == (200, {"compatibility": "FULL"})
    assert registry.json("GET", "/config/a")[1]["error_code"] == 40408
    assert registry.json("GET", "/config/a?defaultToGlobal=TRUE") == (200, {"compatibilityLevel": "FULL"})
    assert registry.json("DELETE", "/config") == (200, {"compatibilityLevel": "FULL"})
    assert registry.json("PUT", "/mode/a", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
    assert registry.json("GET", "/mode/a") == (200, {"mode": "IMPORT"})
    assert registry.json("DELETE", "/mode/a") == (200, {"mode": "IMPORT"})
    assert registry.json("GET", "/mode/a")[1]["error_code"] == 40409


def test_deletions_answer_numbers(registry):
    register(registry, "a", "x")
    register(registry, "a")
    assert registry.ask("DELETE", "/subjects/a/versions/1")[2] == b"1"
    assert registry.json("GET", "/subjects/a/versions?deletedAsNegative=true") == (200, [-1, 2])
    assert registry.json("DELETE", "/subjects/a") == (200, [2])
    assert registry.json("GET", "/subjects/a/versions")[1]["error_code"] == 40401
    assert registry.json("GET", "/subjects?deleted=true") == (200, ["a"])
    assert registry.json("DELETE", "/subjects/a?permanent=true") == (200, [1, 2])
    assert registry.json("GET", "/subjects?deleted=true") == (200, [])


def test_lists_come_in_pages(registry):
    for name in "abc":
        register(registry, name, "x")
    assert registry.json("GET", "/subjects?offset=1&limit=1") == (200, ["b"])
    assert registry.json("GET", "/subjects?limit=-1") == (200, ["a", "b", "c"])
    assert registry.json("GET", "/subjects?limit=x")[0] == 404
    assert registry.json("GET", "/subjects?offset=")[0] == 404
    assert registry.json("GET", "/subjects?offset=99999999999")[0] == 404


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", V1),
        ("*/*", V1),
        ("application/json", "application/json"),
        ("application/vnd.schemaregistry+json", "application/vnd.schemaregistry+json"),
        (f"{V1}, application/vnd.schemaregistry+json, application/json", V1),
        ("application/json, */*;q=0.1", "application/json"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", V1),
        ("application/*;q=0.5", V1),
        (f"application/json;q=0.2,{V1};q=0", "application/json"),
    ],
)
def test_the_media_type_is_negotiated(registry, accept, kind):
    status, headers, _ = registry.ask("GET", "/subjects", headers=[("accept", accept)] if accept else ())
    assert (status, headers["content-type"]) == (200, kind)


def test_what_nobody_can_serve_is_refused(registry):
    for accept in ("text/html", "application/json;q=0", "application/json;q=x"):
        status, headers, body = registry.ask("GET", "/subjects", headers=[("accept", accept)])
        assert (status, headers["content-type"], json.loads(body)["error_code"]) == (406, V1, 406)
    sent = json.dumps({"schema": record("a")}).encode()
    for kind, status in (
        ("text/plain", 415),
        ("application/xml", 415),
        (V1, 200),
        ("Application/JSON; charset=utf-8", 200),
        ("application/octet-stream", 200),
    ):
        assert registry.ask("POST", "/subjects/a/versions", sent, [("content-type", kind)])[0] == status


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b" \n", 422),
        (b"null", 422),
        (b"{", 400),
        (b"[]", 400),
        (b"1", 400),
        (b'"x"', 400),
        (b"\xff\xfe", 400),
        (b'{"schema":NaN}', 400),
        (b"[" * 200_000, 400),
        (b"[" * 900 + b'"\\ud800"' + b"]" * 900, 400),
        (b'{"version":' + b"9" * 10_000 + b"}", 400),
        (b'{"schema":{}}', 400),
        (b'{"schema":"{}","schemaType":7}', 400),
        (b'{"schema":"{}","references":{"a":1}}', 400),
        (b'{"schema":"{"}', 422),
        (b'{"schema":"\\ud800"}', 400),
        (b'{"schemaType":"XML","schema":"x"}', 422),
        (b"{}", 422),
    ],
)
def test_bad_bodies_are_named(registry, body, status):
    found, _, answer = registry.ask("POST", "/subjects/a/versions", body)
    assert found == status, answer
    error = json.loads(answer)
    assert list(error) == ["error_code", "message"]
    assert error["error_code"] // (100 if error["error_code"] > 1000 else 1) in (status, 422)


@pytest.mark.parametrize(
    ("method", "target", "status", "code"),
    [
        ("GET", "/no", 404, 404),
        ("GET", "/subjects/a/b", 404, 404),
        ("PATCH", "/subjects", 405, 405),
        ("GET", "/subjects/a", 405, 405),
        ("GET", "/schemas/ids/x", 404, 404),
        ("GET", "/schemas/ids/99999999999", 404, 404),
        ("GET", "/schemas/ids/1", 404, 40403),
        ("GET", "/schemas/ids/-1", 404, 40403),
        ("GET", "/schemas/guids/x", 404, 40403),
        ("GET", "/subjects/a/versions", 404, 40401),
        ("GET", "/subjects/a/versions/latest", 404, 40401),
        ("GET", "/subjects/a/versions/x", 422, 42202),
        ("GET", "/subjects/a/versions/0", 422, 42202),
        ("DELETE", "/subjects/a", 404, 40401),
        ("GET", "/subjects/%ff", 400, 400),
        ("GET", "/subjects?x=%ff", 400, 400),
        ("GET", "/subjects?" + "&a=1" * 200, 400, 400),
    ],
)
def test_refusals_have_confluents_codes(registry, method, target, status, code):
    found, error = registry.json(method, target)
    assert (found, error["error_code"]) == (status, code)
    assert error["message"]


def test_head_and_options(registry):
    register(registry, "a", "x")
    assert registry.ask("HEAD", "/schemas/ids/1")[0] == 200
    assert registry.ask("OPTIONS", "/subjects/a")[1]["allow"] == "DELETE,OPTIONS,POST"
    assert registry.ask("PATCH", "/subjects/a")[1]["allow"] == "DELETE,OPTIONS,POST"
    assert registry.ask("OPTIONS", "/no")[0] == 404


def test_what_the_program_is(registry):
    assert registry.json("GET", "/") == registry.json("POST", "/") == (200, {})
    clusters = {"kafka-cluster": "cluster", "schema-registry-cluster": "schema-registry"}
    assert registry.json("GET", "/v1/metadata/id") == (200, {"scope": {"path": [], "clusters": clusters}})
    assert registry.json("GET", "/v1/metadata/version")[1]["commitId"].startswith("bowstring-")
    assert registry.json("GET", "/v1/metadata/deployment") == (200, {"attributes": []})


def test_answers_are_as_new_as_the_image(registry):
    register(registry, "a", "x")
    before = [registry.json("GET", "/subjects/a/versions") for _ in range(2)]
    assert before == [(200, [1])] * 2
    checks = [
        registry.json("POST", "/compatibility/subjects/a/versions", {"schema": record("y")}) for _ in range(2)
    ]
    assert checks == [(200, {"is_compatible": False})] * 2
    registry.json("PUT", "/config", {"compatibility": "NONE"})
    assert registry.json("POST", "/compatibility/subjects/a/versions", {"schema": record("y")})[1][
        "is_compatible"
    ]
    register(registry, "a", "y")
    assert registry.json("GET", "/subjects/a/versions") == (200, [1, 2])


def test_a_kept_answer_is_of_one_media_type(registry):
    register(registry, "a", "x")
    kinds = [
        registry.ask("GET", "/schemas/ids/1", headers=[("accept", each)])[1]["content-type"]
        for each in (V1, "application/json", V1)
    ]
    assert kinds == [V1, "application/json", V1]


def test_bodies_are_bounded():
    registry = RegistryDouble(body_bytes_max=1000)
    status, error = registry.json("POST", "/subjects/a/versions", {"schema": "x" * 2000})
    assert (status, error["error_code"]) == (413, 413)


def test_rates_are_bounded():
    registry = RegistryDouble(rate_limit=RateLimit(1, burst=2))
    assert [registry.ask("GET", "/subjects")[0] for _ in range(3)] == [200, 200, 429]
    assert registry.ask("GET", "/subjects", scope={"client": ("10.0.0.2", 5)})[0] == 200


def test_a_mistake_is_logged_and_not_shown(registry, monkeypatch, caplog):
    def broken(*arguments, **options):
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr("bowstring.registry.operations.versions.list_versions", broken)
    with caplog.at_level(logging.ERROR):
        status, error = registry.json("GET", "/subjects/a/versions")
    assert (status, error["error_code"]) == (500, 500)
    assert "secret" not in error["message"]
    assert "ZeroDivisionError" in caplog.text
    assert registry.ask("GET", "/subjects")[0] == 200


class Leader:
    """Answers what is forwarded."""

    def __init__(self, answer):
        self.answer, self.requests = answer, []

    async def forward(self, request):
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return ForwardedAnswer(*self.answer)


def follower(answer, leader_url="http://leader:8081"):
    registry = RegistryDouble()
    register(registry, "known", "x")
    registry.node.is_leader, registry.node.leader_url = False, leader_url
    registry.forwarder.forward = (leader := Leader(answer)).forward
    return registry, leader


def test_followers_leave_large_schemas_to_the_leader(monkeypatch):
    registry, leader = follower((200, b"application/json", b'{"id":9}'))
    monkeypatch.setattr(schema_work, "INLINE_CHARS_MAX", 0)
    monkeypatch.setattr(schema_work, "WAITING_MAX", 0)
    large = {"schema": record("new")}
    assert registry.json("POST", "/subjects/known/versions", large) == (200, {"id": 9})
    assert len(leader.requests) == 1
    registry.node.leader_url = None
    assert registry.json("POST", "/subjects/known/versions", large)[1]["error_code"] == 50002
    sent_on = [("X-Forward", "true")]
    assert registry.json("POST", "/subjects/known/versions", large, sent_on)[1]["error_code"] == 50004


def test_followers_forward_writes_and_catch_up():
    registry, leader = follower((200, b"application/json", b'{"id":9}'))
    headers = [("Authorization", "Basic YTpi"), ("Content-Type", V1), ("Cookie", "x")]
    status, found, body = registry.ask(
        "POST", "/subjects/a%2Fb/versions?normalize=true", b'{"schema":"x"}', headers
    )
    assert (status, found["content-type"], body) == (200, "application/json", b'{"id":9}')
    assert registry.node.caught_up == 1
    (request,) = leader.requests
    assert request.target == "/subjects/a%2Fb/versions?normalize=true"
    assert request.headers == {
        "authorization": "Basic YTpi",
        "content-type": V1,
        "X-Forward": "true",
        "X-Forwarded-For": "127.0.0.1",
    }


def test_followers_answer_what_needs_no_write():
    registry, leader = follower((200, b"application/json", b"{}"))
    assert registry.json("POST", "/subjects/known/versions", {"schema": record("x")})[1]["id"] == 1
    assert registry.json("GET", "/schemas/ids/1")[0] == 200
    assert leader.requests == []


def test_a_leader_that_is_away_is_named():
    registry, _ = follower(RegistryError(500, 50003, "away"))
    assert registry.json("DELETE", "/subjects/known")[1]["error_code"] == 50003
    registry, _ = follower(None, leader_url=None)
    assert registry.json("DELETE", "/subjects/known")[1]["error_code"] == 50004
    registry, leader = follower((200, b"application/json", b"{}"))
    status, error = registry.json("DELETE", "/subjects/known", headers=[("X-Forward", "true")])
    assert (status, error["error_code"], leader.requests) == (500, 50004, [])


def test_refusals_of_the_leader_are_passed_on():
    registry, _ = follower((409, b"application/json", b'{"error_code":40901,"message":"x"}'))
    assert registry.json("POST", "/subjects/a/versions", {"schema": "x"})[0] == 409
    assert registry.node.caught_up == 0


def test_long_requests_are_not_kept_without_bound(monkeypatch):
    """Clients choose the length of paths, queries and headers, also of what is answered with 200."""
    monkeypatch.setattr("bowstring.registry.api.answer_cache.BYTES_MAX", 100_000)
    kept, clear = [], AnswerCache.clear
    monkeypatch.setattr(AnswerCache, "clear", lambda cache: kept.append(len(cache)) or clear(cache))
    registry = RegistryDouble()
    for number in range(100):
        headers = [("accept", f"*/*,x/{'z' * 1000}{number}")]
        assert registry.ask("GET", f"/subjects?x={'y' * 10_000}{number}", headers=headers)[0] == 200
    assert max(kept) <= 10
