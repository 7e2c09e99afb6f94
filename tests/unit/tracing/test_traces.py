"""Spans of producers and consumers, by OpenTelemetry's own SDK, through a broker."""

import asyncio

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import bowstring
from bowstring.tracing import TracedAsyncConsumer, TracedConsumer, TracedProducer
from bowstring.tracing.context_headers import context_of
from tests.support.waiting import HANG_S


@pytest.fixture(scope="module")
def servers():
    with bowstring.Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def traces():
    """A provider, and the spans that ended."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter.get_finished_spans


def reader(servers, topic):
    consumer = bowstring.Consumer(servers, auto_offset_reset="earliest")
    consumer.assign([(topic, 0)])
    return consumer


def test_a_record_is_followed_from_send_to_process(servers, traces):
    provider, ended = traces
    with TracedProducer(bowstring.Producer(servers), tracer_provider=provider) as producer:
        place = producer.send("orders", b"1", key=b"k", headers={"a": b"b"}).result(HANG_S)
    with TracedConsumer(reader(servers, "orders"), group_id="g", tracer_provider=provider) as consumer:
        (record,) = consumer.poll(HANG_S)
        with pytest.raises(ValueError, match="bad order"), consumer.process(record):
            raise ValueError("bad order")
    send, poll, process = ended()
    assert (send.name, poll.name, process.name) == ("send orders", "poll orders", "process orders")
    assert (send.kind, poll.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CLIENT, SpanKind.CONSUMER)
    assert dict(send.attributes) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.kafka.message.key": "k",
        "messaging.message.body.size": 1,
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": place.offset,
    }
    assert poll.attributes["messaging.batch.message_count"] == 1
    assert poll.attributes["messaging.consumer.group.name"] == "g"
    assert [link.context.span_id for link in poll.links] == [send.context.span_id]
    assert process.parent.span_id == send.context.span_id
    assert process.context.trace_id == send.context.trace_id
    assert process.status.status_code is StatusCode.ERROR
    assert process.attributes["error.type"] == "ValueError"
    assert record.headers[0] == ("a", b"b")


def test_headers_are_those_that_other_clients_read(servers, traces):
    provider, ended = traces
    with TracedProducer(bowstring.Producer(servers), tracer_provider=provider) as producer:
        producer.send("others", b"1", headers=[("traceparent", b"old")]).result(HANG_S)
    with reader(servers, "others") as consumer:
        (record,) = consumer.poll(HANG_S)
    carried = {name: value.decode() for name, value in record.headers}
    context = TraceContextTextMapPropagator().extract(carried)
    (send,) = ended()
    assert f"{send.context.trace_id:032x}-{send.context.span_id:016x}" in carried["traceparent"]
    assert len(record.headers) == 1 and len(context) == 1


def test_a_failed_send_ends_its_span_with_the_error(servers, traces):
    provider, ended = traces
    producer = bowstring.Producer(servers)
    traced = TracedProducer(producer, tracer_provider=provider)
    with pytest.raises(bowstring.ConfigError):
        traced.send("orders", object())
    producer.close()
    with pytest.raises(bowstring.ClosedError):
        traced.send("orders", b"1")
    assert [span.status.status_code for span in ended()] == [StatusCode.ERROR] * 2
    assert ended()[1].attributes["error.type"] == "ClosedError"


def test_an_open_span_of_the_application_stays_the_parent(servers, traces):
    provider, ended = traces
    tracer = provider.get_tracer("test")
    producer = TracedProducer(bowstring.Producer(servers), tracer_provider=provider)
    with producer, tracer.start_as_current_span("request"):
        producer.send("parents", b"1").result(HANG_S)
    with TracedConsumer(reader(servers, "parents"), tracer_provider=provider) as consumer:
        (record,) = consumer.poll(HANG_S)
        with tracer.start_as_current_span("batch") as batch, consumer.process(record):
            pass
    spans = {span.name: span for span in ended()}
    assert spans["send parents"].parent.span_id == spans["request"].context.span_id
    assert spans["process parents"].parent.span_id == batch.get_span_context().span_id
    assert [link.context.span_id for link in spans["process parents"].links] == [
        spans["send parents"].context.span_id
    ]


def test_asyncio_clients_are_traced_as_well(servers, traces):
    provider, ended = traces

    async def main():
        async with TracedProducer(bowstring.aio.Producer(servers), tracer_provider=provider) as producer:
            await producer.send("loops", b"1")
        consumer = bowstring.aio.Consumer(servers, auto_offset_reset="earliest")
        async with TracedAsyncConsumer(consumer, tracer_provider=provider) as traced:
            await traced.assign([("loops", 0)])
            (record,) = await traced.poll(HANG_S)
            with traced.process(record):
                pass

    asyncio.run(main())
    assert [span.name for span in ended()] == ["send loops", "poll loops", "process loops"]


@pytest.mark.parametrize(
    "value", [b"", b"00-zz", b"\xff\xfe", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01", None]
)
def test_headers_of_nobody_are_no_context(value):
    assert context_of((("traceparent", value),)) is None
    assert context_of(()) is None
