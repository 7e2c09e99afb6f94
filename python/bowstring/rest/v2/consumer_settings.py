"""Reads what a consumer instance is made with."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from bowstring.protocol.whole_numbers import whole_number
from bowstring.rest.client_failure import bad_request
from bowstring.rest.options import RestOptions
from bowstring.rest.v2.media_types import FORMATS
from bowstring.web.http_error import HttpError

NAME_MAX = 255
MIN_BYTES_MAX = 10_000_000
WAIT_S_MAX = 30.0
BATCH_BYTES_MAX = 64 << 20
"""Of a batch of records once it is decompressed: few bytes may become many."""
_RESETS = ("latest", "earliest", "none")
_ALIASES = {"responseMinBytes": "fetch.min.bytes", "requestWaitMs": "consumer.request.timeout.ms"}
_NAMES = (
    *("id", "name", "format", "auto.offset.reset", "auto.commit.enable"),
    *("fetch.min.bytes", "consumer.request.timeout.ms", "topic.metadata.refresh.interval.ms"),
)
INVALID_CONFIG, OUT_OF_RANGE = 42204, 40001


class ConsumerSettings(NamedTuple):
    """Settings of one instance.

    Attributes:
        name: of the instance.
        format: of its records.
        auto_offset_reset: where it begins without a committed offset.
        auto_commit: whether it commits what was read.
        min_bytes: of an answer; it waits for them. 0: the first records are enough.
        wait_s: how long a read waits, in seconds.
        metadata_ms: how old its knowledge of topics may be; None for the client's default.
    """

    name: str
    format: str = "binary"
    auto_offset_reset: str = "latest"
    auto_commit: bool = True
    min_bytes: int = 0
    wait_s: float = 1.0
    metadata_ms: int | None = None

    def of_client(self, caller: Mapping[str, Any], options: RestOptions, group: str) -> dict[str, Any]:
        """Returns the arguments of the Consumer.

        Args:
            caller: settings that act as the caller.
            options: of the proxy.
            group: the consumer group.
        """
        found = {
            **caller,
            "group_id": group,
            "auto_offset_reset": self.auto_offset_reset,
            "enable_auto_commit": self.auto_commit,
            "prefetch_max_bytes": options.fetch_bytes,
            "fetch_max_bytes": options.fetch_bytes,
            "max_partition_fetch_bytes": max(1 << 20, options.fetch_bytes // 4),
            "max_decompressed_batch_bytes": BATCH_BYTES_MAX,
            "default_timeout_ms": int(options.timeout_s * 1000),
            # An instance that is silent for longer is closed.
            "max_poll_interval_ms": int(max(300.0, 2 * options.consumer_idle_s) * 1000),
        }
        if self.metadata_ms is not None:
            found["metadata_max_age_ms"] = self.metadata_ms
        return found


def consumer_settings(given: Mapping[str, Any], options: RestOptions) -> ConsumerSettings:
    """Returns the settings that a request names.

    Args:
        given: its body; members that are null count as missing.
        options: of the proxy.

    Raises:
        HttpError: 42204, a setting is unknown or wrong; 40001, a number is out of range; 422, the format.
    """
    found = {_ALIASES.get(name, name): value for name, value in given.items() if value is not None}
    for name in found:
        if name not in _NAMES:
            raise _invalid(f"there is no setting {name!r}; there are {', '.join(_NAMES)}")
    name = found.get("id", found.get("name", f"rest-consumer-{uuid.uuid4()}"))
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_MAX:
        raise _invalid(f"the name must be a text of 1 to {NAME_MAX} characters")
    format = found.get("format", "binary")
    if not isinstance(format, str) or format.lower() not in FORMATS:
        raise HttpError(422, 422, f"Invalid format type: it must be one of {', '.join(FORMATS)}")
    if format.lower() not in ("binary", "json") and options.schema_registry is None:
        raise _invalid(f"format {format} needs a schema registry, and the proxy has none: start it with one")
    reset = found.get("auto.offset.reset", "latest")
    if not isinstance(reset, str) or reset.lower() not in _RESETS:
        raise _invalid(f"auto.offset.reset must be one of {', '.join(_RESETS)}")
    wait_ms = _number(found, "consumer.request.timeout.ms", 0, int(WAIT_S_MAX * 1000))
    return ConsumerSettings(
        name,
        format.lower(),
        reset.lower(),
        _flag(found.get("auto.commit.enable", True)),
        max(0, _number(found, "fetch.min.bytes", -1, MIN_BYTES_MAX) or 0),
        options.consumer_wait_s if wait_ms is None else wait_ms / 1000,
        _number(found, "topic.metadata.refresh.interval.ms", 100, 3_600_000),
    )


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise _invalid("auto.commit.enable must be true or false")


def _number(found: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    """Returns a setting that is a number, or a text that is one; None without it."""
    value = found.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        value = -1 if value == "-1" else whole_number(value, most)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise HttpError(
            422, OUT_OF_RANGE, f"Invalid consumer configuration: {name} must be {least} to {most}"
        )
    return value


def _invalid(message: str) -> HttpError:
    return HttpError(422, INVALID_CONFIG, f"Invalid consumer configuration: {message}")


def read_limits(
    query: Mapping[str, str], settings: ConsumerSettings, options: RestOptions
) -> tuple[float, int]:
    """Returns for how many seconds a read waits, and how many bytes it returns at most.

    Args:
        query: of the request; -1 stands for the default.
        settings: of the instance.
        options: of the proxy.

    Raises:
        HttpError: 400, a parameter is no number.
    """
    wait_s, most = settings.wait_s, options.consumer_bytes_max
    timeout = _parameter(query, "timeout")
    if timeout is not None:
        wait_s = min(timeout / 1000, WAIT_S_MAX)
    size = _parameter(query, "max_bytes")
    return wait_s, min(size, most) if size else most


def _parameter(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "-1")
    if text == "-1":
        return None
    found = whole_number(text, (1 << 63) - 1)
    if found is None:
        raise bad_request(f"{name} must be a whole number")
    return found
