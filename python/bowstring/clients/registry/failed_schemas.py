"""Remembers schemas that cannot be used, and bounds how many new ones a registry is asked for."""

from __future__ import annotations

import threading
import time

from bowstring.clients.errors import ClientError, MissingPackageError
from bowstring.clients.registry.registry_client import FAILURE_KEPT_S
from bowstring.clients.registry.registry_errors import SchemaRegistryError

FAILURES_MAX = 100
"""Schemas that cannot be used, of which the registry is asked at once: records may name a new one each."""
FAILURES_PER_S = 10
"""More of them."""
KEPT_MAX = 1_000
KEY_BYTES_MAX = 256


class FailedSchemas:
    """Schemas that failed a moment ago. Any thread may call.

    Their keys are what records name them by: magic byte, and id or guid, with message indexes after it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: dict[bytes, tuple[float, Exception]] = {}
        self._tries, self._tries_at = float(FAILURES_MAX), time.monotonic()

    def check(self, key: bytes) -> None:
        """Refuses a key that has failed a moment ago, and any new one after too many failures.

        Raises:
            Exception: what it failed with.
            ClientError: too many others have failed.
            ValueError: no key is so long.
        """
        if len(key) > KEY_BYTES_MAX:
            raise ValueError(f"the key of its schema has more than {KEY_BYTES_MAX} bytes")
        now = time.monotonic()
        with self._lock:
            failed_at, failure = self._failures.get(key, (0.0, None))
            if failure is not None and now - failed_at < FAILURE_KEPT_S:
                raise failure.with_traceback(None)
            self._tries = min(FAILURES_MAX, self._tries + (now - self._tries_at) * FAILURES_PER_S)
            self._tries_at = now
            if self._tries < 1:
                raise ClientError("too many schemas could not be used a moment ago: read again later")

    def keep(self, key: bytes, error: Exception) -> None:
        """Keeps why a schema cannot be used, unless that may pass: the registry is away, or a package is."""
        if isinstance(error, MissingPackageError):
            return
        if isinstance(error, SchemaRegistryError) and error.status not in (403, 404):
            return
        with self._lock:
            self._tries -= 1
            if len(self._failures) >= KEPT_MAX:
                self._failures.clear()
            self._failures[key] = time.monotonic(), error
