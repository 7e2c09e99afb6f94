"""Declares operations, a row for each; routes and the OpenAPI document follow from them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bowstring.rest.answer import Answering
    from bowstring.rest.call import Call

Handler = Callable[["Call"], Awaitable["Answering"]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query.

    Attributes:
        name: in the query.
        summary: what it is for.
        schema: JSON Schema of its value.
        required: whether requests must have it.
    """

    name: str
    summary: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """What one method does at one path.

    Attributes:
        method: of HTTP.
        path: segments in braces are parameters.
        name: its id in the OpenAPI document.
        summary: a sentence.
        handler: makes the response.
        answer: name of the schema of the body of a success; None without one.
        status: of a success.
        body: name of the schema of the request's body.
        body_media: types of that body.
        query: parameters of the query.
        media: types of the answer's body.
        streams: the body, or the answer, has no end that is known before: limits of size do not hold.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: Handler
    answer: str | None = None
    status: int = 200
    body: str | None = None
    body_media: tuple[str, ...] = ("application/json",)
    query: tuple[Parameter, ...] = ()
    media: tuple[str, ...] = ("application/json",)
    streams: bool = False


class Operations(list[Operation]):
    """Operations of a module, in the order of their declaration."""

    def add(
        self, method: str, path: str, name: str, summary: str, **more: Any
    ) -> Callable[[Handler], Handler]:
        """Returns a decorator that adds a handler as an operation; the arguments are those of Operation."""

        def decorate(handler: Handler) -> Handler:
            self.append(Operation(method, path, name, summary, handler, **more))
            return handler

        return decorate
