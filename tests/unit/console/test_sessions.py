"""Sessions: how long they last, how many one user has, and what failed sign-ins cost."""

import asyncio
import re
import threading

import pytest
from starlette.testclient import TestClient

from bowstring.clients.errors import AuthenticationError
from bowstring.console import sessions as sessions_module
from bowstring.console.app import create_app
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.options import ConsoleOptions
from bowstring.console.pages import sign_in
from bowstring.console.sessions import IDLE_S, LIFETIME_S, SESSIONS_OF_ONE, Sessions

SECURITY = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
OPTIONS = ConsoleOptions("127.0.0.1:1", security=SECURITY, sign_in=True, timeout_s=0.2)


class Clock:
    """Stands for the module `time`."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(sessions_module, "time", made)
    return made


@pytest.fixture
def sessions():
    made = Sessions(OPTIONS)
    yield made
    made.close()


def signed_in(sessions, name):
    access = ClusterAccess(OPTIONS, name, OPTIONS.security_of(name, "secret"), sessions.threads)
    return sessions.sign_in(access)


def test_a_session_ends_without_use_and_after_its_lifetime(sessions, clock):
    used, unused = signed_in(sessions, "a"), signed_in(sessions, "b")
    access = sessions.access(used)
    while clock.now < 1000.0 + LIFETIME_S - 1:
        clock.now += IDLE_S / 2
        sessions.end_old()
        if clock.now > 1000.0 + LIFETIME_S:
            break
        assert sessions.access(used) is access, "an open page uses it"
    assert sessions.access(unused) is None
    clock.now = 1000.0 + LIFETIME_S + 1
    assert sessions.access(used) is None


def test_one_user_cannot_end_the_sessions_of_others(sessions):
    other = signed_in(sessions, "other")
    mine = [signed_in(sessions, "me") for _ in range(SESSIONS_OF_ONE + 5)]
    assert sessions.access(other) is not None
    assert [sessions.access(each) is not None for each in mine] == [False] * 5 + [True] * SESSIONS_OF_ONE


def test_addresses_of_one_network_fail_together():
    assert sign_in.network_of("127.0.0.1") == "127.0.0.1"
    assert sign_in.network_of("2001:db8::1") == sign_in.network_of("2001:db8::2:3:4:5")
    assert sign_in.network_of("2001:db8::1") != sign_in.network_of("2001:db8:0:1::1")
    assert sign_in.network_of("testclient") == "testclient"


def test_many_sign_ins_at_once_are_bounded_too(monkeypatch):
    asked = []

    async def refuse(self, function, *arguments):
        asked.append(self.user)
        await asyncio.sleep(0)
        raise AuthenticationError("127.0.0.1:1", "no such user")

    monkeypatch.setattr(ClusterAccess, "admin", refuse)
    monkeypatch.setattr(sign_in, "FAILURE_S", 0.0)
    with TestClient(create_app(OPTIONS), base_url="http://localhost:8080") as client:
        token = re.search(r'name="csrf_token" value="(\w+)"', client.get("/sign-in").text)[1]
        states = []

        def attempt(number):
            given = {"name": "me", "password": str(number), "csrf_token": token}
            states.append(client.post("/sign-in", data=given).status_code)

        threads = [threading.Thread(target=attempt, args=(number,)) for number in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(states) == 40
    assert len(asked) <= sign_in.FAILURES_MAX + sign_in.AT_ONCE_MAX
    assert states.count(429) >= 40 - sign_in.FAILURES_MAX - sign_in.AT_ONCE_MAX


def test_a_sign_in_gives_a_new_id(monkeypatch):
    async def accept(self, function, *arguments):
        return None

    monkeypatch.setattr(ClusterAccess, "admin", accept)
    with TestClient(create_app(OPTIONS), base_url="http://localhost:8080", follow_redirects=False) as client:
        page = client.get("/sign-in")
        token = re.search(r'name="csrf_token" value="(\w+)"', page.text)[1]
        before = client.cookies["bowstring-8080"]
        answer = client.post("/sign-in", data={"name": "me", "password": "x", "csrf_token": token})
        assert answer.status_code == 303
        assert client.cookies["bowstring-8080"] != before
        assert client.app.state.sessions.access(before) is None
