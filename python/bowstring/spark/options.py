"""Parses and checks the options of the Spark source and sink, which are those of Spark's own Kafka connector.

Names are case-insensitive, as in Spark. An invalid option is refused when the DataFrame is created, before
its first task runs; the message has the option's name and a correct value.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bowstring.clients.audit import SETTINGS as AUDIT_SETTINGS
from bowstring.clients.audit import Audit, audit_of
from bowstring.clients.errors import ConfigError
from bowstring.clients.records import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from bowstring.spark.avro_schemas import directory, is_registry
from bowstring.spark.kafka_configs import consumer_configs, producer_configs
from bowstring.spark.option_names import check_names
from bowstring.spark.registry_format import ENCODED, registry_options, writing_options

STRATEGIES = ("subscribe", "subscribepattern", "assign")
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
# Spark's Kafka source writes -2 and -1 for the ends in its JSON, the same as ListOffsets' timestamps.
ENDS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}
DEFAULT_MAX_TRIGGER_DELAY = "15m"
DELIVERIES = ("at-least-once", "exactly-once")
# transaction.max.timeout.ms of brokers by default: how long a driver may be away before it commits.
LONGEST_TRANSACTION_MS = 900_000

_TIME_UNITS_MS = {
    "us": 0.001,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_LEAST = "numbers below 0 are only -2, the earliest offset, and -1, the latest"
_WRONG_WITH_KAFKA = {
    "kafka.auto.offset.reset": "use startingOffsets: Spark keeps the offsets, not the consumer",
    "kafka.key.deserializer": "keys are bytes; cast or decode them with DataFrame operations",
    "kafka.value.deserializer": "values are bytes; use value.format or DataFrame operations to decode them",
    "kafka.enable.auto.commit": "Spark keeps the offsets in its checkpoint",
    "kafka.interceptor.classes": "interceptors could change the records unseen",
}


class OffsetLimit(NamedTuple):
    """Where to start or to end; exactly one of the four is set.

    Attributes:
        end: EARLIEST_TIMESTAMP or LATEST_TIMESTAMP for all partitions.
        offsets: an offset for each partition, or one of the two above.
        timestamps: milliseconds since the epoch for each partition.
        timestamp: milliseconds since the epoch for all partitions.
    """

    end: int | None = None
    offsets: dict[TopicPartition, int] | None = None
    timestamps: dict[TopicPartition, int] | None = None
    timestamp: int | None = None


FROM_EARLIEST = OffsetLimit(end=EARLIEST_TIMESTAMP)
TO_LATEST = OffsetLimit(end=LATEST_TIMESTAMP)


@dataclass(frozen=True)
class Shape:
    """Options that determine the columns of a source.

    Attributes:
        columns: their names; empty for all.
        value_options: how values decode, by the name after `value.`; empty when they stay bytes.
        fused: kernels that run inside the read, packed by `bowstring.spark.fused`.
    """

    include_headers: bool = False
    columns: tuple[str, ...] = ()
    value_options: dict[str, str] = field(default_factory=dict)
    fused: str | None = None


@dataclass(frozen=True)
class ReadOptions:
    """Options of a source. Counts are records, times milliseconds.

    Attributes:
        audit: how records are counted; None: they are not.
        group: name of the query for the audit; empty: that of the client.
    """

    bootstrap_servers: str
    shape: Shape = Shape()
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()
    starting: OffsetLimit = FROM_EARLIEST
    ending: OffsetLimit = TO_LATEST
    latest_without_match: bool = False
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    fetch_retries: int = 3
    fetch_retry_interval_ms: int = 1_000
    configs: dict[str, Any] = field(default_factory=dict)
    audit: Audit | None = None
    group: str = ""

    @property
    def read_committed(self) -> bool:
        """Whether records of aborted transactions are left out."""
        return bool(self.configs.get("isolation_level") == "read_committed")


@dataclass(frozen=True)
class WriteOptions:
    """Options of a sink.

    Attributes:
        encoded: how structs in the columns `key` and `value` are encoded, by the name after `key.` or
            `value.`; without an entry the column has bytes.
        exactly_once: tasks write in transactions, which the driver commits.
        audit: how records are counted; None: they are not.
    """

    bootstrap_servers: str
    topic: str | None = None
    configs: dict[str, Any] = field(default_factory=dict)
    encoded: dict[str, dict[str, str]] = field(default_factory=dict)
    exactly_once: bool = False
    audit: Audit | None = None


def lowered(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options by lower-case name."""
    return {name.lower(): text for name, text in options.items()}


def read_options(given: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Parses the options of a source.

    Raises:
        ConfigError: an option is missing, unknown, malformed or not allowed here; the message names it.
    """
    check_names(given)
    options = lowered(given)
    _refuse(options, streaming)
    minimum = _count(options, "minOffsetsPerTrigger")
    maximum = _count(options, "maxOffsetsPerTrigger")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise ConfigError(f"minOffsetsPerTrigger ({minimum}) is more than maxOffsetsPerTrigger ({maximum})")
    starting = _limit(options, "starting", LATEST_TIMESTAMP if streaming else EARLIEST_TIMESTAMP)
    ending = _limit(options, "ending", LATEST_TIMESTAMP)
    if not streaming:
        _check_bounds(starting, ending)
    topics, pattern, assigned = _strategy(options)
    return ReadOptions(
        bootstrap_servers=bootstrap_servers(options),
        shape=shape(options),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        starting=starting,
        ending=ending,
        latest_without_match=_choice(
            options, "startingOffsetsByTimestampStrategy", ("error", "latest"), "error"
        )
        == "latest",
        max_offsets_per_trigger=maximum,
        min_offsets_per_trigger=minimum,
        max_trigger_delay_ms=duration_ms(
            "maxTriggerDelay", options.get("maxtriggerdelay", DEFAULT_MAX_TRIGGER_DELAY)
        ),
        min_partitions=_count(options, "minPartitions", least=1),
        max_records_per_partition=_count(options, "maxRecordsPerPartition", least=1),
        fail_on_data_loss=_flag(options, "failOnDataLoss", True),
        fetch_retries=_count(options, "fetchOffset.numRetries", least=1) or 3,
        fetch_retry_interval_ms=_count(options, "fetchOffset.retryIntervalMs") or 1_000,
        configs=_client_id(options) | consumer_configs(options) | _local(options),
        audit=_audit(options),
        group=_group(options),
    )


def shape(given: Mapping[str, str]) -> Shape:
    """Parses only the options that determine the columns.

    Raises:
        ConfigError: an option is unknown or malformed; the message names it.
    """
    check_names(given)
    options = lowered(given)
    return Shape(
        _flag(options, "includeHeaders", False),
        _columns(options),
        value_options(options),
        options.get("fused"),
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Parses the options of a sink.

    Raises:
        ConfigError: an option is missing, unknown or malformed; the message names it.
    """
    check_names(given)
    options = lowered(given)
    for name in ("kafka.key.serializer", "kafka.value.serializer"):
        if name in options:
            raise ConfigError(f"option {name} is not supported: keys and values are written as bytes")
    topic = options.get("topic", "").strip()
    exactly_once = _choice(options, "delivery", DELIVERIES, DELIVERIES[0]) == "exactly-once"
    configs = producer_configs(options)
    if exactly_once:
        configs = _transactional(options, configs)
    return WriteOptions(
        bootstrap_servers(options),
        topic or None,
        configs,
        {column: found for column in ENCODED if (found := writing_options(options, column))},
        exactly_once,
        _audit(options),
    )


def _transactional(options: Mapping[str, str], configs: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of transactional producers; refuses what exactly once cannot have."""
    for argument, needed in (("acks", "all"), ("idempotent", True)):
        if configs.get(argument, needed) != needed:
            name = {"acks": "kafka.acks", "idempotent": "kafka.enable.idempotence"}[argument]
            raise ConfigError(f"option {name} contradicts delivery=exactly-once: leave it out")
    if options.get("asyncprogresstrackingenabled", "false").strip().lower() == "true":
        raise ConfigError(
            "option asyncProgressTrackingEnabled contradicts delivery=exactly-once: a repeated batch could "
            "have other rows. Leave it out"
        )
    return {"transaction_timeout_ms": LONGEST_TRANSACTION_MS} | configs


def bootstrap_servers(options: Mapping[str, str]) -> str:
    """Returns the bootstrap servers."""
    servers = options.get("kafka.bootstrap.servers", "").strip()
    if not servers:
        raise ConfigError(
            "option kafka.bootstrap.servers is missing: .option('kafka.bootstrap.servers', 'host:9092')"
        )
    return servers


def value_options(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options for decoding values, by the name after `value.`; empty when values are bytes."""
    found = {name[6:]: text for name, text in options.items() if name.startswith("value.")}
    if found and "format" not in found:
        raise ConfigError(f"option value.{min(found)} needs value.format: json, avro, protobuf or registry")
    if found.get("format", "").lower() == "registry":
        found = registry_options(found, options)
    if "schema" in found:
        found["schema"] = _schema_text(found["schema"], found["format"])
    if "schemas" in found:
        found["schemas"] = _schemas_text(found)
    if found and "mode" in options:
        found["on_error"] = options["mode"]
    return found


def _schemas_text(value: Mapping[str, str]) -> str:
    """Returns a registry's address unchanged, and the schemas in a directory as text."""
    if value["format"].lower() != "avro" or value.get("framing", "none").lower() != "confluent":
        raise ConfigError(
            "option value.schemas is for value.format=avro with value.framing=confluent: other values do not "
            "name a schema"
        )
    where = value["schemas"].strip()
    return where if is_registry(where) else json.dumps(directory(where))


def _schema_text(given: str, kind: str) -> str:
    """Returns the schema, read from its file on the driver, because executors may not have the file."""
    is_path = kind.lower() == "protobuf" or given.endswith((".json", ".avsc", ".ddl"))
    if not is_path:
        return given
    try:
        raw = Path(given).read_bytes()
    except OSError as error:
        raise ConfigError(f"option value.schema: {given} cannot be read: {error.strerror}") from None
    return base64.b64encode(raw).decode() if kind.lower() == "protobuf" else raw.decode()


def duration_ms(name: str, text: str) -> int:
    """Parses a time in Spark's form (`15m`, `100ms`; without a unit milliseconds)."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    unit = _TIME_UNITS_MS.get(match[2] or "ms") if match else None
    if match is None or unit is None:
        raise ConfigError(f"option {name} is {text!r}, it must be a time such as 500ms, 30s or 15m")
    return int(int(match[1]) * unit)


def _refuse(options: Mapping[str, str], streaming: bool) -> None:
    for name, advice in _WRONG_WITH_KAFKA.items():
        if name in options:
            raise ConfigError(f"option {name} is not supported: {advice}")
    if streaming:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if name.lower() in options:
                raise ConfigError(f"option {name} is not valid in streaming queries: they do not end")


def _strategy(
    options: Mapping[str, str],
) -> tuple[tuple[str, ...], str | None, tuple[TopicPartition, ...]]:
    given = [name for name in STRATEGIES if name in options]
    if len(given) != 1:
        which = "one of" if not given else "only one of"
        raise ConfigError(f"give {which} the options subscribe, subscribePattern and assign")
    text = options[given[0]].strip()
    if given[0] == "subscribe":
        topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not topics:
            raise ConfigError("option subscribe names no topic")
        return topics, None, ()
    if given[0] == "subscribepattern":
        try:
            re.compile(text)
        except re.error as error:
            raise ConfigError(f"option subscribePattern is no regular expression: {error}") from None
        if not text:
            raise ConfigError("option subscribePattern is empty")
        return (), text, ()
    return (), None, _assigned(text)


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    form = 'it must be JSON such as {"topic":[0,1]}'
    found = _json("assign", text, form)
    try:
        pairs = [TopicPartition(topic, int(number)) for topic, numbers in found.items() for number in numbers]
    except (TypeError, ValueError):
        raise ConfigError(f"option assign is {text!r}; {form}") from None
    if not pairs:
        raise ConfigError(f"option assign is empty; {form}")
    return tuple(sorted(set(pairs)))


def _limit(options: Mapping[str, str], side: str, default: int) -> OffsetLimit:
    """Returns the first of the three forms of a limit that is present, as Spark's Kafka source does."""
    stamp, by_stamp, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if stamp.lower() in options:
        return OffsetLimit(timestamp=_timestamp(options, stamp))
    if by_stamp.lower() in options:
        return OffsetLimit(timestamps=partition_numbers(by_stamp, options[by_stamp.lower()]))
    text = options.get(offsets.lower())
    if text is None:
        return OffsetLimit(end=default)
    if (end := ENDS.get(text.strip().lower())) is not None:
        return OffsetLimit(end=end)
    return OffsetLimit(offsets=partition_numbers(offsets, text))


def partition_numbers(name: str, text: str) -> dict[TopicPartition, int]:
    """Returns the numbers in JSON such as {"topic":{"0":23}}."""
    form = 'it must be JSON such as {"topic":{"0":23,"1":-2}}' + (
        ", earliest or latest" if name.endswith("Offsets") else ""
    )
    found = _json(name, text, form)
    try:
        given = {
            TopicPartition(topic, int(partition)): int(number)
            for topic, numbers in found.items()
            for partition, number in numbers.items()
        }
    except (TypeError, ValueError, AttributeError):
        raise ConfigError(f"option {name} is {text!r}; {form}") from None
    if wrong := sorted(partition for partition, number in given.items() if number < EARLIEST_TIMESTAMP):
        raise ConfigError(f"option {name} is {given[wrong[0]]} for {wrong[0]}; {_LEAST}")
    return given


def _timestamp(options: Mapping[str, str], name: str) -> int:
    text = options[name.lower()]
    if not re.fullmatch(r"\s*-?\d+\s*", text):
        raise ConfigError(f"option {name} is {text!r}, it must be a whole number of milliseconds since 1970")
    if int(text) < EARLIEST_TIMESTAMP:
        raise ConfigError(f"option {name} is {text!r}; {_LEAST}")
    return int(text)


def _json(name: str, text: str, form: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError(f"option {name} is {text!r}; {form}")
    return found


def _check_bounds(starting: OffsetLimit, ending: OffsetLimit) -> None:
    """Refuses limits that a batch query cannot have."""
    first, last = starting.offsets or {}, ending.offsets or {}
    if starting.end == LATEST_TIMESTAMP or LATEST_TIMESTAMP in first.values():
        raise ConfigError("startingOffsets cannot be latest in a batch query: it would read nothing")
    if ending.end == EARLIEST_TIMESTAMP or EARLIEST_TIMESTAMP in last.values():
        raise ConfigError("endingOffsets cannot be earliest in a batch query: it would read nothing")
    for one, other, what in (
        (starting.offsets, ending.offsets, "Offsets"),
        (starting.timestamps, ending.timestamps, "OffsetsByTimestamp"),
    ):
        if one is None or other is None:
            continue
        if one.keys() != other.keys():
            odd = ", ".join(str(partition) for partition in sorted(one.keys() ^ other.keys()))
            raise ConfigError(
                f"starting{what} and ending{what} must name the same partitions; only one of them names {odd}"
            )
        for partition, begin in one.items():
            if 0 <= other[partition] < begin:
                raise ConfigError(
                    f"{partition} would start at {begin} and end at {other[partition]}: "
                    f"starting{what} must not be above ending{what}"
                )


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    names = {name.lower(): name for name in COLUMNS}
    chosen = [part.strip() for part in options.get("columns", "").split(",") if part.strip()]
    unknown = [name for name in chosen if name.lower() not in names]
    if unknown:
        raise ConfigError(
            f"option columns has an unknown column {unknown[0]!r}; columns are {', '.join(COLUMNS)}"
        )
    return tuple(dict.fromkeys(names[name.lower()] for name in chosen))


def _count(options: Mapping[str, str], name: str, least: int = 0) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not re.fullmatch(r"\s*\d+\s*", text) or int(text) < least:
        raise ConfigError(f"option {name} is {text!r}, it must be a whole number of at least {least}")
    return int(text)


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    return _choice(options, name, ("true", "false"), str(default).lower()) == "true"


def _client_id(options: Mapping[str, str]) -> dict[str, Any]:
    """Returns the client id for brokers, unless kafka.client.id is set: a query without a group has no other
    name.
    """
    group = _group(options)
    return {"client_id": group} if group else {}


def _group(options: Mapping[str, str]) -> str:
    return options.get("kafka.group.id") or options.get("groupidprefix") or ""


def _audit(options: Mapping[str, str]) -> Audit | None:
    """Returns how records are counted; the settings are those of the clients."""
    given = {name: options[name].strip() for name in AUDIT_SETTINGS if name in options}
    return audit_of(given) if given else None


def _local(options: Mapping[str, str]) -> dict[str, Any]:
    """Returns whether to map the broker's files if it is on the same machine."""
    word = _choice(options, "local", ("false", "true", "auto"), "false")
    return {} if word == "false" else {"local": True if word == "true" else "auto"}


def _choice(options: Mapping[str, str], name: str, words: tuple[str, ...], default: str) -> str:
    text = options.get(name.lower(), default).strip().lower()
    if text not in words:
        raise ConfigError(f"option {name} is {options[name.lower()]!r}, it must be {' or '.join(words)}")
    return text
