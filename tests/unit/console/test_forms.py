"""Every form that changes something: only with its token, and only with --write. No cluster is contacted."""

import re

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from bowstring.console.app import create_app
from bowstring.console.options import ConsoleOptions

OWN = {"/sign-in", "/sign-out", "/theme"}
"""They change nothing of the cluster."""


def app_of(**options):
    return create_app(ConsoleOptions("127.0.0.1:1", timeout_s=0.2, **options))


def changing(app):
    """Returns the paths of all routes that are not read-only, with something for each parameter."""
    routes = [route for route in app.routes if isinstance(route, Route)]
    found = {re.sub(r"\{[^}]*\}", "1", route.path) for route in routes if route.methods - {"GET", "HEAD"}}
    assert len(found) >= 10
    return sorted(found)


def client_of(app):
    return TestClient(app, base_url="http://localhost:8080", follow_redirects=False)


@pytest.mark.parametrize("sent", [{}, {"csrf_token": "0" * 64}, {"csrf_token": "é"}])
def test_no_form_is_taken_without_its_token(sent):
    app = app_of(write=True)
    with client_of(app) as client:
        for path in set(changing(app)) - {"/sign-in"}:
            assert client.post(path, data=sent or {"a": "1"}).status_code == 403, path


def test_no_form_changes_a_cluster_without_the_option():
    app = app_of()
    with client_of(app) as client:
        token = re.search(r'name="csrf_token" value="(\w+)"', client.get("/nothing").text)[1]
        for path in set(changing(app)) - OWN:
            answer = client.post(path, data={"csrf_token": token})
            assert answer.status_code == 403, path
            assert "--write" in answer.text


def test_nobody_changes_a_cluster_before_the_sign_in():
    security = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    app = app_of(write=True, sign_in=True, security=security)
    with client_of(app) as client:
        token = re.search(r'name="csrf_token" value="(\w+)"', client.get("/sign-in").text)[1]
        for path in set(changing(app)) - OWN:
            answer = client.post(path, data={"csrf_token": token})
            assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=%2F"), path
        assert client.post("/sign-in", data={"name": "x", "password": "y"}).status_code == 403


def test_a_token_of_another_browser_is_worth_nothing():
    app = app_of(write=True)
    with client_of(app) as client:
        token = re.search(r'name="csrf_token" value="(\w+)"', client.get("/nothing").text)[1]
        client.cookies.clear()
        assert client.post("/theme", data={"csrf_token": token, "theme": "dark"}).status_code == 403
