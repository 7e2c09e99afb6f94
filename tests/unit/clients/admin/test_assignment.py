"""Plans of replicas: racks, evenness, few moves."""

import random
from collections import Counter

import pytest

from bowstring.clients.admin.assignment import moves, planned
from bowstring.clients.errors import ConfigError
from bowstring.clients.records import TopicPartition


def topic(name, *replicas):
    return {TopicPartition(name, number): each for number, each in enumerate(replicas)}


def loads(plan):
    return Counter(broker for replicas in plan.values() for broker in replicas)


def moved(current, plan):
    return sum(len(each.adding) for each in moves(current, plan))


def test_what_is_even_stays_as_it_is():
    current = topic("t", (1, 2), (2, 3), (3, 1))
    assert planned(current, racks={1: None, 2: None, 3: None}) == current


def test_a_new_broker_gets_its_share_and_no_more_moves():
    current = topic("t", (1, 2), (2, 3), (3, 1), (1, 2), (2, 3), (3, 1))
    plan = planned(current, racks=dict.fromkeys((1, 2, 3, 4)))
    assert sorted(loads(plan).values()) == [3, 3, 3, 3]
    assert moved(current, plan) == 3
    assert max(Counter(each[0] for each in plan.values()).values()) == 2


def test_topics_share_what_moves():
    current = {**topic("a", *[(1,)] * 4), **topic("b", *[(1,)] * 4)}
    plan = planned(current, racks={1: None, 2: None})
    assert Counter(p.topic for p, replicas in plan.items() if replicas == (2,)) == {"a": 2, "b": 2}


def test_without_spread_only_what_must_move_does():
    current = topic("t", (1, 2), (1, 3), (2, 3), (1, 2))
    plan = planned(current, racks={1: None, 2: None, 4: None}, spread=False)
    assert plan == topic("t", (1, 2), (1, 4), (2, 4), (1, 2))


def test_a_replica_that_is_replaced_goes_to_a_free_rack():
    racks = {1: "a", 2: "a", 3: "b", 4: "c"}
    plan = planned(topic("t", (1, 9)), racks=racks, spread=False)
    assert plan == topic("t", (1, 3))


def test_replicas_leave_a_shared_rack():
    racks = {1: "a", 2: "a", 3: "b"}
    plan = planned(topic("t", (1, 2)), racks=racks)
    assert {racks[each] for each in plan[TopicPartition("t", 0)]} == {"a", "b"}


def test_evenness_does_not_cost_racks():
    racks = {1: "a", 2: "a", 3: "a", 4: "b"}
    current = topic("t", (1, 4), (2, 4), (3, 4))
    assert moved(current, planned(current, racks=racks)) == 0


def test_the_replication_factor_rises_and_falls():
    racks = {1: "a", 2: "b", 3: "b"}
    raised = planned(topic("t", (1,), (2,)), racks=racks, replication_factor=2)
    assert all({racks[each] for each in replicas} == {"a", "b"} for replicas in raised.values())
    assert planned(topic("t", (2, 3, 1)), racks=racks, replication_factor=2, spread=False) == topic(
        "t", (2, 1)
    )


def test_too_few_brokers():
    with pytest.raises(ConfigError, match=r"t-0 is to have 2 replicas, but only 1 brokers may have some: 1"):
        planned(topic("t", (1, 2)), racks={1: None})


def test_brokers_that_are_down_keep_their_replicas_and_get_none():
    current = topic("t", (1, 9), (1, 9), (1, 2))
    plan = planned(current, racks={2: None, 3: None}, kept={9: None})
    assert [9 in replicas for replicas in plan.values()] == [True, True, False]
    assert moved(current, plan) == 3


def test_leaders_are_handed_over_through_a_chain():
    """Broker 1 leads all and shares no partition with 3."""
    current = topic("t", (1, 2), (1, 2), (2, 3), (1, 2))
    plan = planned(current, racks={1: None, 2: None, 3: None})
    assert max(Counter(each[0] for each in plan.values()).values()) == 2


@pytest.mark.parametrize("seed", range(20))
def test_random_clusters(seed):
    """Sizes and distinctness hold; racks are used; without racks the numbers differ by at most one."""
    rng = random.Random(seed)
    brokers = range(1, rng.randint(3, 8))
    racks = {each: rng.choice("abc") if seed % 2 else None for each in brokers}
    targets = {each: racks[each] for each in rng.sample(list(brokers), rng.randint(2, len(racks)))}
    size = rng.randint(1, len(targets))
    current = {}
    for name in ("a", "b", "c"):
        current |= topic(name, *[tuple(rng.sample(list(brokers), min(size, len(racks)))) for _ in range(9)])
    plan = planned(current, racks=targets)
    assert plan.keys() == current.keys()
    wanted_racks = min(size, len(set(targets.values())))
    for partition, replicas in plan.items():
        assert len(set(replicas)) == len(replicas) == len(current[partition])
        assert set(replicas) <= targets.keys()
        assert not seed % 2 or len({targets[each] for each in replicas}) == wanted_racks
    if not seed % 2:
        counted = [loads(plan)[each] for each in targets]
        leaders = Counter(replicas[0] for replicas in plan.values())
        led = [leaders[each] for each in targets]
        assert max(counted) - min(counted) <= 1 and max(led) - min(led) <= 1
    assert planned(plan, racks=targets) == plan
