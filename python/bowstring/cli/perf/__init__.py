"""Implements `bowstring perf`: produce, consume, latency, with the output of Kafka's own tools."""

from __future__ import annotations

import typer

from bowstring.cli.perf import consume, latency, produce

app = typer.Typer(
    help="Measure a cluster like kafka-producer-perf-test, kafka-consumer-perf-test and EndToEndLatency.",
    no_args_is_help=True,
)
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)
app.command("latency")(latency.latency)
