"""Makes the addresses and resource names in answers."""

from __future__ import annotations

import re
from urllib.parse import quote

_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,300}")


class Links:
    """Addresses of the server that a request reached.

    Args:
        scheme: http or https.
        host: the request's Host header.
        otherwise: host and port of the server, for requests whose header is none.
        root: path in front of the application's.

    Attributes:
        root: address of the application's root, without a slash at its end.
    """

    def __init__(self, scheme: str, host: str, otherwise: str, root: str = ""):
        self.root = f"{scheme}://{host if _HOST.fullmatch(host) else otherwise}{root}"
        self._base = f"{self.root}/v3/clusters"

    def to(self, *segments: str | int) -> str:
        """Returns the address of a resource by its path below /v3/clusters."""
        return "/".join((self._base, *(quote(str(each), safe=":") for each in segments)))

    def related(self, *segments: str | int) -> dict[str, str]:
        """Returns a relationship to a resource."""
        return {"related": self.to(*segments)}


def resource_name(*parts: str | int | None) -> str:
    """Returns a Confluent resource name, such as crn:///kafka=c/topic=t, of types and ids in turn."""
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return "/".join(("crn://", *(str(kind) if id is None else f"{kind}={id}" for kind, id in pairs)))
