"""A shell with topics, members of share groups (KIP-932), and share coordinators that tests answer for."""

from typing import Any

from bowstring.engine.groups.share.group import ShareGroup
from bowstring.engine.groups.state import RequestContext
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.support.consumer_group_harness import ConsumerShell


class ShareShell(ConsumerShell):
    """The group is `g` unless a test names another; assignments are computed at once.

    `asked` holds the initializations that share coordinators have yet to answer.
    """

    def __init__(self, **config: Any) -> None:
        super().__init__(**({"group_share_assignment_interval_ms": 0} | config))

    def initialized(self, error: Error = Errors.NONE) -> None:
        """Has share coordinators answer all pending initializations."""
        asked, self.asked = self.asked, []
        for effect in asked:
            self._carry(
                self.shard.share_state_initialized(
                    effect.group_id, effect.partitions, self.now_ms, error=error
                )
            )

    def share_beat(
        self, member_id: str, epoch: int, *topics: str, group: str = "g", **fields: Any
    ) -> ShareGroupHeartbeatResponse:
        """Sends a heartbeat and returns its answer."""
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=list(topics) or None,
            **fields,
        )
        token = next(self._tokens)
        context = RequestContext(1, "c", "/127.0.0.1")
        self._carry(self.shard.share_group_heartbeat(request, context, token, self.now_ms))
        return self.ask(token)

    def admin(self, event: Any) -> Any:
        """Passes an event with a token to the shard and returns its answer."""
        token = next(self._tokens)
        self._carry(event(self.shard, token))
        return self.ask(token)

    def share_group(self, group: str = "g") -> ShareGroup:
        """The group, which must be a share group."""
        found = self.shard.state.groups[group]
        assert isinstance(found, ShareGroup)
        return found

    def assigned_to(self, member_id: str, group: str = "g") -> dict[bytes, frozenset[int]]:
        """The partitions assigned to a member."""
        return dict(self.share_group(group).members[member_id].assigned)


class ShareMember:
    """A member as Kafka's share consumer behaves: `step` sends one heartbeat."""

    def __init__(self, shell: ShareShell, member_id: str, *topics: str) -> None:
        self.shell = shell
        self.member_id = member_id
        self.topics = topics
        self.epoch = 0

    def step(self) -> ShareGroupHeartbeatResponse:
        """Joins, or keeps its session."""
        answer = self.shell.share_beat(self.member_id, self.epoch, *(self.topics if not self.epoch else ()))
        fenced = answer.error_code in (Errors.UNKNOWN_MEMBER_ID.code, Errors.FENCED_MEMBER_EPOCH.code)
        if fenced or not answer.error_code:
            self.epoch = 0 if fenced else answer.member_epoch
        return answer

    @property
    def partitions(self) -> list[int]:
        """Its partitions, of all topics."""
        return sorted(index for held in self.shell.assigned_to(self.member_id).values() for index in held)


def settle_share(*members: ShareMember, rounds: int = 20) -> None:
    """Lets members send heartbeats, and share coordinators answer, until nothing changes."""
    for _ in range(rounds):
        before = [(member.epoch, member.epoch and member.partitions) for member in members]
        for member in members:
            member.step()
        asked = bool(members[0].shell.asked)
        members[0].shell.initialized()
        if not asked and before == [(member.epoch, member.epoch and member.partitions) for member in members]:
            return
    raise AssertionError("not settled")
