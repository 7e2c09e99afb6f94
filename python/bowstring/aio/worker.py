"""A thread that makes a blocking client's calls for an event loop, one after the other.

Ownership: jobs are made on the loop and run on the thread; an outcome goes back by one call_soon_threadsafe.
What a call took out of the client and nobody is there to receive, because the waiting task was cancelled, is
put back by the job's `undo` before any job that follows.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from bowstring.clients import forks
from bowstring.clients.errors import ClientError, ClosedError, ForkedError

T = TypeVar("T")
P = ParamSpec("P")

STOP_TIMEOUT_S = 2.0


class Job(Generic[T]):
    """One call.

    Args:
        undo: takes back what the call returned when nobody receives it.
        interruptible: it waits for records, and others need not wait for it.
        required: it is made even if nobody waits for it any more.
    """

    def __init__(
        self,
        function: Callable[[], T],
        loop: asyncio.AbstractEventLoop,
        undo: Callable[[T], None] | None = None,
        *,
        interruptible: bool = False,
        required: bool = False,
    ):
        self.interruptible = interruptible
        self._required = required
        self.future: asyncio.Future[T] = loop.create_future()
        self._function = function
        self._loop = loop
        self._undo = undo
        self._lock = threading.Lock()
        self._abandoned = False
        self._result: tuple[T] | None = None

    def run(self) -> None:
        """On the thread: makes the call and hands over its outcome."""
        error: BaseException | None = None
        result: tuple[T] | None = None
        if self._required or not self._abandoned:
            try:
                result = (self._function(),)
            except BaseException as raised:  # belongs to the task that waits
                error = raised
        with self._lock:
            self._result = result
            abandoned = self._abandoned
        if abandoned and result is not None and self._undo is not None:
            self._undo(result[0])
        post(self._loop, self._deliver, result, error)

    def _deliver(self, result: tuple[T] | None, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        elif result is not None:
            self.future.set_result(result[0])

    def abandon(self) -> Callable[[], None] | None:
        """On the loop: nobody waits any more. What remains to be undone, as the call is over already."""
        with self._lock:
            self._abandoned = True
            result, undo = self._result, self._undo
        if result is None or undo is None:
            return None
        return functools.partial(undo, result[0])

    def fail(self, error: Exception) -> None:
        """It will not be run."""
        post(self._loop, self._deliver, None, error)


class _End:
    """Ends a wait in the queue: of `on_loop` for the loop, or of the thread for more jobs."""

    def __init__(self, error: BaseException | None = None):
        self.error = error


class Worker:
    """The thread, started by the first call.

    Args:
        name: of the thread.
        interrupt: makes an interruptible call return early.
    """

    def __init__(self, name: str, interrupt: Callable[[], None] | None = None):
        self._name = name
        self._interrupt = interrupt
        self._jobs: SimpleQueue[Job[Any] | _End] = SimpleQueue()
        self._running: Job[Any] | None = None
        self._lock = threading.Lock()
        self._urgent = 0  # jobs in the queue that are not interruptible; guarded by the lock
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._closed_error = ClosedError(f"this {name} is closed")
        forks.watch(self)
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop that the client belongs to."""

    def after_fork(self, error: ForkedError) -> None:
        """In a forked child: the thread is not there, and the loop is the parent's."""
        self._lock = threading.Lock()
        self._thread = None
        self._stopped = True
        self._closed_error = error

    def bind(self) -> asyncio.AbstractEventLoop:
        """The running loop, which is the client's from the first call on.

        Raises:
            ClientError: the client belongs to another loop.
        """
        loop = asyncio.get_running_loop()
        if self.loop is None:
            self.loop = loop
        elif self.loop is not loop:
            raise ClientError(
                f"this {self._name} belongs to another event loop; make one in each loop that needs one"
            )
        return loop

    async def call(
        self,
        function: Callable[[], T],
        *,
        undo: Callable[[T], None] | None = None,
        interruptible: bool = False,
        required: bool = False,
    ) -> T:
        """Awaits `function()` made on the thread; the arguments are Job's.

        Cancelled, it returns at once; a call that is under way ends behind it.
        """
        job = Job(function, self.bind(), undo, interruptible=interruptible, required=required)
        self._put(job)
        try:
            return await job.future
        except asyncio.CancelledError:
            remains = job.abandon()
            if remains is not None:
                self.post(remains)
            elif interruptible and self._running is job and self._interrupt is not None:
                self._interrupt()
            raise

    def post(self, function: Callable[[], None]) -> None:
        """Has `function()` called on the thread before every call that follows; nobody waits for it."""
        self._put(Job(function, self.bind(), required=True))

    def _put(self, job: Job[Any]) -> None:
        if self._stopped:
            job.fail(self._closed_error)
            return
        if self._thread is None:
            name = f"bowstring-aio-{self._name.lower()}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        if not job.interruptible:
            with self._lock:
                self._urgent += 1
        self._jobs.put(job)
        self._hurry()

    def _hurry(self) -> None:
        """A call that waits for records makes room for one that does not."""
        running = self._running
        if running is not None and running.interruptible and self._urgent and self._interrupt is not None:
            self._interrupt()

    def _run(self) -> None:
        while isinstance(job := self._jobs.get(), Job):
            self._serve(job)
            del job  # it keeps the client alive, which may have been forgotten by then
        while not self._jobs.empty():
            left = self._jobs.get()
            if isinstance(left, Job):
                left.fail(self._closed_error)

    def _serve(self, job: Job[Any]) -> None:
        outer, self._running = self._running, job
        if job.interruptible:
            self._hurry()
        else:
            with self._lock:
                self._urgent -= 1
        try:
            job.run()
        finally:
            self._running = outer

    def on_loop(self, callback: Callable[[], Awaitable[object] | object]) -> None:
        """On the thread, within a job: runs `callback` on the loop and serves other jobs until it is done.

        Raises what the callback raises. Interruptible jobs wait.
        """
        assert self.loop is not None
        later: list[Job[Any]] = []
        if not post(self.loop, self._start, callback):
            return  # the loop is closed: nobody is there who could be told
        try:
            while True:
                job = self._jobs.get()
                if isinstance(job, _End):
                    if self._stopped:
                        self._jobs.put(job)
                    if job.error is not None:
                        raise job.error
                    return
                if job.interruptible:
                    later.append(job)
                else:
                    self._serve(job)
        finally:
            for job in later:
                self._jobs.put(job)

    def _start(self, callback: Callable[[], Awaitable[object] | object]) -> None:
        assert self.loop is not None
        try:
            made = callback()
        except BaseException as error:
            self._jobs.put(_End(error))
            return
        if not inspect.isawaitable(made):
            self._jobs.put(_End())
            return
        task = asyncio.ensure_future(made, loop=self.loop)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Future[object]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        self._jobs.put(_End(error))

    def stop(self, *, wait: bool = False) -> None:
        """Ends the thread after the jobs it has; with `wait` until it is over, for a moment at most."""
        if not self._stopped:
            self._stopped = True
            self._jobs.put(_End())
        if self._interrupt is not None:
            self._interrupt()
        if wait and self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_TIMEOUT_S)


class WorkersClient(ABC):
    """A client whose calls a worker makes; `async with` binds it to the running loop, and closes it."""

    _worker: Worker

    @abstractmethod
    async def close(self) -> None:
        """Ends the client and its worker."""

    async def __aenter__(self) -> Self:
        self._worker.bind()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def post(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: object) -> bool:
    """Has the loop call `function`; false when it is closed, and nobody there any more to tell."""
    try:
        loop.call_soon_threadsafe(function, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise
        return False
    return True


async def in_thread(function: Callable[[], T]) -> T:
    """Awaits `function()` made on a thread of its own, which does not hold up the interpreter's end."""
    job = Job(function, asyncio.get_running_loop())
    threading.Thread(target=job.run, name="bowstring-aio-call", daemon=True).start()
    return await job.future


def awaited(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A coroutine method with the arguments and the description of a blocking client's `method`.

    The class it stands in makes the call with `_call`.
    """

    async def call(self: Any, /, *args: P.args, **keywords: P.kwargs) -> T:
        made: T = await self._call(method, *args, **keywords)
        return made

    functools.update_wrapper(call, method)
    return call


def same_arguments(
    model: Callable[Concatenate[Any, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Gives an `__init__` the arguments of `model`."""

    def decorate(init: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        return functools.wraps(model, assigned=("__doc__",))(init)

    return decorate
