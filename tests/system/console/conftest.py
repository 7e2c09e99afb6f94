"""One browser, one cluster and one console for all tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.support.browser import browser as running_browser
from tests.support.debian_packages import NoPackagesError


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    try:
        with running_browser() as browser:
            yield browser
    except NoPackagesError as error:
        pytest.skip(str(error))
