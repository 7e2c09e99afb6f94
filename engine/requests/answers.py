"""Encodes answers in time slices, and makes answers that hold only an error."""

from functools import cache
from typing import Any, Final, cast

from bowstring._native.protocol.message_steps import DONE, GOING_ON, Encoding
from bowstring.engine.requests.time_slices import TimeSlices
from bowstring.protocol import API_VERSIONS, begin_response
from bowstring.protocol.errors import KafkaError
from bowstring.protocol.headers import response_header_version
from bowstring.protocol.schema import Response, fields_of

NO_THROTTLE_TIME: Final = -1
# Of the correlation id, with which every answer begins; of the header's tags behind it.
_ID_BYTES, _TAGS_BYTES = 4, 1
_TIME_BYTES = 4


async def encoded(
    key: int, version: int, correlation_id: int, response: Response, time_slices: TimeSlices
) -> Encoding:
    """Encodes header and body of an answer; others get the control thread meanwhile.

    Raises:
        KafkaError: From an asynchronous generator that is part of the answer.
        ProtocolError: The body does not fit the version; TooLargeError when it is too large.
    """
    encoding = begin_response(key, version, correlation_id, response)
    while (state := encoding.step(time_slices.until_ns)) != DONE:
        if state == GOING_ON or time_slices.over():
            await time_slices.rest()
        if state != GOING_ON:
            await _supply(encoding)
    return encoding


async def _supply(encoding: Encoding) -> None:
    """Awaits the next element of an asynchronous generator that the handler returned as part of its
    answer.
    """
    try:
        element = await anext(encoding.source)
    except StopAsyncIteration:
        encoding.end()
    else:
        encoding.add(element)


def error_response(key: int, version: int, error: KafkaError) -> Response | None:
    """Returns a response that holds only the error; None if the API's response has no field for one."""
    response = API_VERSIONS[key].response
    names = {field.name for field in fields_of(response) if field.versions[0] <= version <= field.versions[1]}
    if "error_code" not in names:
        return None
    answer: Any = response()
    answer.error_code = error.code
    if "error_message" in names:
        answer.error_message = error.detail or error.error.message
    return cast(Response, answer)


@cache
def throttle_time_at(key: int, version: int) -> int:
    """Returns where an encoded answer, header and body, has the time that the client waits (KIP-219);
    `NO_THROTTLE_TIME`: it has none, or not as its first field.
    """
    api = API_VERSIONS[key]
    for field in fields_of(api.response):
        if field.versions[0] <= version <= field.versions[1]:
            if field.name != "throttle_time_ms":
                break
            return _ID_BYTES + _TAGS_BYTES * response_header_version(api, version)
    return NO_THROTTLE_TIME


def with_throttle_time(key: int, version: int, payload: bytes, throttle_ms: int) -> bytes:
    """Returns an encoded answer with another time that the client waits."""
    at = throttle_time_at(key, version)
    if at == NO_THROTTLE_TIME:
        return payload
    return payload[:at] + throttle_ms.to_bytes(_TIME_BYTES, "big") + payload[at + _TIME_BYTES :]
