"""`bowstring topics top`: rates from two looks at a cluster."""

from bowstring.cli.topic_top import Look, rows
from bowstring.clients.records import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_rates_are_of_the_time_between_two_looks():
    before = Look(10.0, {A0: 5, A1: 5, B0: 100}, {"a": 1000, "b": 50}, {"a": 2, "b": 1}, {})
    now = Look(12.0, {A0: 25, A1: 5, B0: 600}, {"a": 3000, "b": 50}, {"a": 2, "b": 1}, {"a": 1})
    first, second = rows(before, now)
    assert (first.topic, first.records, first.bytes, first.size, first.out_of_sync) == ("b", 250, 0, 50, 0)
    assert (second.topic, second.partitions, second.records) == ("a", 2, 10)
    assert (second.bytes, second.size, second.out_of_sync) == (1000, 3000, 1)


def test_what_began_between_two_looks_has_no_rate_yet():
    before = Look(1.0, {}, {}, {}, {})
    now = Look(2.0, {A0: 1_000}, {"a": 64}, {"a": 1}, {})
    assert rows(before, now)[0][1:] == (1, 0, 0, 64, 0)


def test_topics_that_are_made_anew_have_no_negative_rates():
    before = Look(1.0, {A0: 1_000}, {"a": 64_000}, {"a": 1}, {})
    now = Look(2.0, {A0: 10}, {"a": 64}, {"a": 1}, {})
    assert rows(before, now)[0][1:] == (1, 0, 0, 64, 0)


def test_users_who_may_not_see_log_directories_see_records():
    look = Look(1.0, {A0: 1_000}, None, {"a": 1}, {})
    assert rows(look, look)[0][1:] == (1, 0, None, None, 0)


def test_the_command_measures(cli, topic):
    cli("topics", "create", topic)
    cli("produce", topic, stdin=b"x\n" * 100)
    (row,) = cli("topics", "top", topic, "--once", "--interval", 0.2, "--json").json
    assert (row["topic"], row["partitions"], row["out_of_sync"]) == (topic, 1, 0) and row["size"] > 100
