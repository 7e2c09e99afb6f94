"""Gives tasks turns at one thing, one task after the other.

    turns = Turns()
    turn = await turns.take()
    try:
        ...                        # nobody else has a turn
    finally:
        turn.end()

A turn is an object, and only that object ends it: a task that ends its turn early, or twice, or is cancelled,
cannot end the turn of the next one.
"""

import asyncio
from collections import deque


class Turn:
    """One turn of one task. It ends once; later calls of `end` do nothing."""

    def __init__(self, turns: "Turns") -> None:
        self._turns = turns

    @property
    def is_held(self) -> bool:
        """Whether the turn has begun and not ended."""
        return self._turns.holder is self

    def end(self) -> None:
        """Lets the next task begin."""
        self._turns.pass_on(self)


class Turns:
    """The turns at one thing, in order of arrival; urgent ones come before all others.

    Attributes:
        holder: The turn that has begun and not ended.
    """

    def __init__(self) -> None:
        self.holder: Turn | None = None
        self._urgent: deque[tuple[Turn, asyncio.Future[None]]] = deque()
        self._others: deque[tuple[Turn, asyncio.Future[None]]] = deque()

    async def take(self, *, urgent: bool = False, timeout_s: float | None = None) -> Turn:
        """Waits for a turn.

        Raises:
            TimeoutError: It did not begin in time.
        """
        turn = Turn(self)
        if self.holder is None:
            self.holder = turn
            return turn
        began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue = self._urgent if urgent else self._others
        entry = (turn, began)
        queue.append(entry)
        try:
            async with asyncio.timeout(timeout_s):
                await began
        except BaseException:
            if entry in queue:
                queue.remove(entry)
            turn.end()  # it may have begun just now
            raise
        return turn

    def pass_on(self, turn: Turn) -> None:
        """Begins the next turn if this one has not ended yet."""
        if self.holder is not turn:
            return
        self.holder = None
        while queue := self._urgent or self._others:
            turn, began = queue.popleft()
            if not began.done():  # else its task is cancelled and has not run since
                self.holder = turn
                began.set_result(None)
                return
