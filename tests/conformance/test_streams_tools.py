"""Kafka's kafka-streams-groups.sh against a group with a member, and then without."""

from collections.abc import Callable
from typing import Any

from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from bowstring.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bowstring.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tests.conformance.drivers import Session
from tests.support.java_tools import TOOLS, java_tool
from tests.support.streams_topologies import subtopology, topology
from tests.support.waiting import wait_until
from tests.support.wire_client import WireClient

GROUPS = f"{TOOLS}.streams.StreamsGroupCommand"
GROUP_RESOURCE = 32
COORDINATORS_COME = (14, 15, 16)
NAMED_VERSION = 9


class Member:
    """The only member of a streams group; it has its tasks when it is made."""

    def __init__(self, bootstrap: str, group: str, source: str) -> None:
        self.group = group
        self.client = WireClient(int(bootstrap.rpartition(":")[2]))
        self.internal = [f"{group}-by-key-repartition", f"{group}-store-changelog"]
        self.epoch = 0
        delay = AlterableConfig(name="streams.initial.rebalance.delay.ms", value="0")
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=[delay])
        self.client.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        wait_until(lambda: not self._coordinator_error(), "no coordinator")
        sent = topology(
            subtopology("0", [source], sinks=[self.internal[0]]),
            subtopology("1", repartition=[self.internal[0]], changelogs=[self.internal[1]]),
        )
        joining: dict[str, Any] = {
            **{key: [] for key in ("active_tasks", "standby_tasks", "warmup_tasks")},
            "topology": sent,
            "process_id": "p",
            "rebalance_timeout_ms": 60_000,
        }
        wait_until(lambda: self.beat(**joining).error_code not in COORDINATORS_COME, "it does not join")
        wait_until(lambda: self.beat().active_tasks, "it gets no tasks")

    def _coordinator_error(self) -> int:
        answer = self.client.ask(FindCoordinatorRequest(coordinator_keys=[self.group]), 4)
        code: int = answer.coordinators[0].error_code
        return code

    def beat(self, **fields: Any) -> Any:
        """Sends a heartbeat."""
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group, member_id="m", member_epoch=self.epoch, **fields
        )
        answer = self.client.ask(request)
        if not answer.error_code:
            self.epoch = answer.member_epoch
        return answer

    def commit(self, topic: str, partition: int, offset: int) -> None:
        """Commits an offset."""
        part = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=self.group,
            member_id="m",
            generation_id_or_member_epoch=self.epoch,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[part])],
        )
        (answer,) = self.client.ask(request, NAMED_VERSION).topics
        assert answer.partitions[0].error_code == 0

    def leave(self) -> None:
        """Leaves the group."""
        self.epoch = -1
        assert self.beat().error_code == 0
        self.client.close()


def rows(text: str) -> list[list[str]]:
    """Lines as words."""
    return [line.split() for line in text.splitlines() if line.strip()]


def test_kafka_streams_groups(
    bootstrap: str, topic_name: str, make_topic: Callable[..., str], session: Callable[[str], Session]
) -> None:
    topic, group = make_topic(2), f"group-{topic_name}"
    session("confluent").produce(topic, [{"partition": 0, "value": b"x"} for _ in range(10)])
    member = Member(bootstrap, group, topic)
    member.commit(topic, 0, 6)
    member.commit(topic, 1, 0)
    at = ["--bootstrap-server", bootstrap]
    of_group = [*at, "--group", group]
    assert group in java_tool(GROUPS, *at, "--list").split()
    assert [group, "Stable"] in rows(java_tool(GROUPS, *at, "--list", "--state", "stable"))
    described = rows(java_tool(GROUPS, *of_group, "--describe", "--offsets"))
    assert any(row[:2] == [group, topic] and row[-1] == "4" for row in described), described
    (state,) = [row for row in rows(java_tool(GROUPS, *of_group, "--describe", "--state")) if group in row]
    assert "Stable" in state and state[-1] == "1"
    members = java_tool(GROUPS, *of_group, "--describe", "--members", "--verbose")
    assert " m " in members and "0:[0,1]" in members and "1:[0,1]" in members
    member.leave()
    reset = [*of_group, "--reset-offsets", "--to-earliest", "--input-topic", topic]
    assert [group, topic, "0", "0"] in [row[:4] for row in rows(java_tool(GROUPS, *reset, "--execute"))]
    assert "Successful" in java_tool(GROUPS, *of_group, "--delete-offsets", "--input-topic", topic)
    deleted = java_tool(GROUPS, *of_group, "--delete", "--delete-all-internal-topics")
    assert "successful" in deleted.lower(), deleted
    assert group not in java_tool(GROUPS, *at, "--list").split()
    left = session("confluent").call("list_topics")["topics"]
    assert not set(member.internal) & set(left), "its internal topics are deleted with it"
