"""The assignors: balanced, sticky, and complete."""

import random

import pytest

from bowstring.engine.groups.consumer import range_assignor, uniform_assignor
from bowstring.engine.groups.consumer.assignors import enabled_assignors
from bowstring.engine.groups.modern.assignor import MemberSpec
from tests.support.consumer_group_harness import ConsumerShell, Member

TOPICS = {bytes([number]) * 16: count for number, count in enumerate((7, 3, 1, 12))}


def specs(subscriptions, assigned=None, instances=None):
    return {
        name: MemberSpec((instances or {}).get(name), frozenset(topics), (assigned or {}).get(name, {}))
        for name, topics in subscriptions.items()
    }


def loads(result):
    return sorted(sum(map(len, assignment.values())) for assignment in result.values())


def check(result, members):
    owners = [(t, i) for assignment in result.values() for t, indexes in assignment.items() for i in indexes]
    wanted = {t for spec in members.values() for t in spec.topics}
    assert sorted(owners) == sorted((t, i) for t in wanted for i in range(TOPICS[t]))
    assert set(result) == set(members)
    for name, assignment in result.items():
        assert set(assignment) <= members[name].topics
        assert all(assignment.values())


@pytest.mark.parametrize("count", range(1, 30))
def test_uniform_balances_and_keeps(count):
    members = specs({f"m{number}": TOPICS for number in range(count)})
    result = uniform_assignor.assign(members, TOPICS)
    check(result, members)
    assert loads(result)[-1] - loads(result)[0] <= 1
    again = uniform_assignor.assign(specs(dict.fromkeys(members, TOPICS), result), TOPICS)
    assert again == result
    # one more member takes only what it must have
    more = specs(dict.fromkeys((*members, "new"), TOPICS), result)
    grown = uniform_assignor.assign(more, TOPICS)
    check(grown, more)
    assert loads(grown)[-1] - loads(grown)[0] <= 1
    moved = sum(
        len(result[n].get(t, frozenset()) - grown[n].get(t, frozenset())) for n in members for t in TOPICS
    )
    assert moved == sum(map(len, grown["new"].values()))


@pytest.mark.parametrize("seed", range(60))
def test_uniform_with_different_subscriptions(seed):
    rng = random.Random(seed)
    subscriptions = {
        f"m{number}": rng.sample(sorted(TOPICS), rng.randint(1, len(TOPICS)))
        for number in range(rng.randint(2, 9))
    }
    members = specs(subscriptions)
    result = uniform_assignor.assign(members, TOPICS)
    check(result, members)
    again = uniform_assignor.assign(specs(subscriptions, result), TOPICS)
    assert loads(again) == loads(result)
    # no partition can move to a member that has two fewer
    counts = {name: sum(map(len, assignment.values())) for name, assignment in result.items()}
    for name, assignment in result.items():
        for topic_id in assignment:
            takers = [other for other in members if topic_id in members[other].topics]
            assert counts[name] - min(counts[other] for other in takers) <= 1
    left = {name: topics for name, topics in subscriptions.items() if name != "m0"}
    rest = specs(left, result)
    check(uniform_assignor.assign(rest, TOPICS), rest)


def test_range_gives_the_same_numbers_of_all_topics():
    topics = {b"a" * 16: 5, b"b" * 16: 5}
    members = specs(dict.fromkeys(("x", "y", "z"), topics), instances={"z": "1"})
    result = range_assignor.assign(members, topics)
    assert result == {
        "z": dict.fromkeys(topics, frozenset({0, 1})),
        "x": dict.fromkeys(topics, frozenset({2, 3})),
        "y": dict.fromkeys(topics, frozenset({4})),
    }


@pytest.mark.parametrize("seed", range(30))
def test_range_with_different_subscriptions(seed):
    rng = random.Random(seed)
    members = specs(
        {f"m{n}": rng.sample(sorted(TOPICS), rng.randint(0, 4)) for n in range(rng.randint(1, 9))}
    )
    check(range_assignor.assign(members, TOPICS), members)


@pytest.mark.parametrize(
    ("configured", "enabled"),
    [
        (["range"], ["range"]),
        (["org.apache.kafka.coordinator.group.assignor.RangeAssignor", "uniform"], ["range", "uniform"]),
        (["com.example.Mine", "range"], ["range"]),
        (["com.example.Mine"], ["uniform", "range"]),
    ],
)
def test_only_assignors_that_are_here_are_enabled(configured, enabled):
    assert enabled_assignors(configured) == enabled
    shell = ConsumerShell(group_consumer_assignors=tuple(configured))
    shell.create("t", 1)
    member = Member(shell, "a", "t")
    assert member.step().error_code == 0
    assert shell.shard.describe_consumer_group("g").assignor_name == enabled[0]
