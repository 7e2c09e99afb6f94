"""Kafka's client properties, as its perf tools take them, read into arguments of our clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bowstring.clients.errors import ConfigError

Table = dict[str, tuple[str, Callable[[str], Any]]]


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


COMMON: Table = {
    "bootstrap.servers": ("bootstrap_servers", str),
    "client.id": ("client_id", str),
    "request.timeout.ms": ("request_timeout_ms", int),
    "metadata.max.age.ms": ("metadata_max_age_ms", int),
}
PRODUCER: Table = COMMON | {
    "acks": ("acks", str),
    "batch.size": ("batch_size", int),
    "buffer.memory": ("buffer_memory", int),
    "compression.type": ("compression", str),
    "delivery.timeout.ms": ("delivery_timeout_ms", int),
    "enable.idempotence": ("idempotent", _boolean),
    "linger.ms": ("linger_ms", float),
    "max.block.ms": ("max_block_ms", int),
    "max.in.flight.requests.per.connection": ("max_in_flight", int),
    "max.request.size": ("max_request_size", int),
    "retry.backoff.ms": ("retry_backoff_ms", int),
}
CONSUMER: Table = COMMON | {
    "auto.offset.reset": ("auto_offset_reset", str),
    "check.crcs": ("check_crcs", _boolean),
    "enable.auto.commit": ("enable_auto_commit", _boolean),
    "fetch.max.bytes": ("fetch_max_bytes", int),
    "fetch.max.wait.ms": ("fetch_max_wait_ms", int),
    "fetch.min.bytes": ("fetch_min_bytes", int),
    "group.id": ("group_id", str),
    "heartbeat.interval.ms": ("heartbeat_interval_ms", int),
    "isolation.level": ("isolation_level", str),
    "max.partition.fetch.bytes": ("max_partition_fetch_bytes", int),
    "max.poll.interval.ms": ("max_poll_interval_ms", int),
    "max.poll.records": ("max_poll_records", int),
    "session.timeout.ms": ("session_timeout_ms", int),
}


def client_arguments(table: Table, file: Path | None, given: Iterable[str]) -> dict[str, Any]:
    """Arguments out of a properties file and `name=value` options, which win.

    Raises:
        ConfigError: a name is unknown, or a value is not of its type.
    """
    found: dict[str, str] = {}
    if file is not None:
        for line in file.read_text().splitlines():
            text = line.strip()
            if text and not text.startswith(("#", "!")):
                name, _, value = text.partition("=")
                found[name.strip()] = value.strip()
    for item in given:
        name, equals, value = item.partition("=")
        if not equals:
            raise ConfigError(f"{item!r} is not name=value")
        found[name.strip()] = value.strip()
    arguments = {}
    for name, value in found.items():
        if name not in table:
            raise ConfigError(f"the property {name} is unknown here; there are {', '.join(sorted(table))}")
        argument, read = table[name]
        try:
            arguments[argument] = read(value)
        except ValueError as error:
            raise ConfigError(f"{name}={value}: {error}") from error
    return arguments
