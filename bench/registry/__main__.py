"""Runs `python -m bench.registry`: requests per second of the schema registry, and what 100,000 cost.

With `--karapace DIR` (a clone of its source, whose `.venv` has what it needs) Karapace's registry is measured
in turn, on the same broker. Then the REST proxy's streams are measured, see `bench.rest`. Writes a report.
`--small` is a size for tests of this module.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from bench.machine import facts
from bench.peers.bowstring import Bowstring
from bench.procfs import cpu_seconds, memory
from bench.registry.in_broker import beside
from bench.registry.load import Rate, measure, request, send_all
from bench.registry.programs import (
    Running,
    bowstring_registry,
    bowstring_rest,
    karapace_registry,
    karapace_rest,
)
from bench.registry.report import STARTS_LATER, TAKES_MORE, Figures, written
from bench.rest.__main__ import main as rest_figures
from bowstring import Admin, Producer

MIB = 1 << 20
VERSIONS = 10
"""Of each subject of the large topic."""
TEN = 10
V2_JSON = "application/vnd.kafka.json.v2+json"
Program = Callable[..., AbstractContextManager[Running]]


def main(arguments: list[str] | None = None) -> Figures:
    """Runs the bench; returns the samples of every figure by program."""
    options = _options(arguments)
    figures: Figures = {}
    programs: list[Program] = [bowstring_registry]
    if options.karapace is not None:
        programs.append(partial(karapace_registry, options.karapace))
    with (
        tempfile.TemporaryDirectory(prefix="bowstring-registry-") as folder,
        Bowstring(Path(folder)) as peer,
    ):
        servers = f"127.0.0.1:{peer.port}"
        for _ in range(options.rounds if options.requests else 0):
            for program in programs:
                with program(servers, f"schemas-{uuid.uuid4().hex}") as running:
                    _keep(figures, running.name, "start, until it leads, s", running.start_seconds)
                    _requests(figures, running, options.requests, options.connections)
        large = _fill(servers, options.schemas)
        for _ in range(options.rounds if options.schemas else 0):
            for program in programs:
                with program(servers, large, options.schemas) as running:
                    _load(figures, running, options.schemas)
        rests: list[Program] = [bowstring_rest]
        if options.karapace is not None:
            rests.append(partial(karapace_rest, options.karapace))
        with Admin(servers) as admin:
            admin.create_topic("posts", 3)
        for _ in range(options.rounds if options.posts else 0):
            for program in rests:
                with program(servers) as running:
                    _post_tens(figures, running, options.posts, options.connections)
    for _ in range(options.rounds if options.records else 0):
        for figure in rest_figures(["--records", str(options.records), "--posts", str(options.posts)]):
            _keep(figures, "bowstring", f"REST: {figure.name}, {figure.unit}", figure.value)
    for _ in range(options.starts):
        _compare_starts(figures)
    if options.out is not None:
        written(options.out, figures, facts(), vars(options))
    return figures


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.registry")
    parser.add_argument("--karapace", type=Path, metavar="DIR")
    parser.add_argument("--requests", type=int, default=2_000, help="of each kind, in each round; 0: none")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--schemas", type=int, default=100_000, help="of the topic that is loaded; 0: none")
    parser.add_argument("--records", type=int, default=1_000_000, help="of the REST proxy; 0: none")
    parser.add_argument("--posts", type=int, default=1_000, help="of ten records, to the REST proxy; 0: none")
    parser.add_argument("--starts", type=int, default=5, help="of a broker with both beside it, and without")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the report goes")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    if options.small:
        options.requests, options.schemas, options.records, options.rounds = 20, 50, 0, 1
        options.posts, options.starts = 20, 1
    return options


def _compare_starts(figures: Figures) -> None:
    """Notes what registry and REST proxy add to a broker that starts them, beside one without."""
    with tempfile.TemporaryDirectory(prefix="bowstring-registry-") as folder:
        without, both = (beside(Path(folder, str(number)), bool(number)) for number in range(2))
    _keep(figures, "bowstring", STARTS_LATER, both.start_s - without.start_s)
    _keep(figures, "bowstring", TAKES_MORE, both.memory_mib - without.memory_mib)


def _record(number: int, *more: str) -> str:
    fields: list[dict[str, object]] = [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "price", "type": ["null", "double"], "default": None},
    ]
    fields.extend({"name": each, "type": "string", "default": ""} for each in more)
    record = {"type": "record", "name": f"Order{number}", "namespace": "shop", "fields": fields}
    return json.dumps(record, separators=(",", ":"))


def _fill(servers: str, count: int) -> str:
    """Writes a topic as Confluent's registry has it, each subject with several versions; returns its name."""
    topic = f"schemas-{count}"
    with Admin(servers) as admin:
        admin.create_topic(topic, 1, configs={"cleanup.policy": "compact"})
    with Producer(servers) as producer:
        for number in range(count):
            subject, version = f"orders-{number // VERSIONS}-value", number % VERSIONS + 1
            more = [f"note{each}" for each in range(version - 1)]
            key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
            value = {
                "subject": subject,
                "version": version,
                "id": number + 1,
                "schema": _record(number // VERSIONS, *more),
                "deleted": False,
            }
            key_bytes, value_bytes = (
                json.dumps(each, separators=(",", ":")).encode() for each in (key, value)
            )
            producer.send(topic, value_bytes, key=key_bytes, partition=0)
        producer.flush()
    return topic


def _requests(figures: Figures, running: Running, count: int, connections: int) -> None:
    send = partial(measure, running.url, [running.pid], connections=connections)
    post = partial(request, running.url, "POST")

    def keep(name: str, rate: Rate) -> None:
        _keep(figures, running.name, f"{name}, 1/s", rate.per_second)
        _keep(figures, running.name, f"{name}, ms of CPU", rate.cpu_ms)

    new = [post(f"/subjects/orders-{k}-value/versions", {"schema": _record(k)}) for k in range(count)]
    keep("register a new schema", send(new))
    ids = [json.loads(each)["id"] for each in send_all(running.url, new, connections)]
    looked_up = [request(running.url, "GET", f"/schemas/ids/{each}") for each in ids]
    keep("look up by id", send(looked_up))
    path = "/compatibility/subjects/orders-{}-value/versions/latest"
    checks = [post(path.format(k), {"schema": _record(k, f"note{k}")}) for k in range(count)]
    keep("check compatibility", send(checks))


def _post_tens(figures: Figures, running: Running, posts: int, connections: int) -> None:
    records = [
        {"value": {"id": k, "name": "something", "price": 12.5, "tags": ["a", "b"]}} for k in range(TEN)
    ]
    post = request(running.url, "POST", "/topics/posts", {"records": records}, V2_JSON)
    send_all(running.url, [post] * connections, connections)
    rate = measure(running.url, [running.pid], [post] * posts, connections)
    _keep(figures, running.name, "REST v2: produce JSON in tens, records/s", TEN * rate.per_second)
    _keep(figures, running.name, "REST v2: produce JSON in tens, ms of CPU for a record", rate.cpu_ms / TEN)


def _load(figures: Figures, running: Running, schemas: int) -> None:
    """Notes what a start on a large topic took, until the last schema of it is found."""
    _keep(figures, running.name, f"load {schemas:,} schemas, s", running.start_seconds)
    _keep(figures, running.name, f"load {schemas:,} schemas, s of CPU", cpu_seconds(running.pid))
    _keep(figures, running.name, f"memory with {schemas:,} schemas, MiB", memory(running.pid).rss_bytes / MIB)


def _keep(figures: Figures, program: str, name: str, value: float) -> None:
    print(f"| {name} | {program} | {value:,.2f} |", flush=True)
    figures.setdefault(name, {}).setdefault(program, []).append(value)


if __name__ == "__main__":
    main(sys.argv[1:])
