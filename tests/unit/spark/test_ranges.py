"""How ranges are shared among tasks and batches."""

from hypothesis import given
from hypothesis import strategies as st

from bowstring.clients.records import TopicPartition
from bowstring.spark.ranges import OffsetRange, rate_limit, split

ranges = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 10_000)), min_size=1, max_size=8).map(
    lambda pairs: [OffsetRange("t", n, start, start + size) for n, (start, size) in enumerate(pairs)]
)


def offsets(found):
    return sorted((each.partition, offset) for each in found for offset in range(each.start, each.end))


@given(ranges, st.none() | st.integers(1, 40), st.none() | st.integers(1, 5_000))
def test_split_keeps_every_offset_once(given_ranges, at_least, at_most):
    found = split(given_ranges, at_least, at_most)
    assert all(each.size > 0 for each in found)
    covered = {}
    for each in sorted(found, key=lambda one: (one.partition, one.start)):
        assert each.start == covered.get(each.partition, given_ranges[each.partition].start)
        covered[each.partition] = each.end
    for each in given_ranges:
        assert covered.get(each.partition, each.start) == each.end
    if at_most is not None:
        assert all(each.size <= at_most for each in found)


def test_split_is_what_spark_does():
    one = [OffsetRange("t", 0, 0, 100)]
    assert split(one, None, None) == one
    assert [each.size for each in split(one, 4, None)] == [25, 25, 25, 25]
    # The small one stays whole.
    both = [OffsetRange("t", 0, 0, 1), OffsetRange("t", 1, 0, 100)]
    assert [each.size for each in split(both, 4, None)] == [1, 33, 33, 34]
    assert [each.size for each in split(one, None, 30)] == [25, 25, 25, 25]


@given(ranges, st.integers(1, 20_000))
def test_rate_limit_is_shared_in_proportion(given_ranges, limit):
    start = {TopicPartition(each.topic, each.partition): each.start for each in given_ranges}
    end = {TopicPartition(each.topic, each.partition): each.end for each in given_ranges}
    found = rate_limit(limit, start, end)
    taken = {partition: found[partition] - start[partition] for partition in start}
    total = sum(end[p] - start[p] for p in start)
    assert all(0 <= taken[p] <= end[p] - start[p] for p in start)
    assert all(taken[p] > 0 for p in start if end[p] > start[p])
    assert sum(taken.values()) <= max(limit, len(start)) + len(start)
    if limit >= total:
        assert found == end


def test_rate_limit_leaves_partitions_without_a_start():
    assert rate_limit(5, {}, {TopicPartition("t", 0): 10}) == {TopicPartition("t", 0): 10}
