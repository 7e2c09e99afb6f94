"""Gives each part of a page its own answer: one that the cluster refuses does not fail the page."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Generic, NamedTuple, TypeVar

from bowstring.clients.errors import (
    AuthorizationError,
    BrokerError,
    ClientError,
    ConfigError,
    UnsupportedApiError,
)

T = TypeVar("T")

_REFUSED = frozenset({"TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "DELEGATION_TOKEN_AUTHORIZATION_FAILED"})


class Part(NamedTuple, Generic[T]):
    """A part of a page.

    Attributes:
        value: what it shows; None if there is nothing to show.
        missing: why there is nothing, in a sentence; empty otherwise.
    """

    value: T | None
    missing: str


async def part(work: Awaitable[T], right: str) -> Part[T]:
    """Returns what a part of a page shows, or why it shows nothing.

    Args:
        work: asks the cluster.
        right: what the user needs for this, such as "DESCRIBE on the cluster".

    Raises:
        ClientError: no broker answers, which is the matter of the whole page.
    """
    try:
        return Part(await work, "")
    except (BrokerError, UnsupportedApiError) as error:
        return Part(None, why_missing(error, right))


def why_missing(error: ClientError, right: str) -> str:
    """Returns why the cluster does not show something, and what to do.

    Args:
        error: what it answered.
        right: what the user needs for this.
    """
    if isinstance(error, AuthorizationError) or getattr(error, "name", "") in _REFUSED:
        return f"You need the right {right} to see this. `bowstring acls add` grants it."
    if isinstance(error, UnsupportedApiError) or getattr(error, "name", "") == "UNSUPPORTED_VERSION":
        return f"Not offered by this cluster: {error}"
    if getattr(error, "name", "") == "SECURITY_DISABLED":
        return (
            "This cluster has no access control: everybody may do everything. Set authorizer.class.name on "
            "all nodes to use rules."
        )
    return str(error)


def why_refused(error: ClientError, right: str) -> str:
    """Returns why the cluster did not make a change, and what to do.

    Args:
        error: what it answered.
        right: what the user needs for this.
    """
    if isinstance(error, AuthorizationError) or getattr(error, "name", "") in _REFUSED:
        return f"You need the right {right} for this. `bowstring acls add` grants it. Nothing was changed."
    if isinstance(error, ConfigError):
        return str(error)
    return f"The cluster refused: {error}"
