"""Closes the copies of clients in a forked child, which has neither their threads nor a right to their
connections.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from bowstring.clients.errors import ForkedError


class Inherited(Protocol):
    """An object that must handle a fork."""

    def after_fork(self, error: ForkedError) -> None:
        """Runs in the child before anything else; every later use must raise `error`.

        Locks may be held by threads that do not exist in the child. Sockets, and what an epoll descriptor
        watches, belong to the parent.
        """


_inherited: weakref.WeakSet[Inherited] = weakref.WeakSet()
_hooked = False


def watch(client: Inherited) -> None:
    """Registers `client` for a call of `after_fork` in a forked child."""
    global _hooked  # noqa: PLW0603 - a process has one list of fork handlers
    if not _hooked:
        os.register_at_fork(after_in_child=_after_fork)
        _hooked = True
    _inherited.add(client)


def _after_fork() -> None:
    error = ForkedError(
        "this client was created before a fork and belongs to the parent process: create another one in "
        "the child"
    )
    for client in list(_inherited):
        client.after_fork(error)
