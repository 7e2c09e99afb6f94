"""Reads what the proxy is started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PORT_DEFAULT = 8082
HOST_DEFAULT = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class RestOptions:
    """The cluster, and the bounds of what callers may use of the proxy.

    Attributes:
        bootstrap_servers: brokers to contact first, as `host:port,…`.
        security: settings of TLS and SASL by Kafka's names; without a user. Never shown.
        schema_registry: address of a schema registry; None without one. Never shown.
        request_bytes_max: size of a request's body at most; streams of records have no such bound.
        record_bytes_max: size of a record at most.
        batch_entries_max: records of a batch (`records:batch`) at most.
        callers_max: callers whose clients are kept.
        streams_max: streams of records open at a time.
        streams_of_one: of one caller; without log-ins all are one, and only streams_max counts.
        consumers_max: consumer instances of v2 at a time.
        consumers_of_one: of one caller; without log-ins all are one, and only consumers_max counts.
        consumer_idle_s: a consumer instance that nobody used for so long is closed.
        consumer_wait_s: how long a read waits for records, if neither instance nor request say that.
        consumer_bytes_max: bytes of keys and values in an answer at most.
        buffer_memory: bytes of records that a caller's producer holds at most.
        fetch_bytes: bytes that a stream of read records fetches ahead at most.
        read_memory: bytes that all streams of read records hold together; the more there are, the less each
            fetches ahead.
        idle_s: clients of a caller that was silent for so long are closed.
        linger_ms: how long the producer waits for more records.
        delivery_s: a record that is not stored by then fails.
        timeout_s: how long a request to the cluster may take.
    """

    bootstrap_servers: str = "localhost:9092"
    security: Mapping[str, Any] | None = field(default=None, repr=False)
    schema_registry: str | None = field(default=None, repr=False)
    request_bytes_max: int = 8 << 20
    record_bytes_max: int = 1 << 20
    batch_entries_max: int = 1_000
    callers_max: int = 200
    streams_max: int = 100
    streams_of_one: int = 20
    consumers_max: int = 100
    consumers_of_one: int = 20
    consumer_idle_s: float = 300.0
    consumer_wait_s: float = 1.0
    consumer_bytes_max: int = 8 << 20
    buffer_memory: int = 32 << 20
    fetch_bytes: int = 4 << 20
    read_memory: int = 256 << 20
    idle_s: float = 600.0
    linger_ms: float = 2.0
    delivery_s: float = 30.0
    timeout_s: float = 15.0
