"""Rates out of end offsets, and which partitions are looked at."""

from bowstring.clients.records import TopicPartition
from bowstring.console.activity import Activity, GroupTotals
from bowstring.console.throughput import PARTITIONS_MAX, Throughput

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_rates_are_differences():
    rates = Throughput()
    rates.observe({A0: 100, A1: 0, B0: 5}, at=10.0)
    assert rates.total() is None
    rates.observe({A0: 300, A1: 10}, at=12.0)
    assert rates.of_partition(A0) == 100.0
    assert rates.of_topic("a") == rates.total() == 105.0
    assert rates.of_topic("b") is None
    rates.observe({A0: 1}, at=14.0)
    assert rates.of_topic("a") == 5.0, "the topic was created again"
    rates.keep({"b"})
    assert rates.total() is None


def test_of_many_partitions_the_busy_ones_and_a_part_of_the_others_are_looked_at():
    rates = Throughput()
    leaders = [TopicPartition("t", number) for number in range(5 * PARTITIONS_MAX)]
    rates.observe(dict.fromkeys(leaders[-2:], 0), at=0.0)
    rates.observe(dict.fromkeys(leaders[-2:], 50), at=1.0)
    seen = set()
    for _ in range(6):
        chosen = rates.choose(leaders)
        assert len(chosen) <= PARTITIONS_MAX
        assert set(leaders[-2:]) <= set(chosen)
        seen |= set(chosen)
    assert seen == set(leaders)


def test_records_out_are_what_groups_committed():
    activity = Activity()
    activity.observe(None, GroupTotals(1, 1, 10, {("g", A0): 100}), at=10.0)
    activity.observe(7.0, GroupTotals(1, 1, 5, {("g", A0): 140}), at=12.0)
    assert activity.records_out == 20.0
    assert activity.points("lag") == [(10.0, 10), (12.0, 5)]
