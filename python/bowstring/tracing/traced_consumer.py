"""TracedConsumer: spans of polls, and of records that the application processes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from opentelemetry import trace

from bowstring.tracing import context_headers, conventions

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

    from bowstring.clients.records import Record

# Links of one span at most; records beyond them have theirs in the spans of `process`.
LINKS_MAX = 128


class ConsumerSpans:
    """What traced consumers share: spans of what `poll` returned, and of processing.

    Args:
        consumer: the consumer.
        group_id: its group, as an attribute of the spans.
        tracer_provider: of OpenTelemetry; None for the process's own.
    """

    def __init__(
        self, consumer: Any, *, group_id: str | None = None, tracer_provider: TracerProvider | None = None
    ):
        self._consumer = consumer
        self._tracer = conventions.tracer_of(tracer_provider)
        self._common: dict[str, Any] = {conventions.SYSTEM: conventions.KAFKA}
        if group_id is not None:
            self._common[conventions.GROUP] = group_id

    @contextmanager
    def process(self, record: Record) -> Iterator[Span]:
        """Makes a span "process TOPIC" of kind CONSUMER around the processing of a record.

        It links to the producer's span, and is its child where no other span is current. An exception within
        marks the span and goes on.
        """
        attributes = self._common | {
            conventions.OPERATION_NAME: "process",
            conventions.OPERATION_TYPE: "process",
            conventions.DESTINATION: record.topic,
            conventions.PARTITION: str(record.partition),
            conventions.OFFSET: record.offset,
        }
        if record.key is not None:
            attributes[conventions.KEY] = conventions.key_text(record.key) or ""
        if record.value is None:
            attributes[conventions.TOMBSTONE] = True
        sent = context_headers.context_of(record.headers)
        context, links = None, []
        if sent is not None:
            links = [trace.Link(sent)]
            if not trace.get_current_span().get_span_context().is_valid:
                context = trace.set_span_in_context(trace.NonRecordingSpan(sent))
        kind = trace.SpanKind.CONSUMER
        with self._tracer.start_as_current_span(
            f"process {record.topic}",
            context=context,
            kind=kind,
            attributes=attributes,
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except Exception as error:
                conventions.mark_failed(span, error)
                raise

    def _received(self, records: Sequence[Record], begun_ns: int) -> None:
        """Makes the span of a poll that returned records; one that returned none leaves no span."""
        if not records:
            return
        topics = {record.topic for record in records}
        attributes = self._common | {
            conventions.OPERATION_NAME: "poll",
            conventions.OPERATION_TYPE: "receive",
            conventions.BATCH_COUNT: len(records),
        }
        name = "poll"
        if len(topics) == 1:
            attributes[conventions.DESTINATION] = records[0].topic
            name = f"poll {records[0].topic}"
        sent = (context_headers.context_of(record.headers) for record in records[:LINKS_MAX])
        links = [trace.Link(each) for each in sent if each is not None]
        kind = trace.SpanKind.CLIENT
        self._tracer.start_span(
            name, kind=kind, attributes=attributes, links=links, start_time=begun_ns
        ).end()

    def _failed(self, error: Exception, begun_ns: int) -> None:
        attributes = self._common | {
            conventions.OPERATION_NAME: "poll",
            conventions.OPERATION_TYPE: "receive",
        }
        kind = trace.SpanKind.CLIENT
        span = self._tracer.start_span("poll", kind=kind, attributes=attributes, start_time=begun_ns)
        conventions.mark_failed(span, error)
        span.end()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._consumer!r}>"


class TracedConsumer(ConsumerSpans):
    """A `bowstring.Consumer` whose polls are spans "poll TOPIC" of kind CLIENT, linked to the senders' spans.

    `process(record)` makes a span of what the application does with a record. Everything else is the
    consumer's own; `poll_arrow` and `poll_batches` make no spans.

    Args:
        consumer: the consumer; it is closed with this object when that is used as a context manager.
        group_id: its group, as an attribute of the spans.
        tracer_provider: of OpenTelemetry; None for the process's own.

    Examples:
        >>> from bowstring.tracing import TracedConsumer
        >>> readers = Consumer("localhost:9092", group_id="readers")
        >>> with TracedConsumer(readers, group_id="readers") as consumer:
        ...     consumer.subscribe(["orders"])
        ...     for record in consumer.poll():
        ...         with consumer.process(record):
        ...             print(record.value)
    """

    def poll(self, timeout: float | None = 1.0, **options: Any) -> list[Record]:
        """Returns what `Consumer.poll` returns, and makes a span of it if there are records."""
        begun_ns = time.time_ns()
        try:
            records: list[Record] = self._consumer.poll(timeout, **options)
        except Exception as error:
            self._failed(error, begun_ns)
            raise
        self._received(records, begun_ns)
        return records

    def __iter__(self) -> Iterator[Record]:
        """Yields records as the consumer's own loop does, without spans of polls."""
        return iter(self._consumer)

    def __enter__(self) -> Self:
        self._consumer.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._consumer.__exit__(kind, error, traceback)


class TracedAsyncConsumer(ConsumerSpans):
    """The same of a `bowstring.aio.Consumer`; `process` is an ordinary context manager.

    Args:
        consumer: the consumer; it is closed with this object when that is used as a context manager.
        group_id: its group, as an attribute of the spans.
        tracer_provider: of OpenTelemetry; None for the process's own.
    """

    async def poll(self, timeout: float | None = 1.0, **options: Any) -> list[Record]:
        """Returns what `bowstring.aio.Consumer.poll` returns, and makes a span of it if there are records."""
        begun_ns = time.time_ns()
        try:
            records: list[Record] = await self._consumer.poll(timeout, **options)
        except Exception as error:
            self._failed(error, begun_ns)
            raise
        self._received(records, begun_ns)
        return records

    def __aiter__(self) -> AsyncIterator[Record]:
        """Yields records as the consumer's own loop does, without spans of polls."""
        found: AsyncIterator[Record] = aiter(self._consumer)
        return found

    async def __aenter__(self) -> Self:
        await self._consumer.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._consumer.__aexit__(kind, error, traceback)
