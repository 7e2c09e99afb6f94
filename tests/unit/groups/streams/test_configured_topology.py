"""How many tasks and partitions a topology gets from the topics that exist."""

import pytest

from bowstring.engine.groups.streams.configured_topology import configure
from bowstring.engine.groups.streams.statuses import InvalidTopology, Status
from bowstring.engine.groups.streams.topology import from_request
from tests.support.streams_topologies import counting, subtopology, topic, topology


def configured(sent, **topics):
    return configure(from_request(sent), topics.get)


def problem(sent, **topics):
    found = configured(sent, **topics)
    assert not found.is_ready and not found.subtopologies
    return found.problem.status, found.problem.detail


def test_repartition_and_changelog_topics_get_as_many_partitions_as_the_source():
    found = configured(counting(), words=6)
    assert {name: each.tasks for name, each in found.subtopologies.items()} == {"0": 6, "1": 6}
    assert [(each.name, each.partitions) for each in found.missing] == [
        ("app-changelog", 6),
        ("app-repartition", 6),
    ]
    assert found.problem.status is Status.MISSING_INTERNAL_TOPICS
    assert found.problem.detail == "Internal topics are missing: app-changelog, app-repartition"
    assert [each.is_stateful for each in found.subtopologies.values()] == [False, True]


def test_a_topology_is_ready_when_all_its_topics_exist():
    found = configured(counting(), **{"words": 3, "app-repartition": 3, "app-changelog": 3})
    assert found.is_ready and not found.missing
    assert found.subtopologies["1"].input_topics() == ["app-repartition"]


def test_missing_source_topics_are_named_up_to_three():
    sent = topology(subtopology("0", ["d", "b", "a", "c"]))
    assert problem(sent) == (
        Status.MISSING_SOURCE_TOPICS,
        "Source topics a, b, c and 1 additional topics are missing.",
    )


def test_an_internal_topic_with_another_number_of_partitions_does_not_fit():
    assert problem(counting(), **{"words": 3, "app-repartition": 2, "app-changelog": 3}) == (
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic app-changelog has different number of partitions: expected 2, found 3",
    )


def test_the_largest_input_counts_along_a_chain():
    sent = topology(
        subtopology("c", repartition=["r2"], changelogs=["s"]),
        subtopology("b", ["small"], repartition=["r1"], sinks=["r2"]),
        subtopology("a", ["large", "small"], sinks=["r1"]),
    )
    found = configured(sent, large=5, small=2)
    assert {name: each.tasks for name, each in found.subtopologies.items()} == {"a": 5, "b": 5, "c": 5}


def test_a_number_of_partitions_of_its_own_counts():
    sent = topology(
        subtopology("0", ["in"], sinks=["r"]), subtopology("1", repartition=[topic("r", 9)], changelogs=["s"])
    )
    found = configured(sent, **{"in": 2})
    assert found.subtopologies["1"].tasks == 9
    assert [each.partitions for each in found.missing] == [9, 9]


def test_copartitioned_repartition_topics_follow_the_source_topic():
    sent = topology(
        subtopology("0", ["many"], sinks=["r"]),
        subtopology("1", ["few"], repartition=["r"], together=[([0], [0])]),
    )
    assert [each.partitions for each in configured(sent, many=8, few=3).missing] == [3]


def test_copartitioned_repartition_topics_get_the_largest_number_among_them():
    sent = topology(
        subtopology("0", ["many"], sinks=["r1"]),
        subtopology("1", ["few"], sinks=["r2"]),
        subtopology("2", repartition=["r1", "r2"], together=[([], [0, 1])]),
    )
    assert [each.partitions for each in configured(sent, many=8, few=3).missing] == [8, 8]


def test_copartitioned_source_topics_must_have_equal_numbers():
    sent = topology(subtopology("0", ["a", "b"], together=[([0, 1], [])]))
    assert configured(sent, a=2, b=2).is_ready
    assert problem(sent, a=2, b=3) == (
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{a=2, b=3}]",
    )


def test_a_fixed_number_must_fit_the_copartitioned_source():
    sent = topology(
        subtopology("0", ["a"], sinks=["r"]),
        subtopology("1", ["a"], repartition=[topic("r", 4)], together=[([0], [0])]),
    )
    status, detail = problem(sent, a=2)
    assert status is Status.INCORRECTLY_PARTITIONED_TOPICS
    assert "[4] of repartition topic [r]" in detail and "[2] of the source topic" in detail


def test_fixed_numbers_of_copartitioned_topics_must_be_equal():
    sent = topology(
        subtopology("0", ["a"], sinks=["r1", "r2"]),
        subtopology("1", repartition=[topic("r1", 4), topic("r2", 5)], together=[([], [0, 1])]),
    )
    assert problem(sent, a=2)[0] is Status.INCORRECTLY_PARTITIONED_TOPICS


@pytest.mark.parametrize(
    "sent",
    [
        topology(subtopology("0")),
        topology(subtopology("0", ["a"]), subtopology("0", ["a"])),
        topology(subtopology("0", repartition=["r"], sinks=["r"])),
        topology(subtopology("0", ["a"]), subtopology("1", repartition=["r"])),
        topology(subtopology("0", ["a"], together=[([1], [])])),
        topology(subtopology("0", ["a"], together=[([], [-1])])),
        topology(subtopology("0", ["a"], changelogs=[topic("s", 2)])),
        topology(subtopology("0", ["a"], sinks=["r"]), subtopology("1", repartition=[topic("r", -2)])),
        topology(subtopology("0", ["a"]), epoch=-1),
    ],
    ids=[
        "no sources",
        "twice",
        "loop",
        "never written",
        "index beyond",
        "index below",
        "changelog with partitions",
        "negative partitions",
        "negative epoch",
    ],
)
def test_topologies_that_can_never_work_are_refused(sent):
    with pytest.raises(InvalidTopology):
        configured(sent, a=1)
