"""An event loop of asyncio in simulated time, with the freedom of a real one, and no more.

An iteration works as in asyncio: arrivals (bytes, ends of executor calls) join the queue behind ready
callbacks, then due timers in their order; then all callbacks that are ready by now run, first come, first
served. A seed chooses the arrivals that an iteration sees and the order of their sources, how late the loop
wakes up, how long each callback takes, when another thread does its work, and when its result arrives.
"""

import asyncio
import heapq
import traceback
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from bowstring.engine.quorum.disk_thread import DiskThread
from tests.simulation.nodes.kernel import MONOTONIC_NS, MS

RESOLUTION_NS = 1000


class SimulatedTask(asyncio.Task):
    """A task whose place in a set is the same in each run."""

    def __init__(self, work, *, loop, name=None, context=None):
        self.number = loop.kernel.number()
        super().__init__(work, loop=loop, name=name, context=context)

    def __hash__(self):
        return self.number


class SimulatedFuture(asyncio.Future):
    """A future whose place in a set is the same in each run."""

    def __init__(self, *, loop):
        self.number = loop.kernel.number()
        super().__init__(loop=loop)

    def __hash__(self):
        return self.number


class NodeLoop(asyncio.AbstractEventLoop):
    """The loop of one life of a node, or of the clients.

    Attributes:
        name: Of its node.
        is_dead: Its process has ended: nothing more runs here.
        is_paused: Its process stands still.
        clock_off_ns: How far its time of day is off.
    """

    def __init__(self, kernel, name, life, network, pace):
        self.kernel = kernel
        self.name = name
        self.network = network
        self.is_dead = self.is_paused = False
        self.clock_off_ns = 0
        self.readers: dict[object, tuple] = {}
        self._pace = pace
        self._random = kernel.random(f"loop {name} {life}")
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._arrived: dict[object, deque] = {}
        self._workers: dict[object, deque] = {}
        self._due: int | None = None
        self._busy_until = 0
        self._elapsed = 0
        self._is_running = False
        self._numbers = 0

    def __repr__(self):
        return f"<loop of {self.name}>"

    # ---- time

    def read_clock(self):
        """Simulated time within a callback: it advances while code runs, sometimes by a lot."""
        self._spend()
        return self.kernel.now + self._elapsed

    def _spend(self):
        if self._is_running:
            self._elapsed += self._pace.cost_ns(self._random)

    def time(self):
        return (MONOTONIC_NS + self.kernel.now + self._elapsed) / 1e9

    # ---- callbacks

    def call_soon(self, callback, *args, context=None):
        handle = asyncio.Handle(callback, args, self, context)
        if not self.is_dead:
            self._ready.append(handle)
            if not self._is_running:
                self._wake(self.kernel.now)
        return handle

    def call_soon_threadsafe(self, callback, *args, context=None):
        return self.call_soon(callback, *args, context=context)

    def call_at(self, when, callback, *args, context=None):
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.is_dead:
            self._numbers += 1
            due = round(when * 1e9) - MONOTONIC_NS
            heapq.heappush(self._timers, (due, self._numbers, handle))
            if not self._is_running:
                self._wake(due)
        return handle

    def call_later(self, delay, callback, *args, context=None):
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle):
        pass

    def arrives(self, source, callback, *args):
        """An event came from outside; those of one source keep their order."""
        if not self.is_dead:
            self._arrived.setdefault(source, deque()).append((callback, args))
            self._wake(self.kernel.now)

    def _wake(self, at):
        at = max(at, self._busy_until, self.kernel.now)
        if self._due is None or at < self._due:
            self._due = at
            self.kernel.at(at + self._pace.late_ns(self._random), self._iterate, at)

    def _iterate(self, due):
        if self.is_dead or due != self._due or self.is_paused:
            return
        self._due = None
        kernel = self.kernel
        kernel.running, self._is_running, self._elapsed = self, True, 0
        asyncio._set_running_loop(self)
        try:
            self._take_arrived()
            self._take_timers()
            for _ in range(len(self._ready)):
                handle = self._ready.popleft()
                if not handle.cancelled():
                    self._spend()
                    handle._run()
                if self.is_dead:
                    break
        finally:
            asyncio._set_running_loop(None)
            kernel.running, self._is_running = None, False
            self._busy_until = kernel.now + self._elapsed
            self._elapsed = 0
        if self._ready or self._arrived:
            self._wake(kernel.now)
        elif self._timers:
            self._wake(self._timers[0][0])

    def _take_arrived(self):
        sources = list(self._arrived)
        if len(sources) > 1:
            self._random.shuffle(sources)
        for source in sources:
            if self._random.random() < 0.1:
                continue
            waiting = self._arrived[source]
            while waiting:
                callback, args = waiting.popleft()
                self._ready.append(asyncio.Handle(callback, args, self, None))
                if self._random.random() < 0.2:
                    break
            if not waiting:
                del self._arrived[source]

    def _take_timers(self):
        until = self.kernel.now + RESOLUTION_NS
        while self._timers and (self._timers[0][2].cancelled() or self._timers[0][0] <= until):
            handle = heapq.heappop(self._timers)[2]
            if not handle.cancelled():
                self._ready.append(handle)

    def pause(self):
        """Stands still until `go_on`."""
        self.is_paused = True

    def go_on(self):
        """Continues after a pause."""
        self.is_paused = False
        self._due = None
        self._wake(self.kernel.now)

    def end(self):
        """The process has ended."""
        self.is_dead = True
        self._ready.clear()
        self._timers.clear()
        self._arrived.clear()
        self._workers.clear()
        self.readers.clear()

    # ---- other threads

    def run_in_executor(self, executor, call, *args):
        """Another thread does it some time later; a pool with one thread keeps the order."""
        done = self.create_future()
        work = (done, call, args)
        if isinstance(executor, DiskThread) or (
            isinstance(executor, ThreadPoolExecutor) and executor._max_workers == 1
        ):
            waiting = self._workers.setdefault(executor, deque())
            waiting.append(work)
            if len(waiting) == 1:
                self._begin_work(waiting)
        else:
            self.kernel.after(self._pace.thread_ns(self._random), self._work, work)
        return done

    def _begin_work(self, waiting):
        self.kernel.after(self._pace.thread_ns(self._random), self._work_in_turn, waiting)

    def _work_in_turn(self, waiting):
        if self.is_dead:
            return
        if self.is_paused:
            self.kernel.after(10 * MS, self._work_in_turn, waiting)
            return
        self._work(waiting[0])
        waiting.popleft()
        if waiting:
            self._begin_work(waiting)

    def _work(self, work):
        if self.is_dead:
            return
        if self.is_paused:
            self.kernel.after(10 * MS, self._work, work)
            return
        done, call, args = work
        if done.cancelled():
            return
        try:
            found, error = call(*args), None
        except Exception as failure:
            found, error = None, failure
        self.arrives(("executor", self.kernel.number()), _finish, done, found, error)

    def add_reader(self, fd, callback, *args):
        self.readers[fd] = (callback, args)
        if getattr(fd, "is_readable", False):
            self.readable(fd)

    def remove_reader(self, fd):
        return self.readers.pop(fd, None) is not None

    def readable(self, fd):
        """A descriptor has something to read: its callback is called, unless it was removed meanwhile."""
        self.arrives(("reader", id(fd)), self._read, fd)

    def _read(self, fd):
        found = self.readers.get(fd)
        if found is not None:
            found[0](*found[1])

    # ---- the network

    async def create_connection(self, protocol_factory, host=None, port=None, **options):
        transport = await self.network.connect(self, host, port)
        protocol = protocol_factory()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        transport.begin()
        return transport, protocol

    # ---- what asyncio needs

    def create_future(self):
        return SimulatedFuture(loop=self)

    def create_task(self, work, *, name=None, context=None):
        return SimulatedTask(work, loop=self, name=name, context=context)

    def default_exception_handler(self, context):
        self.call_exception_handler(context)

    def call_exception_handler(self, context):
        error = context.get("exception")
        if not self.is_dead and not self.kernel.is_over:
            told = "".join(traceback.format_exception(error)) if error is not None else ""
            self.kernel.violated("NoShellFails", f"{self.name}: {context.get('message')}\n{told}")

    def get_debug(self):
        return False

    def is_running(self):
        return True

    def is_closed(self):
        return False


def _finish(done, found, error):
    if done.cancelled():
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(found)
