"""What a producer can be told: its settings, checked, and the names they go by in other clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bowstring.clients import batches
from bowstring.clients.client_configs import CONNECTION
from bowstring.clients.config_names import (
    ConfigName,
    ConfigTable,
    as_given,
    boolean,
    choice,
    integer,
    multiplied,
    number,
    refused,
    text,
)
from bowstring.clients.errors import ConfigError
from bowstring.clients.partitioner import CustomPartitioner, partition_rule

# Kafka brokers remember five batches per producer and partition, so no more may be in flight (KIP-98).
IN_FLIGHT_MAX = 5
# What goes to one partition without a key before the next is drawn; batch_size when that is less.
STICKY_BYTES = 16_384
ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}

Serializer = Callable[[Any], bytes | None]

_TRANSACTIONS = "transactions are not there yet; idempotence is, and is the default"
_COUNT = "memory is bounded in bytes, by buffer_memory"


@dataclass(slots=True)
class ProducerSettings:
    """What the producer was asked for, in the units the sender and the accumulator work in."""

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


def _acks(acks: int | str) -> int:
    """-1, 0 or 1.

    Raises:
        ConfigError: it is none of these.
    """
    found = ACKS.get(str(acks).lower()) if not isinstance(acks, bool) else None
    if found is None:
        raise ConfigError(f'acks is {acks!r}, it must be "all", 1 or 0')
    return found


def _in_range(name: str, value: float, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        raise ConfigError(f"{name} is {value}, it must be {lowest} to {highest}")


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
) -> ProducerSettings:
    """Checked settings out of Producer's arguments.

    Raises:
        ConfigError: values make no sense by themselves or together.
    """
    acked = _acks(acks)
    if idempotent is None:
        idempotent = acked == -1 and retries != 0
    elif idempotent and acked != -1:
        raise ConfigError(
            'idempotent needs acks="all": a batch lost after its acknowledgement cannot be found'
        )
    _in_range("max_in_flight", max_in_flight, 1, IN_FLIGHT_MAX)
    _in_range("linger_ms", linger_ms, 0, 3_600_000)
    function = partitioner if callable(partitioner) else None
    name = "uniform_sticky" if partitioner_ignore_keys else str(partitioner)
    rule = partition_rule("default" if function is not None else name)
    batch_bytes = max(1, min(batch_size, max_request_size))
    return ProducerSettings(
        acks=acked,
        idempotent=idempotent,
        compression=batches.codec_number(compression or "none"),
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
    )


def _retries(name: str, value: Any) -> int | None:
    """Java's default of 2147483647 means: until delivery_timeout_ms is over."""
    read = integer(name, value)
    return None if read >= 0x7FFFFFFF else read


_CONNECTION = tuple(row for row in CONNECTION if row.name != "socket.connection.setup.timeout.ms")

PRODUCER = ConfigTable(
    "Producer",
    (
        *_CONNECTION,
        ConfigName("socket.connection.setup.timeout.ms", "connect_timeout_ms", integer),
        ConfigName("acks", "acks", choice(ACKS)),
        ConfigName("request.required.acks", "acks", choice(ACKS)),
        ConfigName("enable.idempotence", "idempotent", boolean),
        ConfigName("compression.type", "compression", text),
        ConfigName("compression.codec", "compression", text),
        ConfigName("compression.level", "compression_level", integer),
        ConfigName("compression.gzip.level", "compression_level", integer),
        ConfigName("compression.lz4.level", "compression_level", integer),
        ConfigName("compression.zstd.level", "compression_level", integer),
        ConfigName("linger.ms", "linger_ms", number),
        ConfigName("queue.buffering.max.ms", "linger_ms", number),
        ConfigName("batch.size", "batch_size", integer),
        ConfigName("buffer.memory", "buffer_memory", integer),
        ConfigName("queue.buffering.max.kbytes", "buffer_memory", multiplied(1024)),
        ConfigName("max.request.size", "max_request_size", integer),
        ConfigName("message.max.bytes", "max_request_size", integer),
        ConfigName("max.block.ms", "max_block_ms", number),
        ConfigName("request.timeout.ms", "request_timeout_ms", integer),
        ConfigName("socket.timeout.ms", "request_timeout_ms", integer),
        ConfigName("delivery.timeout.ms", "delivery_timeout_ms", integer),
        ConfigName("message.timeout.ms", "delivery_timeout_ms", integer),
        ConfigName("retries", "retries", _retries),
        ConfigName("message.send.max.retries", "retries", _retries),
        ConfigName("retry.backoff.ms", "retry_backoff_ms", number),
        ConfigName("retry.backoff.max.ms", "retry_backoff_max_ms", number),
        ConfigName("max.in.flight.requests.per.connection", "max_in_flight", integer),
        ConfigName("max.in.flight", "max_in_flight", integer),
        ConfigName("metadata.max.age.ms", "metadata_max_age_ms", integer),
        ConfigName("topic.metadata.refresh.interval.ms", "metadata_max_age_ms", integer),
        ConfigName("allow.auto.create.topics", "allow_auto_create", boolean),
        ConfigName("partitioner", "partitioner", as_given),
        ConfigName("partitioner.class", "partitioner", as_given),
        ConfigName("partitioner.ignore.keys", "partitioner_ignore_keys", boolean),
        ConfigName("key.serializer", "key_serializer", as_given),
        ConfigName("value.serializer", "value_serializer", as_given),
        refused("transactional.id", _TRANSACTIONS, "None"),
        refused("transaction.timeout.ms", _TRANSACTIONS, "60000"),
        refused("queue.buffering.max.messages", _COUNT),
        refused("batch.num.messages", "batches are bounded in bytes, by batch_size"),
        refused("on.delivery", "give on_delivery to send()", "None"),
        refused("dr.cb", "give on_delivery to send()", "None"),
        refused(
            "delivery.report.only.error", "give on_delivery to send(), and look at exception(0)", "false"
        ),
        refused("sticky.partitioning.linger.ms", "records without a key move on after 16 KiB"),
        refused("partitioner.adaptive.partitioning.enable", "shorter queues are drawn more often", "true"),
        refused("partitioner.availability.timeout.ms", "partitions without a leader are left out", "0"),
        refused("enable.gapless.guarantee", "a failed batch fails; later ones go on", "false"),
        refused("interceptor.classes", "there are no interceptors: wrap send()", "", "[]"),
    ),
)
