"""Looks through a topic for records, newest or oldest first, within limits of time, bytes and records."""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bowstring.clients.consumer.range_reader import BoundedConsumer
from bowstring.clients.errors import ConfigError
from bowstring.clients.records import Record, TopicPartition
from bowstring.search.record_filter import Matcher, RecordFilter
from bowstring.search.value_decoder import ValueDecoder

Start = Literal["first", "offset", "time"]

# The first round looks at few offsets: their values may be large.
FIRST_ROUND_OFFSETS = 100
FIRST_ROUND_SHARES = 4
ROUND_BYTES = 16 << 20
ROUND_OFFSETS_MAX = 200_000
ROUND_SHARE = 0.15
POLL_RECORDS = 10_000
POLL_S = 0.25
OVERTIME = 4
TOPIC_S = 2.0


@dataclass(frozen=True)
class SearchRequest:
    """What to look for.

    Attributes:
        topic: name of the topic.
        partitions: their numbers; none are all.
        newest_first: from the end to the begin; else from the begin to the end.
        start: where to begin: "first" at the end or begin of the topic, at an "offset", or at a "time".
        at: the offset (newest first: the highest looked at), or milliseconds since the epoch (newest first:
            looks at records before it).
        count: most records to find.
        committed: leaves out records of open and aborted transactions.
        wanted: what records must have.
        cursor: of an earlier result: next offset of each partition (newest first: the end of what is left).
    """

    topic: str
    partitions: tuple[int, ...] = ()
    newest_first: bool = True
    start: Start = "first"
    at: int = 0
    count: int = 50
    committed: bool = False
    wanted: RecordFilter = field(default_factory=RecordFilter)
    cursor: Mapping[int, int] | None = None


@dataclass(frozen=True)
class SearchLimits:
    """How much one search may read.

    Attributes:
        seconds: time; a read that goes on ends soon after.
        bytes: of keys and values.
        records: their number.
        kept_bytes: of a value that the result has; longer ones are cut.
        total_kept_bytes: of all values that the result has.
    """

    seconds: float = 2.0
    bytes: int = 256 << 20
    records: int = 2_000_000
    kept_bytes: int = 64 << 10
    total_kept_bytes: int = 16 << 20


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record that a search found.

    Attributes:
        record: with at most SearchLimits.kept_bytes of the value, and the same of the key.
        value_size, key_size: bytes of the whole value and key; -1 for null.
    """

    record: Record
    value_size: int
    key_size: int

    @property
    def is_cut(self) -> bool:
        """Whether the result has only the start of the value."""
        return self.record.value is not None and len(self.record.value) < self.value_size


@dataclass(frozen=True)
class SearchResult:
    """What a search found, and how far it looked.

    Attributes:
        found: the records, in the order of the search.
        looked_at: offsets that were looked at since the first search of this cursor.
        total: offsets there are to look at.
        records_read, bytes_read, seconds: what this search took.
        cursor: for the next search; None at the end.
        stopped_by: "" at the end, else "count", "time", "bytes" or "records".
        undecoded: records whose values were too large for the expression.
    """

    found: list[FoundRecord]
    looked_at: int
    total: int
    records_read: int
    bytes_read: int
    seconds: float
    cursor: dict[int, int] | None
    stopped_by: str
    undecoded: int


def search(
    settings: Mapping[str, Any],
    request: SearchRequest,
    decoder: ValueDecoder | None = None,
    limits: SearchLimits | None = None,
) -> SearchResult:
    """Looks through a topic.

    Args:
        settings: of Consumer, such as bootstrap_servers and security.
        request: what to look for.
        decoder: of values, for expressions; None has no schemas.
        limits: how much to read.

    Raises:
        UnknownTopicError, ConfigError: the topic or a partition does not exist.
        ClientError: brokers do not answer, or refuse.
    """
    with _reader(settings, request) as consumer:
        return _Search(consumer, request, decoder or ValueDecoder(), limits or SearchLimits()).run()


def read_one(settings: Mapping[str, Any], topic: str, partition: int, offset: int) -> Record | None:
    """Returns the record at an offset; None if there is none.

    Raises:
        ClientError: brokers do not answer, or refuse.
    """
    request = SearchRequest(topic, (partition,), newest_first=False)
    with _reader(settings, request) as consumer:
        place = TopicPartition(topic, partition)
        if place not in consumer.partitions_for(topic, TOPIC_S):
            return None
        if not consumer.beginning_offsets([place])[place] <= offset < consumer.end_offsets([place])[place]:
            return None
        consumer.restrict({place: (offset, offset + 1)})
        deadline = time.monotonic() + 10.0
        while consumer.unread and time.monotonic() < deadline:
            for record in consumer.poll(POLL_S, max_records=1):
                return record if record.offset == offset else None
    return None


def _reader(settings: Mapping[str, Any], request: SearchRequest) -> BoundedConsumer:
    given = dict(settings)
    bootstrap = given.pop("bootstrap_servers", "localhost:9092")
    return BoundedConsumer(
        bootstrap,
        {},
        **{
            "client_id": "bowstring-search",
            "fetch_max_bytes": 16 << 20,
            "max_partition_fetch_bytes": 1 << 20,
            "prefetch_max_bytes": 16 << 20,
            "fetch_max_wait_ms": 100,
            "isolation_level": "read_committed" if request.committed else "read_uncommitted",
            "default_timeout_ms": 10_000,
            **given,
        },
    )


class _Side:
    """One partition: the offsets to look at, and how far the search is."""

    def __init__(self, first: int, end: int, at: int):
        self.first, self.end = first, end
        self.reached = min(max(at, first), end)
        """Up to here offsets were looked at; newest first, down to here."""
        self.matches: list[FoundRecord] = []
        """In the order of the search."""
        self.shown = 0
        """How many of them the result has."""

    def left(self, newest_first: bool) -> int:
        """Returns how many offsets are not looked at."""
        return self.reached - self.first if newest_first else self.end - self.reached

    def window(self, size: int, newest_first: bool) -> tuple[int, int]:
        """Returns the next offsets to look at."""
        if newest_first:
            return max(self.first, self.reached - size), self.reached
        return self.reached, min(self.end, self.reached + size)


class _Search:
    """The state of a search. Rounds look at a window of each partition; in the end matches are merged by
    time.
    """

    def __init__(
        self, consumer: BoundedConsumer, request: SearchRequest, decoder: ValueDecoder, limits: SearchLimits
    ):
        self._consumer = consumer
        self._request = request
        self._newest = request.newest_first
        self._matcher = Matcher(request.wanted, decoder)
        self._limits = limits
        self._begun = time.monotonic()
        self._records = 0
        self._bytes = 0
        self._total = 0

    def run(self) -> SearchResult:
        sides = self._sides()
        stopped, size = "", max(1, FIRST_ROUND_OFFSETS // max(len(sides), FIRST_ROUND_SHARES))
        while not (stopped := self._enough(sides)):
            left = {p: side for p, side in sides.items() if side.left(self._newest)}
            if not left:
                break
            begun = time.monotonic()
            looked_at, moved = self._round(left, size)
            if not moved:
                stopped = self._limit() or "time"
                break
            size = self._next_size(size, looked_at, len(left), begun)
        found = self._merged(sides)
        cursor = {p.partition: self._next(side) for p, side in sides.items()}
        looked_at = sum(
            s.end - cursor[p.partition] if self._newest else cursor[p.partition] - s.first
            for p, s in sides.items()
        )
        done = looked_at == self._total
        return SearchResult(
            found, looked_at, self._total, self._records, self._bytes, time.monotonic() - self._begun,
            None if done else cursor, "" if done else stopped, self._matcher.undecoded,
        )  # fmt: skip

    def _enough(self, sides: dict[TopicPartition, _Side]) -> str:
        matches = [match for side in sides.values() for match in side.matches]
        if len(matches) >= self._request.count:
            return "count"
        kept = sum(len(match.record.value or b"") for match in matches)
        return "bytes" if kept >= self._limits.total_kept_bytes else self._limit()

    def _limit(self) -> str:
        """Returns the limit that is reached, "" for none."""
        if time.monotonic() - self._begun >= self._limits.seconds:
            return "time"
        if self._bytes >= self._limits.bytes:
            return "bytes"
        return "records" if self._records >= self._limits.records else ""

    def _is_overtime(self) -> bool:
        return time.monotonic() - self._begun >= self._limits.seconds * OVERTIME

    # ------------------------------------------------------------ where to look

    def _sides(self) -> dict[TopicPartition, _Side]:
        request, consumer = self._request, self._consumer
        every = consumer.partitions_for(request.topic, TOPIC_S)
        missing = sorted(set(request.partitions) - {p.partition for p in every})
        if missing:
            raise ConfigError(
                f"topic {request.topic!r} has partitions 0 to {len(every) - 1}, not {missing[0]}"
            )
        chosen = [p for p in every if not request.partitions or p.partition in request.partitions]
        first, end = consumer.beginning_offsets(chosen), consumer.end_offsets(chosen)
        self._bound(chosen, first, end)
        sides = {}
        for place in chosen:
            begin = end[place] if self._newest else first[place]
            if request.cursor is not None:
                # What the cursor does not name was read, or came later.
                begin = request.cursor.get(place.partition, first[place] if self._newest else end[place])
            sides[place] = _Side(first[place], end[place], begin)
        self._total = sum(side.end - side.first for side in sides.values())
        return sides

    def _bound(
        self,
        chosen: list[TopicPartition],
        first: dict[TopicPartition, int],
        end: dict[TopicPartition, int],
    ) -> None:
        """Narrows the offsets to the start of the request."""
        request = self._request
        if request.start == "first":
            return
        if request.start == "time":
            times = self._consumer.offsets_for_times(dict.fromkeys(chosen, max(request.at, 0)))
            starts = {p: answer.offset for p, answer in times.items() if answer is not None}
        else:
            starts = dict.fromkeys(chosen, request.at + 1 if self._newest else request.at)
        bounds = end if self._newest else first
        for place in chosen:
            bounds[place] = min(max(starts.get(place, end[place]), first[place]), end[place])

    # ------------------------------------------------------------ reading

    def _next_size(self, size: int, looked_at: int, partitions: int, begun: float) -> int:
        """Returns how many offsets of each partition to look at next, by the size of those looked at since
        `begun`, and by the pace.
        """
        mean = max(self._bytes / max(self._records, 1), self._bytes / max(looked_at, 1) / 8, 1.0)
        # A round that the limit of time ends is lost, newest first: rounds are a fraction of it.
        pace = looked_at / max(time.monotonic() - begun, 0.001) * self._limits.seconds * ROUND_SHARE
        most = min(ROUND_OFFSETS_MAX, int(ROUND_BYTES / mean), int(pace)) // partitions
        return max(1, min(size * 8, most))

    def _round(self, left: dict[TopicPartition, _Side], size: int) -> tuple[int, bool]:
        """Looks at the next window of each partition; returns how many offsets they have, and whether any
        was looked at. A limit ends the round; newest first, only windows that were read to their ends count.
        Where none was, one partition's next offset is read, with more time.
        """
        windows = {p: side.window(size, self._newest) for p, side in left.items()}
        moved = self._read(windows, left)
        if not moved:
            place, side = next(iter(left.items()))
            windows = {place: side.window(1, self._newest)}
            moved = self._read(windows, left, patient=True)
        return sum(end - start for start, end in windows.values()), moved

    def _read(
        self,
        windows: dict[TopicPartition, tuple[int, int]],
        sides: dict[TopicPartition, _Side],
        *,
        patient: bool = False,
    ) -> bool:
        """Reads windows; returns whether any offset was looked at."""
        consumer, matches = self._consumer, self._matcher.matches
        consumer.restrict(windows)
        bounds = {p.partition: bounds for p, bounds in windows.items()}
        count = self._request.count
        # Newest first, the last matches of a window are wanted; oldest first, the first ones.
        kept: dict[int, deque[FoundRecord]] = {
            p.partition: deque(maxlen=count if self._newest else None) for p in windows
        }
        ends = self._is_overtime if patient else self._limit
        while consumer.unread and not ends():
            for record in consumer.poll(POLL_S, max_records=POLL_RECORDS):
                start, end = bounds[record.partition]
                if not start <= record.offset < end:
                    continue
                self._records += 1
                value, key = record.value, record.key
                self._bytes += (len(value) if value else 0) + (len(key) if key else 0)
                if matches(record):
                    found = kept[record.partition]
                    if self._newest or len(found) <= count:
                        found.append(cut_record(record, self._limits.kept_bytes))
        unread = set(consumer.unread)
        moved = False
        for place, (start, end) in windows.items():
            if not self._newest:
                reached = min(consumer.position(place), end)
            else:
                reached = end if place in unread else start
            moved = moved or reached != sides[place].reached
            self._settle(sides[place], reached, kept[place.partition])
        return moved

    def _settle(self, side: _Side, reached: int, kept: deque[FoundRecord]) -> None:
        """Takes the matches of a window."""
        count = self._request.count
        if not self._newest:
            side.matches += kept
            side.reached = reached
            if len(kept) > count:  # it had more: the search goes on there
                side.reached = side.matches.pop().record.offset
        elif reached < side.reached:
            side.matches += reversed(kept)
            side.reached = kept[0].record.offset if len(kept) == count else reached

    # ------------------------------------------------------------ the result

    def _merged(self, sides: dict[TopicPartition, _Side]) -> list[FoundRecord]:
        """Takes as many matches as are wanted, by time; within a partition in the order of offsets."""
        sign = -1 if self._newest else 1
        heads = [
            (sign * side.matches[0].record.timestamp, place.partition, side)
            for place, side in sides.items()
            if side.matches
        ]
        heapq.heapify(heads)
        found: list[FoundRecord] = []
        while heads and len(found) < self._request.count:
            _, number, side = heads[0]
            found.append(side.matches[side.shown])
            side.shown += 1
            if side.shown < len(side.matches):
                heapq.heapreplace(heads, (sign * side.matches[side.shown].record.timestamp, number, side))
            else:
                heapq.heappop(heads)
        return found

    def _next(self, side: _Side) -> int:
        """Returns where the next search goes on."""
        if side.shown == len(side.matches):
            return side.reached
        return side.matches[side.shown].record.offset + (1 if self._newest else 0)


def cut_record(record: Record, size: int) -> FoundRecord:
    """Returns a record with at most `size` bytes of its value and key."""
    value, key = record.value, record.key
    sizes = (-1 if value is None else len(value), -1 if key is None else len(key))
    if max(sizes) > size:
        record = record._replace(
            value=None if value is None else value[:size], key=None if key is None else key[:size]
        )
    return FoundRecord(record, *sizes)
