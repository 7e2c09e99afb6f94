"""Placement over racks: nothing twice, leaders on live brokers, load and racks spread."""

import random
from collections import Counter
from typing import Any

import pytest

from bowstring.engine.metadata.image import BrokerImage
from bowstring.engine.metadata.replica_placer import NoRandomness, StripedReplicaPlacer
from bowstring.protocol.errors import Errors, KafkaError


def broker(id: int, rack: str | None = None, **fields) -> BrokerImage:
    facts: dict[str, Any] = {"fenced": False, "directories": (bytes([id]) * 16,)} | fields
    return BrokerImage(id, 0, b"", (), rack, **facts)


def places(brokers, partitions: int, factor: int, seed: int = 0) -> list[tuple[int, ...]]:
    placer = StripedReplicaPlacer(brokers, random.Random(seed))
    return [placer.place(factor) for _ in range(partitions)]


def test_racks_take_turns():
    brokers = [broker(id, rack) for id, rack in enumerate("AAABBBCCC")]
    placer = StripedReplicaPlacer(brokers, NoRandomness())
    assert [placer.place(3) for _ in range(3)] == [(0, 3, 6), (4, 7, 1), (8, 2, 5)]


@pytest.mark.parametrize("seed", range(20))
def test_leaders_are_spread_over_racks_and_replicas_over_brokers(seed):
    brokers = [broker(id, "ABC"[id % 3]) for id in range(9)]
    made = places(brokers, 90, 3, seed)
    assert Counter(each[0] % 3 for each in made) == {0: 30, 1: 30, 2: 30}
    assert set(Counter(id for replicas in made for id in replicas).values()) == {30}
    for replicas in made:
        assert {id % 3 for id in replicas} == {0, 1, 2}
    assert len(set(made)) > 9


@pytest.mark.parametrize("seed", range(20))
def test_random_clusters(seed):
    chance = random.Random(seed)
    brokers = [
        broker(id, chance.choice([None, "A", "B", "C"]), fenced=chance.random() < 0.3) for id in range(1, 9)
    ]
    live = {each.id for each in brokers if not each.fenced}
    if not live:
        return
    for factor in range(1, 9):
        for replicas in places(brokers, 20, factor, seed):
            assert len(set(replicas)) == len(replicas) == factor
            assert replicas[0] in live


def test_fenced_brokers_come_last():
    brokers = [broker(1), broker(2, fenced=True), broker(3)]
    for replicas in places(brokers, 10, 2):
        assert set(replicas) == {1, 3}
    for replicas in places(brokers, 10, 3):
        assert replicas[2] == 2


def test_one_live_broker_leads_everything():
    assert places([broker(1), broker(2, fenced=True)], 5, 2) == [(1, 2)] * 5


def test_brokers_that_stop_or_have_no_room_are_left_out():
    brokers = [
        broker(1),
        broker(2, in_controlled_shutdown=True),
        broker(3, cordoned=(bytes([3]) * 16,)),
        broker(4, cordoned=(b"another directory",)),
    ]
    assert {id for replicas in places(brokers, 10, 2) for id in replicas} == {1, 4}
    with pytest.raises(KafkaError) as caught:
        places(brokers, 1, 3)
    assert caught.value.error is Errors.INVALID_REPLICATION_FACTOR


def test_nothing_is_placed_without_a_live_broker():
    with pytest.raises(KafkaError) as caught:
        places([broker(1, fenced=True)], 1, 1)
    assert caught.value.error is Errors.INVALID_REPLICATION_FACTOR
