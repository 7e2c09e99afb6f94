"""Records and names that contain HTML, scripts, terminal codes, invalid UTF-8 or ten megabytes do nothing."""

from urllib.parse import quote

import pytest

from bench.console.views import views
from tests.system.console.shown_cluster import HOSTILE, HOSTILE_NAME
from tests.system.console.visits import NARROW, visit

PATHS = views(HOSTILE, [HOSTILE_NAME], HOSTILE_NAME, HOSTILE_NAME)


@pytest.mark.parametrize("path", PATHS)
def test_a_page_of_hostile_data_runs_nothing(browser, console, path):
    if console.get(path).kind != "text/html":
        return
    with visit(browser, console.url) as seen:
        seen.page.on("dialog", lambda dialog: seen.errors.append(f"dialog: {dialog.message}"))
        seen.open(path)
        seen.look(scheme="light", width=NARROW)
        assert seen.hostile_runs() == 0
        assert seen.errors == [], "a refused script is an error, too"
        assert seen.too_wide() == []
        content = seen.page.content()
        assert not any(code in content for code in ("\x1b", "\x9b", "\x07")), "codes are shown as text"
        assert len(content) < 2_000_000, "of large values the beginning"


def test_names_in_addresses_stay_text(browser, console):
    with visit(browser, console.url) as seen:
        for path in (f"/topics?q={quote(HOSTILE_NAME)}", f"/topics/{quote(HOSTILE_NAME, safe='')}"):
            answer = seen.page.goto(console.url + path)
            assert answer is not None and answer.status in (200, 404, 400)
            assert seen.hostile_runs() == 0
            assert "<img src=x" not in seen.page.content()
