"""Runs `python -m bench.silence [alone] [cluster]`: prints how long others waited during each large request.

The longest wait counts, so run nothing beside it. `--out DIR` writes a report with the bars. `--small` is a
size for tests of this module.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final, NamedTuple

from bench.machine import facts
from bench.peers.bowstring import Bowstring
from bench.silence.loads import Client
from bench.silence.probe import Probe
from bench.silence.report import ALONE, HEAD, Row, line, written
from bowstring.cluster.cluster import Cluster

SERVER: Final = {"broker.session.timeout.ms": "9000", "controller.quorum.fetch.timeout.ms": "2000"}
"""As on a server: clusters for tests notice failures sooner."""
_SETTLES_S: Final = 1.0  # files are unlinked, followers join: the aftermath of a request counts, too


class Size(NamedTuple):
    """How large the requests are."""

    topics: int = 2000
    partitions: int = 4000
    large: int = 9000


class Bench:
    """Measures loads on one cluster.

    Args:
        where: Names the cluster in the report.
        ports: Of all brokers; the first is the one that the large requests go to.
    """

    def __init__(self, where: str, ports: list[int]) -> None:
        self._where = where
        self._ports = ports
        self.rows: list[Row] = []

    def measure(self, load: str, run: Callable[[], object]) -> None:
        """Runs a load while other clients probe all brokers; notes the slowest of them for each question."""
        with ExitStack() as stack:
            probes = {
                question: [stack.enter_context(Probe(port, question)) for port in self._ports]
                for question in ("ApiVersions", "Metadata")
            }
            begin = time.monotonic()
            run()
            took_s = time.monotonic() - begin
            time.sleep(_SETTLES_S)
        for question, each in probes.items():
            worst = max((probe.answers for probe in each), key=lambda answers: answers.longest_ms)
            self.rows.append(Row(self._where, load, took_s, question, *worst))
            print(line(self.rows[-1]), flush=True)


def loads(bench: Bench, client: Client, size: Size) -> None:
    """Sends each of the large requests."""
    bench.measure(ALONE, lambda: time.sleep(1))
    client.create(["fresh"], size.partitions)
    topic = client.wait_for("fresh", size.partitions)
    here = client.broker_id()
    own = [each.partition_index for each in topic.partitions if each.leader_id == here]
    bench.measure(
        f"Produce to {len(own):,} fresh partitions", lambda: client.produce(topic.topic_id, own, -1)
    )
    many = [f"many-{number}" for number in range(size.topics)]

    def create_many() -> None:
        client.create(many, 1)
        client.wait_for(many[-1], 1)

    def create_large() -> None:
        client.create(["large"], size.large)
        client.wait_for("large", size.large)

    bench.measure(f"CreateTopics of {size.topics:,} topics", create_many)
    bench.measure(f"CreateTopics of {size.large:,} partitions", create_large)
    bench.measure(f"DeleteTopics of {size.topics:,} topics", lambda: client.delete(many))
    bench.measure(f"DeleteTopics of {size.large:,} partitions", lambda: client.delete(["large"]))


def alone(work: Path, size: Size) -> list[Row]:
    """Measures on one broker that runs alone."""
    peer = Bowstring(work / "alone")
    peer.prepare()
    peer.start()
    try:
        bench = Bench("a broker alone", [peer.port])
        with closing(Client(peer.port)) as client:
            loads(bench, client, size)
    finally:
        peer.kill()
    return bench.rows


def cluster(work: Path, size: Size) -> list[Row]:
    """Measures on three brokers, with the large requests to one of them."""
    with Cluster(3, data_dir=work / "cluster", config=SERVER, linked=False, start_timeout_s=120) as made:
        ports = [int(made.address(id).rpartition(":")[2]) for id in made.broker_ids]
        bench = Bench("three brokers", ports)
        with closing(Client(ports[0])) as client:
            loads(bench, client, size)
    return bench.rows


def main(arguments: list[str] | None = None) -> list[list[Row]]:
    """Measures what the arguments name, or all; returns the rows of each round."""
    options = _options(arguments)
    size = Size(20, 40, 90) if options.small else Size()
    measures = {"alone": alone, "cluster": cluster}
    print(HEAD)
    rounds: list[list[Row]] = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="bowstring-silence-") as work:
            rounds.append(
                [row for each in options.wanted or measures for row in measures[each](Path(work), size)]
            )
    if options.out is not None:
        written(options.out, rounds, facts())
    return rounds


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.silence")
    parser.add_argument("wanted", nargs="*", metavar="alone|cluster", help="default: both")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the report goes")
    parser.add_argument("--small", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
