"""TracedProducer: a span for each record sent."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from opentelemetry import trace

from bowstring.tracing import context_headers, conventions

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider


class TracedProducer:
    """A producer, `bowstring.Producer` or `bowstring.aio.Producer`, whose sends are spans.

    A span "send TOPIC" of kind PRODUCER begins with `send` and ends when the record is acknowledged or has
    failed. Its context goes into the record's headers, so that consumers link to it. Everything else is the
    producer's own; `send_arrow` and `send_columns` make no spans, as their records have no such headers.

    Args:
        producer: the producer; it is closed with this object when that is used as a context manager.
        tracer_provider: of OpenTelemetry; None for the process's own.

    Examples:
        >>> from bowstring.tracing import TracedProducer
        >>> with TracedProducer(Producer("localhost:9092")) as producer:
        ...     producer.send("orders", b"1").result()
    """

    def __init__(self, producer: Any, *, tracer_provider: TracerProvider | None = None):
        self._producer = producer
        self._tracer = conventions.tracer_of(tracer_provider)
        self._common = {
            conventions.SYSTEM: conventions.KAFKA,
            conventions.OPERATION_NAME: "send",
            conventions.OPERATION_TYPE: "send",
        }

    def send(
        self, topic: str, value: Any = None, key: Any = None, *, headers: Any = None, **options: Any
    ) -> Any:
        """Sends a record as `Producer.send` does, with the context of its span in the headers.

        Raises what the producer's `send` raises; the span ends with that error.
        """
        attributes: dict[str, Any] = self._common | {conventions.DESTINATION: topic}
        if key is not None:
            attributes[conventions.KEY] = conventions.key_text(key) or ""
        if value is None:
            attributes[conventions.TOMBSTONE] = True
        elif isinstance(value, bytes | bytearray | memoryview):
            attributes[conventions.BODY_SIZE] = len(value)
        kind = trace.SpanKind.PRODUCER
        span = self._tracer.start_span(f"send {topic}", kind=kind, attributes=attributes)
        try:
            carried = context_headers.with_context(headers, trace.set_span_in_context(span))
            future = self._producer.send(topic, value, key, headers=carried, **options)
        except BaseException as error:
            conventions.mark_failed(span, error)
            span.end()
            raise
        future.add_done_callback(lambda done: _finish(span, done))
        return future

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def __repr__(self) -> str:
        return f"<TracedProducer of {self._producer!r}>"

    def __enter__(self) -> Self:
        self._producer.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._producer.__exit__(kind, error, traceback)

    async def __aenter__(self) -> Self:
        await self._producer.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._producer.__aexit__(kind, error, traceback)


def _finish(span: Span, future: Any) -> None:
    """Ends the span of a record whose outcome is known."""
    try:
        found = future.result()
    except BaseException as error:
        # Also CancelledError of an asyncio future: the record may still arrive, its outcome is not seen.
        conventions.mark_failed(span, error)
    else:
        span.set_attribute(conventions.PARTITION, str(found.partition))
        if found.offset >= 0:
            span.set_attribute(conventions.OFFSET, found.offset)
    span.end()
