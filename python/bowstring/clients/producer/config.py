"""Lists the settings of Producer, with their names in other clients, and checks them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bowstring.clients.config.client import audit_settings, connection
from bowstring.clients.config.config_table import (
    INT_MAX,
    LONG_MAX,
    ConfigTable,
    as_given,
    boolean,
    choice,
    in_range,
    integer,
    multiplied,
    number,
    refused,
    setting,
    text,
)
from bowstring.clients.errors import ConfigError
from bowstring.clients.producer import encoded_batches
from bowstring.clients.producer.partitioner import (
    CustomPartitioner,
    PartitionRule,
    partition_rule,
    plain_name,
)

# Kafka brokers remember five batches per producer and partition, so no more may be in flight (KIP-98).
IN_FLIGHT_MAX = 5
# Bytes of records without a key that go to one partition before another is chosen; at most batch_size.
STICKY_BYTES = 16_384
ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}

Serializer = Callable[[Any], bytes | None]

_COUNT = "buffer_memory limits memory in bytes"


@dataclass(slots=True)
class ProducerSettings:
    """The producer's settings, in the units of the sender and the accumulator."""

    acks: int
    idempotent: bool
    compression: int
    compression_level: int | None
    linger_s: float
    batch_bytes: int
    request_bytes: int
    buffer_memory: int
    max_block_s: float
    request_timeout_s: float
    delivery_timeout_s: float
    retries: int | None
    retry_backoff_s: float
    retry_backoff_max_s: float
    in_flight_max: int
    partitioner: CustomPartitioner | None
    key_rule: int
    null_rule: int
    empty_is_null: bool
    sticky_bytes: int
    rack: str | None  # of the leaders that records without a key go to, if there are any
    transactional_id: str | None
    transaction_timeout_ms: int


def _acks(acks: int | str) -> int:
    """Returns -1, 0 or 1.

    Raises:
        ConfigError: the value is none of these.
    """
    found = ACKS.get(str(acks).lower()) if not isinstance(acks, bool) else None
    if found is None:
        raise ConfigError(f'acks is {acks!r}, it must be "all", 1 or 0')
    return found


def _check_acks(argument: str, value: Any) -> None:
    _acks(value)


def _idempotent(asked: bool | None, acked: int, retries: int | None) -> bool:
    if asked and acked != -1:
        raise ConfigError(
            'idempotent needs acks="all": a batch lost after its acknowledgement cannot be found'
        )
    return acked == -1 and retries != 0 if asked is None else asked


def _check_transactional(name: str | None, acked: int, idempotent: bool | None, retries: int | None) -> None:
    if name is not None and (acked != -1 or idempotent is False or retries == 0):
        raise ConfigError('transactional_id needs acks="all", idempotence and retries')
    if name == "":
        raise ConfigError("transactional_id is empty; give a name that this producer alone has")


def preferred_rack(rack_aware: bool, client_rack: str | None) -> str | None:
    """Returns the rack of the leaders that records without a key go to; None for any.

    Raises:
        ConfigError: no rack is given.
    """
    if rack_aware and not client_rack:
        raise ConfigError("partitioner_rack_aware needs client_rack: the rack that this producer is in")
    return client_rack if rack_aware else None


def _partitioning(
    partitioner: str | CustomPartitioner, ignores_keys: bool
) -> tuple[CustomPartitioner | None, PartitionRule]:
    if callable(partitioner):
        return partitioner, partition_rule("uniform_sticky" if ignores_keys else "default")
    return None, partition_rule("uniform_sticky" if ignores_keys else partitioner)


def producer_settings(
    *,
    acks: int | str,
    idempotent: bool | None,
    compression: str | None,
    compression_level: int | None,
    linger_ms: float,
    batch_size: int,
    buffer_memory: int,
    max_request_size: int,
    max_block_ms: float,
    request_timeout_ms: int,
    delivery_timeout_ms: int,
    retries: int | None,
    retry_backoff_ms: float,
    retry_backoff_max_ms: float,
    max_in_flight: int,
    partitioner: str | CustomPartitioner,
    partitioner_ignore_keys: bool,
    transactional_id: str | None,
    transaction_timeout_ms: int,
    rack: str | None = None,
) -> ProducerSettings:
    """Returns checked settings from Producer's arguments.

    Raises:
        ConfigError: values are invalid alone or together.
    """
    acked = _acks(acks)
    _check_transactional(transactional_id, acked, idempotent, retries)
    PRODUCER.check(
        max_in_flight=max_in_flight, linger_ms=linger_ms, transaction_timeout_ms=transaction_timeout_ms
    )
    function, rule = _partitioning(partitioner, partitioner_ignore_keys)
    batch_bytes = max(1, min(batch_size, max_request_size))
    return ProducerSettings(
        acks=acked,
        idempotent=_idempotent(idempotent, acked, retries),
        compression=encoded_batches.codec_number(compression or "none"),
        compression_level=compression_level,
        linger_s=linger_ms / 1000,
        batch_bytes=batch_bytes,
        request_bytes=max_request_size,
        buffer_memory=buffer_memory,
        max_block_s=max_block_ms / 1000,
        request_timeout_s=request_timeout_ms / 1000,
        delivery_timeout_s=delivery_timeout_ms / 1000,
        retries=retries,
        retry_backoff_s=retry_backoff_ms / 1000,
        retry_backoff_max_s=max(retry_backoff_ms, retry_backoff_max_ms) / 1000,
        in_flight_max=max_in_flight,
        partitioner=function,
        key_rule=rule.key_rule,
        null_rule=rule.null_rule,
        empty_is_null=rule.empty_is_null,
        sticky_bytes=min(STICKY_BYTES, batch_bytes),
        rack=rack if function is None and rule.is_sticky else None,
        transactional_id=transactional_id,
        transaction_timeout_ms=transaction_timeout_ms,
    )


SETTINGS = tuple(name for name in inspect.signature(producer_settings).parameters if name != "rack")
"""The arguments of Producer that `producer_settings` checks."""


def _partitioner(name: str, value: Any) -> Any:
    """Reads a function, or a name, of Java's classes too."""
    return plain_name(value) if isinstance(value, str) else value


def _retries(name: str, value: Any) -> int | None:
    """Reads a number of retries; Java's default of 2147483647 means until delivery_timeout_ms is over."""
    read = integer(name, value)
    return None if read >= 0x7FFFFFFF else read


PRODUCER = ConfigTable(
    "Producer",
    (
        *connection("bowstring-producer"),
        setting(
            "connect_timeout_ms",
            10_000,
            integer,
            "socket.connection.setup.timeout.ms",
        ),
        setting(
            "acks",
            "all",
            choice(ACKS),
            "acks",
            "request.required.acks",
            check=_check_acks,
        ),
        setting(
            "idempotent",
            None,
            boolean,
            "enable.idempotence",
        ),
        setting(
            "compression",
            "none",
            text,
            "compression.type",
            "compression.codec",
        ),
        setting(
            "compression_level",
            None,
            integer,
            "compression.level",
            "compression.gzip.level",
            "compression.lz4.level",
            "compression.zstd.level",
            check=in_range(-131_072, 22),
        ),
        setting(
            "linger_ms",
            5,
            number,
            "linger.ms",
            "queue.buffering.max.ms",
            check=in_range(0, 3_600_000),
        ),
        setting("batch_size", 524_288, integer, "batch.size"),
        setting(
            "buffer_memory",
            33_554_432,
            integer,
            "buffer.memory",
            ("queue.buffering.max.kbytes", multiplied(1024)),
            check=in_range(0, LONG_MAX),
        ),
        setting(
            "max_request_size",
            1_048_576,
            integer,
            "max.request.size",
            "message.max.bytes",
        ),
        setting(
            "max_block_ms",
            60_000,
            number,
            "max.block.ms",
        ),
        setting(
            "request_timeout_ms",
            30_000,
            integer,
            "request.timeout.ms",
            "socket.timeout.ms",
        ),
        setting(
            "delivery_timeout_ms",
            120_000,
            integer,
            "delivery.timeout.ms",
            "message.timeout.ms",
        ),
        setting(
            "retries",
            None,
            _retries,
            "retries",
            "message.send.max.retries",
            check=in_range(0, INT_MAX),
        ),
        setting("retry_backoff_ms", 100, number, "retry.backoff.ms"),
        setting("retry_backoff_max_ms", 1_000, number, "retry.backoff.max.ms"),
        setting(
            "max_in_flight",
            IN_FLIGHT_MAX,
            integer,
            "max.in.flight.requests.per.connection",
            "max.in.flight",
            check=in_range(1, IN_FLIGHT_MAX),
        ),
        setting(
            "metadata_max_age_ms",
            300_000,
            integer,
            "metadata.max.age.ms",
            "topic.metadata.refresh.interval.ms",
        ),
        setting(
            "allow_auto_create",
            True,
            boolean,
            "allow.auto.create.topics",
        ),
        setting(
            "partitioner",
            "default",
            _partitioner,
            "partitioner",
            "partitioner.class",
        ),
        setting(
            "partitioner_ignore_keys",
            False,
            boolean,
            "partitioner.ignore.keys",
        ),
        setting("partitioner_rack_aware", False, boolean, "partitioner.rack.aware"),
        setting("client_rack", None, text, "client.rack"),
        setting("key_serializer", None, as_given, "key.serializer"),
        setting("value_serializer", None, as_given, "value.serializer"),
        setting("transactional_id", None, text, "transactional.id"),
        setting(
            "transaction_timeout_ms",
            60_000,
            integer,
            "transaction.timeout.ms",
            check=in_range(1, 0x7FFFFFFF),
        ),
        *audit_settings(),
        refused("queue.buffering.max.messages", _COUNT),
        refused("batch.num.messages", "batch_size limits batches in bytes"),
        refused("on.delivery", "give on_delivery to send()", "None"),
        refused("dr.cb", "give on_delivery to send()", "None"),
        refused("delivery.report.only.error", "give on_delivery to send(), and check exception(0)", "false"),
        refused("sticky.partitioning.linger.ms", "records without a key change the partition after 16 KiB"),
        refused(
            "partitioner.adaptive.partitioning.enable",
            "partitions with shorter queues are chosen more often",
            "true",
        ),
        refused("partitioner.availability.timeout.ms", "partitions without a leader are left out", "0"),
        refused("enable.gapless.guarantee", "a failed batch fails; later ones continue", "false"),
        refused(
            "interceptor.classes",
            "there are no interceptors: wrap send(); audit.tier counts records",
            "",
            "[]",
        ),
    ),
)
