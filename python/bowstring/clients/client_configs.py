"""Settings of Consumer and Admin under the names that Java, librdkafka and kafka-python give them."""

from __future__ import annotations

from typing import Any

from bowstring.clients.config_names import (
    ConfigName,
    ConfigTable,
    as_given,
    boolean,
    choice,
    integer,
    multiplied,
    refused,
    text,
)
from bowstring.clients.errors import ConfigError

_NO_TLS = "TLS and SASL are not there yet: only PLAINTEXT listeners can be used"
_LOGGING = "what a client has to say goes to Python's logging, under the logger `bowstring`"
_METRICS = "numbers are in Producer.metrics() and Consumer.lag(), nothing is called back with them"
_ERRORS = "errors are raised by the call they concern, and by futures; nothing is called back with them"
_SOCKETS = "sockets use the kernel's own sizes and keep-alive"
_BACKOFF = "a broker that refuses is tried again after 50 ms, doubling to 1 s"
_CODECS = "records are bytes; typed values are bowstring.Json, Avro and Protobuf"
_READ_AHEAD = "fetches run ahead by what prefetch_max_bytes and max_partition_fetch_bytes allow"

CONNECTION: tuple[ConfigName, ...] = (
    ConfigName("bootstrap.servers", "bootstrap_servers", as_given),
    ConfigName("metadata.broker.list", "bootstrap_servers", as_given),
    ConfigName("client.id", "client_id", text),
    refused("security.protocol", _NO_TLS, "PLAINTEXT"),
    refused("sasl.mechanism", _NO_TLS, "None"),
    refused("sasl.mechanisms", _NO_TLS),
    refused("sasl.username", _NO_TLS),
    refused("sasl.password", _NO_TLS),
    refused("sasl.jaas.config", _NO_TLS),
    refused("sasl.plain.username", _NO_TLS, "None"),
    refused("sasl.plain.password", _NO_TLS, "None"),
    refused("ssl.context", _NO_TLS, "None"),
    refused("ssl.cafile", _NO_TLS, "None"),
    refused("ssl.certfile", _NO_TLS, "None"),
    refused("ssl.keyfile", _NO_TLS, "None"),
    refused("ssl.ca.location", _NO_TLS),
    refused("ssl.certificate.location", _NO_TLS),
    refused("ssl.key.location", _NO_TLS),
    refused("ssl.truststore.location", _NO_TLS),
    refused("ssl.keystore.location", _NO_TLS),
    refused("error.cb", _ERRORS, "None"),
    refused("throttle.cb", _ERRORS, "None"),
    refused("stats.cb", _METRICS, "None"),
    refused("statistics.interval.ms", _METRICS, "0"),
    refused("metrics.num.samples", _METRICS),
    refused("metrics.sample.window.ms", _METRICS),
    refused("metric.reporters", _METRICS, "", "[]"),
    refused("logger", _LOGGING, "None"),
    refused("log.level", _LOGGING),
    refused("log.connection.close", _LOGGING, "false"),
    refused("debug", _LOGGING, ""),
    refused("reconnect.backoff.ms", _BACKOFF, "50"),
    refused("reconnect.backoff.max.ms", _BACKOFF, "1000"),
    refused("socket.keepalive.enable", _SOCKETS, "true"),
    refused("socket.nagle.disable", _SOCKETS, "true"),
    refused("socket.connection.setup.timeout.ms", "connecting may take 10 s", "10000"),
    refused("receive.buffer.bytes", _SOCKETS, "-1", "None"),
    refused("send.buffer.bytes", _SOCKETS, "-1", "None"),
    refused("socket.receive.buffer.bytes", _SOCKETS, "0"),
    refused("socket.send.buffer.bytes", _SOCKETS, "0"),
    refused("connections.max.idle.ms", "connections stay open; one that a broker closed is opened again"),
    refused("api.version", "versions are agreed on with each broker", "None"),
    refused("api.version.request", "versions are agreed on with each broker", "true"),
    refused("broker.address.family", "every address a name resolves to is tried in turn", "any"),
)
"""What every client takes or refuses alike."""

_RESETS = {
    "earliest": "earliest",
    "smallest": "earliest",
    "beginning": "earliest",
    "latest": "latest",
    "largest": "latest",
    "end": "latest",
    "none": "none",
    "error": "none",
}
_ASSIGNORS = {
    "range": "range",
    "rangeassignor": "range",
    "rangepartitionassignor": "range",
    "cooperative-sticky": "cooperative-sticky",
    "cooperativestickyassignor": "cooperative-sticky",
}


def _assignors(name: str, value: Any) -> tuple[str, ...]:
    """Names with commas between, a list of names, of Java's class names, or of kafka-python's classes."""
    given = value.split(",") if isinstance(value, str) else list(value)
    found = []
    for each in given:
        word = each.strip() if isinstance(each, str) else getattr(each, "__name__", str(each))
        plain = word.rpartition(".")[2].casefold()
        if plain not in _ASSIGNORS:
            raise ConfigError(
                f"{name}: there is no assignor {word!r}, there are range and cooperative-sticky"
            )
        found.append(_ASSIGNORS[plain])
    return tuple(dict.fromkeys(found))


CONSUMER = ConfigTable(
    "Consumer",
    (
        *CONNECTION,
        ConfigName("group.id", "group_id", text),
        ConfigName("group.instance.id", "group_instance_id", text),
        ConfigName("auto.offset.reset", "auto_offset_reset", choice(_RESETS)),
        ConfigName("enable.auto.commit", "enable_auto_commit", boolean),
        ConfigName("auto.commit.interval.ms", "auto_commit_interval_ms", integer),
        ConfigName("partition.assignment.strategy", "assignors", _assignors),
        ConfigName("session.timeout.ms", "session_timeout_ms", integer),
        ConfigName("heartbeat.interval.ms", "heartbeat_interval_ms", integer),
        ConfigName("max.poll.interval.ms", "max_poll_interval_ms", integer),
        ConfigName("max.poll.records", "max_poll_records", integer),
        ConfigName("fetch.min.bytes", "fetch_min_bytes", integer),
        ConfigName("fetch.max.bytes", "fetch_max_bytes", integer),
        ConfigName("max.partition.fetch.bytes", "max_partition_fetch_bytes", integer),
        ConfigName("fetch.message.max.bytes", "max_partition_fetch_bytes", integer),
        ConfigName("fetch.max.wait.ms", "fetch_max_wait_ms", integer),
        ConfigName("fetch.wait.max.ms", "fetch_max_wait_ms", integer),
        ConfigName("isolation.level", "isolation_level", text),
        ConfigName("check.crcs", "check_crcs", boolean),
        ConfigName("local", "local", choice({"true": True, "false": False, "auto": "auto"})),
        ConfigName("request.timeout.ms", "request_timeout_ms", integer),
        ConfigName("socket.timeout.ms", "request_timeout_ms", integer),
        ConfigName("default.api.timeout.ms", "default_timeout_ms", integer),
        ConfigName("metadata.max.age.ms", "metadata_max_age_ms", integer),
        ConfigName("topic.metadata.refresh.interval.ms", "metadata_max_age_ms", integer),
        ConfigName("allow.auto.create.topics", "allow_auto_create", boolean),
        refused("group.protocol", "groups use the classic protocol", "classic"),
        refused("group.remote.assignor", "groups use the classic protocol", "None"),
        refused("client.rack", "records are fetched from the leader", "", "None"),
        refused("key.deserializer", _CODECS, "None"),
        refused("value.deserializer", _CODECS, "None"),
        refused("enable.auto.offset.store", "commit(offsets) stores what you say; positions need no store"),
        refused("enable.partition.eof", "lag() is 0 at the end of a partition", "false"),
        refused("on.commit", "give on_commit to commit(asynchronous=True, on_commit=…)", "None"),
        refused("default.offset.commit.callback", "give on_commit to commit(asynchronous=True, on_commit=…)"),
        refused("consumer.timeout.ms", "poll(timeout=…) returns an empty list when there is nothing", "inf"),
        refused("queued.min.messages", _READ_AHEAD),
        ConfigName("queued.max.messages.kbytes", "prefetch_max_bytes", multiplied(1024)),
        refused("fetch.error.backoff.ms", "a refused fetch is repeated after 100 ms"),
        refused("retry.backoff.ms", "what is refused is repeated after 50 to 100 ms", "100"),
        refused("retry.backoff.max.ms", "what is refused is repeated after 50 to 100 ms", "1000"),
        refused("interceptor.classes", "there are no interceptors: wrap poll()", "", "[]"),
        refused("exclude.internal.topics", "a pattern that matches internal topics subscribes to them"),
        refused("legacy.iterator", "iteration is over poll()"),
    ),
)

ADMIN = ConfigTable(
    "Admin",
    (
        *CONNECTION,
        ConfigName("request.timeout.ms", "timeout_ms", integer),
        ConfigName("socket.timeout.ms", "timeout_ms", integer),
        ConfigName("default.api.timeout.ms", "timeout_ms", integer),
        refused("metadata.max.age.ms", "an admin asks anew in each call"),
        refused("retry.backoff.ms", "what is refused is repeated after 50 ms", "100"),
        refused("retries", "calls are repeated until timeout_ms is over"),
    ),
)
