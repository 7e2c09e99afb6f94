"""Keeps the reader of a subject's newest schema, which is looked for again after a time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from bowstring.clients.registry.decoding import SCHEMA_FAULTS, Reader

RETRY_S = 5.0
"""After a newest schema that could not be used."""
_log = logging.getLogger(__name__)


class NewestReader:
    """The reader of the newest schema. Any thread may call.

    Args:
        find: asks the registry for it.
        ttl_s: how long the newest schema counts as the newest, in seconds.
    """

    def __init__(self, find: Callable[[], Reader], ttl_s: float):
        self._find, self._ttl_s = find, ttl_s
        self._lock = threading.Lock()
        self._reader: Reader | None = None
        self._until = 0.0
        self._number = 0

    def reader(self) -> Reader:
        """Returns the reader; asks the registry if that is due.

        Raises:
            SchemaRegistryError: the registry does not answer, and never did.
            ValueSchemaError: the first newest schema cannot be used.
        """
        with self._lock:
            now = time.monotonic()
            if self._reader is None:
                self._reader = self._find()
                self._until = now + self._ttl_s
            elif now >= self._until:
                self._renew(self._reader)
            return self._reader

    def _renew(self, known: Reader) -> None:
        try:
            found = self._find()
        except SCHEMA_FAULTS as error:
            self._until = time.monotonic() + RETRY_S
            _log.warning("the newest schema cannot be used, the one before stays: %s", error)
            return
        self._until = time.monotonic() + self._ttl_s
        if found.source != known.source:
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
