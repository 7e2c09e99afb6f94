"""Builds command lines of Kafka's own performance tools and parses their output."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bench.peers.install import PeerError
from bench.peers.toolhost import ToolHost

PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER = "org.apache.kafka.tools.ConsumerPerformance"
END_TO_END = "org.apache.kafka.tools.EndToEndLatency"
PROBE = "LatencyProbe"
EXACTLY_ONCE = "ExactlyOnceTool"


@dataclass(frozen=True)
class Produced:
    """The closing line of ProducerPerformance."""

    records: int
    records_per_second: float
    mean_ms: float
    p50_ms: float
    p99_ms: float
    p999_ms: float


@dataclass(frozen=True)
class Consumed:
    """The last line of ConsumerPerformance; its fetch rate does not include joining the group."""

    records: int
    records_per_second: float
    fetch_records_per_second: float
    rebalance_ms: int


@dataclass(frozen=True)
class Latency:
    """Round trips of LatencyProbe, in microseconds."""

    records: int
    mean_us: float
    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float


@dataclass(frozen=True)
class EndToEnd:
    """The output of EndToEndLatency: whole milliseconds except for the mean."""

    mean_ms: float
    p50_ms: int
    p99_ms: int
    p999_ms: int


def producer_arguments(
    bootstrap: str,
    topic: str,
    records: int,
    record_bytes: int,
    settings: dict[str, str],
    reporting_ms: int = 5_000,
) -> list[str]:
    """Returns arguments of an unthrottled ProducerPerformance run, with progress each `reporting_ms`."""
    properties = [f"{key}={value}" for key, value in settings.items()]
    fixed = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)]
    rate = ["--record-size", str(record_bytes), "--throughput", "-1"]
    rate += ["--reporting-interval", str(reporting_ms)]
    return [*fixed, *rate, *(["--command-property", *properties] if properties else [])]


def consumer_arguments(
    bootstrap: str,
    topic: str,
    records: int,
    timeout_ms: int = 20_000,
    settings: Mapping[str, str] | None = None,
) -> list[str]:
    """Returns arguments of a ConsumerPerformance run from the earliest offset, in a new group."""
    fixed = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)]
    properties = [f"{key}={value}" for key, value in (settings or {}).items()]
    more = [part for each in properties for part in ("--command-property", each)]
    return [*fixed, "--timeout", str(timeout_ms), "--hide-header", *more]


def probe_arguments(
    bootstrap: str, topic: str, warm_up: int, records: int, acks: str, record_bytes: int
) -> list[str]:
    """Returns arguments of LatencyProbe."""
    return [bootstrap, topic, str(warm_up), str(records), acks, str(record_bytes)]


def end_to_end_arguments(bootstrap: str, topic: str, records: int, acks: str, record_bytes: int) -> list[str]:
    """Returns arguments of EndToEndLatency in the named form that 4.x requires."""
    fixed = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)]
    return [*fixed, "--producer-acks", acks, "--record-size", str(record_bytes)]


def finish_producer(host: ToolHost, expected: int, timeout_seconds: float = 300.0) -> Produced:
    """Waits for a ProducerPerformance begun on `host`.

    Raises:
        PeerError: it failed, or sent another number of records.
    """
    return _checked(host, parse_producer(host.finish(timeout_seconds)), expected)


def finish_consumer(host: ToolHost, expected: int, timeout_seconds: float = 300.0) -> Consumed:
    """Waits for a ConsumerPerformance begun on `host`.

    Raises:
        PeerError: it failed, or read fewer records; the tool itself only warns then.
    """
    consumed = parse_consumer(host.finish(timeout_seconds))
    if consumed.records < expected:
        raise PeerError(f"{host.name} read {consumed.records} of {expected} records")
    return consumed


def parse_producer(lines: list[str]) -> Produced:
    """Reads the summary, the last line that has percentiles."""
    pattern = re.compile(
        r"^(\d+) records sent, ([\d.]+) records/sec \([\d.]+ MB/sec\), ([\d.]+) ms avg latency, "
        r"[\d.]+ ms max latency, (\d+) ms 50th, \d+ ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th"
    )
    match = _last_match(pattern, lines, PRODUCER)
    rate, mean, p50, p99, p999 = map(float, match.groups()[1:])
    return Produced(int(match[1]), rate, mean, p50, p99, p999)


def parse_progress(line: str) -> tuple[int, float] | None:
    """Records since the line before and the mean milliseconds to an acknowledgement, of a line that
    ProducerPerformance prints while it runs; None of other lines.
    """
    match = re.match(
        r"^(\d+) records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), ([\d.]+) ms avg latency", line
    )
    return (int(match[1]), float(match[2])) if match and " 50th" not in line else None


def parse_consumer(lines: list[str]) -> Consumed:
    """Reads the line of comma-separated values that closes the output.

    Its columns: start, end, MB, MB/s, records, records/s, rebalance ms, fetch ms, fetch MB/s and
    fetch records/s.
    """
    for line in reversed(lines):
        fields = [field.strip() for field in line.split(", ")]
        if len(fields) == 10:
            return Consumed(int(fields[4]), float(fields[5]), float(fields[9]), int(fields[6]))
    raise PeerError("\n".join([f"{CONSUMER} printed no summary:", *lines[-5:]]))


def parse_probe(lines: list[str]) -> Latency:
    """Reads LatencyProbe's one line."""
    pattern = re.compile(
        r"^count=(\d+) mean_us=([\d.]+) p50_us=([\d.]+) p99_us=([\d.]+) p999_us=([\d.]+) max_us=([\d.]+)$"
    )
    match = _last_match(pattern, lines, PROBE)
    return Latency(int(match[1]), *map(float, match.groups()[1:]))


def parse_timed(lines: list[str]) -> dict[str, float]:
    """Reads the line of ExactlyOnceTool: count, seconds, and percentiles if there are any."""
    match = _last_match(re.compile(r"^count=\d+ seconds=.*"), lines, EXACTLY_ONCE)
    return {name: float(value) for name, _, value in (each.partition("=") for each in match[0].split())}


def parse_end_to_end(lines: list[str]) -> EndToEnd:
    """Reads EndToEndLatency's two closing lines."""
    mean = _last_match(re.compile(r"^Avg latency: ([\d.]+) ms"), lines, END_TO_END)
    pattern = re.compile(r"^Percentiles: 50th = (\d+), 99th = (\d+), 99\.9th = (\d+)")
    return EndToEnd(float(mean[1]), *map(int, _last_match(pattern, lines, END_TO_END).groups()))


def _last_match(pattern: re.Pattern[str], lines: list[str], tool: str) -> re.Match[str]:
    for line in reversed(lines):
        if match := pattern.match(line):
            return match
    raise PeerError("\n".join([f"{tool} printed no summary:", *lines[-5:]]))


def _checked(host: ToolHost, produced: Produced, expected: int) -> Produced:
    if produced.records != expected:
        raise PeerError(f"{host.name} sent {produced.records} of {expected} records")
    return produced
