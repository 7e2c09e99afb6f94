"""Declares operations, a row for each; routes and the OpenAPI document follow from them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bowstring.web.openapi import Parameter

if TYPE_CHECKING:
    from bowstring.rest.answer import Answering
    from bowstring.rest.call import Call

Handler = Callable[["Call"], Awaitable["Answering"]]


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
        error_media: types of the bodies of errors.
        needs_body: whether requests must have the body.
        also: further statuses of answers, with the schemas of their bodies, or None for an error's.
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
    error_media: tuple[str, ...] = ("application/json",)
    needs_body: bool = True
    also: Mapping[int, str | None] = field(default_factory=dict)
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
