"""Reads the registry's topic from its beginning on, in a thread, and passes the records to the event loop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import ClientError
from bowstring.clients.records import Record, TopicPartition
from bowstring.registry.store.store_target import StoreTarget

_log = logging.getLogger("bowstring.registry")

POLL_S = 1.0
RETRY_PAUSE_S = 0.5
LOG_EVERY_S = 30.0
ECHO_PAUSE_S = 0.02
"""Before the next look of a leader, which has its own records before it reads them."""
RECORDS_MAX = 2_000
FETCH_BYTES = 4 << 20
PREFETCH_BYTES = 16 << 20
FIRST_LOOK_S = 10.0
# Batches on the way to the loop: reading waits for a loop that is slower.
AHEAD_MAX = 2


class ReadRecords(NamedTuple):
    """Records on their way to the loop.

    Attributes:
        reading: counts the readings from the beginning; a new one replaces what was read before.
        records: in the order of the topic.
        position: every record below it has been read; compaction leaves gaps.
        end: the end of the topic when the reading began.
    """

    reading: int
    records: Sequence[Record]
    position: int
    end: int


class TopicReader:
    """The thread.

    Args:
        target: the cluster and the topic.
        deliver: gets the records on the loop, and calls `done` once it has applied them.
        post: calls a function with arguments on the event loop.

    Attributes:
        trouble: why the topic could not be read the last time; None once it was.
    """

    def __init__(
        self, target: StoreTarget, deliver: Callable[[ReadRecords], None], post: Callable[..., None]
    ):
        self._target = target
        self._deliver = deliver
        self._post = post
        self._partition = TopicPartition(target.topic, 0)
        self._ahead = threading.Semaphore(AHEAD_MAX)
        self._reading = 0
        self._again = False
        self._stopping = threading.Event()
        self._is_echo = False
        self._logged_at = -LOG_EVERY_S
        self._consumer: Consumer | None = None
        self.trouble: ClientError | None = None
        self._thread = threading.Thread(target=self._run, name="bowstring-registry-reader", daemon=True)

    # ------------------------------------------------------------ calls of the loop

    def start(self) -> None:
        """Begins to read."""
        self._thread.start()

    def done(self, *, known: bool = False) -> None:
        """Notes that delivered records are applied.

        Args:
            known: whether the image had them before: reading is in no hurry then.
        """
        self._is_echo = known
        self._ahead.release()

    def begin_again(self) -> None:
        """Reads from the beginning again: the topic is another."""
        self._again = True
        self._wake()

    def stop(self) -> None:
        """Ends the thread. Blocks for a moment; in any thread."""
        self._stopping.set()
        self._wake()
        self._ahead.release()
        if self._thread.is_alive():
            self._thread.join()

    def _wake(self) -> None:
        consumer = self._consumer
        if consumer is not None:
            consumer.wakeup()

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with Consumer(
                    self._target.bootstrap_servers,
                    client_id="bowstring-registry",
                    auto_offset_reset="earliest",
                    enable_auto_commit=False,
                    allow_auto_create=False,
                    max_partition_fetch_bytes=FETCH_BYTES,
                    prefetch_max_bytes=PREFETCH_BYTES,
                    max_poll_records=RECORDS_MAX,
                    security=self._target.security,
                ) as consumer:
                    self._consumer = consumer
                    self._read(consumer)
            except ClientError as error:
                self._note(error)
                time.sleep(RETRY_PAUSE_S)
            except Exception:
                _log.exception("reading topic %r failed; it is read again", self._target.topic)
                time.sleep(RETRY_PAUSE_S)
            finally:
                self._consumer = None

    def _read(self, consumer: Consumer) -> None:
        """Reads from the beginning until the topic turns out to be another."""
        self._again = False
        consumer.assign([self._partition])
        consumer.seek_to_beginning(self._partition)
        end = consumer.end_offsets([self._partition], FIRST_LOOK_S)[self._partition]
        position = consumer.position(self._partition, FIRST_LOOK_S)
        self._reading += 1
        self._pass_on(ReadRecords(self._reading, (), position, end))
        while not self._stopping.is_set() and not self._again:
            if self._is_echo:
                self._stopping.wait(ECHO_PAUSE_S)
            try:
                records = consumer.poll(POLL_S)
            except ClientError as error:
                self._note(error)
                time.sleep(RETRY_PAUSE_S)
                continue
            before, position = position, consumer.positions().get(self._partition, position)
            if position < before or (records and records[0].offset < before):
                _log.warning(
                    "topic %r begins anew: it was created again, or lost records", self._target.topic
                )
                return
            if records or position > before:
                self._pass_on(ReadRecords(self._reading, records, position, end))

    def _pass_on(self, read: ReadRecords) -> None:
        self.trouble = None
        self._ahead.acquire()
        self._post(self._deliver, read)

    def _note(self, error: ClientError) -> None:
        self.trouble = error
        now = time.monotonic()
        if now >= self._logged_at + LOG_EVERY_S:
            self._logged_at = now
            _log.error(
                "topic %r cannot be read; schemas that are known are served: %s", self._target.topic, error
            )
