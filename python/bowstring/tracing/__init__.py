"""Traces records from producer to consumer with OpenTelemetry (extra `otel`).

Wrappers make a span of each `send`, `poll` and processed record, and carry its context in the headers
`traceparent` and `tracestate` of the record (W3C Trace Context), which every other instrumented Kafka client
reads. Clients that are not wrapped import nothing of this package.

Source: OpenTelemetry's semantic conventions for messaging and for Kafka.

Imported by: nothing.
May import: clients, version.
"""

from importlib.util import find_spec

if find_spec("opentelemetry") is None:
    from bowstring.clients.errors import MissingPackageError

    raise MissingPackageError("opentelemetry-api", "otel")

from bowstring.tracing.traced_consumer import TracedAsyncConsumer, TracedConsumer
from bowstring.tracing.traced_producer import TracedProducer

__all__ = ["TracedAsyncConsumer", "TracedConsumer", "TracedProducer"]
