"""Python workers of streaming sources, which Spark gives ten seconds to start, on any machine."""

from collections.abc import Callable
from typing import TypeVar

from tests.support.waiting import wait_until

T = TypeVar("T")
TOO_LATE = "Python worker failed to connect back"


def in_time(run: Callable[[], T]) -> T:
    """Runs a query again from its checkpoint when its worker came too late; returns what `run` returns."""

    def done() -> list[T]:
        try:
            return [run()]
        except Exception as error:
            if TOO_LATE not in str(error):
                raise
            return []

    (found,) = wait_until(done, TOO_LATE)
    return found  # type: ignore[no-any-return]
