"""A shell with topics, and members of streams groups (KIP-1071) that tests move step by step."""

from __future__ import annotations

from typing import Any

from bowstring.engine.groups.state import RequestContext
from bowstring.engine.groups.streams.group import StreamsGroup
from bowstring.engine.groups.streams.heartbeat import HeartbeatAnswer
from bowstring.engine.groups.streams.statuses import Status
from bowstring.engine.groups.streams.tasks import task_set
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.streams_group_describe import DescribedGroup
from bowstring.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    Topology,
)
from tests.support.consumer_group_harness import ConsumerShell

Owned = dict[str, set[int]]
FENCED = {Errors.FENCED_MEMBER_EPOCH.code, Errors.UNKNOWN_MEMBER_ID.code, Errors.GROUP_ID_NOT_FOUND.code}


class StreamsShell(ConsumerShell):
    """The group of the tests is `g` unless they say otherwise; assignments are computed at once.

    Attributes:
        creates: Whether missing internal topics are created, as the broker does.
    """

    def __init__(self, **config: Any) -> None:
        config.setdefault("group_streams_assignment_interval_ms", 0)
        config.setdefault("group_streams_initial_rebalance_delay_ms", 0)
        super().__init__(**config)
        self.creates = True

    def streams_beat(
        self, member_id: str, epoch: int, *, group: str = "g", owned: Owned | None = None, **fields: Any
    ) -> StreamsGroupHeartbeatResponse:
        """Sends a heartbeat and returns the response; `owned` are active tasks."""
        return self.streams_answer(member_id, epoch, group=group, owned=owned, **fields).response

    def streams_answer(
        self, member_id: str, epoch: int, *, group: str = "g", owned: Owned | None = None, **fields: Any
    ) -> HeartbeatAnswer:
        """Sends a heartbeat and returns the answer of the core."""
        answer = self.ask(self.send_streams_beat(member_id, epoch, group=group, owned=owned, **fields))
        assert isinstance(answer, HeartbeatAnswer)
        if self.creates:
            for topic in answer.missing:
                if topic.name not in self.image.topics:
                    self.create(topic.name, topic.partitions)
        return answer

    def send_streams_beat(
        self,
        member_id: str,
        epoch: int,
        *,
        group: str = "g",
        owned: Owned | None = None,
        version: int = 0,
        **fields: Any,
    ) -> int:
        """Sends a heartbeat; returns its token."""
        if owned is not None:
            fields = {"standby_tasks": [], "warmup_tasks": [], "active_tasks": ids(owned)} | fields
        request = StreamsGroupHeartbeatRequest(
            group_id=group, member_id=member_id, member_epoch=epoch, **fields
        )
        token = next(self._tokens)
        context = RequestContext(version, "c", "/127.0.0.1")
        self._carry(self.shard.streams_group_heartbeat(request, context, token, self.now_ms))
        return token

    def join_streams(self, member_id: str, topology: Topology, process: str = "", **fields: Any) -> Any:
        """Sends the heartbeat of a member that joins."""
        fields.setdefault("rebalance_timeout_ms", 60_000)
        fields.setdefault("process_id", process or f"p-{member_id}")
        return self.streams_beat(member_id, 0, owned={}, topology=topology, **fields)

    def streams_group(self, group: str = "g") -> StreamsGroup:
        """The group, which must be a streams group."""
        found = self.shard.state.groups[group]
        assert isinstance(found, StreamsGroup)
        return found

    def described(self, group: str = "g") -> DescribedGroup:
        """The description of a group."""
        return self.shard.describe_streams_group(group)


def ids(tasks: Owned) -> list[TaskIds]:
    """Tasks as messages have them."""
    return [TaskIds(subtopology_id=name, partitions=sorted(each)) for name, each in tasks.items() if each]


def statuses(response: StreamsGroupHeartbeatResponse) -> list[Status]:
    """The statuses of an answer."""
    return [Status(each.status_code) for each in response.status or ()]


class StreamsMember:
    """A member as Kafka Streams behaves. `step` sends one heartbeat and follows the answer."""

    def __init__(
        self, shell: StreamsShell, member_id: str, topology: Topology, process: str = "", **fields: Any
    ) -> None:
        self.shell = shell
        self.member_id = member_id
        self.joining = {
            "topology": topology,
            "process_id": process or f"p-{member_id}",
            "rebalance_timeout_ms": 60_000,
            **fields,
        }
        instance_id = self.joining.pop("instance_id", None)
        self.identity = {} if instance_id is None else {"instance_id": instance_id}
        self.forget()

    def forget(self) -> None:
        """The member has been fenced, or its process has restarted."""
        self.epoch = 0
        self.active: Owned = {}
        self.standby: Owned = {}

    def step(self) -> StreamsGroupHeartbeatResponse:
        """Joins, or reports what it has; adopts tasks at once."""
        owned = {"active_tasks": ids(self.active), "standby_tasks": ids(self.standby), "warmup_tasks": []}
        told = owned | self.identity | (self.joining if self.epoch == 0 else {})
        answer = self.shell.streams_beat(self.member_id, self.epoch, **told)
        if answer.error_code in FENCED:
            self.forget()
            return answer
        if self.identity and answer.error_code == Errors.UNRELEASED_INSTANCE_ID.code:
            return answer  # until the session ends of the member that has the place
        assert answer.error_code == 0, answer
        assert answer.member_epoch >= self.epoch, "member epochs only rise"
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self.active = {name: set(each) for name, each in task_set(answer.active_tasks).items()}
            self.standby = {name: set(each) for name, each in task_set(answer.standby_tasks or ()).items()}
        return answer

    def leave(self, epoch: int = -1) -> StreamsGroupHeartbeatResponse:
        """Leaves the group; with epoch -2, a static member for a while."""
        self.forget()
        return self.shell.streams_beat(self.member_id, epoch, **self.identity)


def settle(*members: StreamsMember) -> None:
    """Sends heartbeats until nothing changes."""
    for _ in range(50):
        before = [(member.epoch, member.active, member.standby) for member in members]
        for member in members:
            member.step()
        if before == [(member.epoch, member.active, member.standby) for member in members]:
            return
    raise AssertionError("the group does not settle")
