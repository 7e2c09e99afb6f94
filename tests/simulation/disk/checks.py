"""Checks of a partition that is opened after a crash."""

from collections.abc import Iterable, Set
from dataclasses import dataclass

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.record.decode import decode_batches
from tests.simulation.disk.workload import Batch
from tests.support.log_batches import CONTROL, NOW_MS, TRANSACTIONAL, Header, batch, headers

OUT_OF_ORDER_SEQUENCE_NUMBER = 45


@dataclass(frozen=True)
class Seen:
    """A batch as a reader sees it."""

    header: Header
    producer_id: int
    sequence: int
    records: list[tuple[int, int]]  # offset, timestamp

    @property
    def batch(self) -> Batch:
        h = self.header
        return Batch(h.base_offset, h.last_offset, h.leader_epoch, h.data[17:])


def read_all(log: PartitionLog) -> list[Seen]:
    """Returns every batch from the log start on; checks CRCs, and that offsets ascend without gaps to the log's end."""
    found: list[Seen] = []
    position = log.log_start_offset
    while position < log.log_end_offset:
        data = log.read(position, 1 << 16, "log_end")
        assert data, f"nothing at {position} of {log!r}"
        for header in headers(data):
            assert header.base_offset <= position <= header.last_offset, (
                f"{header} where {position} should be"
            )
            producer_id = int.from_bytes(header.data[43:51], "big", signed=True)
            sequence = int.from_bytes(header.data[53:57], "big", signed=True)
            records = [(r.offset, r.timestamp) for r in decode_batches(header.data)]
            found.append(Seen(header, producer_id, sequence, records))
            position = header.last_offset + 1
    assert position == log.log_end_offset
    return found


def check_batches(seen: list[Seen], ever: Set[Batch], owed: Iterable[Batch], log: PartitionLog) -> None:
    """Checks that every batch in the log was appended at its offset, and that every promised batch is in the log."""
    there = {s.batch for s in seen}
    strange = [b for b in there if b not in ever]
    assert not strange, f"{log!r} has batches that nobody appended: {strange[:3]}"
    missing = [b for b in owed if b not in there]
    assert not missing, f"{log!r} has lost {[(b.base, b.last, b.epoch) for b in missing[:5]]}"


def check_epochs(seen: list[Seen], log: PartitionLog, start: int) -> None:
    """Checks that the leader-epoch cache agrees with the header of every batch from `start` on."""
    for s in seen:
        if s.header.base_offset < start:
            continue  # deleted, but the log start is not checkpointed yet: its epochs may be missing
        found = log.epoch_for_offset(max(s.header.base_offset, log.log_start_offset))
        assert found == s.header.leader_epoch, f"{s.header.base_offset} of {log!r}: epochs {log.epochs()}"
    starts = log.epochs()
    assert starts == sorted(starts) and all(start <= log.log_end_offset for _, start in starts)


def check_searches(seen: list[Seen], log: PartitionLog) -> None:
    """Checks searches for every offset, and for every timestamp and the next one."""
    first = log.log_start_offset
    for s in seen:
        for offset in range(max(s.header.base_offset, first), s.header.last_offset + 1):
            assert headers(log.read(offset, 1, "log_end"))[0].base_offset == s.header.base_offset
    log.advance_high_watermark(log.log_end_offset)
    records = [r for s in seen if not s.header.attributes & CONTROL for r in s.records if r[0] >= first]
    for timestamp in {t + d for _, t in records for d in (0, 1)}:
        wanted = next(((t, o) for o, t in records if t >= timestamp), None)
        found = log.offset_for_timestamp(timestamp)
        assert (found[:2] if found else None) == wanted, f"timestamp {timestamp} in {log!r}"
    if records and first <= seen[0].header.base_offset == log.segments()[0][0]:  # none are deleted
        largest = max(t for _, t in records)
        found = log.max_timestamp()
        assert found is not None and found[:2] == next((t, o) for o, t in records if t == largest)


def check_transactions(seen: list[Seen], log: PartitionLog, start: int) -> None:
    """Checks that the index has aborted transactions whose marker and first batch exist, and that open ones hold readers back."""
    ongoing: dict[int, int] = {}
    aborted = set()
    for s in seen:
        if s.header.attributes & CONTROL:
            first = ongoing.pop(s.producer_id, None)
            if first is not None and first >= start and not _commits(s):
                aborted.add((s.producer_id, first))
        elif s.header.attributes & TRANSACTIONAL:
            ongoing.setdefault(s.producer_id, s.header.base_offset)
    if seen:
        found = set(log.aborted_transactions(log.log_start_offset, log.log_end_offset))
        # The index keeps the first offset of a transaction that began in deleted records.
        lacks = [(p, first) for p, first in aborted if not any(q == p and f <= first for q, f in found)]
        assert not lacks, f"{log!r}: aborted {lacks} are not in the index"
    stable = min([*ongoing.values(), log.log_end_offset])
    assert log.last_stable_offset <= max(stable, log.log_start_offset), f"{log!r}: stable up to {stable}"


def _commits(seen: Seen) -> bool:
    key = next(iter(decode_batches(seen.header.data))).key
    return key is not None and key[3] == 1


def check_producers(seen: list[Seen], log: PartitionLog) -> None:
    """Checks that a producer's last batch is detected as a duplicate, a gap is refused, and the next batch is accepted."""
    newest = {s.producer_id: s for s in seen if s.producer_id >= 0 and not s.header.attributes & CONTROL}
    known = {p[0]: p for p in log.active_producers()}
    for producer_id, s in newest.items():
        assert producer_id in known, f"{log!r} has forgotten producer {producer_id}"
        last = s.sequence + s.header.last_offset - s.header.base_offset
        assert known[producer_id][2] == last, (
            f"{log!r}: producer {known[producer_id]}, its last sequence {last}"
        )
        assert log.append(s.header.data, 0, NOW_MS) == s.header.base_offset, "a duplicate was appended"
        after = {"producer_id": producer_id, "epoch": 0, "attributes": s.header.attributes & TRANSACTIONAL}
        try:
            log.append(batch([b"gap"], sequence=last + 2, **after), log.leader_epoch, NOW_MS)
        except LogError as error:
            assert error.code == OUT_OF_ORDER_SEQUENCE_NUMBER
        else:
            raise AssertionError(f"{log!r} took a gap of producer {producer_id}")
        end = log.log_end_offset
        assert (
            log.append(batch([b"next"], sequence=last + 1, **after), max(log.leader_epoch, 0), NOW_MS) == end
        )


def check_log(
    log: PartitionLog, ever: Set[Batch], owed: Iterable[Batch], start: int, *, may_lack_front: bool = False
) -> None:
    """Runs all checks; appends a few more batches to the log.

    Args:
        ever: All batches that were ever appended.
        owed: Batches that must be in the log.
        start: Log start before the crash; the log must not start later.
        may_lack_front: The log may start later, because names are lost in any order.
    """
    assert not log.failed
    assert may_lack_front or log.log_start_offset <= start, f"{log!r} should start at {start} or before"
    seen = read_all(log)
    check_batches(seen, ever, owed, log)
    check_epochs(seen, log, start)
    check_searches(seen, log)
    check_transactions(seen, log, start)
    check_producers(seen, log)
    end = log.log_end_offset
    assert log.append(batch([b"after"]), max(log.leader_epoch, 0), NOW_MS) == end
    assert headers(log.read(end, 1, "log_end"))[0].base_offset == end


def check_clean_restart(log: PartitionLog, config: dict[str, int]) -> None:
    """Checks that a clean stop and start changes nothing."""
    before = (log.log_start_offset, log.log_end_offset, sorted(log.active_producers()), log.epochs())
    log.close(sync=False)
    again = PartitionLog(
        log.directory, config, clean_shutdown=True, recovery_point=before[1], log_start_offset=before[0]
    )
    after = (again.log_start_offset, again.log_end_offset, sorted(again.active_producers()), again.epochs())
    assert after == before, f"{log!r}: {after} after a clean restart, {before} before"
    again.close(sync=False)
