"""Waits of tests. Their deadlines only detect hangs, so tests pass on slow machines."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

Error = TypeVar("Error", bound=Exception)

# The slowest machine under full load needs a small part of this.
HANG_S: Final = 240.0
# A wait that another event must end: a missed wake-up hangs.
FOR_EVER_S: Final = 1_200
FOR_EVER_MS: Final = FOR_EVER_S * 1000
# Between two checks of a condition.
PAUSE_MAX_S: Final = 0.02


def wait_until(
    condition: Callable[[], Any],
    what: object = "it did not happen",
    *,
    every_s: float = PAUSE_MAX_S,
    hang_s: float = HANG_S,
) -> Any:
    """Returns the first true value of `condition`; fails with `what`, or its result, when it hangs.

    Checks often at first, then at least every `every_s`. Work of several JVMs may need a longer `hang_s`.
    """
    deadline = time.monotonic() + hang_s
    pause_s = min(0.001, every_s)
    while not (found := condition()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, every_s)
    return found


async def wait_until_async(condition: Callable[[], Any], what: object = "it did not happen") -> Any:
    """Does the same on an event loop, which runs meanwhile. What `condition` returns may be awaitable."""
    deadline = time.monotonic() + HANG_S
    pause_s = 0.001
    while True:
        found = condition()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, what() if callable(what) else what
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)


def error_in_time(call: Callable[[float], object], kind: type[Error], words: str = "") -> Error:
    """Returns the error of this kind, with these words, that `call` raises when it gets enough time.

    For calls whose timeout error depends on what they have received by then. A machine that stalls meanwhile
    lets them receive nothing: then they get twice the time.

    Args:
        call: Takes its timeout in seconds.
        kind: The class of the error.
        words: A part of its message.
    """
    timeout_s = 1.0
    while True:
        try:
            call(timeout_s)
        except Exception as error:
            if isinstance(error, kind) and words in str(error):
                return error
            if timeout_s > HANG_S:
                raise
        else:
            raise AssertionError(f"no {kind.__name__}")
        timeout_s *= 2


def pause(seconds: float, why: str) -> None:
    """Sleeps where no condition can be waited for.

    Args:
        seconds: How long. A test must pass however much longer it takes: on a slow machine it may only see
            less.
        why: The reason: nothing may happen in it, a slow peer, the pace of a load, or a random moment.
    """
    assert why
    time.sleep(seconds)


async def pause_async(seconds: float, why: str) -> None:
    """Does the same on an event loop, which runs meanwhile."""
    assert why
    await asyncio.sleep(seconds)
