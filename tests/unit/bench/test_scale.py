"""The cores with many brokers: a small run takes every figure and writes its report."""

import json

from bench.scale.__main__ import main
from bench.scale.cluster import Controller


def test_a_small_run(tmp_path):
    size = ["--brokers", "6", "--topics", "4", "--partitions", "30", "--behind", "40"]
    assert main([*size, "--output", str(tmp_path)]) == 0
    (directory,) = tmp_path.iterdir()
    rows = json.loads((directory / "report.json").read_text())["figures"]
    figures = {(row["subject"], row["what"]): row["value"] for row in rows}
    # 120 partitions with three replicas on six brokers
    assert figures["a broker dies", "partitions with it in the ISR"] == 60
    assert figures["a broker dies", "partitions that it leads"] == 20
    assert figures["it comes back", "decisions of that"] == 1
    assert "## What limits it next" in (directory / "report.md").read_text()


def test_leaders_go_back_to_a_broker_that_was_away():
    controller = Controller()
    for broker in range(4):
        controller.start_broker(broker, 0)
    controller.create_topic("t", 8)
    assert {len(controller.state.index.led(broker)) for broker in range(4)} == {2}
