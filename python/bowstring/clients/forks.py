"""A forked child has a copy of each client, but neither its threads nor a right to its connections."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from bowstring.clients.errors import ForkedError


class Inherited(Protocol):
    """What has to know that it lives on in a child."""

    def after_fork(self, error: ForkedError) -> None:
        """In the child, before anything else runs: `error` is what every further use has to raise.

        Locks may be held by threads that are not there any more; sockets are the parent's, and so is what an
        epoll descriptor watches.
        """


_inherited: weakref.WeakSet[Inherited] = weakref.WeakSet()
_hooked = False


def watch(client: Inherited) -> None:
    """Has `client` told when it finds itself in a child."""
    global _hooked  # noqa: PLW0603 - a process has one list of fork handlers
    if not _hooked:
        os.register_at_fork(after_in_child=_after_fork)
        _hooked = True
    _inherited.add(client)


def _after_fork() -> None:
    error = ForkedError(
        "this client was made before a fork, and belongs to the parent process: make another in the child"
    )
    for client in list(_inherited):
        client.after_fork(error)
