"""Waits for bytes of a pipe, socket or eventfd."""

import select
from typing import Protocol


class HasFileno(Protocol):
    def fileno(self) -> int: ...


def readable(source: int | HasFileno, timeout_s: float) -> bool:
    """Whether bytes can be read within the time; select.select() would refuse descriptors above 1023."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))
