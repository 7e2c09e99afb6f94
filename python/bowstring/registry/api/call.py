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
from bowstring.web.openapi import Parameter

FORBIDDEN = 40301

_FLAG = {"type": "boolean"}
_NUMBER = {"type": "integer", "minimum": -(1 << 31) + 1, "maximum": (1 << 31) - 1}
PAGE = (
    Parameter("offset", "How many to leave out.", _NUMBER),
    Parameter("limit", "How many at most; all if it is negative.", _NUMBER),
)
DELETED = Parameter("deleted", "Whether soft-deleted ones count, too.", _FLAG)
DELETED_ONLY = Parameter("deletedOnly", "Whether only soft-deleted ones count.", _FLAG)
NORMALIZE = Parameter("normalize", "Whether the schema is normalized.", _FLAG)
FORMAT = Parameter("format", "Form of the text: resolved, or for Protobuf serialized and ignore_extensions.")
REFERENCE_FORMAT = Parameter("referenceFormat", "qualified: references have their contexts.")
PREFIX = Parameter("subjectPrefix", "Only subjects that begin so; `:*:` for all contexts.")
SUBJECT = Parameter("subject", "A subject, whose context is where the id is looked for.")


def flag(name: str, summary: str) -> Parameter:
    """Returns a parameter that is true or false."""
    return Parameter(name, summary, _FLAG)


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
        may_configure: the same of configuring a subject, a context (`:.context:`) or everything (empty).
    """

    target: RequestTarget
    names: Mapping[str, str]
    body: Any = None
    may_read: Callable[[str], bool] | None = None
    may_configure: Callable[[str], bool] | None = None

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
        name: its id in the OpenAPI document.
        summary: a sentence.
        right: what the user needs on the subject in the path, or on all subjects if there is none.
        read: answers from the image; None for a write.
        decide: decides a write; None for a read.
        query: parameters of the query.
        body: name of the schema of its JSON body; None: it takes none.
        answer: name of the schema of a successful answer; None: that has no body.
        status: of a successful answer.
        checks: whether it refuses schemas that are not compatible.
        known: of a write: answers what needs none, on any node; None in what it returns: ask the leader.
        is_open: whether the route itself leaves out what the user may not read.
    """

    method: str
    path: str
    name: str
    summary: str
    right: Right
    read: Read | None = None
    decide: Decide | None = None
    query: tuple[Parameter, ...] = ()
    body: str | None = None
    answer: str | None = None
    status: int = 200
    checks: bool = False
    known: Read | None = None
    is_open: bool = False

    @property
    def has_body(self) -> bool:
        """Whether it takes a JSON body."""
        return self.body is not None
