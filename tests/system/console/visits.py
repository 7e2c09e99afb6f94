"""Opens pages in the browser and says what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, expect

from tests.support.browser import axe
from tests.support.peers import ROOT

SCREENSHOTS = ROOT / "build" / "screenshots"
WIDE, NARROW = 1280, 390
HEIGHTS = {WIDE: 800, NARROW: 844}
TIMEOUT_MS = 60_000
Scheme = Literal["light", "dark"]
AXE_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
TOO_WIDE = """() => {
  const width = document.documentElement.clientWidth, scrolled = document.documentElement.scrollWidth;
  if (scrolled <= width) return [];
  const isClipped = (each) =>
    each !== document.body && (getComputedStyle(each).overflowX !== "visible" || isClipped(each.parentElement));
  return [`the page is ${scrolled} px wide`, ...[...document.body.querySelectorAll("*")]
    .filter((each) => each.getBoundingClientRect().right > width + 1)
    .filter((each) => getComputedStyle(each).position === "absolute" || !isClipped(each.parentElement))
    .map((each) => `${each.outerHTML.slice(0, 80)} ends at ${each.getBoundingClientRect().right}`)
    .slice(0, 5)];
}"""


class Visit:
    """A page of the browser that notes what goes wrong.

    Attributes:
        page: Playwright's.
        errors: What the browser's console shows as error or warning, uncaught exceptions, failed loads.
    """

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.errors: list[str] = []
        page.set_default_timeout(TIMEOUT_MS)
        expect.set_options(timeout=TIMEOUT_MS)
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.errors.append(f"exception: {error}"))
        page.on("requestfailed", self._note_failure)
        page.on("request", self._note_request)

    def _note_message(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text}")

    def _note_failure(self, request: Any) -> None:
        # Event streams end when the page does.
        if request.resource_type != "eventsource" and "ERR_ABORTED" not in (request.failure or ""):
            self.errors.append(f"failed: {request.url}: {request.failure}")

    def _note_request(self, request: Any) -> None:
        asked = urlsplit(request.url)
        if asked.scheme != "data" and asked.netloc != urlsplit(self.url).netloc:
            self.errors.append(f"request to another host: {request.url[:200]}")

    def open(self, path: str) -> None:
        """Opens a page and waits until it is there; event streams stay open."""
        answer = self.page.goto(self.url + path, wait_until="load")
        while answer is not None and "refresh" in answer.headers:  # it waits for the cluster
            answer = self.page.goto(self.url + path, wait_until="load")
        assert answer is not None and answer.ok, f"{path}: {answer and answer.status}"

    def look(self, *, scheme: Scheme, width: int) -> None:
        """Shows the open page in light or dark, and at another width."""
        self.page.emulate_media(color_scheme=scheme)
        self.page.set_viewport_size({"width": width, "height": HEIGHTS[width]})

    def hostile_runs(self) -> int:
        """Returns how often a script of shown data ran."""
        return int(self.page.evaluate("window.__hostile || 0"))

    def focused(self) -> str:
        """Returns id and text of the element that has the focus."""
        return self.page.evaluate(
            "(document.activeElement.id || '') + ' ' + (document.activeElement.innerText || '').trim()"
        )

    def violations(self) -> list[str]:
        """Returns the rules of axe-core that the open page breaks, with the elements."""
        if not self.page.evaluate("'axe' in window"):
            # Evaluated by the browser's debugger: the page's own policy forbids scripts of others, and stays as it is.
            self.page.evaluate(axe())
        options = {"runOnly": AXE_RULES, "resultTypes": ["violations"]}
        result = self.page.evaluate("(options) => axe.run(document, options)", options)
        return [
            f"{rule['id']}: {node['html'][:160]} {(node['any'] or node['all'] or [{'message': ''}])[0]['message']}"
            for rule in result["violations"]
            for node in rule["nodes"][:3]
        ]

    def too_wide(self) -> list[str]:
        """Returns the elements that make the body scroll sideways."""
        return self.page.evaluate(TOO_WIDE)

    def screenshot(self, name: str) -> Path:
        """Keeps a picture for review; returns its path."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        self.page.screenshot(path=path)
        return path


@contextmanager
def visit(browser: Browser, url: str, **options: Any) -> Iterator[Visit]:
    """Opens an empty page with cookies of its own."""
    context = browser.new_context(
        viewport={"width": WIDE, "height": HEIGHTS[WIDE]}, reduced_motion="reduce", **options
    )
    try:
        yield Visit(context.new_page(), url)
    finally:
        context.close()
