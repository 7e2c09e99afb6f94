"""Collects the records of one event, and what they change in the state once they are in the log."""

from collections.abc import Callable
from typing import Any

from bowstring.engine.coordinators.effects import Record
from bowstring.engine.groups.append_errors import append_error_of_group
from bowstring.engine.groups.state import ShardState
from bowstring.protocol.errors import Error


class Changes:
    """Records and what each of them changes. An event reads the state as it was before; nothing changes if
    the records cannot be written.
    """

    __slots__ = ("_is_written", "_steps", "records")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._steps: list[Callable[[], None]] = []
        self._is_written = False

    def add(self, record: Record, apply: Callable[[], None] | None = None) -> None:
        """Adds a record and what it changes."""
        self.records.append(record)
        if apply is not None:
            self._steps.append(apply)

    def then(self, apply: Callable[[], None]) -> None:
        """Adds a change without a record of its own."""
        self._steps.append(apply)

    def written(self, base_offset: int) -> None:
        """Applies the changes."""
        self._is_written = True
        for apply in self._steps:
            apply()

    def commit(
        self,
        state: ShardState,
        token: object,
        body: Any,
        refused: Callable[[Error], Any],
        *,
        committed: Callable[[], None] | None = None,
        failed: Callable[[], None] | None = None,
    ) -> None:
        """Writes the records and answers the request when they are committed; without records, answers.

        Args:
            state: The shard.
            token: The request; None if there is none.
            body: The answer.
            refused: Returns the answer if the records could not be written.
            committed: Called before the answer, when the records are committed.
            failed: Called before the answer, when nothing has changed because the records are not in the log.
        """
        if not self.records:
            self.written(-1)
            if token is not None:
                state.respond(token, body)
            return

        def finished(error: Error, now_ms: int) -> None:
            if committed is not None and not error:
                committed()
            if failed is not None and error and not self._is_written:
                failed()
            if token is not None:
                state.respond(token, refused(append_error_of_group(error)) if error else body)

        state.append(self.records, written=self.written, finished=finished)
