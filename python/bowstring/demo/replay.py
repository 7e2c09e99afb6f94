"""Sends flights to a topic, reads them back, and proves that they came back unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import Record
from bowstring.demo.flights import Event

IDLE_POLLS_MAX = 20
POLL_S = 0.5
POLL_RECORDS = 10_000
TICK = 5_000

Progress = Callable[[int], None]


class Ledger:
    """Hashes of sent records: by key in order, and without a key as a multiset.

    Sending and reading share only this object, so every lost, duplicated, reordered or changed record is
    detected.
    """

    def __init__(self) -> None:
        self._by_key: dict[bytes, list[int]] = {}
        self._next: dict[bytes, int] = {}
        self._without_key: Counter[int] = Counter()
        self.sent = self.read = 0
        self.problems: list[str] = []

    def note_sent(self, event: Event) -> None:
        """Adds an event that is about to be sent."""
        digest = hash((event.value, event.timestamp))
        if event.key is None:
            self._without_key[digest] += 1
        else:
            self._by_key.setdefault(event.key, []).append(digest)
        self.sent += 1

    def note_read(self, record: Record) -> None:
        """Checks a record that was read: it must be the next of its key."""
        self.read += 1
        digest = hash((record.value, record.timestamp))
        if record.key is None:
            self._without_key[digest] -= 1
            if self._without_key[digest] < 0:
                self.problems.append(f"a record without a key was changed or doubled: {record}")
            return
        at = self._next.get(record.key, 0)
        self._next[record.key] = at + 1
        expected = self._by_key.get(record.key, [])
        if at >= len(expected) or expected[at] != digest:
            self.problems.append(
                f"a record of key {record.key!r} is out of order, changed or doubled: {record}"
            )

    def verdict(self) -> list[str]:
        """Returns all differences; none when every event came back once, unchanged and in the order of its
        key.
        """
        problems = list(self.problems[:5])
        missing = self.sent - self.read
        if missing:
            problems.append(f"{abs(missing):,} records {'are missing' if missing > 0 else 'are too many'}")
        elif not problems:
            if any(count != 0 for count in self._without_key.values()):
                problems.append("records without a key are missing")
            if any(self._next.get(key, 0) != len(digests) for key, digests in self._by_key.items()):
                problems.append("records of some keys are missing")
        return problems

    @property
    def keys(self) -> int:
        """Number of distinct keys sent."""
        return len(self._by_key)


def send(bootstrap: str, topic: str, events: Iterable[Event], ledger: Ledger, progress: Progress) -> None:
    """Sends every event with its key and timestamp.

    Raises:
        ClientError: the first error of delivery.
    """
    failures: list[Exception] = []
    with Producer(bootstrap, client_id="bowstring-demo", batch_size=65_536, linger_ms=20) as producer:
        for number, event in enumerate(events, start=1):
            ledger.note_sent(event)
            future = producer.send(topic, event.value, event.key, timestamp=event.timestamp)
            if number % TICK == 0:
                future.add_done_callback(lambda done: _note(done.exception(0), failures))
                progress(TICK)
        future.result(60)
        producer.flush(60)
        progress(number % TICK)
    if failures:
        raise failures[0]


def _note(error: Exception | None, failures: list[Exception]) -> None:
    if error is not None:
        failures.append(error)


def read_back(bootstrap: str, topic: str, ledger: Ledger, progress: Progress) -> None:
    """Reads the topic as a group of one until all records have come, or none come any more."""
    idle = 0
    with Consumer(bootstrap, group_id="bowstring-demo", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        while ledger.read < ledger.sent and idle < IDLE_POLLS_MAX:
            records = consumer.poll(POLL_S, max_records=POLL_RECORDS)
            idle = 0 if records else idle + 1
            for record in records:
                ledger.note_read(record)
            progress(len(records))
        for record in consumer.poll(POLL_S / 5, max_records=POLL_RECORDS):  # counts surplus records, too
            ledger.note_read(record)
