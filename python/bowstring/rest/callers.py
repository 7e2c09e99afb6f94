"""Keeps the clients of each caller, which act with its own credentials; closes them when it is silent."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from bowstring.clients.errors import ClosedError, UnknownTopicError
from bowstring.rest.options import RestOptions
from bowstring.web.http_error import HttpError

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.producer.producer import Producer

T = TypeVar("T")

CLIENT_ID = "bowstring-rest"
THREADS = 160
"""Of the whole process; they start when they are needed."""
MISSING_S = 10.0
"""How long a topic counts as missing that the broker did not create."""
MISSING_MAX = 1_000
CALLS_OF_ONE = 8
"""Calls of one caller at a time; others wait."""
FETCHES_HELD = 4
"""A stream of read records holds so many times what it fetches ahead: fetched, arriving, as text, sent."""
TEXTS_HELD = 3
"""The same of a large decoded value: its text, in a column, and as a line."""
FETCH_BYTES_MIN, FETCH_BYTES_FLOOR = 64 << 10, 256 << 10
CALLS_OF_ALL = 32
"""The same where nobody logs in."""


class Caller:
    """What one caller uses of the cluster. Belongs to the event loop.

    Args:
        options: of the proxy.
        user: the caller's name, for the log; None for everybody.
        security: settings of TLS and SASL that act as the caller.
        threads: the pool that all callers share.

    Attributes:
        user: as given.
        settings: arguments of clients that act as this caller. They hold secrets: never log them.
        used_at: time.monotonic() of the last request.
        streams: open at present.
        consumers: consumer instances at present.
        endings: called on the event loop when the caller is dropped; each returns what to wait for.
    """

    def __init__(
        self,
        options: RestOptions,
        user: str | None,
        security: Mapping[str, Any] | None,
        threads: ThreadPoolExecutor,
    ):
        self.user = user
        self.settings: dict[str, Any] = {
            "bootstrap_servers": options.bootstrap_servers,
            "client_id": CLIENT_ID,
        }
        if security:
            self.settings["security"] = dict(security)
        self.used_at = time.monotonic()
        self.streams = self.consumers = 0
        self.endings: list[Callable[[], asyncio.Future[Any]]] = []
        self._options = options
        self._threads = threads
        self._slots = asyncio.Semaphore(CALLS_OF_ALL if user is None else CALLS_OF_ONE)
        self._lock = threading.Lock()
        self._idle: list[Admin] = []
        self._producer: Producer | None = None
        self._closed = False
        self._shared: dict[str, Any] = {}
        self._missing: dict[str, tuple[float, UnknownTopicError]] = {}
        self.cluster_id: str | None = None
        """Of the cluster, once it is known."""

    def __repr__(self) -> str:
        return f"<Caller {self.user or 'everybody'}>"

    async def admin(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs `function(admin, *arguments)` in a thread; returns what it returns.

        Raises:
            ClientError: the cluster cannot be reached, or refuses.
        """
        await self._slots.acquire()
        try:
            running = self._run(self._with_admin, function, arguments)
        except BaseException:
            self._slots.release()
            raise
        running.add_done_callback(self._free)
        # The thread goes on when the caller has left: only its end frees the slot.
        return await asyncio.shield(running)

    def _free(self, ended: asyncio.Future[Any]) -> None:
        self._slots.release()
        if not ended.cancelled():
            ended.exception()  # seen: the caller may be gone

    async def thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs a blocking function of a stream in a thread; returns what it returns."""
        return await self._run(function, *arguments)

    def _run(self, function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        call = functools.partial(function, *arguments)
        return asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _with_admin(self, function: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        from bowstring.clients.admin.admin import Admin

        with self._lock:
            if self._closed:
                raise ClosedError("the proxy stops")
            admin = self._idle.pop() if self._idle else None
        try:
            if admin is None:
                admin = Admin(**self.settings, timeout_ms=int(self._options.timeout_s * 1000))
            return function(admin, *arguments)
        finally:
            with self._lock:
                kept = not self._closed and admin is not None
                if kept and admin is not None:
                    self._idle.append(admin)
            if admin is not None and not kept:
                admin.close()

    async def ready_producer(self) -> Producer:
        """Returns the producer that all requests of the caller share; makes it in a thread.

        Raises:
            ClosedError: the proxy stops.
        """
        known = self._producer
        return await self._run(self.producer) if known is None else known

    def producer(self) -> Producer:
        """Returns the producer that all requests of the caller share; makes it. Blocks: for a thread."""
        from bowstring.clients.producer.producer import Producer

        with self._lock:
            if self._closed:
                raise ClosedError("the proxy stops")
            if self._producer is None:
                self._producer = Producer(
                    **self.settings,
                    # A topic that is deleted later must not come back when the metadata is refreshed.
                    allow_auto_create=False,
                    linger_ms=self._options.linger_ms,
                    buffer_memory=self._options.buffer_memory,
                    max_request_size=self._options.record_bytes_max,
                    max_block_ms=self._options.timeout_s * 1000,
                    delivery_timeout_ms=int(self._options.delivery_s * 1000),
                    request_timeout_ms=int(min(self._options.timeout_s, self._options.delivery_s) * 1000),
                )
            return self._producer

    def shared(self, key: str, make: Callable[[], T]) -> T:
        """Returns the object that requests of this caller share under a key; `make()` makes it once.

        Args:
            key: its name.
            make: makes it, quickly.
        """
        with self._lock:
            if key not in self._shared:
                self._shared[key] = make()
            return self._shared[key]  # type: ignore[no-any-return]

    def await_ready(self, topic: str, size: int) -> None:
        """Waits until the producer takes a record. Lets the broker create a missing topic, if it does that.

        Args:
            topic: name of the topic.
            size: bytes of the record.

        Raises:
            UnknownTopicError: the topic does not exist, and the broker does not create it.
            ClientError: as of Producer.send.
        """
        producer = self.producer()
        if producer.accumulator.partition_count(topic) < 0:
            self._find_topic(topic)
        producer.await_ready(topic, size)

    def _find_topic(self, topic: str) -> None:
        from bowstring.clients.producer.producer import Producer

        known = self._missing.get(topic)
        if known is not None and time.monotonic() < known[0]:
            raise known[1]
        try:
            self._with_admin(_describe_topic, (topic,))
        except UnknownTopicError:
            try:
                with Producer(**self.settings, max_block_ms=self._options.timeout_s * 1000) as creating:
                    creating.partitions_for(topic)
            except UnknownTopicError as error:
                if len(self._missing) >= MISSING_MAX:
                    self._missing.clear()
                self._missing[topic] = time.monotonic() + MISSING_S, error
                raise

    def close(self) -> None:
        """Closes the clients; those in use close when their calls end. Blocks while records are sent."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            producer, self._producer = self._producer, None
        for admin in idle:
            admin.close()
        if producer is not None:
            producer.close(self._options.timeout_s)


def _describe_topic(admin: Admin, topic: str) -> None:
    admin.describe_topic(topic)


class Callers:
    """All callers, the one used last at the end. Belongs to the event loop, but for memory of texts.

    Args:
        options: of the proxy.

    Attributes:
        options: as given.
    """

    def __init__(self, options: RestOptions):
        self.options = options
        self._threads = ThreadPoolExecutor(THREADS, "rest")
        self._known: OrderedDict[str, Caller] = OrderedDict()
        self.streams = 0
        """Open at present."""
        self._read_held = 0
        self._read_lock = threading.Lock()
        self.consumers = 0
        """Consumer instances at present."""
        self.consumer_threads = ThreadPoolExecutor(options.consumers_max, "rest-consumer")
        """Each consumer instance uses one at a time."""

    def find(self, fingerprint: str, user: str | None, security: Mapping[str, Any] | None) -> Caller:
        """Returns the caller with a fingerprint of its credentials; a new one with these settings."""
        caller = self._known.get(fingerprint)
        if caller is None:
            self._make_room()
            caller = self._known[fingerprint] = Caller(self.options, user, security, self._threads)
        caller.used_at = time.monotonic()
        self._known.move_to_end(fingerprint)
        return caller

    def forget(self, fingerprint: str) -> None:
        """Drops a caller whose credentials the cluster refused."""
        caller = self._known.pop(fingerprint, None)
        if caller is not None:
            self._close(caller)

    def open_stream(self, caller: Caller) -> None:
        """Counts a stream of records.

        Raises:
            HttpError: 429; there are too many.
        """
        most, of_one = self.options.streams_max, self.options.streams_of_one
        if self.streams >= most or (caller.user is not None and caller.streams >= of_one):
            raise HttpError(
                429, 42901, "too many streams of records are open; end some, or send this again later"
            )
        self.streams += 1
        caller.streams += 1

    def close_stream(self, caller: Caller) -> None:
        """Counts the end of a stream."""
        self.streams -= 1
        caller.streams -= 1
        caller.used_at = time.monotonic()

    def take_fetch_bytes(self) -> int:
        """Returns how many bytes a new stream of read records fetches ahead, until `return_fetch_bytes`.

        Up to half of the memory is kept for streams that may still come; each takes a quarter of the rest.
        """
        options = self.options
        with self._read_lock:
            least, free = self._least_and_free()
            found = max(least, min(options.fetch_bytes, free // 4 // FETCHES_HELD))
            self._read_held += FETCHES_HELD * found
        return found

    def _least_and_free(self) -> tuple[int, int]:
        options = self.options
        least = options.read_memory // (2 * FETCHES_HELD * options.streams_max)
        least = min(max(FETCH_BYTES_MIN, min(least, FETCH_BYTES_FLOOR)), options.fetch_bytes)
        kept = FETCHES_HELD * least * max(0, options.streams_max - self.streams)
        kept = min(kept, options.read_memory // 2)
        return least, max(0, options.read_memory - kept - self._read_held)

    def return_fetch_bytes(self, count: int) -> None:
        """Gives the memory of a stream back."""
        with self._read_lock:
            self._read_held -= FETCHES_HELD * count

    def take_text(self, count: int) -> bool:
        """Returns whether there is memory for a decoded value that is so many bytes of text, until
        `return_text`. Any thread may call.
        """
        with self._read_lock:
            if TEXTS_HELD * count > self._least_and_free()[1]:
                return False
            self._read_held += TEXTS_HELD * count
        return True

    def return_text(self, count: int) -> None:
        """Gives the memory of decoded values back. Any thread may call."""
        with self._read_lock:
            self._read_held -= TEXTS_HELD * count

    def open_consumer(self, caller: Caller) -> None:
        """Counts a consumer instance.

        Raises:
            HttpError: 429; there are too many.
        """
        most, of_one = self.options.consumers_max, self.options.consumers_of_one
        if self.consumers >= most or (caller.user is not None and caller.consumers >= of_one):
            raise HttpError(
                429, 42901, "there are too many consumer instances; delete some, or send this again later"
            )
        self.consumers += 1
        caller.consumers += 1

    def close_consumer(self, caller: Caller) -> None:
        """Counts the end of a consumer instance."""
        self.consumers -= 1
        caller.consumers -= 1
        caller.used_at = time.monotonic()

    def end_idle(self) -> None:
        """Closes the clients of callers that have been silent."""
        now = time.monotonic()
        for fingerprint, caller in list(self._known.items()):
            is_used = caller.streams or caller.consumers
            if not is_used and now - caller.used_at > self.options.idle_s:
                del self._known[fingerprint]
                self._close(caller)

    def _make_room(self) -> None:
        """Closes callers that have no request, the one used least recently first, until there is room.

        Raises:
            HttpError: 503; all may have requests under way.
        """
        now = time.monotonic()
        for fingerprint, caller in list(self._known.items()):
            if len(self._known) < self.options.callers_max:
                return
            # A request that is no stream ends within this time.
            is_used = caller.streams or caller.consumers
            if not is_used and now - caller.used_at > self.options.delivery_s:
                del self._known[fingerprint]
                self._close(caller)
        if len(self._known) >= self.options.callers_max:
            raise HttpError(503, 50301, "too many callers use the proxy; send this again later")

    def _close(self, caller: Caller) -> None:
        for end in caller.endings:
            end()
        asyncio.get_running_loop().run_in_executor(self._threads, caller.close)

    async def close(self) -> None:
        """Closes all clients."""
        known, self._known = list(self._known.values()), OrderedDict()
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(end() for each in known for end in each.endings))
        await asyncio.gather(*(loop.run_in_executor(self._threads, each.close) for each in known))
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.consumer_threads.shutdown(wait=False, cancel_futures=True)
