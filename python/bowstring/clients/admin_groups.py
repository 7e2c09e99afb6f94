"""Admin's part for groups and their offsets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bowstring.clients import offset_queries
from bowstring.clients.admin_results import (
    ClusterDescription,
    GroupDescription,
    GroupLag,
    GroupListing,
    GroupMemberDescription,
)
from bowstring.clients.consumer_protocol import by_topic, decode_assignment
from bowstring.clients.errors import BrokerError, ProtocolError, broker_error
from bowstring.clients.offsets import commit_request, commit_results
from bowstring.clients.records import Node, OffsetAndMetadata, TopicPartition
from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages.delete_groups import DeleteGroupsRequest
from bowstring.engine.protocol.messages.describe_groups import DescribeGroupsRequest
from bowstring.engine.protocol.messages.list_groups import ListGroupsRequest
from bowstring.engine.protocol.messages.offset_commit import OffsetCommitRequest
from bowstring.engine.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

if TYPE_CHECKING:
    from bowstring.clients.cluster import Cluster
    from bowstring.clients.connection import Api, Body

# ListGroups filters by state from this version on (KIP-518).
STATES_VERSION = 4


class AdminGroups:
    """Mixed into Admin, which gives the calls."""

    if TYPE_CHECKING:
        _cluster: Cluster
        _lock: threading.RLock
        _timeout_s: float

        def _call(self, pick: Callable[[], Node | None], api: Api, body: Body) -> Any: ...

        def _coordinator_call(
            self, group: str, api: Api, body: Body, check: Callable[[Any], None]
        ) -> Any: ...

        def describe_cluster(self) -> ClusterDescription: ...  # noqa: D102

        def end_offsets(  # noqa: D102
            self, partitions: Iterable[TopicPartition]
        ) -> dict[TopicPartition, int]: ...

    def list_groups(self, states: Iterable[str] = ()) -> list[GroupListing]:
        """Groups of every broker, by name; only those in one of `states` (e.g. "Stable") if given."""
        wanted = {state.casefold() for state in states}
        found = {}
        for broker in self.describe_cluster().brokers:
            response = self._call(lambda node=broker: node, ListGroupsRequest, ListGroupsRequest())  # type: ignore[misc]
            if response.error_code:
                raise broker_error(response.error_code, f"listing the groups of {broker}")
            for group in response.groups:
                if not wanted or group.group_state.casefold() in wanted:
                    found[group.group_id] = GroupListing(
                        group.group_id, group.protocol_type, group.group_state, group.group_type
                    )
        return [found[name] for name in sorted(found)]

    def describe_group(self, group: str) -> GroupDescription:
        """State and members of a group.

        Raises:
            GroupError: there is no such group.
        """

        def check(response: Any) -> None:
            for answer in response.groups:
                if answer.error_code:
                    raise broker_error(answer.error_code, f"group {group!r}", answer.error_message)
                if answer.group_state == "Dead":
                    raise broker_error(
                        Errors.GROUP_ID_NOT_FOUND.code, f"group {group!r}", "there is no such group"
                    )

        request = DescribeGroupsRequest(groups=[group])
        answer = self._coordinator_call(group, DescribeGroupsRequest, request, check).groups[0]
        with self._lock:
            coordinator = offset_queries.find_coordinator(self._cluster, group, self._timeout_s)
        members = [
            GroupMemberDescription(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                _assignment(answer.protocol_type, member.member_assignment),
            )
            for member in answer.members
        ]
        return GroupDescription(
            group, answer.group_state, answer.protocol_type, answer.protocol_data, coordinator, members
        )

    def delete_groups(self, groups: Iterable[str]) -> None:
        """Deletes groups without members, and their offsets.

        Raises:
            GroupError: of the first that was refused: it has members, or there is none of this name.
        """
        for group in groups:

            def check(response: Any, group: str = group) -> None:
                for result in response.results:
                    if result.error_code:
                        raise broker_error(result.error_code, f"deleting group {group!r}")

            self._coordinator_call(
                group, DeleteGroupsRequest, DeleteGroupsRequest(groups_names=[group]), check
            )

    def committed_offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has stored, for `partitions` or for all; without those that have nothing."""
        with self._lock:
            return offset_queries.committed_offsets(self._cluster, group, partitions, self._timeout_s)

    def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Stores offsets for a group that has no members at the moment.

        Raises:
            GroupError: the group has members; stop them first.
        """
        committed = {
            TopicPartition(*partition): value
            if isinstance(value, OffsetAndMetadata)
            else OffsetAndMetadata(value)
            for partition, value in offsets.items()
        }

        def check(response: Any) -> None:
            for partition, code in commit_results(response).items():
                if code == Errors.UNKNOWN_MEMBER_ID.code:
                    raise broker_error(
                        Errors.NON_EMPTY_GROUP.code, f"group {group!r}", "the group has members"
                    )
                if code:
                    raise broker_error(code, f"storing the offset of {partition} in group {group!r}")

        self._coordinator_call(group, OffsetCommitRequest, commit_request(group, committed), check)

    def delete_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Forgets the stored offsets of partitions that the group does not read now (KIP-496).

        Raises:
            GroupError: there is no such group, or it reads one of the partitions.
        """
        topics = [
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers],
            )
            for topic, numbers in by_topic(partitions).items()
        ]

        def check(response: Any) -> None:
            if response.error_code:
                raise broker_error(response.error_code, f"group {group!r}")
            for topic in response.topics:
                for part in topic.partitions:
                    if part.error_code:
                        partition = TopicPartition(topic.name, part.partition_index)
                        raise broker_error(part.error_code, f"offset of {partition} in group {group!r}")

        request = OffsetDeleteRequest(group_id=group, topics=topics)
        self._coordinator_call(group, OffsetDeleteRequest, request, check)

    def group_lag(self, group: str) -> list[GroupLag]:
        """How far the group is behind in each partition it reads or has stored an offset for.

        Raises:
            GroupError: there is no such group.
        """
        description = self.describe_group(group)
        committed = self.committed_offsets(group)
        readers = {partition: member for member in description.members for partition in member.assignment}
        rows = []
        for partition in sorted(set(committed) | set(readers)):
            try:
                end = self.end_offsets([partition]).get(partition, -1)
            except BrokerError as error:
                if error.code != Errors.UNKNOWN_TOPIC_OR_PARTITION.code:
                    raise
                end = -1  # an offset outlives its topic for a while
            stored = committed[partition].offset if partition in committed else None
            lag = max(0, end - stored) if stored is not None and end >= 0 else None
            rows.append(GroupLag(partition, stored, end, lag, readers.get(partition)))
        return rows


def _assignment(protocol_type: str, data: bytes) -> list[TopicPartition]:
    if protocol_type != "consumer":
        return []
    try:
        return sorted(decode_assignment(data))
    except ProtocolError:
        return []  # some clients put bytes of their own there
