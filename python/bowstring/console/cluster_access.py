"""Gives pages access to the cluster with the rights of one user: clients in threads, and shared answers."""

from __future__ import annotations

import asyncio
import functools
import heapq
import inspect
import itertools
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from bowstring.clients.errors import ClientError
from bowstring.console.answer_size import answer_size
from bowstring.console.cluster_health import ClusterHealth, is_away
from bowstring.console.options import ConsoleOptions

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

T = TypeVar("T")

THREADS = 24
"""Of the whole process; they start when they are needed."""
ADMINS_MAX = 4
"""Clients of one access: a slow answer does not hold up the other pages."""
OTHERS_MAX = 4
"""Other calls of one access at a time, such as searches: together with those of its clients they leave most
threads to the other sessions.
"""
ANSWERS_MAX = 512
ANSWERS_BYTES_MAX = 32 << 20
"""Of the answers that one access keeps, by an estimate; those used last stay."""
WAIT_S = 1.5
"""A page waits this long for an answer before it shows what was known before, or that the cluster is away."""
NEXT_WAIT_S = 0.1
"""So long while another part has just shown what was known before."""
COSTLY_S = 120.0
"""What costs much is not older than this, or than it is asked to be."""
QUICK_S = 0.1
"""An answer that took longer may be shown a little too old."""
CLIENT_ID = "bowstring-console"


def _free(slots: asyncio.Semaphore, ended: asyncio.Future[Any]) -> None:
    """Frees the slot of a call that ended. Marks its exception as seen: whoever waited for it may be gone."""
    slots.release()
    if not ended.cancelled():
        ended.exception()


class _Answer:
    """One cached answer: its task, when that began, and how long the answer is fresh."""

    __slots__ = ("at", "cost_max", "fresh_s", "older", "size", "task", "took_s", "used_at")

    def __init__(self, task: asyncio.Task[Any], fresh_s: float, cost_max: float | None):
        self.at, self.task = time.monotonic(), task
        self.used_at = self.at
        self.size = 0
        self.fresh_s, self.cost_max = fresh_s, cost_max
        self.older: _Answer | None = None
        self.took_s = 0.0
        task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[Any]) -> None:
        """Notes what the answer cost. Marks an exception as seen: all who waited for it may be gone."""
        if task.cancelled() or task.exception() is not None:
            return
        self.older = None
        self.took_s = time.monotonic() - self.at
        self.size = answer_size(task.result())
        if self.cost_max is not None:
            self.fresh_s = max(self.fresh_s, min(COSTLY_S, self.took_s / self.cost_max))

    def kept_bytes(self) -> int:
        return self.size + (self.older.size if self.older is not None else 0)

    def has_value(self) -> bool:
        return self.task.done() and not self.task.cancelled() and self.task.exception() is None

    def is_fresh(self, now: float) -> bool:
        return not self.task.done() or (self.has_value() and now < self.at + self.fresh_s)


class ClusterAccess:
    """What one session may use of the cluster. Belongs to the event loop of the console.

    Args:
        options: of the console.
        user: who signed in; None where nobody does.
        security: settings of TLS and SASL of that user.
        threads: the pool that all accesses share.

    Attributes:
        user: who signed in; None where nobody does.
        settings: arguments of bowstring.Admin, Consumer and Producer that act as this user: pass them as
            `Consumer(**access.settings)`. They hold a password: never show or log them.
        writes: whether pages may change the cluster.
    """

    def __init__(
        self,
        options: ConsoleOptions,
        user: str | None,
        security: dict[str, Any] | None,
        threads: ThreadPoolExecutor,
    ):
        self.user = user
        self.writes = options.write
        self.settings: dict[str, Any] = {
            "bootstrap_servers": options.bootstrap_servers,
            "client_id": CLIENT_ID,
        }
        if security is not None:
            self.settings["security"] = security
        self._timeout_ms = int(options.timeout_s * 1000)
        self._threads = threads
        self._admin_slots = asyncio.Semaphore(ADMINS_MAX)
        self._whole_slots = asyncio.Semaphore(1)
        self._other_slots = asyncio.Semaphore(OTHERS_MAX)
        self._lock = threading.Lock()
        # By age: the oldest one is used most.
        self._idle: list[tuple[int, Admin]] = []
        self._idle_whole: list[tuple[int, Admin]] = []
        self._numbers = itertools.count()
        self._closed = False
        self._answers: dict[Any, _Answer] = {}
        self._shared: dict[Any, Any] = {}
        self._health = ClusterHealth(options.bootstrap_servers)

    def __repr__(self) -> str:
        return f"<ClusterAccess of {self.user or 'everybody'}>"

    async def admin(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs `function(admin, *arguments)` in a thread; returns what it returns.

        Raises:
            ClientError: the cluster cannot be reached, or refuses.
        """
        return await self._noted(self._admin_slots, self._idle, function, arguments)

    async def _call(self, function: Callable[..., Any], whole: bool) -> Any:
        return await (self.whole(function) if whole else self.admin(function))

    async def _noted(
        self,
        slots: asyncio.Semaphore,
        idle: list[tuple[int, Admin]],
        function: Callable[..., T],
        arguments: tuple[Any, ...],
    ) -> T:
        try:
            found = await self._run(slots, self._with_admin, idle, function, arguments)
        except ClientError as error:
            self._health.note_error(error)
            raise
        self._health.note_answer()
        return found  # type: ignore[no-any-return]

    async def whole(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs `function` as `admin` does, with the one client that has the metadata of all topics: for calls
        about many topics, one after the other.

        Raises:
            ClientError: the cluster cannot be reached, or refuses.
        """
        return await self._noted(self._whole_slots, self._idle_whole, function, arguments)

    @property
    def trouble(self) -> str:
        """Why pages show what was known before, in a sentence; empty if the cluster answers."""
        return self._health.trouble

    async def thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs a blocking function in a thread of the console's pool; returns what it returns."""
        return await self._run(self._other_slots, function, *arguments)

    async def _run(self, slots: asyncio.Semaphore, function: Callable[..., T], *arguments: Any) -> T:
        await slots.acquire()
        try:
            running = asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
        except BaseException:
            slots.release()
            raise
        # The thread goes on when whoever waits has left: only its end frees the slot.
        running.add_done_callback(functools.partial(_free, slots))
        return await asyncio.shield(running)

    def _with_admin(
        self, idle: list[tuple[int, Admin]], function: Callable[..., T], arguments: tuple[Any, ...]
    ) -> T:
        from bowstring.clients.admin.admin import Admin
        from bowstring.clients.errors import ClosedError

        with self._lock:
            if self._closed:
                raise ClosedError("the session has ended: sign in again")
            number, admin = heapq.heappop(idle) if idle else (next(self._numbers), None)
        try:
            if admin is None:
                admin = Admin(**self.settings, timeout_ms=self._timeout_ms)
            return function(admin, *arguments)
        finally:
            with self._lock:
                kept = not self._closed and admin is not None
                if kept and admin is not None:
                    heapq.heappush(idle, (number, admin))
            if admin is not None and not kept:
                admin.close()

    async def cached(
        self,
        key: Any,
        seconds: float,
        function: Callable[..., T | Awaitable[T]],
        *,
        stale_s: float = 0.0,
        cost_max: float | None = None,
        whole: bool = False,
    ) -> T:
        """Returns an answer that is at most `seconds` old; all who ask meanwhile share one.

        Args:
            key: what is asked, such as ("topic", name); hashable.
            seconds: how old the answer may be; errors are not kept.
            function: `function(admin)` in a thread, or a coroutine function without arguments.
            stale_s: an answer that is too old by at most this is returned at once, while another is fetched;
                not if fetching is quick: whoever loads a page of a small cluster sees what is there now.
            cost_max: share of the time that fetching this may take: what costs much is fetched less often.
            whole: whether `function` runs as `whole` runs it.

        Raises:
            ClientError: what `function` raised, or the cluster is away and nothing was known before.

        While the cluster does not answer, an older answer is returned, however old, and `trouble` says so.
        """
        now = time.monotonic()
        answer = self._answers.get(key)
        if answer is None or not answer.is_fresh(now):
            self._make_room()
            work = function() if inspect.iscoroutinefunction(function) else self._call(function, whole)
            older = answer if answer is None or answer.has_value() else answer.older
            answer = self._answers[key] = _Answer(asyncio.ensure_future(work), seconds, cost_max)
            answer.older = older
        older, answer.used_at = answer.older, now
        if not answer.task.done() and older is not None and older.took_s > QUICK_S:
            answer = older if now < older.at + older.fresh_s + stale_s else answer
        if not answer.task.done():
            await self._wait(answer)
        if older is not None and not answer.has_value():
            error = answer.task.exception() if answer.task.done() and not answer.task.cancelled() else None
            if error is None or is_away(error):
                self._health.note_old(error)
                return older.task.result()  # type: ignore[no-any-return]
        # Shielded: one page that is left does not cancel the answer for the others.
        return await asyncio.shield(answer.task)

    async def _wait(self, answer: _Answer) -> None:
        """Waits for an answer; not for long if an older one will do, or if the cluster is away.

        Raises:
            ClientError: the cluster is away, and there is no older answer.
        """
        if answer.older is not None:
            # One part of a page waits, not each of them.
            wait_s = 0.0 if self._health.away else NEXT_WAIT_S if self._health.trouble else WAIT_S
            await asyncio.wait([answer.task], timeout=wait_s)
            return
        while not (await asyncio.wait([answer.task], timeout=WAIT_S))[0]:
            if not self._health.away:
                await self._health.probe()
            if self._health.away and not answer.task.done():
                raise ClientError(self._health.away)

    def shared(self, key: Any, make: Callable[[], T]) -> T:
        """Returns the object that pages of this access share under a key; `make()` makes it once."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]  # type: ignore[no-any-return]

    def forget(self, *prefix: Any) -> None:
        """Drops cached answers whose key is a tuple that begins with `prefix`; all without one."""
        if not prefix:
            self._answers.clear()
            return
        for key in list(self._answers):
            if isinstance(key, tuple) and key[: len(prefix)] == prefix:
                del self._answers[key]

    def _make_room(self) -> None:
        """Drops the answers that were used least recently, until there is room for one more."""
        size = sum(each.kept_bytes() for each in self._answers.values())
        if len(self._answers) < ANSWERS_MAX and size <= ANSWERS_BYTES_MAX:
            return
        for key, answer in sorted(self._answers.items(), key=lambda item: item[1].used_at):
            del self._answers[key]
            size -= answer.kept_bytes()
            if len(self._answers) < ANSWERS_MAX and size <= ANSWERS_BYTES_MAX:
                return

    def close(self) -> None:
        """Closes the clients; those in use close when their calls end."""
        with self._lock:
            self._closed = True
            idle = [*self._idle, *self._idle_whole]
            self._idle.clear()
            self._idle_whole.clear()
        self._answers.clear()
        self._shared.clear()
        for _, admin in idle:
            admin.close()
