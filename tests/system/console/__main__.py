"""Takes the pictures of the console that README and docs show: `python -m tests.system.console`, into docs/pictures."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.console.pages import running_console
from bowstring import Consumer, Producer
from tests.support.browser import browser as running_browser
from tests.support.peers import ROOT
from tests.system.console.shown_cluster import shown_cluster
from tests.system.console.visits import Scheme, visit

PICTURES = ROOT / "docs" / "pictures"
# Path, colours, name; the paths' state is what a reader would have clicked.
SHOWN: tuple[tuple[str, Scheme, str], ...] = (
    ("/", "light", "console-overview"),
    ("/topics/orders/messages?q=customer+3", "light", "console-messages"),
    ("/groups/one?name=billing", "dark", "console-group"),
)
BYTES_MAX = 150_000
TRAFFIC_S = 45.0
"""Until the plots have something to show."""


@contextmanager
def traffic(servers: str) -> Iterator[None]:
    """Writes and reads at a rate that goes up and down."""
    ended = threading.Event()

    def run() -> None:
        number = 0
        with (
            Producer(servers) as producer,
            Consumer(servers, group_id="billing", group_protocol="classic", max_poll_records=400) as consumer,
        ):
            consumer.subscribe(["orders"])
            while not ended.is_set():
                for _ in range(60 + 40 * (int(time.monotonic() / 4) % 4)):
                    number += 1
                    value = {"id": number, "customer": f"customer {number % 7}", "total": number % 97 * 1.5}
                    producer.send("orders", json.dumps(value).encode(), key=f"order-{number}".encode())
                producer.flush()
                if int(time.monotonic() / 6) % 3:
                    consumer.poll(timeout=0.05)
                    consumer.commit()
                ended.wait(0.2)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def main() -> None:
    """Takes the pictures."""
    PICTURES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        running_browser() as browser,
        shown_cluster(folder) as cluster,
        running_console(cluster.bootstrap_servers) as console,
        traffic(cluster.bootstrap_servers),
        visit(browser, console.url) as first,
        visit(browser, console.url) as last,
    ):
        first.open("/")
        last.open("/groups/one?name=billing")
        first.page.wait_for_timeout(1000 * TRAFFIC_S)
        for path, scheme, name in SHOWN:
            seen = last if path.startswith("/groups") else first
            if seen is first and path != "/":
                seen.open(path)
            seen.page.emulate_media(color_scheme=scheme)
            seen.page.screenshot(path=PICTURES / f"{name}.png")
            size = (PICTURES / f"{name}.png").stat().st_size
            print(f"{name}.png: {size:,} bytes")
            assert size <= BYTES_MAX, f"{name}.png is too large for git"


if __name__ == "__main__":
    main()
