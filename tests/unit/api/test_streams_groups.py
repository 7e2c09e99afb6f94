"""StreamsGroupHeartbeat and StreamsGroupDescribe: a member's whole life, internal topics, refusals."""

import pytest

from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from bowstring.protocol.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    TaskIds,
)
from bowstring.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from tests.support.served_broker import Served
from tests.support.streams_topologies import counting, subtopology, topic, topology

MISSING_INTERNAL_TOPICS = 3
QUICK = {"group_streams_initial_rebalance_delay_ms": "0", "group_streams_assignment_interval_ms": "0"}


@pytest.fixture
def served(tmp_path):
    served = Served(tmp_path, **QUICK)
    served.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    yield served
    served.stop()


def beat(served, epoch=0, **fields):
    if epoch == 0:
        joining = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        fields = joining | {"process_id": "p", "rebalance_timeout_ms": 1000} | fields
    return served.ask(
        StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch, **fields), 0
    )


def describe(served, *names):
    request = StreamsGroupDescribeRequest(group_ids=list(names), include_authorized_operations=True)
    return served.ask(request, 0).groups


def test_a_life(served):
    served.create_topic("words", partitions=2)
    joined = beat(served, topology=counting())
    assert (joined.error_code, joined.member_epoch) == (0, 2)
    assert [each.status_code for each in joined.status] == [MISSING_INTERNAL_TOPICS]
    topics = served.engine.metadata.image.topics
    assert {name: len(topics[name].partitions) for name in ("app-repartition", "app-changelog")} == {
        "app-repartition": 2,
        "app-changelog": 2,
    }
    settled = beat(served, 2)
    assert (settled.member_epoch, settled.status) == (3, [])
    assert {each.subtopology_id: each.partitions for each in settled.active_tasks} == {
        "0": [0, 1],
        "1": [0, 1],
    }
    group, none, empty = describe(served, "g", "none", "")
    assert (group.group_state, group.group_epoch, group.members[0].process_id) == ("Stable", 3, "p")
    assert group.authorized_operations > 0
    assert none.error_code == Errors.GROUP_ID_NOT_FOUND.code
    assert empty.error_code == Errors.INVALID_GROUP_ID.code
    assert beat(served, -1).member_epoch == -1
    assert describe(served, "g")[0].group_state == "Empty"


def test_descriptions_of_topologies_are_not_stored(served):
    """KIP-1331 without a plugin: no member gets a request, pushes are refused, and descriptions show that."""
    served.create_topic("words", partitions=2)
    joining = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "process_id": "p"}
    request = StreamsGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=1000, topology=counting(), **joining
    )
    joined = served.ask(request, 1)
    assert (joined.error_code, joined.topology_description_required) == (0, False)
    assert joined.acceptable_recovery_lag == 10_000
    update = StreamsGroupTopologyDescriptionUpdateRequest(group_id="g", member_id="m", topology_epoch=1)
    assert served.ask(update, 0).error_code == Errors.UNSUPPORTED_VERSION.code
    for asked, status in ((False, 0), (True, 1)):
        describe = StreamsGroupDescribeRequest(group_ids=["g", "none"], include_topology_description=asked)
        found, none = served.ask(describe, 1).groups
        assert (found.assignor_name, found.topology_description_status) == ("sticky", status)
        assert found.topology_description is None
        assert (none.assignor_name, none.topology_description_status) == (None, 0)


def test_configs_of_internal_topics(served):
    served.create_topic("in", partitions=1)
    changelog = topic("s", **{"cleanup.policy": "compact"})
    beat(served, topology=topology(subtopology("0", ["in"], changelogs=[changelog])))
    assert served.engine.metadata.image.topic_configs("s") == {"cleanup.policy": "compact"}


def test_topics_that_cannot_be_created(served):
    served.create_topic("in", partitions=1)
    wrong = topic("s", **{"cleanup.policy": "none"})
    alike = ["a.b", "a_b"]
    answer = beat(served, topology=topology(subtopology("0", ["in"], changelogs=[wrong, *alike])))
    (status,) = answer.status
    assert status.status_code == MISSING_INTERNAL_TOPICS
    assert "Creation failed: a_b (Topic 'a_b' collides with existing topic: a.b)" in status.status_detail
    assert "s (Invalid value none for configuration cleanup.policy" in status.status_detail
    assert {"s", "a_b"}.isdisjoint(served.engine.metadata.image.topics)
    assert "a.b" in served.engine.metadata.image.topics


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (topology(subtopology("0", ["__consumer_offsets"])), "internal topics __consumer_offsets"),
        (topology(subtopology("0", ["a b"])), "a b are not valid"),
        (topology(subtopology("0", ["t"], sinks=["/"])), "/ are not valid"),
        (topology(subtopology("0", ["t"] * 10_001)), "over 10000"),
        (topology(*(subtopology(str(index)) for index in range(10_001))), "over 10000"),
    ],
    ids=["internal", "name", "sink", "topics", "subtopologies"],
)
def test_refused_topologies(served, sent, words):
    answer = beat(served, topology=sent)
    assert answer.error_code == Errors.STREAMS_INVALID_TOPOLOGY.code
    assert words in answer.error_message


def test_too_much_of_a_member(served):
    many = [TaskIds(subtopology_id="0", partitions=list(range(20_000)))]
    tags = [KeyValue(key=str(index), value="") for index in range(1_001)]
    for fields in ({"active_tasks": many}, {"client_tags": tags}):
        assert beat(served, 1, **fields).error_code == Errors.INVALID_REQUEST.code


def test_a_broker_may_do_without_the_protocol(tmp_path):
    served = Served(tmp_path, group_coordinator_rebalance_protocols="classic")
    try:
        answer = beat(served, topology=topology(subtopology("0", ["t"])))
        assert answer.error_code == Errors.UNSUPPORTED_VERSION.code
        assert "group.protocol=classic" in answer.error_message
        assert describe(served, "g")[0].error_code == Errors.UNSUPPORTED_VERSION.code
    finally:
        served.stop()
