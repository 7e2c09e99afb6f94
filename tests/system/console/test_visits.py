"""The checks of pages find what they look for."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.support.addresses import own_address
from tests.system.console.visits import NARROW, WIDE, visit

GOOD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Good</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head><body><main><h1>Good</h1></main></body></html>"""
PAGES = {
    "/good": GOOD,
    "/throws": GOOD.replace("</main>", "<script>throw new Error('thrown')</script></main>"),
    "/logs": GOOD.replace("</main>", "<script>console.error('logged')</script></main>"),
    "/elsewhere": GOOD.replace("</main>", "<img alt='' src='http://127.0.0.1:9/x.png'></main>"),
    "/wide": GOOD.replace("</h1>", "</h1><p id='w' style='width:600px'>wide</p>"),
    "/unlabelled": GOOD.replace("</main>", "<form><input name='a'></form></main>"),
    "/pale": GOOD.replace("<h1>", "<h1 style='color:#ccc'>"),
}


class Handler(BaseHTTPRequestHandler):
    """Serves the pages above."""

    def do_GET(self) -> None:
        body = PAGES.get(self.path, "").encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with HTTPServer((own_address(), 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{own_address()}:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("path", "errors", "wide", "rules"),
    [
        ("/good", [], False, []),
        ("/throws", ["exception: thrown"], False, []),
        ("/logs", ["error: logged"], False, []),
        ("/elsewhere", ["request to another host: http://127.0.0.1:9/x.png"], False, []),
        ("/wide", [], True, []),
        ("/unlabelled", [], False, ["label"]),
        ("/pale", [], False, ["color-contrast"]),
    ],
)
def test_a_fault_of_a_page_is_found(browser, url, path, errors, wide, rules):
    with visit(browser, url) as seen:
        seen.open(path)
        seen.look(scheme="light", width=NARROW)
        assert [each for each in errors if each not in seen.errors] == [] and bool(seen.errors) == bool(
            errors
        )
        assert bool(seen.too_wide()) is wide
        assert [each.partition(":")[0] for each in seen.violations()] == rules
        seen.look(scheme="dark", width=WIDE)
        assert seen.too_wide() == []
