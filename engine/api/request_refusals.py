"""Answers whole requests with an error where the response has an error for each topic or resource only."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

from bowstring.engine.api.message_paths import found_at
from bowstring.engine.api.table import TABLE, Part
from bowstring.engine.requests.answers import error_response
from bowstring.engine.requests.time_slices import is_large, streamed
from bowstring.protocol import API_VERSIONS
from bowstring.protocol.errors import KafkaError
from bowstring.protocol.schema import Response, Struct, fields_of

MANY: Final = 500


def refusal(
    key: int, version: int, body: Any, error: KafkaError, *, is_streamed: bool = False
) -> Response | None:
    """Returns the answer to a request that failed as a whole: the error for each topic or resource that it
    names, as Kafka's getErrorResponse. None if there is no such answer.

    Args:
        is_streamed: The answer is only encoded, in slices: results for over MANY elements are made then.
    """
    row = TABLE[key]
    answer: Any = error_response(key, version, error)
    if answer is None and (row.refused or row.is_refused_silently):
        answer = API_VERSIONS[key].response()
    if answer is not None:
        for name, value in row.refused_with:
            setattr(answer, name, value)
    for part in row.refused:
        results = list(getattr(answer, part.results))
        many = MANY if is_streamed else None
        setattr(answer, part.results, _joined(results, part, type(answer), body, error, many=many))
    return cast(Response | None, answer)


def _joined(
    results: list[Any],
    part: Part,
    answer: type[Struct],
    elements_of: Any,
    error: KafkaError,
    *,
    many: int | None = None,
) -> Any:
    """Returns results with those for the elements of a request, or of one of its elements: as a list, unless
    there are over `many`, or so many that the request has them as Elements.
    """
    (result_class,) = (each.struct for each in fields_of(answer) if each.name == part.results)
    assert result_class is not None, part.results
    elements = found_at(elements_of, part.elements)
    added = _results(part, result_class, elements, error)
    if not results and "." not in part.elements:
        given = getattr(elements_of, part.elements)
        if is_large(given) or (many is not None and given is not None and len(given) > many):
            return streamed(added)
    return [*results, *added]


def _results(
    part: Part, result_class: type[Struct], elements: Iterable[Any], error: KafkaError
) -> Iterator[Any]:
    has_message = any(each.name == "error_message" for each in fields_of(result_class))
    for element in elements:
        result: Any = result_class()
        is_plain = isinstance(element, str | int)
        for names in part.names:
            name, result_name = (names, names) if isinstance(names, str) else names
            setattr(result, result_name, element if is_plain else getattr(element, name))
        if part.inner is not None:
            inner = _joined([], part.inner, result_class, element, error)
            setattr(result, part.inner.results, inner)
        else:
            setattr(result, part.error, error.code)
            if has_message:
                result.error_message = error.detail or error.error.message
        yield result
