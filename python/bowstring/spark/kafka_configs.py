"""Translates the `kafka.*` options of Spark's connector to arguments of our own clients.

Unlike the clients themselves, a query that moves here from Spark's Kafka source keeps running with settings
that have no effect here; a warning names them. Unknown settings of TLS and SASL are refused, because ignoring
them would be unsafe.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from bowstring.clients.config.client import CONSUMER
from bowstring.clients.config.config_table import (
    ConfigName,
    boolean,
    choice,
    integer,
    nearest,
    number,
    text,
)
from bowstring.clients.config.security import check_security
from bowstring.clients.errors import ConfigError
from bowstring.security.security_names import CANONICAL

PREFIX = "kafka."
log = logging.getLogger("bowstring.spark")

# Settings that reading ranges of offsets without a group can use.
READING = frozenset(
    {
        "check_crcs",
        "client_id",
        "client_rack",
        "default_timeout_ms",
        "fetch_max_bytes",
        "fetch_max_wait_ms",
        "fetch_min_bytes",
        "isolation_level",
        "max_decompressed_batch_bytes",
        "max_partition_fetch_bytes",
        "metadata_max_age_ms",
        "request_timeout_ms",
    }
)


class HiddenSettings(dict[str, Any]):
    """Settings of TLS and SASL, whose values are not shown."""

    def __repr__(self) -> str:
        return f"<{', '.join(self)}>"


_ACKS = {"all": "all", "-1": "all", "0": 0, "1": 1}
WRITING = {
    row.name: row
    for row in (
        ConfigName("acks", "acks", choice(_ACKS)),
        ConfigName("batch.size", "batch_size", integer),
        ConfigName("buffer.memory", "buffer_memory", integer),
        ConfigName("client.id", "client_id", text),
        ConfigName("compression.type", "compression", text),
        ConfigName("delivery.timeout.ms", "delivery_timeout_ms", integer),
        ConfigName("enable.idempotence", "idempotent", boolean),
        ConfigName("linger.ms", "linger_ms", number),
        ConfigName("max.block.ms", "max_block_ms", integer),
        ConfigName("max.request.size", "max_request_size", integer),
        ConfigName("metadata.max.age.ms", "metadata_max_age_ms", integer),
        ConfigName("request.timeout.ms", "request_timeout_ms", integer),
        ConfigName("retry.backoff.ms", "retry_backoff_ms", integer),
        ConfigName("transaction.timeout.ms", "transaction_timeout_ms", integer),
    )
}
# Settings of Kafka's own client that cannot change a result here, so they need no warning.
SILENT = frozenset({"bootstrap.servers", "group.id", "receive.buffer.bytes", "send.buffer.bytes"})


def is_known_setting(name: str) -> bool:
    """Returns whether a reader or a writer accepts `kafka.` and this name without a warning."""
    return name in WRITING or name in SILENT or name in CONSUMER.rows


def consumer_configs(options: Mapping[str, str]) -> dict[str, Any]:
    """Returns arguments for reading from options by lower-case name."""
    return _configs(options, {name: row for name, row in CONSUMER.rows.items() if row.argument in READING})


def producer_configs(options: Mapping[str, str]) -> dict[str, Any]:
    """Returns arguments for writing from options by lower-case name."""
    return _configs(options, WRITING)


def _configs(options: Mapping[str, str], table: Mapping[str, ConfigName]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for option, given in options.items():
        if not option.startswith(PREFIX):
            continue
        name = option.removeprefix(PREFIX)
        if name in CANONICAL:
            found.setdefault("security", HiddenSettings())[name] = given.strip()
            continue
        if name.startswith(("security.", "ssl.", "sasl.")):
            raise ConfigError(f"option {option} is not supported; {_near(name)}")
        row = table.get(name)
        if row is not None:
            found[row.argument] = row.read(f"option {option}", given.strip())
        elif name not in SILENT:
            log.warning("option %s has no effect in bowstring; remove it", option)
    if "security" in found:
        check_security(found["security"])
    return found


def _near(name: str) -> str:
    near = nearest(name, CANONICAL)
    return f"did you mean {PREFIX}{near}?" if near else "see docs/guide/clients.md"
