"""Members of a streams group join, get tasks, give them up, are fenced and leave."""

import pytest

from bowstring.engine.groups.classic.group import ClassicGroup
from bowstring.engine.groups.streams.statuses import Status
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TaskOffset
from tests.support.streams_group_harness import StreamsMember, StreamsShell, settle, statuses
from tests.support.streams_topologies import counting, subtopology, topology

READING = topology(subtopology("0", ["t"]))


@pytest.fixture
def shell():
    shell = StreamsShell()
    shell.create("t", 4)
    shell.create("words", 3)
    return shell


def test_the_first_member_gets_all_tasks(shell):
    member = StreamsMember(shell, "a", READING)
    answer = member.step()
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", 2)
    assert answer.heartbeat_interval_ms == 5_000
    assert member.active == {"0": {0, 1, 2, 3}}
    assert shell.streams_group().state == "Stable"
    assert member.step().active_tasks is None


def test_a_heartbeat_that_changes_nothing_writes_nothing(shell):
    member = StreamsMember(shell, "a", READING)
    member.step()
    before = list(shell.log)
    member.step()
    assert shell.log == before


def test_a_second_member_waits_until_the_first_has_given_tasks_up(shell):
    first, second = StreamsMember(shell, "a", READING), StreamsMember(shell, "b", READING)
    first.step()
    assert second.step().member_epoch == 3
    assert second.active == {}
    assert shell.streams_group().state == "Reconciling"
    answer = shell.streams_beat("a", 2, owned={"0": {0, 1, 2, 3}})
    assert (answer.member_epoch, answer.active_tasks[0].partitions) == (2, [0, 1])
    assert second.step().active_tasks is None
    answer = shell.streams_beat("a", 2, owned={"0": {0, 1}})
    assert answer.member_epoch == 3
    second.step()
    assert second.active == {"0": {2, 3}}
    assert shell.streams_group().state == "Stable"


def test_a_member_that_does_not_give_up_is_removed(shell):
    StreamsMember(shell, "a", READING, rebalance_timeout_ms=10_000).step()
    second = StreamsMember(shell, "b", READING)
    second.step()
    for _ in range(4):
        shell.streams_beat("a", 2, owned={"0": {0, 1, 2, 3}})
        second.step()
        shell.advance(3_000)
    assert list(shell.streams_group().members) == ["b"]
    second.step()
    assert second.active == {"0": {0, 1, 2, 3}}


def test_a_silent_member_is_removed(shell):
    members = [StreamsMember(shell, name, READING) for name in "ab"]
    settle(*members)
    for _ in range(50):
        shell.advance(1_000)
        members[1].step()
    assert list(shell.streams_group().members) == ["b"]
    assert members[1].active == {"0": {0, 1, 2, 3}}
    members[0].step()
    assert members[0].epoch == 0, "it is told to join again"


def test_sessions_have_the_length_that_the_group_is_configured_to(shell):
    shell.configure("streams.session.timeout.ms", "50000")
    shell.configure("streams.heartbeat.interval.ms", "7000")
    assert StreamsMember(shell, "a", READING).step().heartbeat_interval_ms == 7_000
    shell.advance(49_999)
    assert shell.streams_group().members
    shell.advance(1)
    assert not shell.streams_group().members


def test_leaving(shell):
    first, second = StreamsMember(shell, "a", READING), StreamsMember(shell, "b", READING)
    settle(first, second)
    answer = first.leave()
    assert (answer.error_code, answer.member_epoch, answer.status) == (0, -1, [])
    second.step()
    assert second.active == {"0": {0, 1, 2, 3}}
    second.leave()
    assert shell.streams_group().state == "Empty"
    assert shell.streams_beat("b", -1).error_code == Errors.UNKNOWN_MEMBER_ID.code
    assert not shell.timers


# ---- epochs


def test_epochs_that_do_not_fit_are_fenced(shell):
    first, second = StreamsMember(shell, "a", READING), StreamsMember(shell, "b", READING)
    settle(first, second)
    assert shell.streams_beat("a", 9).error_code == Errors.FENCED_MEMBER_EPOCH.code
    assert shell.streams_beat("a", 1, owned={"0": {0}}).error_code == Errors.FENCED_MEMBER_EPOCH.code
    assert shell.streams_beat("x", 3).error_code == Errors.UNKNOWN_MEMBER_ID.code
    assert shell.streams_beat("a", 3, group="h").error_code == Errors.GROUP_ID_NOT_FOUND.code


def test_the_previous_epoch_is_allowed_with_no_other_tasks(shell):
    """The answer with the new epoch may have been lost."""
    first, second = StreamsMember(shell, "a", READING), StreamsMember(shell, "b", READING)
    settle(first, second)
    assert first.epoch == 3
    assert shell.streams_beat("a", 2, owned={"0": {0, 1}}).member_epoch == 3
    assert shell.streams_beat("a", 2, owned={"0": {2}}).error_code == Errors.FENCED_MEMBER_EPOCH.code
    assert shell.streams_beat("a", 2).error_code == Errors.FENCED_MEMBER_EPOCH.code


def test_a_member_may_join_again_with_its_id(shell):
    member = StreamsMember(shell, "a", READING)
    member.step()
    member.forget()
    assert member.step().member_epoch == 2
    assert member.active == {"0": {0, 1, 2, 3}}


def test_a_full_group(shell):
    small = StreamsShell(group_streams_max_size=1)
    small.create("t", 1)
    assert small.join_streams("a", READING).error_code == 0
    assert small.join_streams("b", READING).error_code == Errors.GROUP_MAX_SIZE_REACHED.code


# ---- topics and topologies


def test_internal_topics_are_asked_for(shell):
    shell.creates = False
    member = StreamsMember(shell, "a", counting())
    assert statuses(member.step()) == [Status.MISSING_INTERNAL_TOPICS]
    answer = shell.streams_answer("a", member.epoch)
    assert [(topic.name, topic.partitions) for topic in answer.missing] == [
        ("app-changelog", 3),
        ("app-repartition", 3),
    ]
    group = shell.streams_group()
    assert (group.state, group.validated_topology_epoch, member.active) == ("NotReady", -1, {})
    for topic in answer.missing:
        shell.create(topic.name, topic.partitions)
    settle(member)
    assert (group.state, group.validated_topology_epoch) == ("Stable", 0)
    assert member.active == {"0": {0, 1, 2}, "1": {0, 1, 2}}


def test_members_follow_topics(shell):
    member = StreamsMember(shell, "a", topology(subtopology("0", ["later"])))
    assert statuses(member.step()) == [Status.MISSING_SOURCE_TOPICS]
    shell.create("later", 1)
    settle(member)
    assert member.active == {"0": {0}}
    shell.grow("later", 3)
    settle(member)
    assert member.active == {"0": {0, 1, 2}}
    shell.delete("later")
    assert statuses(member.step()) == [Status.MISSING_SOURCE_TOPICS]
    settle(member)
    assert member.active == {}


def test_other_topics_do_not_matter(shell):
    member = StreamsMember(shell, "a", READING)
    settle(member)
    before = shell.streams_group().epoch
    shell.create("other", 1)
    settle(member)
    assert shell.streams_group().epoch == before


def test_the_first_topology_stays(shell):
    settle(StreamsMember(shell, "a", topology(subtopology("0", ["t"]), epoch=2)))
    stale = shell.join_streams("b", topology(subtopology("0", ["words"]), epoch=1))
    assert statuses(stale) == [Status.STALE_TOPOLOGY]
    for epoch in (2, 3):
        answer = shell.join_streams("c", topology(subtopology("0", ["words"]), epoch=epoch))
        assert answer.error_code == Errors.INVALID_REQUEST.code


def test_topologies_that_can_never_work(shell):
    answer = shell.join_streams("a", topology(subtopology("0", repartition=["r"], sinks=["r"])))
    assert answer.error_code == Errors.STREAMS_INVALID_TOPOLOGY.code
    assert "g" not in shell.shard.state.groups


def test_tasks_that_the_topology_does_not_have(shell):
    member = StreamsMember(shell, "a", READING)
    member.step()
    for owned in ({"0": {4}}, {"1": {0}}):
        assert shell.streams_beat("a", 2, owned=owned).error_code == Errors.INVALID_REQUEST.code


# ---- assignment


def test_the_first_assignment_waits_for_more_members():
    shell = StreamsShell(group_streams_initial_rebalance_delay_ms=3_000)
    shell.create("t", 4)
    members = [StreamsMember(shell, name, READING) for name in "ab"]
    assert [statuses(member.step()) for member in members] == [[Status.ASSIGNMENT_DELAYED]] * 2
    assert [member.epoch for member in members] == [1, 1]
    shell.advance(3_000)
    settle(*members)
    assert [member.active for member in members] == [{"0": {0, 2}}, {"0": {1, 3}}]


def test_assignments_keep_their_interval():
    shell = StreamsShell(group_streams_assignment_interval_ms=1_000)
    shell.create("t", 4)
    members = [StreamsMember(shell, name, READING) for name in "ab"]
    members[0].step()
    assert statuses(members[1].step()) == [Status.ASSIGNMENT_DELAYED]
    shell.advance(1_000)
    settle(*members)
    assert all(member.active for member in members)


def test_standby_tasks_follow_the_config_of_the_group(shell):
    shell.configure("streams.num.standby.replicas", "1")
    members = [StreamsMember(shell, name, counting()) for name in "ab"]
    settle(*members)
    copies = [members[0].standby["1"], members[1].standby["1"]]
    assert set.union(*copies) == {0, 1, 2}
    assert all(not copies[index] & members[index].active["1"] for index in (0, 1))
    shell.configure("streams.num.standby.replicas", "0")
    settle(*members)
    assert [member.standby for member in members] == [{}, {}]
    assert shell.streams_group().assignment_configs == {"num.standby.replicas": "0"}


def test_a_process_gets_an_active_task_only_without_its_copy(shell):
    """Two members of a process must not have the task's state open at once."""
    shell.configure("streams.num.standby.replicas", "1")
    old, copy = StreamsMember(shell, "a", counting(), "p"), StreamsMember(shell, "b", counting(), "q")
    settle(old, copy)
    old.leave()
    third = StreamsMember(shell, "c", counting(), "q")
    third.step()
    group = shell.streams_group()
    for name, partitions in third.active.items():
        assert not any(group.has_copy("q", name, each) for each in partitions)
    settle(copy, third)
    assert sorted(copy.active["1"] | third.active.get("1", set())) == [0, 1, 2]


# ---- other answers to members


def test_a_member_shuts_the_application_down(shell):
    first, second = StreamsMember(shell, "a", READING), StreamsMember(shell, "b", READING)
    settle(first, second)
    shell.streams_beat("a", first.epoch, shutdown_application=True)
    assert statuses(second.step()) == [Status.SHUTDOWN_APPLICATION]
    first.leave()
    assert statuses(second.step()) == [Status.SHUTDOWN_APPLICATION]
    second.leave()
    assert statuses(StreamsMember(shell, "c", READING).step()) == []


def test_endpoints(shell):
    first = StreamsMember(shell, "a", READING, user_endpoint=Endpoint(host="h", port=9))
    second = StreamsMember(shell, "b", READING)
    settle(first, second)
    epoch = shell.streams_beat("b", second.epoch).endpoint_information_epoch
    answer = shell.streams_beat("b", second.epoch)
    (where,) = answer.partitions_by_user_endpoint
    assert (where.user_endpoint.host, where.user_endpoint.port) == ("h", 9)
    assert [(each.topic, each.partitions) for each in where.active_partitions] == [("t", [0, 1])]
    known = shell.streams_beat("b", second.epoch, endpoint_information_epoch=epoch)
    assert known.partitions_by_user_endpoint is None


@pytest.mark.parametrize(
    "fields",
    [
        {"member_id": ""},
        {"group": " "},
        {"rack_id": ""},
        {"instance_id": " "},
        {"rebalance_timeout_ms": -1},
        {"topology": None},
        {"owned": None},
        {"owned": {"0": {0}}},
        {"warmup_tasks": [TaskIds(subtopology_id="0", partitions=[0])]},
        {"epoch": -3},
        {"epoch": -2},
        {"epoch": 1},
        {"topology": topology(subtopology("0", ["t"]))},
    ],
    ids=str,
)
def test_requests_that_no_group_allows(shell, fields):
    sent = {"owned": {}, "topology": READING, "rebalance_timeout_ms": 1, "process_id": "p"} | fields
    if fields.keys() == {"topology"} and fields["topology"] is not None:
        sent["topology"].subtopologies[0].source_topic_regex = ["a.*"]
    answer = shell.streams_beat(sent.pop("member_id", "a"), sent.pop("epoch", 0), **sent)
    assert answer.error_code == Errors.INVALID_REQUEST.code
    assert not shell.shard.state.groups


# ---- writing


def test_a_group_that_cannot_be_written_is_not_there(shell):
    shell.fail = Errors.NOT_ENOUGH_REPLICAS
    answer = shell.join_streams("a", READING)
    assert answer.error_code == Errors.COORDINATOR_NOT_AVAILABLE.code
    assert not shell.shard.state.groups
    shell.fail = None
    assert shell.join_streams("a", READING).member_epoch == 2


def test_answers_wait_until_they_are_committed(shell):
    shell.hold = True
    token = shell.send_streams_beat(
        "a", 0, owned={}, topology=READING, rebalance_timeout_ms=1, process_id="p"
    )
    assert token not in shell.answers
    shell.release()
    assert shell.ask(token).response.member_epoch == 2


# ---- groups of other types


def test_an_empty_classic_group_makes_way(shell):
    member_id, _ = shell.join_twice()
    assert shell.join_streams("a", READING).error_code == Errors.GROUP_ID_NOT_FOUND.code
    shell.leave(member_id)
    shell.advance(10_000)
    shell.commit({("t", 0): 5})
    assert shell.join_streams("a", READING).error_code == 0
    assert shell.fetched() == {("t", 0): (5, 0)}
    shell.restart()
    assert shell.streams_group().members.keys() == {"a"}
    assert shell.fetched() == {("t", 0): (5, 0)}


def test_an_empty_streams_group_makes_way_for_a_classic_one(shell):
    shell.join_streams("a", READING)
    assert shell.ask(shell.join()).error_code == Errors.INCONSISTENT_GROUP_PROTOCOL.code
    shell.streams_beat("a", -1)
    shell.join_twice()
    assert isinstance(shell.shard.state.groups["g"], ClassicGroup)
    shell.restart()
    assert isinstance(shell.shard.state.groups["g"], ClassicGroup)


# ---- offsets and administration


def test_commits_by_epoch(shell):
    first, second = StreamsMember(shell, "a", READING), StreamsMember(shell, "b", READING)
    settle(first)
    assert shell.commit_error({("t", 0): 1}, member_id="a", generation=2) == 0
    settle(first, second)
    for partition, epoch, error in (
        (0, 3, Errors.NONE),
        (0, 2, Errors.NONE),
        (0, 1, Errors.STALE_MEMBER_EPOCH),
        (3, 2, Errors.STALE_MEMBER_EPOCH),
        (0, 4, Errors.STALE_MEMBER_EPOCH),
        (0, -1, Errors.STALE_MEMBER_EPOCH),
    ):
        found = shell.commit_error({("t", partition): 1}, member_id="a", generation=epoch)
        assert found == error.code, (partition, epoch)
    assert shell.commit_error({("other", 0): 1}, member_id="a", generation=2) == 113
    assert shell.commit_error({("t", 0): 1}, member_id="x", generation=3) == 25
    assert shell.commit_error({("t", 0): 1}, member_id="a", generation=3, version=8) == 35


def test_deleting_groups_and_offsets(shell):
    member = StreamsMember(shell, "a", READING)
    member.step()
    shell.commit({("t", 0): 5, ("words", 0): 5}, member_id="a", generation=2)
    deleted = shell.delete_offsets({"t": [0], "words": [0]})
    codes = {topic.name: topic.partitions[0].error_code for topic in deleted.topics}
    assert codes == {"t": Errors.GROUP_SUBSCRIBED_TO_TOPIC.code, "words": 0}
    assert shell.delete_groups("g") == [Errors.NON_EMPTY_GROUP.code]
    member.leave()
    assert shell.delete_groups("g") == [0]
    shell.restart()
    assert not shell.shard.state.groups


def test_an_empty_group_without_offsets_expires(shell):
    member = StreamsMember(shell, "a", READING)
    member.step()
    shell.expire()
    assert shell.streams_group().members
    member.leave()
    shell.expire()
    assert not shell.shard.state.groups


def test_describing(shell):
    shell.creates = False
    shell.join_streams("a", counting(), user_endpoint=Endpoint(host="h", port=9))
    described = shell.described()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("NotReady", 2, 2)
    assert [each.subtopology_id for each in described.topology.subtopologies] == ["0", "1"]
    assert described.topology.subtopologies[1].state_changelog_topics[0].partitions == 0
    shell.creates = True
    settled = StreamsMember(shell, "a", counting(), user_endpoint=Endpoint(host="h", port=9))
    settle(settled)
    described = shell.described()
    assert described.topology.subtopologies[1].state_changelog_topics[0].partitions == 3
    (member,) = described.members
    assert (member.process_id, member.user_endpoint.port, member.topology_epoch) == ("p-a", 9, 0)
    assert member.assignment == member.target_assignment
    assert shell.described("none").error_code == Errors.GROUP_ID_NOT_FOUND.code


def test_members_are_told_when_they_count_as_caught_up(shell):
    member = StreamsMember(shell, "a", READING)
    answer = member.step()
    assert (answer.task_offset_interval_ms, answer.acceptable_recovery_lag) == (60_000, 10_000)
    shell.configure("streams.task.offset.interval.ms", "20000")
    shell.configure("streams.acceptable.recovery.lag", "7")
    answer = member.step()
    assert (answer.task_offset_interval_ms, answer.acceptable_recovery_lag) == (20_000, 7)


def test_an_emptied_group_has_no_assignment_to_make(shell):
    member = StreamsMember(shell, "a", READING)
    member.step()
    shell.streams_beat("a", -1)
    for restart in (False, True):
        if restart:
            shell.restart()
        group = shell.streams_group()
        assert (group.assignment_epoch, group.assignment_timestamp_ms) == (group.epoch, 0)
        assert group.state == "Empty"


def test_members_are_told_which_client_tags_they_lack(shell):
    member = StreamsMember(shell, "a", READING, client_tags=[KeyValue(key="zone", value="z")])
    member.step()
    epoch = shell.streams_group().epoch
    shell.configure("streams.rack.aware.assignment.tags", "zone, rack")
    answer = member.step()
    assert shell.streams_group().epoch == epoch + 1, "another config of the assignor"
    assert shell.streams_group().assignment_configs["rack.aware.assignment.tags"] == "zone,rack"
    assert statuses(answer) == []
    answer = shell.streams_beat("a", member.epoch, version=1)
    assert statuses(answer) == [Status.MISSING_CLIENT_TAGS]
    assert "[rack]" in answer.status[0].status_detail
    shell.configure("streams.rack.aware.assignment.tags", "zone")
    assert statuses(shell.streams_beat("a", member.epoch, version=1)) == []


def test_a_member_of_a_full_group_may_join_again():
    shell = StreamsShell(group_streams_max_size=1)
    shell.create("t", 4)
    assert StreamsMember(shell, "a", READING).step().error_code == 0
    assert StreamsMember(shell, "a", READING).step().error_code == 0
    assert shell.join_streams("b", READING).error_code == Errors.GROUP_MAX_SIZE_REACHED.code


def test_offsets_of_tasks_are_described_until_the_member_leaves(shell):
    def rows(*offsets):
        return [TaskOffset(subtopology_id="0", partition=i, offset=each) for i, each in enumerate(offsets)]

    member = StreamsMember(shell, "a", READING)
    member.step()
    before = len(shell.log)
    shell.streams_beat("a", member.epoch, task_offsets=rows(5, 6), task_end_offsets=rows(9, 9))
    shell.streams_beat("a", member.epoch, task_offsets=rows(7))
    assert len(shell.log) == before, "they are not in the log"
    (described,) = shell.described().members
    assert [(each.partition, each.offset) for each in described.task_offsets] == [(0, 7)]
    assert [(each.partition, each.offset) for each in described.task_end_offsets] == [(0, 9), (1, 9)]
    answer = shell.streams_beat("a", member.epoch, task_end_offsets=[*rows(1), *rows(2)])
    assert answer.error_code == Errors.INVALID_REQUEST.code
    assert "duplicate entry for subtopology 0 and partition 0" in answer.error_message
    member.leave()
    assert not shell.streams_group().offsets


def test_a_member_that_joins_again_without_an_endpoint_has_none(shell):
    member = StreamsMember(shell, "a", READING, user_endpoint=Endpoint(host="h", port=9))
    member.step()
    assert shell.described().members[0].user_endpoint is not None
    del member.joining["user_endpoint"]
    member.forget()
    member.step()
    assert shell.described().members[0].user_endpoint is None
    told = shell.streams_beat("a", member.epoch, endpoint_information_epoch=-1)
    assert told.partitions_by_user_endpoint == []
