"""Rounds of cleaning over random logs leave exactly what the model leaves: every record and every header."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.compacted_logs import batches_of, clean, compacted, end_transaction, put
from tests.support.compaction_model import ModelLog
from tests.support.log_batches import NOW_MS, TRANSACTIONAL, crash

KEYS = st.one_of(st.none(), st.sampled_from([b"", *(b"key%d" % i for i in range(9))]))
VALUES = st.one_of(st.none(), st.binary(max_size=40))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)
CODECS = st.sampled_from([0, 0, 0, 1, 2, 3, 4])
PLAIN = st.tuples(st.just("plain"), PAIRS, CODECS)
IDEMPOTENT = st.tuples(st.just("idempotent"), PAIRS, CODECS, st.integers(1, 2))
IN_TRANSACTION = st.tuples(st.just("transactional"), PAIRS, CODECS, st.integers(5, 7))
END = st.tuples(st.just("end"), st.integers(5, 7), st.booleans())
STEP = st.one_of(PLAIN, IDEMPOTENT, IN_TRANSACTION, IN_TRANSACTION, END, END)
# What one round appends, how long it then takes until the cleaner comes, and whether the log is opened anew.
ROUND = st.tuples(st.lists(STEP, min_size=1, max_size=25), st.sampled_from([0, 50, 150, 1000]), st.booleans())


class Writer:
    """Carries steps out on a log, with the sequences that its producers are at."""

    def __init__(self) -> None:
        self.sequences: dict[int, int] = {}

    def step(self, log, step) -> None:
        kind, *rest = step
        if kind == "end":
            end_transaction(log, rest[0], abort=rest[1])
            return
        pairs, codec = rest[:2]
        producer = {}
        if kind != "plain":
            sequence = self.sequences.get(rest[2], 0)
            self.sequences[rest[2]] = sequence + len(pairs)
            producer = {"producer_id": rest[2], "epoch": 0, "sequence": sequence}
            if kind == "transactional":
                producer["attributes"] = TRANSACTIONAL
        put(log, pairs, codec=codec, timestamp=NOW_MS + log.log_end_offset * 3, **producer)


def sequences_of(log) -> list[tuple[int, int, int]]:
    """(producer id, epoch, last sequence) of those that wrote records: that is what compaction keeps of them."""
    return [(who, epoch, last) for who, epoch, last, *_ in log.active_producers() if last >= 0]


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(rounds=st.lists(ROUND, min_size=1, max_size=4), segment_bytes=st.sampled_from([300, 900, 4000]))
def test_what_is_left_is_what_the_model_leaves(tmp_path_factory, rounds, segment_bytes):
    directory = tmp_path_factory.mktemp("model") / "model-0"
    log = compacted(directory, segment_bytes=segment_bytes)
    model, writer = ModelLog(), Writer()
    now, dirty, seen = NOW_MS, 0, 0
    for steps, wait_ms, reopen in rounds:
        for step in steps:
            writer.step(log, step)
        log.roll()
        for batch in batches_of(log):
            if batch.base_offset >= seen:
                model.append(batch)
        seen = log.log_end_offset
        end = max((base for base, *_ in log.segments() if base <= log.last_stable_offset), default=0)
        found = clean(log, dirty, now=now, retention_ms=100)
        if end > dirty:
            model.clean(dirty, end, now, 100)
            assert found["end_offset"] == end
        dirty = found["end_offset"]
        assert batches_of(log) == model.batches
        now += wait_ms
        if reopen:
            log.close()
            log = compacted(directory, segment_bytes=segment_bytes)
            log.advance_high_watermark(log.log_end_offset)
            assert batches_of(log) == model.batches
    producers = sequences_of(log)
    crash(log)
    del log
    again = compacted(directory, segment_bytes=segment_bytes, clean=False)
    assert batches_of(again) == model.batches
    assert sequences_of(again) == producers
