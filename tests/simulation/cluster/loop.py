"""An event loop of asyncio in simulated time, so that the shipped shells of coordinators run as they are."""

import asyncio
from collections import deque


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The loop of one life of a broker: its scheduled work ends with that life, and a pause delays it.

    Attributes:
        broken: Called with the source of an unhandled exception.
    """

    def __init__(self, node, pause_ms, broken):
        self.node = node
        self.world = node.world
        self._life = node.life + 1  # which begins once the broker is there
        self.broken = broken
        self._pause_ms = pause_ms
        self._ready: deque[asyncio.Handle] = deque()

    def __repr__(self):
        return f"<loop of node {self.node.id}, life {self.node.life}>"

    @property
    def is_alive(self):
        """Whether the broker's life, and the run, continue."""
        return self.world.nodes and self.node.life == self._life

    # ---- time

    def time(self):
        return self.node.now_ms() / 1000

    def call_soon(self, callback, *args, context=None):
        handle = asyncio.Handle(callback, args, self, context)
        if not self.is_alive:
            return handle  # coroutines of a life that is over are cleared away
        self._ready.append(handle)
        if len(self._ready) == 1:
            self.node.after(0, self._run)
        return handle

    def call_at(self, when, callback, *args, context=None):
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self.node.after(max(0.0, when * 1000 - self.node.now_ms()), self._ring, handle)
        return handle

    def call_later(self, delay, callback, *args, context=None):
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle):
        pass

    def _ring(self, handle):
        if not handle.cancelled():
            self.call_soon(handle._callback, *handle._args, context=handle._context)

    def _run(self):
        asyncio._set_running_loop(self)
        try:
            while self._ready:
                handle = self._ready[0]
                if not handle.cancelled():
                    handle._run()
                self._ready.popleft()
        finally:
            asyncio._set_running_loop(None)
        self.world.raise_violation()

    # ---- what asyncio needs

    def create_future(self):
        return asyncio.Future(loop=self)

    def create_task(self, work, *, name=None, context=None):
        task = asyncio.Task(work, loop=self, name=name, context=context)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task):
        if not task.cancelled() and task.exception() is not None:
            self.broken(task.exception())

    def run_in_executor(self, executor, call, *args):
        """Another thread takes a while, and then does it all at once."""
        done = self.create_future()

        def run():
            if done.done():
                return
            try:
                done.set_result(call(*args))
            except Exception as error:
                done.set_exception(error)

        self.node.after(self._pause_ms(), self.call_soon, run)
        return done

    def add_reader(self, fd, callback, *args):
        """Of a simulated descriptor, which calls when it is readable."""
        fd.when_readable(callback, *args)

    def remove_reader(self, fd):
        fd.when_readable(None)

    def call_exception_handler(self, context):
        if context.get("exception") is not None:
            self.broken(context["exception"])

    def get_debug(self):
        return False

    def is_running(self):
        return True

    def is_closed(self):
        return False
