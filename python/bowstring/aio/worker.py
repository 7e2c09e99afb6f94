"""Runs a blocking client's calls for an event loop on one thread, one after another.

Ownership: jobs are created on the loop and run on the thread; an outcome returns through one
call_soon_threadsafe. If the waiting task was cancelled, the job's `undo` puts back what the call took out of
the client before the next job runs.
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
from bowstring.clients.troubles import Listener, Troubles

T = TypeVar("T")
P = ParamSpec("P")

STOP_TIMEOUT_S = 2.0


class Job(Generic[T]):
    """One call.

    Args:
        undo: reverts the call if no caller receives its result.
        interruptible: the call waits for records, and other calls may interrupt it.
        required: the call is made even if its caller no longer waits.
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
        """Makes the call and passes on its outcome. On the thread."""
        error: BaseException | None = None
        result: tuple[T] | None = None
        if self._required or not self._abandoned:
            try:
                result = (self._function(),)
            except BaseException as raised:  # raised by the waiting task
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
        """Drops the waiting task. On the loop. Returns what must be undone if the call is already over."""
        with self._lock:
            self._abandoned = True
            result, undo = self._result, self._undo
        if result is None or undo is None:
            return None
        return functools.partial(undo, result[0])

    def fail(self, error: Exception) -> None:
        """Fails a job that will not run."""
        post(self._loop, self._deliver, None, error)


class _End:
    """A marker that ends a wait in the queue: of `on_loop` for the loop, or of the thread for more jobs."""

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
        """The loop to which the client belongs."""

    def after_fork(self, error: ForkedError) -> None:
        """Marks a forked child: the thread does not exist there, and the loop belongs to the parent."""
        self._lock = threading.Lock()
        self._thread = None
        self._stopped = True
        self._closed_error = error

    def bind(self) -> asyncio.AbstractEventLoop:
        """Returns the running loop, to which the client belongs from the first call on.

        Raises:
            ClientError: the client belongs to another loop.
        """
        loop = asyncio.get_running_loop()
        if self.loop is None:
            self.loop = loop
        elif self.loop is not loop:
            raise ClientError(
                f"this {self._name} belongs to another event loop; create one in each loop that needs it"
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
        """Runs `function()` on the thread and awaits it; the arguments are those of Job.

        Returns at once when cancelled; a call in progress still runs to its end.
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
        """Runs `function()` on the thread before every later call; without waiting for it."""
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
        """Interrupts a call that waits for records in favour of one that does not."""
        running = self._running
        if running is not None and running.interruptible and self._urgent and self._interrupt is not None:
            self._interrupt()

    def _run(self) -> None:
        while isinstance(job := self._jobs.get(), Job):
            self._serve(job)
            del job  # it refers to the client and would keep an unused one alive
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
        """Runs `callback` on the loop and serves other jobs until it ends. On the thread, within a job.

        Raises what the callback raises. Interruptible jobs wait.
        """
        assert self.loop is not None
        later: list[Job[Any]] = []
        if not post(self.loop, self._start, callback):
            return  # the loop is closed: no caller waits
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
        """Stops the thread after its jobs; with `wait`, waits a short time for its end."""
        if not self._stopped:
            self._stopped = True
            self._jobs.put(_End())
        if self._interrupt is not None:
            self._interrupt()
        if wait and self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_TIMEOUT_S)


# Attributes of asyncio clients that hold the threaded one.
_THREADED = ("_producer", "_consumer", "_admin")


class WorkersClient(ABC):
    """A client whose calls a worker makes; `async with` binds it to the running loop, and closes it."""

    _worker: Worker

    @abstractmethod
    async def close(self) -> None:
        """Closes the client and its worker."""

    def __repr__(self) -> str:
        """Describes it as its threaded client, of the package `aio`."""
        inner = next((vars(self)[name] for name in _THREADED if name in vars(self)), None)
        return f"<aio.{type(self).__name__}>" if inner is None else f"<aio.{repr(inner)[1:-1]}>"

    async def __aenter__(self) -> Self:
        self._worker.bind()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def post(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: object) -> bool:
    """Schedules `function` on the loop; returns false when the loop is closed."""
    try:
        loop.call_soon_threadsafe(function, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise
        return False
    return True


async def in_thread(function: Callable[[], T]) -> T:
    """Runs `function()` on a new thread, which does not delay the interpreter's exit, and awaits it."""
    job = Job(function, asyncio.get_running_loop())
    threading.Thread(target=job.run, name="bowstring-aio-call", daemon=True).start()
    return await job.future


def listen_on_loop(troubles: Troubles, worker: Worker, listener: Listener | None) -> Listener | None:
    """Makes a client's `on_error`, a function or a coroutine function, run on the loop."""
    if listener is None:
        return None
    told = listener.on_error
    running: set[asyncio.Future[object]] = set()

    def start(error: ClientError) -> None:
        made = told(error)
        if inspect.isawaitable(made):
            task = asyncio.ensure_future(made, loop=worker.loop)
            running.add(task)  # the loop keeps only weak references to tasks
            task.add_done_callback(running.discard)

    def tell(error: ClientError) -> None:
        if worker.loop is not None:
            post(worker.loop, start, error)

    return troubles.listen(tell)


def awaited(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Returns a coroutine method with the arguments and docstring of a blocking client's `method`.

    The class must have a method `_call` that makes the call.
    """

    async def call(self: Any, /, *args: P.args, **keywords: P.kwargs) -> T:
        made: T = await self._call(method, *args, **keywords)
        return made

    functools.update_wrapper(call, method)
    return call


def same_arguments(
    model: Callable[Concatenate[Any, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Returns a decorator that gives `__init__` the arguments of `model`."""

    def decorate(init: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        return functools.wraps(model, assigned=("__doc__",))(init)

    return decorate
