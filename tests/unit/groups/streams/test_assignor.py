"""The sticky task assignor: balance, stickiness, standby copies; the same for many random groups."""

import random

import pytest

from bowstring.engine.groups.streams.assignor import MemberSpec, assign
from bowstring.engine.groups.streams.configured_topology import ConfiguredSubtopology, InternalTopic
from bowstring.engine.groups.streams.tasks import NO_TASKS, Tasks, flat


def sub(tasks, *, stateful=False):
    changelogs = (InternalTopic("s", tasks, 0, {}),) if stateful else ()
    return ConfiguredSubtopology(tasks, ("t",), (), (), changelogs)


def spec(process="p", active=(), standby=()):
    return MemberSpec(process, Tasks(packed(active), packed(standby), {}))


def packed(tasks):
    found = {}
    for subtopology_id, partition in tasks:
        found[subtopology_id] = found.get(subtopology_id, frozenset()) | {partition}
    return found


def counts(assigned, role="active"):
    return {member_id: len(list(flat(getattr(tasks, role)))) for member_id, tasks in assigned.items()}


def test_no_members_get_nothing():
    assert assign({}, {"0": sub(3)}, 1) == {}


def test_tasks_are_spread_over_processes_before_members():
    members = {"a": spec("p"), "b": spec("p"), "c": spec("q"), "d": spec("q")}
    assigned = assign(members, {"0": sub(4)}, 0)
    assert counts(assigned) == {"a": 1, "b": 1, "c": 1, "d": 1}
    assert counts(assign({"a": spec("p"), "b": spec("p"), "c": spec("q")}, {"0": sub(2)}, 0))["c"] == 1


def test_tasks_stay_where_they_are():
    subtopologies = {"0": sub(4), "1": sub(2, stateful=True)}
    first = assign({"a": spec("p"), "b": spec("q")}, subtopologies, 0)
    again = assign({name: MemberSpec(name, tasks) for name, tasks in first.items()}, subtopologies, 0)
    assert again == first


def test_a_new_member_takes_its_share_and_no_more_moves():
    subtopologies = {"0": sub(6)}
    before = assign({"a": spec("p"), "b": spec("q")}, subtopologies, 0)
    members = {name: MemberSpec(name, tasks) for name, tasks in before.items()}
    after = assign(members | {"c": MemberSpec("c", NO_TASKS)}, subtopologies, 0)
    assert counts(after) == {"a": 2, "b": 2, "c": 2}
    for name in "ab":
        assert set(flat(after[name].active)) < set(flat(before[name].active))


def test_a_task_goes_to_the_member_with_its_standby_copy():
    members = {"a": spec("p"), "b": spec("q", standby=[("0", 1)])}
    assert assign(members, {"0": sub(2, stateful=True)}, 1)["b"].active == {"0": frozenset([1])}


def test_standby_tasks_are_in_other_processes_and_only_of_tasks_with_state():
    members = {"a": spec("p"), "b": spec("q"), "c": spec("q")}
    assigned = assign(members, {"0": sub(3), "1": sub(3, stateful=True)}, 1)
    copies = [task for tasks in assigned.values() for task in flat(tasks.standby)]
    assert sorted(copies) == [("1", 0), ("1", 1), ("1", 2)]
    assert_sound(members, assigned, {"0": sub(3), "1": sub(3, stateful=True)}, 1)


def test_a_single_process_gets_no_standby_tasks():
    assigned = assign({"a": spec("p"), "b": spec("p")}, {"1": sub(3, stateful=True)}, 2)
    assert counts(assigned, "standby") == {"a": 0, "b": 0}


def test_who_had_the_active_task_keeps_a_copy():
    members = {"a": spec("p", active=[("0", 0), ("0", 1)]), "b": spec("q", standby=[("0", 0), ("0", 1)])}
    assigned = assign(members, {"0": sub(2, stateful=True)}, 1)
    for member_id in "ab":
        assert sorted([*flat(assigned[member_id].active), *flat(assigned[member_id].standby)]) == [
            ("0", 0),
            ("0", 1),
        ]


def assert_sound(members, assigned, subtopologies, replicas):
    active = [task for tasks in assigned.values() for task in flat(tasks.active)]
    everything = [(name, each) for name, sub in subtopologies.items() for each in range(sub.tasks)]
    assert sorted(active) == sorted(everything), "every task is active once"
    assert assigned.keys() == members.keys()
    held = {}
    for member_id, tasks in assigned.items():
        for task in [*flat(tasks.active), *flat(tasks.standby)]:
            held.setdefault(task, []).append(members[member_id].process_id)
    processes = {each.process_id for each in members.values()}
    for (name, partition), where in held.items():
        assert len(where) == len(set(where)), f"a process has {name}-{partition} twice"
        copies = replicas if subtopologies[name].is_stateful else 0
        assert len(where) == min(1 + copies, len(processes))


@pytest.mark.parametrize("seed", range(60))
def test_random_groups(seed):
    rng = random.Random(seed)
    subtopologies = {
        str(index): sub(rng.randrange(1, 9), stateful=rng.random() < 0.6)
        for index in range(rng.randrange(1, 5))
    }
    replicas = rng.randrange(3)
    members = {}
    for step in range(12):
        if members and rng.random() < 0.4:
            members.pop(rng.choice(sorted(members)))
        else:
            members[f"m{step}"] = MemberSpec(f"p{rng.randrange(4)}", NO_TASKS)
        if not members:
            continue
        assigned = assign(members, subtopologies, replicas)
        assert_sound(members, assigned, subtopologies, replicas)
        members = {name: MemberSpec(members[name].process_id, tasks) for name, tasks in assigned.items()}
    if len({each.process_id for each in members.values()}) == len(members):
        share = counts(assign(members, subtopologies, 0)).values()
        assert max(share, default=0) - min(share, default=0) <= max(1, len(subtopologies))
