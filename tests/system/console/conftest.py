"""One browser, one cluster and one console for all tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from bench.console.pages import Console, running_console
from bench.console.views import CONNECTOR
from tests.support.browser import browser as running_browser
from tests.support.connect_double import ConnectDouble, connect_double
from tests.support.debian_packages import NoPackagesError
from tests.system.console.shown_cluster import HOSTILE, HOSTILE_NAME, MARK, ShownCluster, shown_cluster


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    try:
        with running_browser() as browser:
            yield browser
    except NoPackagesError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="package")
def cluster(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownCluster]:
    """A broker with something for every page."""
    with shown_cluster(str(tmp_path_factory.mktemp("shown"))) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def connect() -> Iterator[ConnectDouble]:
    """A Kafka Connect with a connector that runs, and one that has failed and is hostile."""
    with connect_double() as double:
        double.add(CONNECTOR, topic="orders", pin="1234", file="/var/log/" + "long/" * 60 + "orders.log")
        double.add(HOSTILE_NAME, topic=HOSTILE, note="\u202e" + HOSTILE_NAME)
        double.traces[HOSTILE_NAME] = f"{HOSTILE_NAME}\n\tat {MARK}\n" + "\tat x.y(Z.java:1)\n" * 200
        yield double


@pytest.fixture(scope="package")
def console(cluster: ShownCluster, connect: ConnectDouble) -> Iterator[Console]:
    """A console with --write."""
    with running_console(cluster.bootstrap_servers, "--write", "--connect-url", connect.url) as console:
        yield console
