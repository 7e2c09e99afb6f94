"""Names the bare loops that run beside the cases of the bench, in turn with the brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.limits.loops import LoopResult

MIB = 1 << 20
WARM_MIB = 64
# What a broker can have in one write without copying: a full piece of a request.
PIECE_KIB = 256
# A Fetch of Java's client gets at most that much of a partition.
FETCH_KIB = 1024
# What a broker encrypts at a time: it stays in the processor's cache.
SEALED_KIB = 128
# Of Java's producer: max.in.flight.requests.per.connection, and a batch of 16 KiB for each of six partitions.
IN_FLIGHT = 5
REQUEST_KIB = 96
# Enough requests one after the other for a p99.
LATENCY = {"mib": 3, "warm_mib": 1, "request_kib": 1, "in_flight": 1}

Figures = Callable[[Sequence[LoopResult]], dict[str, float]]
# Runs a loop with its options, as bench.limits.loops.run_loop does.
Run = Callable[[str, Mapping[str, int]], LoopResult]


@dataclass(frozen=True)
class Limit:
    """A bare loop, or several of which a broker does the work of all.

    Attributes:
        name: Its name among the peers of a case.
        loops: (loop, options) of each.
        figures: From their results to figures with the names of the case's.
    """

    name: str
    loops: tuple[tuple[str, Mapping[str, int]], ...]
    figures: Figures

    def measure(self, mib: int, run: Run) -> dict[str, float]:
        """Runs each loop once over `mib` MiB.

        Raises:
            PeerError: one cannot be compiled, or it failed.
        """
        size = {"mib": mib, "warm_mib": min(WARM_MIB, mib)}
        return self.figures([run(loop, size | dict(options)) for loop, options in self.loops])


def throughput(record_bytes: int, *prefixes: str) -> Figures:
    """Returns figures of produce and consume cases: a loop counts all bytes it moves as if they were values.

    Args:
        record_bytes: Of a value, for records a second.
        prefixes: Of the names, where a case has such figures more than once.
    """

    def figures(results: Sequence[LoopResult]) -> dict[str, float]:
        found = {"cpu_seconds_per_gb": sum(each.cpu_s_per_gb for each in results)}
        if len(results) == 1:
            found["records_per_second"] = results[0].gb_per_s * 1e9 / record_bytes
        return {f"{prefix}{name}": value for prefix in prefixes or ("",) for name, value in found.items()}

    return figures


def _stored(record_bytes: int) -> Figures:
    """The same, and the basis on which a loop and a broker count alike: bytes in the log."""
    basis = throughput(record_bytes)
    return lambda results: basis(results) | {"cpu_seconds_per_stored_gb": results[0].cpu_s_per_gb}


def beside_clients(record_bytes: int) -> Figures:
    """Returns the figures of cases that compare clients, in which ours is named."""

    def figures(results: Sequence[LoopResult]) -> dict[str, float]:
        found = throughput(record_bytes)(results)
        found["bowstring_broker_cpu_seconds_per_gb"] = found.pop("cpu_seconds_per_gb")
        return found

    return figures


def cached(results: Sequence[LoopResult]) -> dict[str, float]:
    """Returns the figures of the case of catching up: of what it reads from the page cache."""
    (found,) = results
    return {
        "cached_cpu_seconds_per_gb": found.cpu_s_per_gb,
        "cached_mib_per_second": found.gb_per_s * 1e9 / MIB,
    }


def _latencies(results: Sequence[LoopResult]) -> dict[str, float]:
    return {name: results[0].others[name] for name in ("p50_ms", "p99_ms", "p999_ms", "max_ms")}


def produce_in_pieces(figures: Figures) -> tuple[Limit, ...]:
    """Returns the limit of producing to the page cache, whatever the batches: large pieces, no copy."""
    return (
        Limit(f"produce loop, {PIECE_KIB} KiB pieces", (("produce", {"piece_kib": PIECE_KIB}),), figures),
    )


def produce(record_bytes: int, batch_kib: int) -> tuple[Limit, ...]:
    """Returns the limits of producing in batches of `batch_kib` KiB, to the page cache."""
    figures = _stored(record_bytes)
    staged = {"batch_kib": batch_kib, "chunk_kib": max(256, batch_kib)}
    return (
        *produce_in_pieces(figures),
        Limit(f"produce-staged loop, {batch_kib} KiB batches", (("produce-staged", staged),), figures),
    )


def fetch(figures: Figures) -> tuple[Limit, ...]:
    """Returns the limit of consuming from the page cache."""
    return (Limit("fetch loop, 1 MiB pieces", (("fetch", {"piece_kib": FETCH_KIB}),), figures),)


def fetch_sealed(record_bytes: int) -> tuple[Limit, ...]:
    """Returns the limits of consuming from the page cache over TLS, and beside it in the clear."""
    loops = (("fetch-sealed", {"piece_kib": SEALED_KIB}),)
    return (
        Limit(f"fetch-sealed loop, {SEALED_KIB} KiB pieces", loops, throughput(record_bytes)),
        *fetch(throughput(record_bytes, "plain_")),
    )


def produce_and_fetch(figures: Figures, consumers: int = 1) -> tuple[Limit, ...]:
    """Returns the limit of both at once: the CPU time of one loop after the other."""
    fetches = (("fetch", {"piece_kib": FETCH_KIB}),) * consumers
    name = "produce and fetch loops" if consumers == 1 else f"produce loop and {consumers} fetch loops"
    return (Limit(name, (("produce", {"piece_kib": PIECE_KIB}), *fetches), figures),)


def replicate(figures: Figures, replication: int) -> tuple[Limit, ...]:
    """Returns the limit of producing to replicas: each appends, and followers fetch what they append."""
    loops = (("produce", {"piece_kib": PIECE_KIB}),) * replication
    loops += (("fetch", {"piece_kib": FETCH_KIB}),) * (replication - 1)
    return (Limit(f"{replication} produce loops and {replication - 1} fetch loops", loops, figures),)


def commit(figures: Figures) -> tuple[Limit, ...]:
    """Returns the limits of producing to the medium: the write-ahead log alone, and with partition files."""
    load = {"request_kib": REQUEST_KIB, "in_flight": IN_FLIGHT}
    staged = load | {"staged": 1, "batch_kib": 16}
    return (
        Limit("commit loop", (("commit", load),), figures),
        Limit("commit loop with partition files", (("commit", staged),), figures),
    )


def commit_latency() -> tuple[Limit, ...]:
    """Returns the limit of one durable record of 1 KiB at a time."""
    return (Limit("commit loop, one at a time", (("commit", LATENCY),), _latencies),)
