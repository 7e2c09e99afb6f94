from hypothesis import given, settings
from hypothesis import strategies as st

from bowstring.clients.group.assignors import CooperativeStickyAssignor, RangeAssignor, Subscription
from bowstring.clients.records import TopicPartition as P

RANGE, STICKY = RangeAssignor(), CooperativeStickyAssignor()


def told(*topics, owned=(), generation=-1, instance=None):
    return Subscription(topics, tuple(owned), generation, instance)


def numbers(assignment, topic="t"):
    return {m: [p.partition for p in given if p.topic == topic] for m, given in assignment.items()}


def test_range_gives_runs_and_the_rest_to_the_first():
    assert numbers(RANGE.assign({"t": 7}, {"b": told("t"), "a": told("t"), "c": told("t")})) == {
        "a": [0, 1, 2],
        "b": [3, 4],
        "c": [5, 6],
    }


def test_range_orders_static_members_by_instance_id_before_dynamic_ones():
    members = {"a": told("t"), "z": told("t", instance="1"), "y": told("t", instance="2")}
    assert numbers(RANGE.assign({"t": 3}, members)) == {"z": [0], "y": [1], "a": [2]}


def test_range_leaves_out_who_did_not_subscribe():
    assert RANGE.assign({"t": 2}, {"a": told("other"), "b": told("t")}) == {
        "a": [],
        "b": [P("t", 0), P("t", 1)],
    }


def test_sticky_moves_a_partition_in_two_steps():
    everything = [P("t", i) for i in range(4)]
    first = STICKY.assign({"t": 4}, {"old": told("t", owned=everything, generation=1), "new": told("t")})
    assert len(first["old"]) == 2 and first["new"] == []  # what moves is not given out yet
    second = STICKY.assign(
        {"t": 4}, {"old": told("t", owned=first["old"], generation=2), "new": told("t", generation=2)}
    )
    assert second["old"] == first["old"]
    assert sorted(second["old"] + second["new"]) == everything


def test_sticky_believes_the_newer_of_two_claims():
    mine = [P("t", 0)]
    found = STICKY.assign(
        {"t": 1}, {"a": told("t", owned=mine, generation=3), "b": told("t", owned=mine, generation=2)}
    )
    assert found == {"a": mine, "b": []}


def test_sticky_believes_neither_of_two_equal_claims():
    mine = [P("t", 0)]
    found = STICKY.assign({"t": 1}, {m: told("t", owned=mine, generation=3) for m in "ab"})
    assert sorted(p for given in found.values() for p in given) == mine


@st.composite
def groups(draw):
    counts = {f"t{i}": draw(st.integers(0, 6)) for i in range(draw(st.integers(1, 3)))}
    members = {
        f"m{i}": told(*draw(st.lists(st.sampled_from(sorted(counts)), min_size=1, unique=True)))
        for i in range(draw(st.integers(1, 5)))
    }
    return counts, members


@settings(max_examples=150)
@given(groups(), st.data())
def test_sticky_settles_balanced_and_complete_and_never_gives_one_partition_twice(group, data):
    counts, members = group
    for generation in range(6):
        assignment = STICKY.assign(counts, members)
        given = [p for partitions in assignment.values() for p in partitions]
        assert len(given) == len(set(given))
        for member, partitions in assignment.items():
            assert all(p.topic in members[member].topics for p in partitions)
            for partition in partitions:
                others = [m for m, s in members.items() if m != member and partition in s.owned]
                assert not others, "given away before its owner let go"
        members = {
            m: s._replace(owned=tuple(assignment[m]), generation=generation) for m, s in members.items()
        }
        if generation == 2 and len(members) > 1:
            del members[data.draw(st.sampled_from(sorted(members)))]
    wanted = {t for s in members.values() for t in s.topics}
    assert sorted(given) == sorted(P(t, i) for t in wanted for i in range(counts[t]))
    if len({s.topics for s in members.values()}) == 1:
        sizes = [len(partitions) for partitions in assignment.values()]
        assert max(sizes) - min(sizes) <= 1
