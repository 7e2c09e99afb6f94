"""Hypothesis strategies for records, batches and rules."""

from hypothesis import strategies as st

from tests.support.reference_batch import Batch, Rules

NOW_MS = 1_700_000_000_000

keys = st.none() | st.binary(max_size=80)
values = st.none() | st.binary(max_size=80) | st.integers(100, 20000).map(lambda n: b"v" * n)
timestamps = st.integers(NOW_MS - 10**9, NOW_MS + 3_000_000) | st.just(-1) | st.integers(0, 10)
headers = st.lists(
    st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=90)), max_size=4
).map(tuple)  # fmt: skip
records = st.tuples(keys, values, timestamps, st.just(()) | headers)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
batches = st.builds(
    Batch,
    st.lists(records, min_size=1, max_size=20).map(tuple),
    leader_epoch=int32,
    producer_id=st.just(-1),
) | st.builds(
    Batch,
    st.lists(records, min_size=1, max_size=5).map(tuple),
    attributes=st.sampled_from([0, 0x10]),
    producer_id=st.integers(0, (1 << 63) - 1),
    producer_epoch=st.integers(0, (1 << 15) - 1),
    base_sequence=st.integers(0, (1 << 31) - 1),
)
rules = st.builds(
    Rules,
    max_message_bytes=st.sampled_from([100, 1000, 1048588]),
    key_required=st.booleans(),
    log_append_time=st.booleans(),
    timestamp_before_max_ms=st.sampled_from([0, 10**8, (1 << 63) - 1]),
    timestamp_after_max_ms=st.sampled_from([0, 3600000, (1 << 63) - 1]),
)
