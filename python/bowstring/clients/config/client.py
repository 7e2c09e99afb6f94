"""Lists the settings of Consumer and Admin, with their names in other clients."""

from __future__ import annotations

from typing import Any, get_args

from bowstring.clients.audit import SETTINGS as AUDIT_SETTINGS
from bowstring.clients.choices import (
    AcknowledgementMode,
    AcquireMode,
    AutoOffsetReset,
    GroupProtocol,
    IsolationLevel,
)
from bowstring.clients.config.config_table import (
    INT_MAX,
    LONG_MAX,
    ConfigName,
    ConfigTable,
    Setting,
    as_given,
    boolean,
    choice,
    in_range,
    integer,
    multiplied,
    one_of,
    refused,
    setting,
    text,
)
from bowstring.clients.errors import ConfigError
from bowstring.security.security_names import CANONICAL

_NO_CRL = "lists of revoked certificates are not read: use certificates that end soon"
_TICKETS = "tickets are renewed without a command, when half of their life is over"
_LOGGING = "clients log with Python's logging, under the logger `bowstring`"
_METRICS = "use Producer.metrics() and Consumer.lag(); there are no callbacks for metrics"
_ERRORS = "errors are raised by calls and futures; there are no callbacks for them"
_SOCKETS = "sockets use the kernel's default sizes and keep-alive"
_BACKOFF = "after a refusal the client reconnects after 50 ms, doubling to 1 s"
_CODECS = "records are bytes; typed values are bowstring.Json, Avro and Protobuf"
_READ_AHEAD = "prefetch_max_bytes and max_partition_fetch_bytes limit how far fetches run ahead"

_OF_GROUP = "the group's config {} says it, for all of its members"

_NO_EFFECT: tuple[ConfigName, ...] = (
    refused(
        "ssl.context", "give ssl_cafile, ssl_certfile and ssl_keyfile: TLS does not use Python's ssl", "None"
    ),
    refused("ssl.crlfile", _NO_CRL, "None"),
    refused("ssl.crl.location", _NO_CRL),
    refused("sasl.kerberos.kinit.cmd", _TICKETS),
    refused("sasl.kerberos.min.time.before.relogin", _TICKETS, "60000"),
    refused("sasl.kerberos.ticket.renew.jitter", _TICKETS, "0.05"),
    refused("sasl.kerberos.ticket.renew.window.factor", _TICKETS, "0.8"),
    refused("sasl.oauthbearer.config", "give oauth_cb, sasl.oauthbearer.token or a token endpoint", ""),
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
    refused("socket.connection.setup.timeout.ms", "the limit for connecting is 10 s", "10000"),
    refused("receive.buffer.bytes", _SOCKETS, "-1", "None"),
    refused("send.buffer.bytes", _SOCKETS, "-1", "None"),
    refused("socket.receive.buffer.bytes", _SOCKETS, "0"),
    refused("socket.send.buffer.bytes", _SOCKETS, "0"),
    refused(
        "connections.max.idle.ms", "connections stay open; the client reconnects when a broker closes one"
    ),
    refused("api.version", "the client negotiates versions with each broker", "None"),
    refused("api.version.request", "the client negotiates versions with each broker", "true"),
    refused("broker.address.family", "the client tries every address of a name", "any"),
)


def connection(client_id: str) -> tuple[Setting | ConfigName, ...]:
    """Returns the rows that every client has; `client_id` is the default."""
    return (
        setting(
            "bootstrap_servers",
            "localhost:9092",
            as_given,
            "bootstrap.servers",
            "metadata.broker.list",
        ),
        setting("client_id", client_id, text, "client.id"),
        setting(
            "on_error",
            None,
            as_given,
            "error.cb",
        ),
        setting(
            "bootstrap_resolve_timeout_ms",
            None,
            integer,
            "bootstrap.resolve.timeout.ms",
            check=in_range(0, LONG_MAX),
        ),
        setting("metadata_cluster_check_enable", True, boolean, "metadata.cluster.check.enable"),
        setting("security", None, as_given),
        *(ConfigName(name, "security", as_given, collected=True) for name in CANONICAL),
        *_NO_EFFECT,
    )


def audit_settings() -> tuple[Setting | ConfigName, ...]:
    """Returns the rows of the audit of counts, which producers and consumers have."""
    return (
        setting("audit", None, as_given),
        *(ConfigName(name, "audit", as_given, collected=True) for name in AUDIT_SETTINGS),
    )


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
    """Reads names separated by commas, or a list of names, Java class names or kafka-python classes."""
    given = value.split(",") if isinstance(value, str) else list(value)
    found = []
    for each in given:
        word = each.strip() if isinstance(each, str) else getattr(each, "__name__", str(each))
        plain = word.rpartition(".")[2].casefold()
        if plain not in _ASSIGNORS:
            raise ConfigError(f"{name}: there is no assignor {word!r}; use range or cooperative-sticky")
        found.append(_ASSIGNORS[plain])
    return tuple(dict.fromkeys(found))


def _known_assignors(argument: str, value: Any) -> None:
    unknown = [each for each in value or () if each not in _ASSIGNORS.values()]
    if unknown:
        raise ConfigError(f"assignor {unknown[0]!r} is unknown; use range or cooperative-sticky")


CONSUMER = ConfigTable(
    "Consumer",
    (
        *connection("bowstring-consumer"),
        setting("group_id", None, text, "group.id"),
        setting(
            "group_instance_id",
            None,
            text,
            "group.instance.id",
        ),
        setting(
            "auto_offset_reset",
            "latest",
            choice(_RESETS),
            "auto.offset.reset",
            check=one_of(*get_args(AutoOffsetReset)),
        ),
        setting(
            "enable_auto_commit",
            True,
            boolean,
            "enable.auto.commit",
        ),
        setting(
            "auto_commit_interval_ms",
            5_000,
            integer,
            "auto.commit.interval.ms",
        ),
        setting(
            "group_protocol",
            "auto",
            choice({"auto": "auto", "consumer": "consumer", "classic": "classic"}),
            "group.protocol",
            check=one_of(*get_args(GroupProtocol)),
        ),
        setting("group_remote_assignor", None, text, "group.remote.assignor"),
        setting(
            "assignors",
            None,
            _assignors,
            "partition.assignment.strategy",
            check=_known_assignors,
        ),
        setting(
            "session_timeout_ms",
            None,
            integer,
            "session.timeout.ms",
        ),
        setting("heartbeat_interval_ms", None, integer, "heartbeat.interval.ms"),
        setting(
            "max_poll_interval_ms",
            300_000,
            integer,
            "max.poll.interval.ms",
        ),
        setting("max_poll_records", 500, integer, "max.poll.records", check=in_range(1, INT_MAX)),
        setting("fetch_min_bytes", 1, integer, "fetch.min.bytes"),
        setting("fetch_max_bytes", 52_428_800, integer, "fetch.max.bytes"),
        setting(
            "max_partition_fetch_bytes",
            1_048_576,
            integer,
            "max.partition.fetch.bytes",
            "fetch.message.max.bytes",
        ),
        setting(
            "prefetch_max_bytes",
            67_108_864,
            integer,
            ("queued.max.messages.kbytes", multiplied(1024)),
            check=in_range(0, LONG_MAX),
        ),
        setting(
            "fetch_max_wait_ms",
            500,
            integer,
            "fetch.max.wait.ms",
            "fetch.wait.max.ms",
        ),
        setting(
            "isolation_level",
            "read_uncommitted",
            text,
            "isolation.level",
            check=one_of(*get_args(IsolationLevel)),
        ),
        setting("check_crcs", True, boolean, "check.crcs"),
        setting(
            "max_decompressed_batch_bytes",
            134_217_728,
            integer,
            "max.decompressed.batch.bytes",
            check=in_range(1, INT_MAX),
        ),
        setting("client_rack", None, text, "client.rack"),
        setting(
            "local",
            False,
            choice({"true": True, "false": False, "auto": "auto"}),
            "local",
            check=one_of(True, False, "auto"),
        ),
        setting(
            "request_timeout_ms",
            30_000,
            integer,
            "request.timeout.ms",
            "socket.timeout.ms",
        ),
        setting(
            "default_timeout_ms",
            60_000,
            integer,
            "default.api.timeout.ms",
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
        *audit_settings(),
        refused("key.deserializer", _CODECS, "None"),
        refused("value.deserializer", _CODECS, "None"),
        refused(
            "enable.auto.offset.store", "commit(offsets) commits explicit offsets; there is no separate store"
        ),
        refused("enable.partition.eof", "lag() is 0 at the end of a partition", "false"),
        refused("on.commit", "give on_commit to commit(asynchronous=True, on_commit=…)", "None"),
        refused("default.offset.commit.callback", "give on_commit to commit(asynchronous=True, on_commit=…)"),
        refused("consumer.timeout.ms", "poll(timeout=…) returns an empty list when no records come", "inf"),
        refused("queued.min.messages", _READ_AHEAD),
        refused(
            "fetch.error.backoff.ms",
            "a failed fetch is retried after 100 ms, or when a new leader is known",
        ),
        refused("retry.backoff.ms", "the client retries after 20 to 100 ms", "100"),
        refused("retry.backoff.max.ms", "the client retries after 20 to 100 ms", "1000"),
        refused(
            "interceptor.classes",
            "there are no interceptors: wrap poll(); audit.tier counts records",
            "",
            "[]",
        ),
        refused("exclude.internal.topics", "a pattern also matches internal topics"),
        refused("legacy.iterator", "iteration always uses poll()"),
    ),
)

SHARE_CONSUMER = ConfigTable(
    "ShareConsumer",
    (
        *connection("bowstring-share-consumer"),
        setting("group_id", None, text, "group.id"),
        setting(
            "acknowledgement_mode",
            "implicit",
            choice({"implicit": "implicit", "explicit": "explicit"}),
            "share.acknowledgement.mode",
            check=one_of(*get_args(AcknowledgementMode)),
        ),
        setting(
            "acquire_mode",
            "batch_optimized",
            choice({"batch_optimized": "batch_optimized", "record_limit": "record_limit"}),
            "share.acquire.mode",
            check=one_of(*get_args(AcquireMode)),
        ),
        setting("max_poll_records", 500, integer, "max.poll.records", check=in_range(1, INT_MAX)),
        setting("max_poll_interval_ms", 300_000, integer, "max.poll.interval.ms"),
        setting("fetch_min_bytes", 1, integer, "fetch.min.bytes"),
        setting("fetch_max_bytes", 52_428_800, integer, "fetch.max.bytes"),
        setting("fetch_max_wait_ms", 500, integer, "fetch.max.wait.ms", "fetch.wait.max.ms"),
        setting("check_crcs", True, boolean, "check.crcs"),
        setting(
            "max_decompressed_batch_bytes",
            134_217_728,
            integer,
            "max.decompressed.batch.bytes",
            check=in_range(1, INT_MAX),
        ),
        setting("client_rack", None, text, "client.rack"),
        setting("request_timeout_ms", 30_000, integer, "request.timeout.ms", "socket.timeout.ms"),
        setting("default_timeout_ms", 60_000, integer, "default.api.timeout.ms"),
        setting("metadata_max_age_ms", 300_000, integer, "metadata.max.age.ms"),
        setting("on_acknowledged", None, as_given),
        refused("auto.offset.reset", _OF_GROUP.format("share.auto.offset.reset")),
        refused("isolation.level", _OF_GROUP.format("share.isolation.level")),
        refused("enable.auto.commit", "acknowledgement_mode says who acknowledges records"),
        refused("group.instance.id", "share groups have no static members", "None"),
        refused("key.deserializer", _CODECS, "None"),
        refused("value.deserializer", _CODECS, "None"),
    ),
)

ADMIN = ConfigTable(
    "Admin",
    (
        *connection("bowstring-admin"),
        setting(
            "timeout_ms",
            30_000,
            integer,
            "request.timeout.ms",
            "socket.timeout.ms",
            "default.api.timeout.ms",
        ),
        refused("metadata.max.age.ms", "an admin asks for metadata in each call"),
        refused("retry.backoff.ms", "the client retries after 50 ms", "100"),
        refused("retries", "calls are retried until timeout_ms is over"),
    ),
)
