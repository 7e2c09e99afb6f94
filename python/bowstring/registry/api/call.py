"""What a route gets of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from bowstring.registry.api.request_target import RequestTarget, number_of
from bowstring.registry.decision import Decision
from bowstring.registry.registry_image import RegistryImage
from bowstring.web.http_error import HttpError

FORBIDDEN = 40301


class Right(Enum):
    """What a user needs to be allowed; see docs/how-to/schema-registry.md."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    CONFIGURE = "configure"


@dataclass(slots=True)
class Call:
    """A request that a route matches.

    Attributes:
        target: path and query.
        names: the parts of the path that the route names.
        body: the JSON value of the body; None where the route has none.
        may_read: whether the user may read a subject; None: every subject.
    """

    target: RequestTarget
    names: Mapping[str, str]
    body: Any = None
    may_read: Callable[[str], bool] | None = None

    def id(self) -> int:
        """Returns the id in the path.

        Raises:
            HttpError: 404, it is no number.
        """
        return number_of("the id", self.names["id"])

    def page(self) -> dict[str, Any]:
        """Returns `offset` and `limit` of a list.

        Raises:
            HttpError: 404, one is no number.
        """
        return {"offset": self.target.number("offset", 0), "limit": self.target.number("limit", -1)}


def require_readable(call: Call, subject: str) -> None:
    """Refuses a subject that the user may not read: one of another context may stand for the one of the path.

    Raises:
        HttpError: 403.
    """
    if call.may_read is not None and not call.may_read(subject):
        raise HttpError(403, FORBIDDEN, f"the user lacks the operation read on the subject '{subject}'")


Read = Callable[[RegistryImage, Call], Any]
Decide = Callable[[RegistryImage, Call], Decision]


@dataclass(frozen=True, slots=True)
class Route:
    """A row of the API.

    Attributes:
        method: of HTTP.
        path: with names in braces, as `/subjects/{subject}`.
        right: what the user needs on the subject in the path, or on all subjects if there is none.
        read: answers from the image; None for a write.
        decide: decides a write; None for a read.
        has_body: whether it takes a JSON body.
        status: of a successful answer.
        known: of a write: answers what needs none, on any node; None in what it returns: ask the leader.
        is_open: whether the route itself leaves out what the user may not read.
    """

    method: str
    path: str
    right: Right
    read: Read | None = None
    decide: Decide | None = None
    has_body: bool = False
    status: int = 200
    known: Read | None = None
    is_open: bool = False
