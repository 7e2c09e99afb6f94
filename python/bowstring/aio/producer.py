"""Implements Producer for asyncio: records go straight into the threaded producer's batches, without a thread
switch for each.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Concatenate, NamedTuple, ParamSpec, Self, TypeVar

from bowstring.aio.worker import (
    Worker,
    WorkersClient,
    awaited,
    in_thread,
    listen_on_loop,
    post,
    same_arguments,
)
from bowstring.clients.arguments import checked_methods
from bowstring.clients.errors import (
    BufferFullError,
    ClientTimeoutError,
    ClosedError,
    TransactionAbortedError,
    TransactionFailedError,
)
from bowstring.clients.producer.batches import BatchesFuture, RecordFuture
from bowstring.clients.producer.encoded_batches import RECORD_OVERHEAD_BYTES
from bowstring.clients.producer.producer import Producer as ThreadedProducer
from bowstring.clients.producer.typed_sending import HeadersLike
from bowstring.clients.records import RecordMetadata
from bowstring.clients.timeouts import bounded

P = ParamSpec("P")
T = TypeVar("T")

# 1 / this share of buffer_memory must be free before waiting records continue, so that many continue at once.
ROOM_SHARE = 8


def _acknowledged(
    method: Callable[Concatenate[Any, P], BatchesFuture],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, list[RecordMetadata]]]:
    """Returns a coroutine method with the arguments of a bulk send that awaits the acknowledgement.

    The producer's thread encodes the columns; backpressure applies there. Returns the first offset of each
    batch. When cancelled, the records are sent anyway.
    """

    async def call(self: Any, /, *args: P.args, **keywords: P.kwargs) -> list[RecordMetadata]:
        made = functools.partial(method, self._producer, *args, **keywords)
        found: list[RecordMetadata] = await self._send_many(made)
        return found

    functools.update_wrapper(call, method)
    return call


class Waiting(NamedTuple):
    """A record that cannot be accepted yet, for lack of metadata or memory."""

    future: asyncio.Future[RecordMetadata]
    arguments: dict[str, Any]
    size_bytes: int


@checked_methods(hot=("send",))
class Producer(WorkersClient):
    """Sends records to a cluster. Belongs to one event loop; any number of its tasks may share it.

    Takes the arguments of `bowstring.Producer`. `send` never blocks. It returns a future of the record's
    position; await it at once, or many together for speed. Records of an unknown topic, and records for which
    buffer_memory has no room, wait in a queue for at most max_block_ms. When another buffer_memory of them
    wait, further ones fail with BufferFullError: await some of the futures first.

    Cancelling a future, or the task that awaits it, drops the answer; the record is sent anyway.

    Examples:
        >>> async def main():
        ...     async with bowstring.aio.Producer("localhost:9092") as producer:
        ...         metadata = await producer.send("async-greetings", b"hello", key=b"me", partition=0)
        ...         print(metadata.offset)
        ...         sent = [producer.send("async-greetings", b"more") for _ in range(100)]
        ...         await asyncio.gather(*sent)
        >>> asyncio.run(main())
        0
    """

    @same_arguments(ThreadedProducer.__init__)
    def __init__(self, *args: Any, **keywords: Any):
        self._producer = ThreadedProducer(*args, **keywords)
        # Serialize here instead of in the threaded producer, to get the size of a record before it is handed
        # over.
        self._value_serializer, self._producer.value_serializer = self._producer.value_serializer, None
        self._key_serializer, self._producer.key_serializer = self._producer.key_serializer, None
        self._serializes = self._value_serializer is not None or self._key_serializer is not None
        self._worker = Worker("Producer")
        client = self._producer
        self._listener = listen_on_loop(client.troubles, self._worker, client.listener)
        self._outcomes: Outcomes | None = None
        self._lines: dict[str, deque[Waiting]] = {}
        self._waiting_bytes = 0
        self._attendants: set[asyncio.Task[None]] = set()
        self._closed = False
        self._finalizer = weakref.finalize(self, self._worker.stop)

    # ------------------------------------------------------------ sending

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: HeadersLike | None = None,
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Sends a record to `topic`; the future returns its position, or raises why it was not delivered.

        The arguments are those of `bowstring.Producer.send`. All errors are raised by the future.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._worker.loop or self._outcomes is None:
            self._worker.bind()
            self._outcomes = self._outcomes or Outcomes(loop)
        future: asyncio.Future[RecordMetadata] = asyncio.Future(loop=loop)
        if self._closed:
            future.set_exception(ClosedError("the producer is closed"))
            return future
        if self._serializes or value.__class__ is not bytes or not (key is None or key.__class__ is bytes):
            try:
                value, key, headers = self._serialized(topic, value, key, headers)
            except Exception as error:  # errors of the serializer, and of the record
                future.set_exception(error)
                return future
        size = RECORD_OVERHEAD_BYTES + _length(value) + (_length(key) if key is not None else 0)
        waits = topic in self._lines or self._producer.awaits_registry(topic, value, key)
        if waits or self._producer.would_block(topic, size):
            stamp = time.time_ns() // 1_000_000 if timestamp is None else timestamp
            arguments = {
                "value": value,
                "key": key,
                "headers": headers,
                "timestamp": stamp,
                "partition": partition,
            }
            self._stand_in_line(future, topic, arguments, size)
            return future
        try:
            sent = self._producer.send(
                topic, value, key, headers=headers, timestamp=timestamp, partition=partition
            )
        except Exception as error:
            future.set_exception(error)
        else:
            sent.add_done_callback(functools.partial(self._outcomes.put, future))
        return future

    def _serialized(self, topic: str, value: Any, key: Any, headers: Any) -> tuple[Any, Any, Any]:
        """Returns both as bytes, without a copy if possible, because their size must be known before `send`;
        unchanged while a schema registry has not answered. Adds the headers that name their schemas.
        """
        if self._value_serializer is not None:
            value = self._value_serializer(value)
        if self._key_serializer is not None:
            key = self._key_serializer(key)
        producer = self._producer
        if producer.awaits_registry(topic, value, key):
            return value, key, headers
        if producer.schema_headers is not None:
            headers = producer.schema_headers(topic, value, key, headers)
        return producer.payload(topic, value, "value"), producer.payload(topic, key, "key"), headers

    send_arrow = _acknowledged(ThreadedProducer.send_arrow)
    send_columns = _acknowledged(ThreadedProducer.send_columns)

    async def _send_many(self, call: Callable[[], BatchesFuture]) -> list[RecordMetadata]:
        loop = self._worker.bind()
        sent = await self._worker.call(call, required=True)
        acknowledged: asyncio.Future[None] = loop.create_future()
        total = len(sent.batches)
        if total:
            arrived = itertools.count(1)  # atomic in any thread

            def done(_: object) -> None:
                if next(arrived) == total:
                    post(loop, _arrive, acknowledged)

            sent.add_done_callback(done)
            await acknowledged
        return sent.result(0)

    # ------------------------------------------------------------ the queue

    def _stand_in_line(
        self, future: asyncio.Future[RecordMetadata], topic: str, arguments: dict[str, Any], size: int
    ) -> None:
        limit = self._producer.buffer_memory
        if self._waiting_bytes + size > limit:
            error = BufferFullError(
                f"{self._waiting_bytes} bytes of records wait for memory or metadata, and "
                f"buffer_memory={limit} allows no more: await the futures of send(), or raise buffer_memory"
            )
            self._producer.record_failed(error)
            future.set_exception(error)
            return
        self._waiting_bytes += size
        line = self._lines.get(topic)
        if line is None:
            line = self._lines[topic] = deque()
            task = self._worker.bind().create_task(self._attend(topic, line))
            self._attendants.add(task)
            task.add_done_callback(self._attendants.discard)
        line.append(Waiting(future, arguments, size))

    async def _attend(self, topic: str, line: deque[Waiting]) -> None:
        """Sends the records that wait for a topic, in order, until none are left.

        The threaded producer waits, in a thread, with its limits and errors.
        """
        producer = self._producer
        try:
            while line:
                first = line[0].arguments
                if producer.awaits_registry(topic, first["value"], first["key"]):
                    await in_thread(
                        functools.partial(producer.await_registry, topic, first["value"], first["key"])
                    )
                share = min(self._waiting_bytes, producer.buffer_memory // ROOM_SHARE)
                wanted = max(line[0].size_bytes, share)
                try:
                    await in_thread(functools.partial(producer.await_ready, topic, wanted))
                except BufferFullError:
                    if producer.would_block(topic, line[0].size_bytes):
                        raise
                while line and not self._would_wait(topic, line[0]):
                    self._leave_line(topic, line.popleft())
        except Exception as error:  # the error is raised by the futures of the waiting records
            self._producer.record_failed(error)
            for waiting in line:
                _fail(waiting.future, error)
        finally:
            self._waiting_bytes -= sum(waiting.size_bytes for waiting in line)
            del self._lines[topic]

    def _would_wait(self, topic: str, first: Waiting) -> bool:
        given = first.arguments
        return self._producer.would_block(topic, first.size_bytes) or self._producer.awaits_registry(
            topic, given["value"], given["key"]
        )

    def _leave_line(self, topic: str, waiting: Waiting) -> None:
        assert self._outcomes is not None
        self._waiting_bytes -= waiting.size_bytes
        try:
            sent = self._producer.send(topic, **waiting.arguments)
        except Exception as error:  # the error is raised by this record's future
            _fail(waiting.future, error)
        else:
            sent.add_done_callback(functools.partial(self._outcomes.put, waiting.future))

    # ------------------------------------------------------------ transactions

    async def _call(self, method: Callable[..., T], *args: Any, **keywords: Any) -> T:
        call = functools.partial(method, self._producer, *args, **keywords)
        return await self._worker.call(call, required=True)

    init_transactions = awaited(ThreadedProducer.init_transactions)
    prepare_transaction = awaited(ThreadedProducer.prepare_transaction)
    send_offsets = awaited(ThreadedProducer.send_offsets)
    send_offsets_to_transaction = awaited(ThreadedProducer.send_offsets_to_transaction)

    @property
    def transactional(self) -> bool:
        """Whether sends belong to transactions: the producer has a transactional_id."""
        return self._producer.transactional

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and its end is not known."""
        return self._producer.in_transaction

    @property
    def threaded(self) -> ThreadedProducer:
        """The blocking producer that sends the records. For `transform`."""
        return self._producer

    async def begin_transaction(self, timeout: float | None = None) -> None:
        """Like `bowstring.Producer.begin_transaction`; a cancelled call leaves no transaction open."""
        producer = self._producer
        await self._worker.call(
            functools.partial(producer.begin_transaction, timeout),
            undo=lambda _: producer.abort_because_of(asyncio.CancelledError()),
        )

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Like `bowstring.Producer.commit_transaction`; waits for the futures of all records."""
        deadline = None if timeout is None else time.monotonic() + timeout
        await self._await_lines(timeout)
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        await self._call(ThreadedProducer.commit_transaction, left)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Like `bowstring.Producer.abort_transaction`; the futures of unsent records fail."""
        self._drop_lines()
        await self._call(ThreadedProducer.abort_transaction, timeout)

    def _drop_lines(self) -> None:
        error = TransactionAbortedError("the transaction was aborted before this record was sent")
        for line in self._lines.values():
            self._waiting_bytes -= sum(waiting.size_bytes for waiting in line)
            for waiting in line:
                _fail(waiting.future, error)
            line.clear()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Like `bowstring.Producer.transaction`: commits at the end of the block, aborts if it raises or is
        cancelled.

        Examples:
            >>> async def main():
            ...     where = "localhost:9092"
            ...     async with bowstring.aio.Producer(where, transactional_id="async-mover-1") as producer:
            ...         async with producer.transaction():
            ...             future = producer.send("async-moved", b"hello", partition=0)
            ...         print((await future).offset)
            >>> asyncio.run(main())
            0
        """
        await self.begin_transaction()
        try:
            yield self
            await self._await_lines(None)
        except BaseException as error:
            await self._abort_because_of(error)
            raise
        await self._call(_commit_or_abort)

    async def _abort_because_of(self, error: BaseException) -> None:
        self._drop_lines()
        await self._call(ThreadedProducer.abort_because_of, error)

    async def settled(self) -> None:
        """Waits until no record waits for metadata or memory. For `transform`."""
        await self._await_lines(None)

    # ------------------------------------------------------------ the rest

    async def partitions_for(self, topic: str) -> list[int]:
        """Like `bowstring.Producer.partitions_for`."""
        self._worker.bind()
        return await in_thread(functools.partial(self._producer.partitions_for, topic))

    async def flush(self, timeout: float | None = None) -> None:
        """Sends waiting records at once, and returns when everything sent before has an outcome.

        Raises:
            ClientTimeoutError: not within `timeout` seconds; None or -1 means no limit.
        """
        timeout = bounded(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        self._worker.bind()
        await self._await_lines(timeout)
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        await in_thread(functools.partial(self._producer.flush, left))

    async def _await_lines(self, timeout: float | None) -> None:
        if not self._attendants:
            return
        _, waiting = await asyncio.wait(self._attendants, timeout=timeout)
        if waiting:
            raise ClientTimeoutError(
                f"records still wait for memory or metadata after {timeout:g} s; max_block_ms limits that "
                "wait"
            )

    async def close(self, timeout: float | None = None) -> None:
        """Sends waiting records and stops the producer's thread; after `timeout` seconds the rest fails."""
        if self._closed:
            return
        timeout = bounded(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        self._closed = True
        try:
            # the futures of those records raise the error, see below
            with contextlib.suppress(ClientTimeoutError):
                await self._await_lines(timeout)
        finally:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            self._finalizer.detach()
            # Also ends the waits of queued records: their futures raise ClosedError.
            await self._worker.call(functools.partial(self._producer.close, left), required=True)
            self._worker.stop()


class Outcomes:
    """Passes outcomes from the sender's thread to the loop, all collected ones in one call."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._gathered: deque[tuple[asyncio.Future[RecordMetadata], RecordFuture]] = deque()
        self._called = False

    def put(self, future: asyncio.Future[RecordMetadata], sent: RecordFuture) -> None:
        """Adds the outcome of a record. In the sender's thread."""
        self._gathered.append((future, sent))
        if not self._called:
            self._called = True
            post(self._loop, self._settle)

    def _settle(self) -> None:
        # Cleared first, so that an outcome added after the loop below schedules another call.
        self._called = False
        gathered = self._gathered
        while gathered:
            future, sent = gathered.popleft()
            if future.done():
                continue
            try:
                future.set_result(sent.result(0))
            except Exception as error:  # the record's error
                future.set_exception(error)


def _commit_or_abort(producer: ThreadedProducer) -> None:
    """Ends the transaction of a block, in one call: it goes on when the block's task is cancelled."""
    try:
        producer.commit_transaction()
    except TransactionFailedError as error:
        producer.abort_because_of(error)
        raise


def _length(data: Any) -> int:
    """Returns the size of a key or value in bytes; `send` refuses other types."""
    return len(data) if hasattr(data, "__len__") else 0


def _arrive(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _fail(future: asyncio.Future[RecordMetadata], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
