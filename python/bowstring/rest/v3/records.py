"""Records: produced one by one, as a stream or as a batch; read as a stream."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from bowstring.rest.answer import Answering
from bowstring.rest.call import JSON_TYPES, Call
from bowstring.rest.operation import Operations
from bowstring.rest.records.produce_stream import ProduceStream
from bowstring.rest.records.record_query import MEDIA, PARAMETERS, record_query
from bowstring.rest.records.record_stream import RecordStream
from bowstring.web.http_error import HttpError
from bowstring.web.limits import header
from bowstring.web.openapi import Parameter

operations = Operations()

_RECORDS = "/v3/clusters/{cluster_id}/topics/{topic_name}/records"
BATCH_ERROR = 42208
ID_MAX = 80


class BatchEntry(Struct):
    """A record of a batch; the rest of its members is read natively."""

    id: Any = None


class BatchData(Struct):
    """Records of a batch."""

    entries: list[Raw]


async def _stream(call: Call) -> ProduceStream:
    cluster_id = await call.check_cluster()
    producer = await call.caller.ready_producer()
    return ProduceStream(call, producer, call.path["topic_name"], cluster_id)


@operations.add(
    "POST",
    _RECORDS,
    "produceRecord",
    "Produces records: JSON objects one after the other, as long as the request lasts. Each has one answer, "
    "in their order, as soon as it is stored.",
    body="ProduceRequest",
    answer="ProduceResponse",
    streams=True,
)
async def produce(call: Call) -> Answering:
    """Produces one record, or a stream of them."""
    call.check_media(JSON_TYPES)
    return await _stream(call)


@operations.add(
    "POST",
    f"{_RECORDS}:batch",
    "produceRecordsBatch",
    "Produces a batch of records, each with an id that its answer has, too.",
    body="ProduceBatchRequest",
    answer="ProduceBatchResponse",
    status=207,
)
async def produce_batch(call: Call) -> Answering:
    """Produces a batch of records."""
    data = await call.body(BatchData)
    ids = _ids(data.entries, call.options.batch_entries_max)
    stream = await _stream(call)
    parts: list[bytes] = []

    async def send(message: Any) -> None:
        parts.append(message.get("body", b""))

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"\n".join(bytes(each) for each in data.entries)}

    await stream(call.scope, receive, send)
    answers = msgspec.json.decode(b"[" + b",".join(b"".join(parts).splitlines()) + b"]")
    successes: list[dict[str, Any]] = []
    failures: list[dict[str, Any]] = []
    for id, answer in zip(ids, answers, strict=True):
        code = answer.pop("error_code")
        if code == 200:
            successes.append({"id": id, **answer})
        else:
            failures.append({"id": id, "error_code": code, "message": answer["message"]})
    return call.json({"successes": successes, "failures": failures}, 207)


def _ids(entries: list[Raw], most: int) -> list[str]:
    """Returns the ids of a batch.

    Raises:
        HttpError: 42208; the batch is empty or too large, or ids are wrong.
    """
    if not entries:
        raise HttpError(422, BATCH_ERROR, "Empty batch.")
    if len(entries) > most:
        raise HttpError(422, BATCH_ERROR, f"Too many entries in batch: {len(entries)}; at most {most}.")
    ids = []
    for each in entries:
        try:
            found = msgspec.json.decode(each, type=BatchEntry).id
        except (msgspec.DecodeError, RecursionError) as error:
            raise HttpError(400, 400, f"an entry of the batch is wrong: {error}") from None
        if not isinstance(found, str) or not 1 <= len(found) <= ID_MAX:
            raise HttpError(
                422, BATCH_ERROR, f"Batch entry identifier is not a string of 1 to {ID_MAX} characters."
            )
        ids.append(found)
    if len(set(ids)) < len(ids):
        raise HttpError(422, BATCH_ERROR, "Batch entry IDs are not distinct.")
    return ids


@operations.add(
    "GET",
    _RECORDS,
    "readRecords",
    "Reads records as a stream: JSON lines, CSV, an Arrow IPC stream, or server-sent events that go on with "
    "new records. Partitions come as they arrive; each has its records in order.",
    query=tuple(Parameter(name, summary) for name, summary in PARAMETERS.items()),
    media=tuple(MEDIA.values()),
    also={406: None},
    streams=True,
)
async def read(call: Call) -> Answering:
    """Reads records."""
    await call.check_cluster()
    headers = call.scope["headers"]
    query = record_query(
        call.path["topic_name"],
        call.query,
        (header(headers, b"accept") or b"").decode("latin-1"),
        (header(headers, b"last-event-id") or b"").decode("latin-1"),
    )
    stream = RecordStream(call, query)
    await stream.open()
    return stream
