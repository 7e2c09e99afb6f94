"""Produces records to topics and partitions."""

from __future__ import annotations

from typing import Any

from bowstring.clients.errors import ClientError
from bowstring.rest.answer import Answering
from bowstring.rest.records.schema_encoding import schemas_of
from bowstring.rest.v2.deliveries import Deliveries, size_of
from bowstring.rest.v2.media_types import FORMATS, SCHEMA_FORMATS, content_format, embedded
from bowstring.rest.v2.produce_data import ProducedRecords, plain_records, schema_records
from bowstring.rest.v2.v2_call import V2Call, V2Operations, v2_error
from bowstring.web.http_error import HttpError

operations = V2Operations()

RECORD_CODES = (40101, 40301, 50002, 50003)
"""Of records that fail: the last one says that a retry may help."""
_FORMS = tuple(embedded(each) for each in FORMATS)
_REFUSED: dict[int, str | None] = {401: "V2ProduceRefusal", 403: "V2ProduceRefusal"}


@operations.add_v2(
    "POST",
    "/topics/{topic_name}",
    "v2Produce",
    "Produces records to a topic. The Content-Type names their form: "
    "application/vnd.kafka.{binary,json,avro,jsonschema,protobuf}.v2+json.",
    body="V2ProduceRequest",
    body_media=_FORMS,
    answer="V2ProduceResponse",
    also=_REFUSED,
)
async def produce(call: V2Call) -> Answering:
    """Produces records to a topic."""
    return await _produce(call, None)


@operations.add_v2(
    "POST",
    "/topics/{topic_name}/partitions/{partition_id}",
    "v2ProduceToPartition",
    "Produces records to a partition; their form is that of the topic's operation.",
    body="V2ProduceRequest",
    body_media=_FORMS,
    answer="V2ProduceResponse",
    also=_REFUSED,
)
async def produce_to_partition(call: V2Call) -> Answering:
    """Produces records to a partition."""
    return await _produce(call, call.number("partition_id"))


async def _produce(call: V2Call, partition: int | None) -> Answering:
    format = content_format(call.header(b"content-type"))
    topic = call.path["topic_name"]
    data = await call.read()
    if not data.strip():
        raise HttpError(422, 422, "the request has no body; it needs records")
    shared = call.caller.shared("deliveries", lambda: Deliveries(call.caller, call.options.buffer_memory))
    found = await _records(call, shared, data, format)
    rows = found.rows
    if partition is not None:
        rows = [(key, value, partition if own is None else own) for key, value, own in rows]
    size = size_of(rows)
    producer = await shared.ready(topic, size)
    if partition is not None and partition >= producer.accumulator.partition_count(topic):
        raise HttpError(404, 40402, f"Partition not found. {topic} has no partition {partition}.")
    outcomes = await shared.send(producer, topic, rows, size)
    answers = [_answer(each) for each in outcomes]
    return call.json(
        {
            "offsets": answers,
            "key_schema_id": found.key_schema_id,
            "value_schema_id": found.value_schema_id,
        },
        _status(answers),
    )


async def _records(call: V2Call, shared: Deliveries, data: bytes, format: str) -> ProducedRecords:
    if format not in SCHEMA_FORMATS:
        return plain_records(data, format)
    schemas = schemas_of(call.caller, call.options)
    if schemas is None:
        raise HttpError(
            422, 42207, f"{format} needs a schema registry, and the proxy has none: start it with one"
        )
    topic = call.path["topic_name"]
    return await shared.encode(len(data), schema_records, data, format, topic, schemas)


def _answer(outcome: Any) -> dict[str, Any]:
    if isinstance(outcome, ClientError):
        error = v2_error(outcome)
        code = error.code if error.code in RECORD_CODES else 50002
        return {"partition": None, "offset": None, "error_code": code, "error": error.message}
    return {"partition": outcome.partition, "offset": outcome.offset, "error_code": None, "error": None}


def _status(answers: list[dict[str, Any]]) -> int:
    """Returns 401 or 403 if a record failed by it, as Confluent's proxy does; else 200."""
    for each in answers:
        code = each["error_code"]
        if code is not None and code // 100 in (401, 403):
            return int(code // 100)
    return 200
