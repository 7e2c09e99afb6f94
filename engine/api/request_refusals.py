"""Answers whole requests with an error where the response has an error for each topic or resource only."""

from typing import Any, cast

from bowstring.engine.api.table import TABLE, Part
from bowstring.engine.requests.answers import error_response
from bowstring.protocol import API_VERSIONS
from bowstring.protocol.errors import KafkaError
from bowstring.protocol.schema import Response, Struct, fields_of


def refusal(key: int, version: int, body: Any, error: KafkaError) -> Response | None:
    """Returns the answer to a request that failed as a whole: the error for each topic or resource that it
    names, as Kafka's getErrorResponse. None if there is no such answer.
    """
    parts = TABLE[key].refused
    answer: Any = error_response(key, version, error)
    if not parts:
        return cast(Response | None, answer)
    if answer is None:
        answer = API_VERSIONS[key].response()
    for part in parts:
        getattr(answer, part.results).extend(_results(part, type(answer), body, error))
    return cast(Response, answer)


def _results(part: Part, answer: type[Struct], elements_of: Any, error: KafkaError) -> list[Any]:
    """Returns the results for the elements of a request, or of one of its elements."""
    (result_class,) = (each.struct for each in fields_of(answer) if each.name == part.results)
    assert result_class is not None, part.results
    has_message = any(each.name == "error_message" for each in fields_of(result_class))
    results = []
    for element in getattr(elements_of, part.elements) or ():
        result: Any = result_class()
        for name in part.names:
            setattr(result, name, element if isinstance(element, str | int) else getattr(element, name))
        if part.inner is not None:
            setattr(result, part.inner.results, _results(part.inner, result_class, element, error))
        else:
            result.error_code = error.code
            if has_message:
                result.error_message = error.detail or error.error.message
        results.append(result)
    return results
