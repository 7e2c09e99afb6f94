"""The console by keyboard alone."""

import re

import pytest
from playwright.sync_api import expect

from tests.system.console.visits import NARROW, WIDE, visit

STOPS_MAX = 120
# Listed by the page itself, in the order of the document; what is in a closed dialog or hidden cannot be reached.
REACHABLE = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
  .filter((each) => !each.disabled && each.type !== "hidden" && each.checkVisibility({visibilityProperty: true}))
  .map((each) => each.dataset.stop = String(window.__stops = (window.__stops || 0) + 1))"""


def test_each_page_of_the_navigation_opens_after_g(browser, console):
    with visit(browser, console.url) as seen:
        seen.open("/topics")
        links = seen.page.locator(".side a[data-key]").evaluate_all(
            "(links) => links.map((each) => [each.dataset.key, each.getAttribute('href')])"
        )
        assert len({key for key, _ in links}) == len(links), "each key opens one page"
        assert ["t", "/topics"] in links
        for key, path in links:
            seen.page.keyboard.press("g")
            seen.page.keyboard.press(key)
            seen.page.wait_for_url(re.compile(re.escape(console.url + path) + r"(\?.*)?$"))
            expect(seen.page.locator(".side a[aria-current='page']")).to_have_attribute("href", path)
        assert seen.errors == []


def test_slash_goes_to_the_search_and_escape_leaves_it(browser, console):
    with visit(browser, console.url) as seen:
        seen.open("/topics")
        seen.page.keyboard.press("/")
        assert seen.focused().startswith("search")
        seen.page.keyboard.type("greet/gt?")
        assert seen.page.input_value("#search") == "greet/gt?", "keys are text in a field"
        seen.page.keyboard.press("Escape")
        assert not seen.focused().startswith("search")
        seen.page.keyboard.press("/")
        seen.page.keyboard.type("greet")
        seen.page.keyboard.press("Enter")
        seen.page.wait_for_url(re.compile("q=greet"))
        body = seen.page.inner_text("main")
        assert "greetings" in body and "orders" not in body


def test_a_question_mark_shows_the_keys_and_escape_closes_them(browser, console):
    with visit(browser, console.url) as seen:
        seen.open("/topics")
        seen.page.keyboard.press("?")
        expect(seen.page.locator("#help")).to_be_visible()
        assert seen.violations() == []
        seen.page.keyboard.press("Escape")
        expect(seen.page.locator("#help")).to_be_hidden()


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_tab_reaches_everything_in_order_and_the_focus_is_seen(browser, console, width):
    with visit(browser, console.url) as seen:
        seen.open("/topics")
        seen.look(scheme="light", width=width)
        stops = seen.page.evaluate(REACHABLE)
        assert len(stops) < STOPS_MAX
        reached = []
        for _ in stops:
            seen.page.keyboard.press("Tab")
            reached.append(
                seen.page.evaluate(
                    "[document.activeElement.dataset.stop, getComputedStyle(document.activeElement).outlineStyle]"
                )
            )
        assert [stop for stop, _ in reached] == stops
        assert {outline for _, outline in reached} <= {"solid", "auto"}


def test_the_first_stop_skips_the_navigation(browser, console):
    with visit(browser, console.url) as seen:
        seen.open("/topics")
        seen.page.keyboard.press("Tab")
        assert seen.focused().strip() == "Skip to content"
        seen.page.keyboard.press("Enter")
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate("document.getElementById('content').contains(document.activeElement)")
