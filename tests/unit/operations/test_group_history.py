"""Rebalances are what changed between two looks at a group."""

import pytest

from bowstring.clients.admin.results import (
    GroupDescription,
    GroupLag,
    GroupMemberDescription,
    StreamsTask,
)
from bowstring.clients.errors import ClientError
from bowstring.clients.records import Node, TopicPartition
from bowstring.operations import group_history
from bowstring.operations.group_history import GroupHistory, rebalance_between
from bowstring.operations.group_progress import GroupsNow

NODE = Node(1, "localhost", 9092)


def member(name, *numbers, client=None, tasks=()):
    work = [TopicPartition("t", number) for number in numbers]
    return GroupMemberDescription(name, None, client or f"app-{name}", "/10.0.0.1", work, tasks=list(tasks))


def group(*members, epoch=-1, kind="classic"):
    return GroupDescription("g", "Stable", "consumer", "range", NODE, list(members), kind, epoch, epoch)


@pytest.mark.parametrize(
    ("before", "now", "reason", "moved"),
    [
        (group(), group(member("a", 0, 1)), "the first members joined: app-a (10.0.0.1)", 2),
        (group(member("a", 0, 1)), group(), "the last members left: app-a (10.0.0.1)", 2),
        (
            group(member("a", 0, 1)),
            group(member("a", 0), member("b", 1)),
            "app-b (10.0.0.1) joined",
            1,
        ),
        (
            group(member("a", 0), member("b", 1)),
            group(member("a", 0), member("b2", 1, client="app-b")),
            "app-b (10.0.0.1) joined and app-b (10.0.0.1) left (the same client came back as a new member)",
            1,
        ),
        (
            group(member("a", 0)),
            group(member("a", 0, 1)),
            "the group has other partitions (1 new): a topic or a subscription changed",
            1,
        ),
        (
            group(member("a", 0), member("b", 1)),
            group(member("a", 1), member("b", 0)),
            "the same members share the partitions in another way",
            2,
        ),
        (
            group(member("a", 0), epoch=3, kind="consumer"),
            group(member("a", 0), epoch=5, kind="consumer"),
            "the coordinator made a new epoch with the same members: a subscription or topic changed",
            0,
        ),
        (
            group(member("a", tasks=[StreamsTask("active", "0", 1)]), epoch=3, kind="streams"),
            group(member("b", tasks=[StreamsTask("active", "0", 1)]), epoch=4, kind="streams"),
            "app-b (10.0.0.1) joined and app-a (10.0.0.1) left",
            1,
        ),
    ],
)
def test_the_reason_is_what_changed(before, now, reason, moved):
    found = rebalance_between(before, now, 1_000, 2_000)
    assert (found.reason, found.moved, found.at_ms, found.since_ms) == (reason, moved, 2_000, 1_000)


def test_nothing_happened_without_a_change():
    assert rebalance_between(group(member("a", 0)), group(member("a", 0)), 1, 2) is None
    of_share = [group(member("a", *numbers), epoch=3, kind="share") for numbers in ([0], [0, 1])]
    assert rebalance_between(*of_share, 1, 2) is None


def look(description, lag):
    row = GroupLag(TopicPartition("t", 0), 0, lag, lag, None, 0)
    return GroupsNow({"g": description}, {"g": [row]}, {})


def test_samples_and_rebalances_are_kept_with_bounds(monkeypatch):
    monkeypatch.setattr(group_history, "GROUPS_MAX", 1)
    history = GroupHistory()
    history.observe(look(group(member("a", 0)), 5), 1_000)
    history.observe(look(group(member("a", 0)), 6), 2_000)
    history.observe(look(group(member("a", 0), member("b")), 7), 6_000)
    assert [(each.at_ms, each.lag) for each in history.samples("g")] == [(1_000, 5), (6_000, 7)]
    assert [each.joined for each in history.rebalances("g")] == [("app-b (10.0.0.1)",)]
    assert history.rebalances("other") == history.rebalances(since_ms=6_001) == []
    other = group(member("a", 0))._replace(group_id="h")
    history.observe(GroupsNow({"h": other, "denied": ClientError("no")}, {}, {}), 7_000)
    assert history.samples("g") == [] and len(history.rebalances()) == 1
