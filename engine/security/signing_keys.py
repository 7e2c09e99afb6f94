"""Keeps the signing keys (JWKS) of an identity provider, and reads them again on a thread of their own."""

import json
import threading
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlsplit

from bowstring.engine import event_log

_BYTES_MAX: Final = 1 << 20
_TIMEOUT_S: Final = 10.0
_SCHEMES: Final = ("file", "http", "https")


class SigningKeys:
    """The keys at a URL, by key id.

    Args:
        url: ``https://…``, ``http://…`` or ``file:///…``.
        parse: Makes the keys of a JWKS document.
        refresh_s: Time between two reads.
        retry_s, retry_max_s: First and longest pause after a read that failed.

    Raises:
        ValueError: The URL has another scheme.
    """

    def __init__(
        self,
        url: str,
        parse: Callable[[Any], Mapping[str, Any]],
        *,
        refresh_s: float,
        retry_s: float,
        retry_max_s: float,
    ) -> None:
        if urlsplit(url).scheme not in _SCHEMES:
            raise ValueError(f"{url} is none of {', '.join(f'{each}://' for each in _SCHEMES)}")
        self.url = url
        self.keys: Mapping[str, Any] = {}
        self._parse = parse
        self._refresh_s = refresh_s
        self._retry_s, self._retry_max_s = retry_s, retry_max_s
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def read(self) -> None:
        """Reads the keys. Blocks.

        Raises:
            OSError, ValueError: They cannot be read; those before stay.
        """
        try:
            with urllib.request.urlopen(self.url, timeout=_TIMEOUT_S) as answer:
                data = answer.read(_BYTES_MAX + 1)
            if len(data) > _BYTES_MAX:
                raise ValueError(f"the document has more than {_BYTES_MAX} bytes")
            self.keys = self._parse(json.loads(data))
        except (HTTPException, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"the answer is no document with keys: {type(error).__name__}") from error

    def start(self) -> None:
        """Begins to read the keys again and again."""
        self._thread = threading.Thread(target=self._run, name="signing-keys", daemon=True)
        self._thread.start()

    def refresh_soon(self) -> None:
        """Reads again before the time has come: a token names a key that is not here. Not within
        `retry_max_s` of the last time.
        """
        self._wake.set()

    def close(self) -> None:
        """Ends the thread."""
        self._closed.set()
        self._wake.set()

    def _run(self) -> None:
        failures = 0 if self.keys else 1
        rest_s = 0.0 if self.keys else self._retry_s
        while True:
            # Unknown key ids must not make requests to the provider as fast as clients connect.
            self._closed.wait(rest_s)
            if failures == 0:
                self._wake.wait(self._refresh_s)
            if self._closed.is_set():
                return
            self._wake.clear()
            try:
                self.read()
                failures, rest_s = 0, self._retry_max_s
            except (OSError, ValueError) as error:
                if failures == 0:
                    event_log.error(
                        "the signing keys of the identity provider cannot be read; trying again",
                        url=self.url,
                        detail=str(error),
                    )
                rest_s = min(self._retry_max_s, self._retry_s * 2 ** min(failures, 30))
                failures += 1
