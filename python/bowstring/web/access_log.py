"""Writes a line for each request."""

from __future__ import annotations

import time
from typing import TextIO

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 34, 92, 127)}


class AccessLog:
    """Writes requests to a file in Combined Log Format's order, with the duration in ms at the end.

    Args:
        file: open for writing; stderr, for example.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._second, self._stamp = 0, ""

    def note(
        self,
        *,
        address: str,
        user: str,
        method: str,
        target: str,
        status: int,
        size: int,
        took_s: float,
    ) -> None:
        """Writes one request.

        Args:
            address: of the client.
            user: who is logged in; empty for nobody.
            method: of HTTP.
            target: path and query, as the client sent them.
            status: of the answer.
            size: of its body in bytes.
            took_s: seconds from the head of the request to the end of the answer.
        """
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(second))
        who = user.translate(_CONTROL).replace(" ", "_") or "-"
        self._file.write(
            f'{address or "-"} - {who} [{self._stamp}] "{method} {target.translate(_CONTROL)}" '
            f"{status} {size} {took_s * 1000:.1f}ms\n"
        )
        self._file.flush()
