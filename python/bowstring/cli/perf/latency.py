"""Implements `bowstring perf latency`: Kafka's EndToEndLatency, one record after another."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from bowstring.cli.command_config import security
from bowstring.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, Json
from bowstring.cli.output import print_json
from bowstring.clients.errors import ClientError, ClientTimeoutError, TopicExistsError

POLL_TIMEOUT_S = 60.0
PROGRESS_EVERY = 1000


def percentile(ordered: list[int], share: float) -> int:
    """Returns the value at this share of an ordered list."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def latency(
    topic: Annotated[str, typer.Option("--topic", help="Created if it does not exist.")],
    num_records: Annotated[int, typer.Option("--num-records", min=1, help="Number of records.")],
    record_size: Annotated[
        int, typer.Option("--record-size", min=1, help="Size of a record in bytes.")
    ] = 100,
    producer_acks: Annotated[str, typer.Option("--producer-acks", help="1 or all.")] = "1",
    warmup: Annotated[
        int, typer.Option("--warmup", min=0, help="Send this many records first without measuring.")
    ] = 0,
    command_config: Annotated[
        Path | None, typer.Option("--command-config", exists=True, help="Properties file.")
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    json: Json = False,
) -> None:
    """Send records one at a time, wait until a consumer gets each, and print the latency."""
    from bowstring.cli.perf.properties import shared_arguments
    from bowstring.clients.config.client import CONSUMER
    from bowstring.clients.consumer.consumer import Consumer
    from bowstring.clients.producer.config import PRODUCER
    from bowstring.clients.producer.producer import Producer

    if producer_acks not in ("1", "all"):
        raise typer.BadParameter(
            "latency needs acknowledgements: give 1 or all", param_hint="--producer-acks"
        )
    sending, reading = shared_arguments(command_config, PRODUCER, CONSUMER)
    sending |= {"acks": producer_acks, "linger_ms": 0}
    _create(bootstrap, topic, json, sending.get("security") or security())
    with (
        Producer(**{"bootstrap_servers": bootstrap, "security": security(), **sending}) as producer,
        Consumer(**{"bootstrap_servers": bootstrap, "security": security(), **reading}) as consumer,
    ):
        consumer.assign(consumer.partitions_for(topic))
        consumer.seek_to_end()
        for partition in consumer.assignment():
            consumer.position(partition)
        rng = random.Random(0)
        for _ in range(warmup):
            _round(producer, consumer, topic, rng, record_size)
        taken_ns = []
        for number in range(num_records):
            taken_ns.append(_round(producer, consumer, topic, rng, record_size))
            if number % PROGRESS_EVERY == 0 and not json:
                print(f"{number}\t{taken_ns[-1] / 1e6}", flush=True)
    _report(taken_ns, json)


def _create(bootstrap: str, topic: str, quiet: bool, secured: dict[str, Any] | None) -> None:
    from bowstring.clients.admin.admin import Admin

    with Admin(bootstrap, security=secured) as admin:
        if topic in admin.topics(internal=True):
            return
        if not quiet:
            print(
                f'Topic "{topic}" does not exist. '
                "Will create topic with 1 partition(s) and replication factor = 1"
            )
        try:
            admin.create_topic(topic, 1, 1)
        except TopicExistsError:
            return  # another client created it first


def _round(producer: Any, consumer: Any, topic: str, rng: random.Random, size: int) -> int:
    message = bytes([rng.randrange(26) + 65]) * size
    begin = time.perf_counter_ns()
    producer.send(topic, message).result(POLL_TIMEOUT_S)
    records = consumer.poll(timeout=POLL_TIMEOUT_S)
    elapsed = time.perf_counter_ns() - begin
    if not records:
        raise ClientTimeoutError(f"poll() timed out before finding a result (timeout:[{POLL_TIMEOUT_S:g} s])")
    if records[0].value != message:
        raise ClientError("the record read is not the one sent: stop other producers of this topic")
    if len(records) != 1:
        raise ClientError(f"expected one record, got {len(records)}")
    return int(elapsed)


def _report(taken_ns: list[int], json: bool) -> None:
    ordered = sorted(taken_ns)
    shares = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    found = {name: percentile(ordered, share) for name, share in shares.items()}
    average_ms = sum(ordered) / len(ordered) / 1e6
    if json:
        us = {f"{name}_us": value / 1000 for name, value in found.items()}
        print_json({"records": len(ordered), "avg_ms": average_ms, **us, "max_us": ordered[-1] / 1000})
        return
    whole = {name: value // 1_000_000 for name, value in found.items()}
    print(f"Avg latency: {average_ms:.4f} ms")
    print(f"Percentiles: 50th = {whole['p50']}, 99th = {whole['p99']}, 99.9th = {whole['p999']}")
    print(
        f"Percentiles (us): 50th = {found['p50'] / 1000:.0f}, 99th = {found['p99'] / 1000:.0f}, "
        f"99.9th = {found['p999'] / 1000:.0f}"
    )
