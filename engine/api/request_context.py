"""Describes the sender of a request, for the group coordinator."""

from typing import TYPE_CHECKING

from bowstring.engine.groups.state import RequestContext

if TYPE_CHECKING:
    from bowstring.engine.requests.request import Request


def request_context(request: "Request") -> RequestContext:
    """Returns the context for the group coordinator."""
    return RequestContext(request.version, request.client_id or "", client_host(request.peer))


def client_host(peer: str) -> str:
    """Returns the host of a peer, formatted like Java."""
    return "/" + peer.rpartition(":")[0].removeprefix("[").removesuffix("]")
