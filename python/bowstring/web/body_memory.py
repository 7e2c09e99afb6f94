"""Bounds what the bodies of all requests hold together, until they are answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import MutableMapping
from typing import Any

from bowstring.web.http_error import HttpError

MEMORY = "bowstring.body_memory"
"""Entry of a scope: the BodyMemory that counts its body."""
ADDRESS_SHARE_MAX = 2
"""Bodies from one address have at most this part of it: a half."""
UNCOUNTED_BYTES = 64 << 10
"""Of a body; the server holds as much of each connection anyhow."""
_TAKEN = "bowstring.body_bytes"


class BodyMemory:
    """Counts bytes as they arrive: a length that a client only announces takes no room. Belongs to one event
    loop.

    Args:
        bytes_max: of all bodies.

    Attributes:
        held: bytes that are counted.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max, self.held = bytes_max, 0
        self._addresses: Counter[str] = Counter()

    def take(self, scope: MutableMapping[str, Any], count: int) -> None:
        """Counts bytes of the body of a request, until `give_back`.

        Raises:
            HttpError: 503; there is no room for them.
        """
        if not count:
            return
        address = _address(scope)
        of_address = self._addresses[address] + count
        if self.held + count > self._bytes_max or of_address > self._bytes_max // ADDRESS_SHARE_MAX:
            raise HttpError(
                *(503, 503, "the bodies of other requests take too much memory; send this again later"),
                ((b"retry-after", b"1"), (b"connection", b"close")),
            )
        self.held += count
        self._addresses[address] = of_address
        scope[_TAKEN] = scope.get(_TAKEN, 0) + count

    def give_back(self, scope: MutableMapping[str, Any]) -> None:
        """Frees the room of a request that is answered. May be called for one that took none."""
        count = scope.pop(_TAKEN, 0)
        if count:
            address = _address(scope)
            self.held -= count
            self._addresses[address] -= count
            if not self._addresses[address]:
                del self._addresses[address]


def _address(scope: MutableMapping[str, Any]) -> str:
    client = scope.get("client")
    return client[0] if client else ""
