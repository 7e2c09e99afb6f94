"""One request of v2: its body and its answers, whose types are Confluent's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from bowstring.clients.errors import AuthenticationError, ClientError, ConfigError, UnknownTopicError
from bowstring.protocol.whole_numbers import whole_number
from bowstring.rest.answer import Answer, Answering
from bowstring.rest.call import INT32_MAX, Call
from bowstring.rest.client_failure import bad_request, http_error
from bowstring.rest.operation import Handler, Operation, Operations
from bowstring.rest.v2.media_types import ANSWERS, BODIES, PLAIN, answer_type, is_body_type
from bowstring.web.http_error import HttpError
from bowstring.web.limits import header, read_body

T = TypeVar("T")
V2Handler = Callable[["V2Call"], Awaitable[Answering]]


class V2Call:
    """One request.

    Args:
        call: the request.

    Attributes:
        call, path, query, caller, options: of the request.
        media: type of the answer. Handlers whose answers have records set it.
    """

    def __init__(self, call: Call):
        self.call, self.path, self.query = call, call.path, call.query
        self.caller, self.options = call.caller, call.options
        self.media = PLAIN

    def header(self, name: bytes) -> str:
        """Returns a header by its name in lower case; "" without it."""
        return (header(self.call.scope["headers"], name) or b"").decode("latin-1")

    async def read(self) -> bytes:
        """Returns the body. Raises like `read_body`."""
        return await read_body(self.call.scope, self.call.receive, self.options.request_bytes_max)

    async def body(self, kind: type[T], default: T | None = None) -> T:
        """Returns the body, JSON of this shape.

        Args:
            kind: the shape.
            default: without a body; None: a body must be there.

        Raises:
            HttpError: 415, 413, 422 without a body, 400 if it is of another shape.
        """
        content_type = self.header(b"content-type")
        if not is_body_type(content_type):
            raise HttpError(415, 415, f"HTTP 415 Unsupported Media Type: use {PLAIN}")
        data = await self.read()
        if not data.strip():
            if default is None:
                raise HttpError(422, 422, "the request has no body; it needs one")
            return default
        return decoded(data, kind)

    def number(self, name: str) -> int:
        """Returns a parameter of the path that is a number of a partition.

        Raises:
            HttpError: 40402, it is none.
        """
        found = whole_number(self.path[name], INT32_MAX)
        if found is None:
            raise HttpError(404, 40402, "Partition not found: its number in the path is no whole number.")
        return found

    def json(self, value: Any, status: int = 200) -> Answer:
        """Returns an answer with a JSON body."""
        return self.text(msgspec.json.encode(value), status)

    def text(self, body: bytes, status: int = 200) -> Answer:
        """Returns an answer whose body is JSON text."""
        return Answer(status, body, ((b"content-type", self.media.encode()),))

    def nothing(self) -> Answer:
        """Returns an answer without a body."""
        return Answer(204, headers=())


class V2Operations(Operations):
    """Operations of a module of v2.

    Args:
        errors: statuses that they have besides those of all operations.
    """

    def __init__(self, errors: tuple[int, ...] = ()):
        super().__init__()
        self._also: dict[int, str | None] = dict.fromkeys((406, *errors))

    def add_v2(
        self, method: str, path: str, name: str, summary: str, **more: Any
    ) -> Callable[[V2Handler], V2Handler]:
        """Returns a decorator that adds a handler as an operation; the arguments are those of Operation."""

        def decorate(handler: V2Handler) -> V2Handler:
            found: dict[str, Any] = {"media": ANSWERS, "error_media": ANSWERS, "body_media": BODIES, **more}
            found["also"] = self._also | more.get("also", {})
            self.append(Operation(method, path, name, summary, answering(handler), **found))
            return handler

        return decorate


def answering(handler: V2Handler) -> Handler:
    """Returns a handler whose errors are answers in a type that the request accepts."""

    async def handle(call: Call) -> Answering:
        wanted = V2Call(call)
        try:
            wanted.media = answer_type(wanted.header(b"accept"))
            return await handler(wanted)
        except AuthenticationError:
            raise
        except (HttpError, ClientError) as error:
            found = v2_error(error)
            type = (b"content-type", wanted.media.encode())
            return Answer(found.status, found.body(), (type, *found.headers))

    return handle


def decoded(data: bytes, kind: type[T]) -> T:
    """Returns JSON of a shape. Numbers may be text, as Confluent's proxy and Karapace take them.

    Raises:
        HttpError: 422, a member is missing or unknown; 400, it is of another shape, or no JSON.
    """
    try:
        if not data.isascii():
            data.decode()
        return msgspec.json.decode(data, type=kind, strict=False)
    except msgspec.ValidationError as error:
        text = str(error)
        status = 422 if text.startswith(("Object missing required", "Object contains unknown")) else 400
        raise HttpError(status, status, f"the body of the request is wrong: {text}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"the body of the request is wrong: {error}") from None


def v2_error(error: BaseException) -> HttpError:
    """Returns what a request of v2 fails with: as in v3, but that a topic that is missing has 40401."""
    if isinstance(error, UnknownTopicError):
        return HttpError(404, 40401, f"Topic not found. {error}")
    if isinstance(error, ConfigError) and " has partitions 0 to " in str(error):
        return HttpError(404, 40402, f"Partition not found. {error}")
    return http_error(error)
