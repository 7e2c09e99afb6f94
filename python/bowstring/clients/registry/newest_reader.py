"""Keeps the reader of a subject's newest schema, which is looked for again after a time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from bowstring.clients.registry.decoding import Reader
from bowstring.clients.registry.renewal import Renewal


class NewestReader:
    """The reader of the newest schema. Any thread may call.

    Args:
        find: asks the registry for it.
        ttl_s: how long the newest schema counts as the newest, in seconds.
    """

    def __init__(self, find: Callable[[], Reader], ttl_s: float):
        self._find = find
        self._lock = threading.Lock()
        self._renewal = Renewal(self._renew, ttl_s)
        self._reader: Reader | None = None
        self._number = 0

    def reader(self) -> Reader:
        """Returns the reader; asks the registry if that is due.

        Raises:
            SchemaRegistryError: the registry does not answer, and never did.
            ValueSchemaError: the first newest schema cannot be used.
        """
        self._renewal.look()
        known = self._reader
        if known is not None:
            return known
        with self._lock:
            if self._reader is None:
                self._reader = self._find()
                self._renewal.begin()
            return self._reader

    def _renew(self) -> None:
        found = self._find()
        if self._reader is None or found.source != self._reader.source:
            self._reader = found
            self._number += 1

    def watch(self) -> Callable[[], bool]:
        """Returns a function that says whether the reader has changed since its last call; it may ask."""
        seen = -1

        def changed() -> bool:
            nonlocal seen
            self.reader()
            before, seen = seen, self._number
            return before != seen

        return changed
