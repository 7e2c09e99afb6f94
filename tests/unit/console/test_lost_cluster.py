"""What pages show while the cluster does not answer: what was known, at once, with a notice."""

import asyncio
import threading
import time

import pytest
from starlette.testclient import TestClient

from bowstring.clients.admin import admin as admin_module
from bowstring.clients.errors import ClientError, ClientTimeoutError, UnknownTopicError
from bowstring.console import cluster_access
from bowstring.console.app import create_app
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.options import ConsoleOptions
from bowstring.console.pages import groups, overview
from bowstring.console.sessions import Sessions
from tests.support.waiting import pause_async

OPTIONS = ConsoleOptions("127.0.0.1:1", timeout_s=0.2)


@pytest.fixture
def access(monkeypatch):
    monkeypatch.setattr(cluster_access, "WAIT_S", 0.05)
    sessions = Sessions(OPTIONS)
    yield ClusterAccess(OPTIONS, None, None, sessions.threads)
    sessions.close()


class Cluster:
    """Stands for a client: its calls answer, hang, or fail."""

    def __init__(self):
        self.answers = threading.Event()
        self.answers.set()
        self.error = None
        self.value = "first"

    def close(self):
        """Closes nothing."""

    def ask(self):
        self.answers.wait(60)
        if self.error is not None:
            raise self.error
        return self.value


@pytest.fixture
def cluster(monkeypatch):
    made = Cluster()
    monkeypatch.setattr(admin_module, "Admin", lambda **settings: made)
    yield made
    made.answers.set()


def ask(access, key="topics"):
    return access.cached((key,), 0.0, lambda admin: admin.ask())


def test_an_old_answer_is_shown_while_the_cluster_hangs(access, cluster):
    async def look():
        assert await ask(access) == "first"
        assert access.trouble == ""
        cluster.answers.clear()
        assert await ask(access) == "first"
        assert "does not answer" in access.trouble
        cluster.value = "second"
        cluster.answers.set()
        while await ask(access) != "second":
            await pause_async(0.01, "the answer comes on another thread")
        assert access.trouble == ""

    asyncio.run(look())


def test_an_old_answer_outlives_failures_and_a_refusal_does_not_hide(access, cluster):
    async def look():
        assert await ask(access) == "first"
        cluster.error = ClientTimeoutError("no broker answered in time")
        for _ in range(3):
            assert await ask(access) == "first"
            assert "no broker answered" in access.trouble
        cluster.error = UnknownTopicError(3, "topic 'x'")
        with pytest.raises(UnknownTopicError):
            while True:
                await ask(access)
                await pause_async(0.01, "the answer comes on another thread")
        assert access.trouble == ""

    asyncio.run(look())


def test_without_an_old_answer_a_page_ends_soon(access, cluster):
    async def look():
        cluster.answers.clear()
        begun = time.monotonic()
        with pytest.raises(ClientError, match=r"no broker listens at 127\.0\.0\.1:1"):
            await ask(access)
        assert time.monotonic() - begun < OPTIONS.timeout_s + 30

    asyncio.run(look())


def test_the_overview_is_there_before_the_cluster_answers(monkeypatch):
    monkeypatch.setattr(overview, "PAINT_S", 0.0)
    with TestClient(create_app(OPTIONS), base_url="http://localhost:8080") as client:
        page = client.get("/")
        assert page.status_code == 200
        assert "Waiting for the cluster" in page.text
        assert 'data-live="/overview/live"' in page.text


@pytest.mark.parametrize("path", ["/groups", "/share-groups", "/groups/one?name=a%3Cb"])
def test_groups_are_there_before_the_cluster_answers(monkeypatch, path):
    monkeypatch.setattr(groups, "PAINT_S", 0.0)
    with TestClient(create_app(OPTIONS), base_url="http://localhost:8080") as client:
        page = client.get(path)
        assert page.status_code == 200
        assert "Waiting for the cluster" in page.text
        assert "<h1>a&lt;b</h1>" in page.text or page.headers["refresh"]


def test_only_one_part_of_a_page_waits(access, cluster, monkeypatch):
    async def look():
        parts = range(10)
        for part in parts:
            await ask(access, part)
        cluster.answers.clear()
        await ask(access, 0)
        monkeypatch.setattr(cluster_access, "WAIT_S", 600.0)
        monkeypatch.setattr(cluster_access, "NEXT_WAIT_S", 0.0)
        for part in parts:
            assert await ask(access, part) == "first"

    asyncio.run(look())
