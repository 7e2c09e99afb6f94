"""One browser, one cluster and one console for all tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from bench.console.pages import Console, running_console
from tests.support.browser import browser as running_browser
from tests.support.debian_packages import NoPackagesError
from tests.system.console.shown_cluster import ShownCluster, shown_cluster


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
def console(cluster: ShownCluster) -> Iterator[Console]:
    """A console with --write."""
    with running_console(cluster.bootstrap_servers, "--write") as console:
        yield console
