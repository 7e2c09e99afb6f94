"""What a large cluster takes: partitions are kept as numbers, in few bytes each."""

import asyncio
import tracemalloc
from collections import Counter

import bowstring
from bowstring.clients.admin.results import LogDir, ReplicaSize
from bowstring.clients.records import PartitionInfo, TopicInfo, TopicPartition
from bowstring.console import cluster_access
from bowstring.console.answer_size import answer_size
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.cluster_facts import SizeSums, has_all_topics, read_topics
from bowstring.console.cluster_summary import summarize
from bowstring.console.options import ConsoleOptions
from bowstring.console.partition_list import PartitionList
from bowstring.console.sessions import Sessions
from bowstring.console.throughput import Throughput
from tests.support.waiting import wait_until

TOPICS, PARTITIONS = 1000, 10
BYTES_EACH = 60
"""Of a partition, with its share of its topic."""


def kept_bytes(make):
    """Returns the memory of what `make` returns."""
    tracemalloc.start()
    try:
        made = make()
        return made, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def names():
    return [f"topic-{number:05d}" for number in range(TOPICS)]


def test_rates_take_few_bytes():
    wanted = names()

    def make():
        rates = Throughput()
        for at in (10.0, 12.0):
            for name in wanted:
                rates.observe({TopicPartition(name, number): int(at) for number in range(PARTITIONS)}, at=at)
        return rates

    rates, size = kept_bytes(make)
    assert rates.known() == TOPICS * PARTITIONS
    assert size < BYTES_EACH * 2 * TOPICS * PARTITIONS


def test_the_summary_takes_few_bytes():
    infos = [PartitionInfo(number, 1, 0, (1,), (1,), ()) for number in range(PARTITIONS)]
    topics = {name: TopicInfo(name, b"", False, dict(enumerate(infos))) for name in names()}
    summary, size = kept_bytes(lambda: summarize(topics))
    assert len(summary.leaders) == summary.partitions == TOPICS * PARTITIONS
    assert size < BYTES_EACH * TOPICS * PARTITIONS


def sizes_from(brokers):
    sums = SizeSums()
    for broker, directories in brokers:
        sums.add(broker, directories)
    return sums.sizes("")


def test_sizes_take_few_bytes_and_are_those_of_the_largest_replica():
    def directory(path, size, is_future=False):
        replicas = {
            TopicPartition(name, number): ReplicaSize(size, 0, is_future)
            for name in names()
            for number in range(PARTITIONS)
        }
        return LogDir(path, 100, 50, replicas, None)

    brokers = {1: [directory("/a", 7), directory("/b", 9, True)], 2: [directory("/a", 5)]}
    sizes, size = kept_bytes(lambda: sizes_from(iter(brokers.items())))
    assert size < BYTES_EACH * TOPICS * PARTITIONS
    assert sizes.topics["topic-00000"] == 7 * PARTITIONS
    assert sizes.of_partition(TopicPartition("topic-00001", 3)) == 7
    assert sizes.of_partition(TopicPartition("topic-00001", PARTITIONS)) is None
    assert sizes.of_partition(TopicPartition("absent", 0)) is None
    assert [(each.path, each.replicas, each.size_bytes) for each in sizes.by_broker[1]] == [
        ("/a", TOPICS * PARTITIONS, 7 * TOPICS * PARTITIONS),
        ("/b", TOPICS * PARTITIONS, 9 * TOPICS * PARTITIONS),
    ]


def test_sizes_may_come_in_pieces():
    def directory(number, size):
        replicas = {TopicPartition("topic", number): ReplicaSize(size, 0, False)}
        return LogDir("/a", 100, 50, replicas, None)

    sizes = sizes_from([(1, [directory(0, 3)]), (2, [directory(1, 5)]), (1, [directory(1, 4)])])
    assert [(each.replicas, each.size_bytes) for each in sizes.by_broker[1]] == [(2, 7)]
    assert sizes.by_broker[2][0].size_bytes == 5
    assert sizes.topics == {"topic": 3 + 5}


def test_a_list_of_partitions_is_a_sequence():
    made = PartitionList()
    expected = [TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)]
    for each in expected:
        made.add(*each)
    assert list(made) == made[:] == expected
    assert made[1:] == expected[1:]
    assert made[-1] == expected[-1]
    assert len(made) == 3


def test_the_size_of_an_answer_is_estimated_by_samples():
    flat = [bytes(1000) for _ in range(10_000)]
    assert 8_000_000 < answer_size(flat) < 13_000_000
    nested = {name: [TopicPartition(name, number) for number in range(PARTITIONS)] for name in names()}
    assert 500_000 < answer_size(nested) < 3_000_000
    assert answer_size(None) < 100


def test_what_parts_share_counts_once():
    info = PartitionInfo(0, 1, 0, (1,), (1,), ())
    alike = [PartitionInfo(0, 1, 0, (1,), (1,), ()) for _ in range(1000)]
    assert answer_size([info] * 1000) < answer_size(alike) / 3


def test_topics_that_have_not_changed_are_not_kept_twice():
    with bowstring.Broker() as broker, bowstring.Admin(broker.bootstrap_servers) as admin:
        assert not has_all_topics(admin)
        admin.create_topic("same", 2)
        first = read_topics(admin)
        admin.create_partitions({"same": 3})
        admin.create_topic("other")
        wait_until(lambda: len(read_topics(admin)["same"].partitions) == 3)
        second, third = read_topics(admin), read_topics(admin)
        assert first["same"] != second["same"] and has_all_topics(admin)
        assert all(third[name] is topic for name, topic in second.items())


def test_answers_are_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(cluster_access, "ANSWERS_BYTES_MAX", 100_000)
    options = ConsoleOptions("127.0.0.1:1")
    sessions = Sessions(options)
    calls = Counter()

    async def look():
        access = ClusterAccess(options, None, None, sessions.threads)

        async def ask(key, size):
            async def find():
                calls[key] += 1
                return bytes(size)

            await access.cached(key, 60.0, find)

        await ask("used", 10_000)
        for number in range(50):
            await ask(number, 20_000)
            await ask("used", 10_000)
        await ask(49, 20_000)
        await ask(0, 20_000)
        access.close()

    asyncio.run(look())
    sessions.close()
    assert calls["used"] == 1, "what is used stays"
    assert calls[49] == 1
    assert calls[0] == 2, "what nobody used for long is dropped"
