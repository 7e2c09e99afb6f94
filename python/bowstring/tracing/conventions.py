"""Names of OpenTelemetry's semantic conventions for messaging, and what both wrappers need of its API.

Source: https://opentelemetry.io/docs/specs/semconv/messaging/kafka/.
"""

from __future__ import annotations

from typing import Any

from opentelemetry.trace import Span, Status, StatusCode, Tracer, TracerProvider, get_tracer

from bowstring.version import __version__

SYSTEM = "messaging.system"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
DESTINATION = "messaging.destination.name"
PARTITION = "messaging.destination.partition.id"
CLIENT_ID = "messaging.client.id"
GROUP = "messaging.consumer.group.name"
BATCH_COUNT = "messaging.batch.message_count"
BODY_SIZE = "messaging.message.body.size"
OFFSET = "messaging.kafka.offset"
KEY = "messaging.kafka.message.key"
TOMBSTONE = "messaging.kafka.message.tombstone"
ERROR_TYPE = "error.type"

KAFKA = "kafka"
# Keys are names, not contents: longer ones are cut.
KEY_CHARACTERS_MAX = 256


def tracer_of(provider: TracerProvider | None) -> Tracer:
    """Returns the tracer of this package, of `provider` or of the process's own provider."""
    return get_tracer("bowstring", __version__, tracer_provider=provider)


def key_text(key: Any) -> str | None:
    """Returns a key as an attribute, cut when long: text as it is, bytes as text or, if not UTF-8, in hex."""
    if isinstance(key, str):
        return key[:KEY_CHARACTERS_MAX]
    if not isinstance(key, bytes | bytearray | memoryview):
        return None if key is None else str(key)[:KEY_CHARACTERS_MAX]
    cut = bytes(key[: 4 * KEY_CHARACTERS_MAX])
    try:
        return cut.decode()[:KEY_CHARACTERS_MAX]
    except UnicodeDecodeError:
        return cut.hex()[:KEY_CHARACTERS_MAX]


def mark_failed(span: Span, error: BaseException) -> None:
    """Gives a span the status of a failure, with its type and text."""
    span.set_attribute(ERROR_TYPE, type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, str(error)))
