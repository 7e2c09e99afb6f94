"""Describes the sender of a request, for the group coordinator."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bowstring.engine.groups.state import RequestContext
from bowstring.protocol.acls import AclOperation, AclResourceType

if TYPE_CHECKING:
    from bowstring.engine.requests.request import Received, Request
    from bowstring.engine.security.authorizer import Authorizer


@dataclass(slots=True)
class _Viewer:
    """Who sees topics, without the request, which may be large."""

    authorizer: "Authorizer"
    principal: str
    peer: str

    def sees(self, topic: str) -> bool:
        """Returns whether the sender may describe a topic."""
        operation, kind = AclOperation.DESCRIBE, AclResourceType.TOPIC
        return self.authorizer.allows(self, operation, kind, topic, counts=False)


def request_context(request: "Request", authorizer: "Authorizer | None" = None) -> RequestContext:
    """Returns the context for the group coordinator.

    Args:
        authorizer: With it, regular expressions match only topics that the sender may describe.
    """
    return _context(request, request.version, authorizer)


def received_context(message: "Received", authorizer: "Authorizer | None" = None) -> RequestContext:
    """Returns the same for a request that has no task."""
    return _context(message, message.api_version, authorizer)


def _context(
    sender: "Request | Received", api_version: int, authorizer: "Authorizer | None"
) -> RequestContext:
    sees = None
    if authorizer is not None and authorizer.is_on:
        sees = _Viewer(authorizer, sender.principal, sender.peer).sees
    return RequestContext(api_version, sender.client_id or "", client_host(sender.peer), sees)


def client_host(peer: str) -> str:
    """Returns the host of a peer, formatted like Java."""
    return "/" + peer.rpartition(":")[0].removeprefix("[").removesuffix("]")
