"""Takes work on large schemas off the event loop: an operation that needs it is run again once it is done.

Operations are functions of the image, and run on its loop. One that would parse or compare too much text
there raises Deferred, which says what to do. SchemaWorker does that in a thread, keeps the results for the
request, and runs the operation again, which finds them. The thread uses nothing of the image but texts, which
never change.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from bowstring.registry.daemon_worker import DaemonWorker
from bowstring.registry.refusals import store_failed, timed_out
from bowstring.registry.registry_error import RegistryError

if TYPE_CHECKING:
    from bowstring.registry.registry_image import RegistryImage

Answer = TypeVar("Answer")
Results: TypeAlias = Mapping[Hashable, Any]
# Gets a function that says whether nobody waits any more; returns what is found by then.
Work: TypeAlias = Callable[[Callable[[], bool]], Results]

INLINE_CHARS_MAX = 64 << 10
"""Text that one step of the loop may parse and compare for a request: about 10 ms."""
REQUEST_S = 30.0
"""How long the work of a read may take. A write has the timeout of writes."""
WAITING_MAX = 20
"""Requests with large schemas: more would wait too long, and their texts take memory."""


class Deferred(Exception):
    """An operation needs results that take too long for the loop."""

    def __init__(self, work: Work):
        super().__init__("this needs work beside the event loop")
        self.work = work


class Allowance:
    """What a request may still do on the loop in this step, and what was done for it elsewhere.

    Attributes:
        chars: of texts, to be parsed and compared.
        results: of work, by what it was.
    """

    __slots__ = ("chars", "results")

    def __init__(self) -> None:
        self.chars = INLINE_CHARS_MAX
        self.results: dict[Hashable, Any] = {}

    def takes(self, chars: int) -> bool:
        """Takes text from what is allowed; returns False if that is too much."""
        if chars > self.chars:
            return False
        self.chars -= chars
        return True


class SchemaWorker:
    """One thread for work on schemas: a second one would only wait for the interpreter's lock.

    Belongs to an event loop. The program may end while a schema is parsed.
    """

    def __init__(self) -> None:
        self._thread = DaemonWorker("bowstring-registry-schemas")
        self._waiting = 0
        self._stopping = False

    def close(self) -> None:
        """Ends the thread after the schema that it works on; requests that wait for it fail."""
        self._stopping = True
        self._thread.close(_stopped())

    async def run(
        self, image: Callable[[], RegistryImage], operation: Callable[[RegistryImage], Answer]
    ) -> Answer:
        """Returns what an operation returns.

        Args:
            image: returns the image as it is now.
            operation: is called on the loop, more than once if it needs work; raises what it does.

        Raises:
            RegistryError: 50002: the work takes longer than REQUEST_S.
        """
        allowance, until = Allowance(), 0.0
        while True:
            try:
                return attempt(image(), operation, allowance)
            except Deferred as deferred:
                work = deferred.work
            until = until or time.monotonic() + REQUEST_S
            await self.do(work, allowance, until)

    async def do(self, work: Work, allowance: Allowance, until: float) -> None:
        """Does work, and adds its results to an allowance.

        Args:
            work: see Deferred.
            allowance: of the request.
            until: when nobody waits for it any more, on the monotonic clock.

        Raises:
            RegistryError: 50002: it took longer, or too much work waits; 50001: the registry stops.
        """
        if self._stopping:
            raise _stopped()
        if self._waiting >= WAITING_MAX:
            raise timed_out(f"{WAITING_MAX} requests with large schemas wait; repeat this one later.")
        self._waiting += 1
        ended = False

        def is_over() -> bool:
            return ended or self._stopping or time.monotonic() > until

        try:
            results = await asyncio.wrap_future(self._thread.submit(lambda: work(is_over)))
        finally:
            ended = True
            self._waiting -= 1
        if time.monotonic() > until:
            raise timed_out(
                "The schemas take too long to parse and to compare; nothing was written. Smaller ones, or a "
                "compatibility level that is not transitive, take less."
            )
        allowance.results.update(results)


def _stopped() -> RegistryError:
    return store_failed("The registry stops; nothing was written.")


def attempt(
    image: RegistryImage, operation: Callable[[RegistryImage], Answer], allowance: Allowance
) -> Answer:
    """Calls an operation with an allowance. Raises Deferred, and what the operation raises."""
    allowance.chars = INLINE_CHARS_MAX
    image.parsed.allowance = allowance
    try:
        return operation(image)
    finally:
        image.parsed.allowance = None
