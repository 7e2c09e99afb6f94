"""A page that stays open while its broker is killed and comes back."""

import signal

import pytest
from playwright.sync_api import expect

from bench.console.pages import running_console
from bowstring import Admin
from tests.support.waiting import HANG_S, wait_until
from tests.system.console.shown_cluster import ShownCluster
from tests.system.console.visits import visit


@pytest.fixture
def alone(tmp_path):
    """A broker that the test may kill."""
    cluster = ShownCluster(str(tmp_path / "alone"))
    yield cluster
    cluster.process.stop()


def test_the_page_says_it_and_goes_on_by_itself(browser, alone):
    with Admin(alone.bootstrap_servers) as admin:
        admin.create_topic("orders", 1)
    with running_console(alone.bootstrap_servers) as console, visit(browser, console.url) as seen:
        seen.open("/topics")
        notice = seen.page.locator("#live-state")
        expect(notice).to_be_hidden()
        alone.process.stop(signal.SIGKILL)
        expect(notice).to_be_visible(timeout=HANG_S * 1000)
        assert "does not answer" in notice.inner_text()
        assert seen.violations() == []
        alone.restart()
        expect(notice).to_be_hidden(timeout=HANG_S * 1000)
        wait_until(lambda: console.get("/topics").status == 200)
        assert seen.errors == []
