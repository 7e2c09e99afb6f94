"""Power fails at any moment of a compaction: the log opens, and every key has its newest record."""

import pytest

from tests.simulation.disk.crashes import scratch
from tests.simulation.disk.disk import Disk, put_tree
from tests.simulation.disk.medium import SYSTEMATIC, Note, random_outcome
from tests.support.compacted_logs import clean, compacted, newest, put, records_of
from tests.support.log_batches import NOW_MS

NAME = "table-0"
SEGMENT_BYTES = 900


@pytest.fixture(scope="module")
def compaction():
    """(the disk with the trace of it, newest record of each key, log end): segments alone and in groups."""
    with scratch() as root:
        log = compacted(root / NAME, segment_bytes=SEGMENT_BYTES)
        for i in range(14):
            pairs = [(b"key%d" % (i % 3), b"%d" % i * 40), (b"only%d" % i, None if i % 4 == 1 else b"v")]
            put(log, pairs, timestamp=NOW_MS + i)
            if i % 2:
                log.roll()
        log.close()
        log = compacted(root / NAME, segment_bytes=SEGMENT_BYTES)
        log.advance_high_watermark(log.log_end_offset)
        wanted, end = newest(records_of(log)), log.log_end_offset
        disk = Disk(root)
        with disk.watched():
            removed = clean(log)["removed_segments"]
            log.delete_expired_files(NOW_MS + 1)
        assert 0 < removed < len(wanted) and newest(records_of(log)) == wanted
        return disk, wanted, end


@pytest.mark.parametrize(
    "outcome", [*SYSTEMATIC, *(random_outcome(seed) for seed in range(12))], ids=lambda outcome: outcome.name
)
def test_every_moment(compaction, outcome):
    disk, wanted, end = compaction
    medium = disk.medium()
    for moment, event in enumerate([*disk.trace, None]):
        if isinstance(event, Note):
            continue
        with scratch() as root:
            put_tree(root, medium.image(outcome, moment, event))
            log = compacted(root / NAME, segment_bytes=SEGMENT_BYTES, clean=False, recovery_point=end)
            log.advance_high_watermark(log.log_end_offset)
            assert log.log_end_offset == end
            assert newest(records_of(log)) == wanted, f"before {event!r:.200}, moment {moment}"
            clean(log)
            assert newest(records_of(log)) == wanted
            log.close()
        if event is not None:
            medium.apply(event)
