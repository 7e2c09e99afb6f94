"""Chooses the protocol of a group: KIP-848's where the broker has it, unless classic members are at work."""

from __future__ import annotations

from bowstring.clients.group.coordinated import COORDINATOR_ERRORS, IDLE_S, CoordinatedMember
from bowstring.clients.net.connection import Pending
from bowstring.clients.records import Node
from bowstring.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from bowstring.protocol.messages.describe_groups import DescribeGroupsRequest

# States of a classic group that has members. A member of the new protocol would convert such a group
# (KIP-848), which is the operator's decision: set group_protocol="consumer" for it.
_WITH_MEMBERS = ("PreparingRebalance", "CompletingRebalance", "Stable")


class UndecidedMember(CoordinatedMember):
    """A member that has not joined: it learns how from the coordinator."""

    chosen: str | None = None
    """ "consumer" or "classic" once it is known."""

    def _found_coordinator(self, pending: Pending) -> None:
        super()._found_coordinator(pending)
        if pending.error is None and not self._offered(pending.node):
            self.chosen = "classic"

    def _offered(self, node: Node) -> bool:
        return ConsumerGroupHeartbeatRequest.api_key in self._client.versions(node)

    def polled(self) -> None:
        """See CoordinatedMember: no group waits for this member yet."""

    def tick(self, *, join: bool = True) -> float:
        """See CoordinatedMember."""
        wait_s = self._find()
        if self.chosen is not None:
            return 0.0
        if wait_s is not None or not join or self._coordinator is None:
            return IDLE_S if wait_s is None else wait_s
        request = DescribeGroupsRequest(groups=[self._group_id])
        pending = self._client.send(
            self._coordinator, DescribeGroupsRequest, request, callback=self._described
        )
        if not pending.done:
            self._pending = pending
        return IDLE_S

    def _described(self, pending: Pending) -> None:
        self._done(pending)
        if pending.error is not None:
            if pending.error.retriable:
                self.coordinator_lost(pending.node)
            else:
                self.chosen = "classic"
            return
        answer = pending.response.groups[0]
        if answer.error_code in COORDINATOR_ERRORS:
            self.coordinator_lost(pending.node)
        elif not self._offered(pending.node) or (
            not answer.error_code and answer.group_state in _WITH_MEMBERS
        ):
            self.chosen = "classic"
        else:
            self.chosen = "consumer"

    def leave(self, *, for_good: bool = True) -> None:
        """See CoordinatedMember: it is not in the group."""
