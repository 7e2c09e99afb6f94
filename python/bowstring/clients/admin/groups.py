"""Implements Admin's methods for groups and their offsets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bowstring.clients.admin import share_offsets
from bowstring.clients.admin.calls import AdminCalls
from bowstring.clients.admin.group_types import MODERN, classic_description
from bowstring.clients.admin.results import ClusterDescription, GroupDescription, GroupListing, ShareOffset
from bowstring.clients.errors import UnsupportedApiError, broker_error
from bowstring.clients.group import offset_queries
from bowstring.clients.group.offset_requests import commit_request, commit_results
from bowstring.clients.group.protocol import by_topic
from bowstring.clients.records import OffsetAndMetadata, TopicPartition
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from bowstring.protocol.messages.delete_groups import DeleteGroupsRequest
from bowstring.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from bowstring.protocol.messages.describe_groups import DescribeGroupsRequest
from bowstring.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from bowstring.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from bowstring.protocol.messages.list_groups import ListGroupsRequest
from bowstring.protocol.messages.offset_commit import OffsetCommitRequest
from bowstring.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

if TYPE_CHECKING:
    from bowstring.clients.net.connection import Api, Body
    from bowstring.clients.net.metadata import ClusterMetadata

# From this version on ListGroups filters by state (KIP-518).
STATES_VERSION = 4


class AdminGroups(AdminCalls):
    """Mixed into Admin."""

    if TYPE_CHECKING:
        _cluster: ClusterMetadata
        _lock: threading.RLock
        _timeout_s: float

        def _coordinator_call(
            self, group: str, api: Api, body: Body, check: Callable[[Any], None]
        ) -> Any: ...

        def describe_cluster(self) -> ClusterDescription: ...  # noqa: D102

        def end_offsets(  # noqa: D102
            self, partitions: Iterable[TopicPartition]
        ) -> dict[TopicPartition, int]: ...

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """Returns the groups of every broker, by name; only those in one of `states` (e.g. "Stable") and of
        one of `types` if given.

        Args:
            states: group states by Kafka's names; empty for all.
            types: "classic", "consumer", "share" and "streams"; empty for all.
        """
        wanted, kinds = {each.casefold() for each in states}, {each.casefold() for each in types}
        found = {}
        for broker in self.describe_cluster().brokers:
            response = self._call(lambda node=broker: node, ListGroupsRequest, ListGroupsRequest())  # type: ignore[misc]
            if response.error_code:
                raise broker_error(response.error_code, f"listing the groups of {broker}")
            for group in response.groups:
                fits = not kinds or group.group_type.casefold() in kinds
                if fits and (not wanted or group.group_state.casefold() in wanted):
                    found[group.group_id] = GroupListing(
                        group.group_id, group.protocol_type, group.group_state, group.group_type
                    )
        return [found[name] for name in sorted(found)]

    def describe_group(self, group: str) -> GroupDescription:
        """Returns state and members of a group of any type.

        Args:
            group: id of the group.

        Raises:
            GroupError: the group does not exist.
        """
        with self._lock:
            coordinator = offset_queries.find_coordinator(self._cluster, group, self._timeout_s)
        for kind in MODERN:
            answer = self._described(kind.request, kind.request(group_ids=[group]), group)
            if answer is not None:
                return kind.description(answer, coordinator)
        answer = self._described(DescribeGroupsRequest, DescribeGroupsRequest(groups=[group]), group)
        if answer is None:
            raise broker_error(Errors.GROUP_ID_NOT_FOUND.code, f"group {group!r}", "the group does not exist")
        return classic_description(answer, coordinator)

    def _described(self, api: Api, request: Body, group: str) -> Any:
        """Returns the only group of an answer; None if the coordinator has none of this type."""
        missing = Errors.GROUP_ID_NOT_FOUND.code

        def check(response: Any) -> None:
            for answer in response.groups:
                if answer.error_code not in (0, missing, Errors.UNSUPPORTED_VERSION.code):
                    raise broker_error(answer.error_code, f"group {group!r}", answer.error_message)

        try:
            answer = self._coordinator_call(group, api, request, check).groups[0]
        except UnsupportedApiError:
            return None
        return None if answer.error_code or answer.group_state == "Dead" else answer

    def delete_groups(self, groups: Iterable[str]) -> None:
        """Deletes groups without members, and their offsets.

        Args:
            groups: ids of the groups.

        Raises:
            GroupError: the first refusal: the group has members, or does not exist.
        """
        for group in groups:

            def check(response: Any, group: str = group) -> None:
                for result in response.results:
                    if result.error_code:
                        raise broker_error(result.error_code, f"deleting group {group!r}")

            self._coordinator_call(
                group, DeleteGroupsRequest, DeleteGroupsRequest(groups_names=[group]), check
            )

    def remove_members(self, group: str, members: Iterable[str], *, reason: str = "") -> None:
        """Removes members from a classic group, as if they left; those that run join again.

        Args:
            group: id of the group.
            members: member ids.
            reason: text that the coordinator logs (KIP-800).

        Raises:
            GroupError: the first refusal: there is no such member, or the group has another type.
        """
        leaving = [MemberIdentity(member_id=each, reason=reason or None) for each in members]

        def check(response: Any) -> None:
            if response.error_code:
                raise broker_error(response.error_code, f"group {group!r}")
            for member in response.members:
                if member.error_code:
                    what = f"removing member {member.member_id!r} from group {group!r}"
                    raise broker_error(member.error_code, what)

        request = LeaveGroupRequest(group_id=group, members=leaving)
        self._coordinator_call(group, LeaveGroupRequest, request, check)

    def committed_offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns a group's committed offsets, for `partitions` or for all; partitions without one are left
        out.

        Args:
            group: id of the group.
            partitions: topics and partition numbers; None for all with a committed offset.
        """
        with self._lock:
            return offset_queries.committed_offsets(self._cluster, group, partitions, self._timeout_s)

    def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Stores offsets for a group without members.

        Args:
            group: id of the group.
            offsets: offset of the next record to read, by partition.

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
        """Deletes the committed offsets of partitions that no member of the group reads (KIP-496).

        Args:
            group: id of the group.
            partitions: topics and partition numbers.

        Raises:
            GroupError: the group does not exist, or reads one of the partitions.
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

    # ------------------------------------------------------------ share groups

    def describe_share_offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareOffset]:
        """Returns where a share group is in `partitions`, or in all that it has read (KIP-932).

        Args:
            group: id of the group.
            partitions: topics and partition numbers; None for all.

        Raises:
            GroupError: there is no share group of this id.
        """
        request = share_offsets.describe_request(group, partitions)
        check = share_offsets.check_description(group)
        answer = self._coordinator_call(group, DescribeShareGroupOffsetsRequest, request, check)
        return share_offsets.described(answer)

    def alter_share_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Moves a share group without members: records below the offsets count as done.

        Args:
            group: id of the group.
            offsets: offset of the next record to deliver, by partition.

        Raises:
            GroupError: the group has members; stop them first.
        """
        request = share_offsets.alter_request(group, offsets)
        check = share_offsets.check_alteration(group)
        self._coordinator_call(group, AlterShareGroupOffsetsRequest, request, check)

    def delete_share_offsets(self, group: str, topics: Iterable[str]) -> None:
        """Forgets where a share group without members is in topics.

        Args:
            group: id of the group.
            topics: names of topics.

        Raises:
            GroupError: the group has members; stop them first.
        """
        request = share_offsets.delete_request(group, topics)
        check = share_offsets.check_deletion(group)
        self._coordinator_call(group, DeleteShareGroupOffsetsRequest, request, check)
