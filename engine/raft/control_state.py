"""Follows the control records of the log: the voters and kraft.version, by offset, so that truncation undoes
them.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

from bowstring._native.protocol.message_codec import decode, encode
from bowstring._native.record.decode import batch_headers, decode_batches
from bowstring._native.record.types import BatchHeader, Record
from bowstring.engine.raft.keys import OffsetAndEpoch, ReplicaKey
from bowstring.engine.raft.log import RaftLog
from bowstring.engine.raft.voters import VoterSet
from bowstring.protocol.records.control import KRaftVersionRecord, VotersRecord
from bowstring.protocol.records.control_batch import ControlRecordType, decode_control_key, encode_control_key
from bowstring.protocol.schema import Message

V = TypeVar("V")

_READ_BYTES: Final = 4 * 1024 * 1024
_RECONFIGURATION: Final = 1
"""The kraft.version from which on voters are in the log."""


def control_record(kind: ControlRecordType, value: Message, version: int = 0) -> tuple[bytes, bytes]:
    """Returns key and value of a control record."""
    return encode_control_key(kind), encode(value, version)


class LogHistory(Generic[V]):
    """Values with the offsets of the records that set them, oldest first."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, V]] = []

    def add(self, offset: int, value: V) -> None:
        """Adds the value of a later record."""
        if self._entries and self._entries[-1][0] == offset:
            self._entries.pop()  # a snapshot has all its records at one offset
        assert not self._entries or offset > self._entries[-1][0], f"{offset} after {self._entries}"
        self._entries.append((offset, value))

    def last(self) -> tuple[int, V] | None:
        """The latest offset and value."""
        return self._entries[-1] if self._entries else None

    def newest_first(self) -> Iterator[tuple[int, V]]:
        """Offsets and values."""
        return reversed(self._entries)

    def at(self, offset: int) -> V | None:
        """The value in force after the record at `offset`."""
        return next((value for start, value in reversed(self._entries) if start <= offset), None)

    def truncate_new(self, end_offset: int) -> None:
        """Removes what records from `end_offset` on have set."""
        while self._entries and self._entries[-1][0] >= end_offset:
            self._entries.pop()

    def truncate_old(self, start_offset: int) -> None:
        """Removes entries replaced at or before `start_offset`."""
        while len(self._entries) > 1 and self._entries[1][0] <= start_offset:
            self._entries.pop(0)

    def clear(self) -> None:
        """Removes everything."""
        self._entries.clear()


class ControlState:
    """The voters and kraft.version that the log and its newest snapshot set. A record counts from its append
    on.
    """

    def __init__(self, configured: VoterSet) -> None:
        self._configured = configured
        self._voters = LogHistory[VoterSet]()
        self._versions = LogHistory[int]()
        self._next_offset = 0

    # ------------------------------------------------------------ current values

    @property
    def voters(self) -> VoterSet:
        """The latest voters: those in the log, otherwise the configured ones."""
        last = self._voters.last()
        return self._configured if last is None else last[1]

    @property
    def voters_offset(self) -> int | None:
        """Offset of the record with the latest voters; -1 when they are from the bootstrap snapshot, None
        when they are configured.
        """
        last = self._voters.last()
        return None if last is None else last[0]

    def left_at(self, key: ReplicaKey) -> int | None:
        """Returns the offset of the record since which a replica is no voter; None when it is one, and when
        it is not among any of the voters that are remembered.
        """
        left: int | None = None
        for offset, voters in self._voters.newest_first():
            if voters.is_voter(key):
                return left
            left = offset
        return None

    @property
    def kraft_version(self) -> int:
        """The latest kraft.version."""
        last = self._versions.last()
        return 0 if last is None else last[1]

    @property
    def can_reconfigure(self) -> bool:
        """Whether voters are in the log and can be changed."""
        return self.kraft_version >= _RECONFIGURATION

    def snapshot_records(self, id: OffsetAndEpoch) -> list[tuple[bytes, bytes]]:
        """Returns the control records that a snapshot must have after its header."""
        last = id.offset - 1
        version, voters = self._versions.at(last), self._voters.at(last)
        if not version or voters is None:
            return []
        return [
            control_record(
                ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(version=0, kraft_version=version)
            ),
            control_record(ControlRecordType.KRAFT_VOTERS, voters.to_record()),
        ]

    # ------------------------------------------------------------ following the log

    def load(self, log: RaftLog) -> None:
        """Reads the newest snapshot and the log after it."""
        self._voters.clear()
        self._versions.clear()
        self._next_offset = log.start_offset
        id = log.latest_snapshot_id()
        if id is not None:
            size = log.snapshot_size(id)
            assert size is not None, id
            self._apply(decode_batches(log.read_snapshot(id, 0, size)), id.offset - 1)
            self._next_offset = max(id.offset, log.start_offset)
        while self._next_offset < log.end_offset:
            data = log.read(self._next_offset, _READ_BYTES)
            self.batches_appended(data, batch_headers(data))

    def batches_appended(self, data: bytes, headers: list[BatchHeader]) -> None:
        """Applies the control records of batches that were appended."""
        if any(header.control for header in headers):
            self._apply(each for each in decode_batches(data) if each.offset >= self._next_offset)
        self._next_offset = headers[-1].last_offset + 1

    def truncated(self, end_offset: int) -> None:
        """Reverts the values that the removed records had set."""
        self._voters.truncate_new(end_offset)
        self._versions.truncate_new(end_offset)
        self._next_offset = min(self._next_offset, end_offset)

    def snapshot_created(self, id: OffsetAndEpoch) -> None:
        """Forgets what no snapshot from `id` on needs."""
        self._voters.truncate_old(id.offset - 1)
        self._versions.truncate_old(id.offset - 1)

    def _apply(self, records: Iterable[Record], offset: int | None = None) -> None:
        for record in records:
            if not record.control:
                continue
            at = record.offset if offset is None else offset
            kind = decode_control_key(record.key or b"")
            if kind is ControlRecordType.KRAFT_VOTERS:
                self._voters.add(at, VoterSet.from_record(decode(VotersRecord, 0, record.value or b"")))
            elif kind is ControlRecordType.KRAFT_VERSION:
                self._versions.add(at, decode(KRaftVersionRecord, 0, record.value or b"").kraft_version)
