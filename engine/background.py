"""Starts work that no caller awaits, and logs it with its traceback when it fails."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from bowstring.engine import event_log

T = TypeVar("T")
_PAUSE_S: Final = 1.0


def spawn(
    work: Coroutine[Any, Any, T], doing: str, *, among: "set[asyncio.Task[T]] | None" = None
) -> "asyncio.Task[T]":
    """Starts a task of the control loop. Its failure is a bug, and is logged.

    Args:
        doing: Names the task, for the log line.
        among: Holds the task until it ends: the loop itself keeps only a weak reference.
    """
    task = asyncio.get_running_loop().create_task(work, name=doing)
    if among is not None:
        among.add(task)
        task.add_done_callback(among.discard)
    task.add_done_callback(_tell)
    return task


def keep_running(work: Callable[[], Coroutine[Any, Any, None]], doing: str) -> "asyncio.Task[None]":
    """Starts a task that serves others until it is cancelled: when it fails it begins anew after a second."""

    async def run() -> None:
        while True:
            try:
                await work()
                return
            except Exception:
                event_log.error(
                    "bug: a background task failed and begins anew; report the traceback",
                    traceback=True,
                    task=doing,
                )
                await asyncio.sleep(_PAUSE_S)

    return spawn(run(), doing)


def call_all(listeners: Iterable[Callable[..., object]], *facts: object, doing: str) -> list[Exception]:
    """Calls every listener, also behind one that fails. Failures are bugs, and are logged.

    Args:
        listeners: The current ones are called; a listener may add or remove others.
        doing: Names the event, for the log line.

    Returns:
        The failures.
    """
    failures: list[Exception] = []
    for listener in list(listeners):
        try:
            listener(*facts)
        except Exception as error:
            failures.append(error)
            event_log.error(
                "bug: a listener failed, and the others go on; report the traceback",
                traceback=True,
                event_of=doing,
            )
    return failures


async def run_unless(work: Coroutine[Any, Any, None], *others: Awaitable[Any]) -> bool:
    """Does work, and cancels it when one of the others is done before.

    Returns:
        Whether the work came to its end. What it raises is raised.
    """
    working = asyncio.ensure_future(work)
    ends = [asyncio.ensure_future(each) for each in others]
    try:
        await asyncio.wait({working, *ends}, return_when=asyncio.FIRST_COMPLETED)
        is_done = working.done()
    finally:
        working.cancel()
        for each, end in zip(others, ends, strict=True):
            if end is not each:  # a future of another owner continues
                end.cancel()
        await asyncio.wait({working})
    if is_done:
        working.result()
    return is_done


def _tell(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled() and (failure := task.exception()) is not None:
        event_log.error(
            "bug: a background task failed; report the traceback, and restart the broker",
            traceback=failure,
            task=task.get_name(),
        )


def log_failures(loop: asyncio.AbstractEventLoop) -> None:
    """Logs exceptions of a loop's callbacks, and failures of its tasks that nothing has retrieved."""
    loop.set_exception_handler(_tell_loop)


def _tell_loop(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    of = context.get("task") or context.get("future") or context.get("handle")
    event_log.error(
        "bug: the control loop caught a failure; report the traceback",
        traceback=context.get("exception") or False,
        detail=context["message"],
        where=repr(of) if of is not None else "",
    )
