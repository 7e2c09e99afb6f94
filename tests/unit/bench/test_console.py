"""The bench of the console's pages, at a small size."""

import io
import json
import time

from bench.console.__main__ import main
from bench.console.tail import note_rates
from bowstring.console.message_tail import TailLook
from bowstring.console.rendering import environment


def test_each_page_is_measured_and_live_ones_while_they_are_open(capsys):
    rows, costs = main(["--small"])
    assert "/topics" in [row.path for row in rows]
    assert {row.status for row in rows} == {200}
    assert all(0 < row.median_ms <= row.longest_ms for row in rows)
    assert costs and all(cost.console_percent >= 0 for cost in costs)
    assert capsys.readouterr().out.count(" KiB |") == len(rows)


def test_the_rate_that_a_tail_shows_is_read_from_its_page():
    state = environment().get_template("message_tail_state.html")
    html = state.render(look=TailLook([], 501_000.0, 200, 50_000), sampled=200, matched=7)
    line = f"data: {json.dumps({'tail-state': html})}\n".encode()
    shown: list[float] = []
    note_rates(io.BytesIO(line), shown, time.monotonic() + 60)
    assert shown == [501_000.0]
