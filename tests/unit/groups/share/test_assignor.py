"""The simple assignor: which member gets which partitions, and which stay."""

import random
from collections import Counter

import pytest

from bowstring.engine.groups.modern.assignor import MemberSpec
from bowstring.engine.groups.share.assignor import assign

A, B = b"a" * 16, b"b" * 16


def specs(members, assigned=None):
    return {
        name: MemberSpec(None, frozenset(topics), (assigned or {}).get(name, {}))
        for name, topics in members.items()
    }


def sizes(found):
    return sorted(sum(map(len, each.values())) for each in found.values())


def sharing(found):
    return Counter(
        (topic, index) for each in found.values() for topic, indexes in each.items() for index in indexes
    )


@pytest.mark.parametrize(
    ("members", "partitions", "expected"),
    [
        (1, 4, [4]),
        (2, 4, [2, 2]),
        (3, 4, [1, 1, 2]),
        (3, 1, [1, 1, 1]),
        (5, 2, [1, 1, 1, 1, 2]),
        (4, 0, [0, 0, 0, 0]),
    ],
)
def test_each_member_gets_its_part(members, partitions, expected):
    found = assign(specs({str(i): [A] for i in range(members)}), {A: range(partitions)})
    assert sizes(found) == expected
    if partitions:
        assert set(sharing(found)) == {(A, index) for index in range(partitions)}
        assert max(sharing(found).values()) <= -(-members // partitions)


def test_members_of_different_topics():
    found = assign(specs({"x": [A], "y": [A, B], "z": [B]}), {A: range(2), B: range(4)})
    assert {name: {topic: len(held) for topic, held in each.items()} for name, each in found.items()} == {
        "x": {A: 1},
        "y": {A: 1, B: 2},
        "z": {B: 2},
    }


def test_only_partitions_with_state_are_assigned():
    assert assign(specs({"x": [A, B]}), {A: [1]}) == {"x": {A: frozenset({1})}}


def test_nobody_subscribes():
    assert assign(specs({"x": [], "y": []}), {A: [0]}) == {"x": {}, "y": {}}


@pytest.mark.parametrize("seed", range(40))
def test_assignments_stay_balanced_and_keep_what_they_can(seed):
    """Members come, go and resubscribe."""
    chance = random.Random(seed)
    topics = {A: range(chance.randrange(1, 6)), B: range(chance.randrange(6))}
    members: dict[str, list[bytes]] = {}
    assigned: dict[str, dict[bytes, frozenset[int]]] = {}
    for step in range(12):
        if members and chance.random() < 0.4:
            del members[chance.choice(sorted(members))]
        else:
            members[f"m{step}"] = chance.choice(([A], [A], [A, B], [B]))
        if not members:
            continue
        found = assign(specs(members, assigned), topics)
        assert set(found) == set(members)
        for topic, indexes in topics.items():
            subscribed = [name for name, wanted in members.items() if topic in wanted]
            held = [len(found[name].get(topic, ())) for name in subscribed]
            if not subscribed or not indexes:
                continue
            counts = sharing({name: {topic: found[name].get(topic, frozenset())} for name in subscribed})
            assert set(counts) == {(topic, index) for index in indexes}, "each partition has a member"
            assert max(counts.values()) <= -(-len(subscribed) // len(indexes))
            if len(set(map(tuple, members.values()))) > 1:
                assert max(held) - min(held) <= 1
        if len(set(map(tuple, members.values()))) == 1:
            assert max(sizes(found)) - min(sizes(found)) <= 1
        for name in members:
            assert all(topic in members[name] for topic in found[name])
        assert assign(specs(members, found), topics) == found, "nothing moves without a reason"
        assigned = found
