"""Every page of the console in a browser: light and dark, wide and narrow, by keyboard, without a fault."""

from __future__ import annotations

import re

import pytest

from bench.console.views import views
from tests.system.console.visits import NARROW, WIDE, visit

PATHS = views("orders", ["billing", "shipping", "workers"], "payments")
SHOWN = {
    "/": "Overview",
    "/topics": "orders",
    "/audit": "90.00 %",
    "/connectors": "CountingSource",
    "/connectors/one?name=lines": "hidden",
}
"""What a page shows of the cluster."""


def name_of(path: str) -> str:
    """Returns a file name for a picture of a page."""
    return re.sub(r"\W+", "-", path).strip("-") or "overview"


@pytest.mark.parametrize("path", PATHS)
def test_a_page(browser, console, path):
    answer = console.get(path)
    if answer.kind != "text/html" or answer.status == 303:
        assert answer.status in (200, 303), answer.body[:500]
        return
    with visit(browser, console.url) as seen:
        seen.open(path)
        assert SHOWN.get(path, "") in seen.page.inner_text("body")
        assert seen.page.title() and seen.page.locator("h1").count() == 1
        for scheme, width, by_axe in (
            ("light", WIDE, True),
            ("dark", WIDE, False),
            ("dark", NARROW, True),
            ("light", NARROW, False),
        ):
            seen.look(scheme=scheme, width=width)
            assert seen.too_wide() == [], f"{path} at {width} px"
            seen.screenshot(f"{name_of(path)}-{scheme}-{width}")
            if by_axe:
                assert seen.violations() == [], f"{path}, {scheme} at {width} px"
        assert seen.errors == []
