"""Implements Admin's methods that describe many groups with few requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bowstring.clients.admin.calls import AdminCalls
from bowstring.clients.admin.group_types import MODERN_BY_NAME, classic_description
from bowstring.clients.admin.results import GroupDescription, GroupLag, GroupListing
from bowstring.clients.errors import ClientError, UnsupportedApiError, broker_error
from bowstring.clients.group.offset_requests import GROUPS_VERSION, fetch_request, fetched_offsets
from bowstring.clients.net.coordinators import coordinator_name, coordinator_request
from bowstring.clients.records import Node, OffsetAndMetadata, TopicInfo, TopicPartition
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.describe_groups import DescribeGroupsRequest
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)

if TYPE_CHECKING:
    from bowstring.clients.net.metadata import ClusterMetadata

_GONE = Errors.GROUP_ID_NOT_FOUND.code


class AdminManyGroups(AdminCalls):
    """Mixed into Admin, which provides the calls."""

    if TYPE_CHECKING:
        _cluster: ClusterMetadata
        _lock: threading.RLock
        _timeout_s: float

        def _lags_of_known(
            self,
            known: Mapping[str, tuple[GroupDescription, Mapping[TopicPartition, OffsetAndMetadata]]],
            topics: Mapping[str, TopicInfo] | None = None,
        ) -> dict[str, list[GroupLag]]: ...

        def _share_lag(self, group: str) -> list[GroupLag]: ...

    def describe_groups(self, groups: Iterable[GroupListing]) -> dict[str, GroupDescription | ClientError]:
        """Returns state and members of groups, with one request for each coordinator and type of group.

        A group that could not be described has the error instead; groups that are gone are left out.

        Args:
            groups: as `list_groups` returns them, whose types choose the requests.
        """
        listed = {each.group_id: each for each in groups}
        found: dict[str, GroupDescription | ClientError] = {}
        with self._lock:
            asked: dict[tuple[Node, str], list[str]] = {}
            for name, node in self._coordinators(list(listed)).items():
                if isinstance(node, ClientError):
                    found[name] = node
                else:
                    kind = listed[name].group_type.casefold()
                    asked.setdefault((node, kind if kind in MODERN_BY_NAME else ""), []).append(name)
            waiting = []
            for (node, kind), names in asked.items():
                api: Any = MODERN_BY_NAME[kind].request if kind else DescribeGroupsRequest
                body = api(group_ids=names) if kind else api(groups=names)
                waiting.append((node, kind, names, self._sent(node, api, body)))
            for node, kind, names, pending in waiting:
                describe = MODERN_BY_NAME[kind].description if kind else classic_description
                found |= self._answers(names, pending, lambda each, do=describe, at=node: do(each, at))  # type: ignore[misc]
        return {name: found[name] for name in listed if name in found}

    def _answers(
        self, names: list[str], pending: Any, described: Callable[[Any], GroupDescription]
    ) -> dict[str, GroupDescription | ClientError]:
        try:
            answers = self._cluster.client.wait(pending).groups
        except ClientError as error:
            return dict.fromkeys(names, error)
        found: dict[str, GroupDescription | ClientError] = {}
        for answer in answers:
            if answer.error_code not in (0, _GONE):
                found[answer.group_id] = broker_error(
                    answer.error_code, f"group {answer.group_id!r}", answer.error_message
                )
            elif not answer.error_code and answer.group_state != "Dead":
                found[answer.group_id] = described(answer)
        return found

    def _sent(self, node: Node, api: Any, body: Any) -> Any:
        return self._cluster.client.send(node, api, body, timeout_s=self._timeout_s)

    def _coordinators(self, groups: list[str]) -> dict[str, Node | ClientError]:
        """Returns the coordinator of each group; one request, or one for each before Kafka 3.0."""
        found: dict[str, Node | ClientError] = {}
        while left := [each for each in groups if each not in found]:
            answer = self._cluster.call(
                self._cluster.any_node, FindCoordinatorRequest, coordinator_request(*left), self._timeout_s
            )
            for each in answer.coordinators or [answer]:
                name = each.key or left[0]
                found[name] = Node(each.node_id, each.host, each.port)
                if each.error_code:
                    found[name] = broker_error(each.error_code, coordinator_name(name), each.error_message)
        return found

    def group_lags_of(
        self,
        descriptions: Iterable[GroupDescription],
        topics: Mapping[str, TopicInfo] | None = None,
    ) -> dict[str, list[GroupLag] | ClientError]:
        """Returns the lag of groups in their partitions, with few requests; a group whose offsets could not
        be read has the error instead.

        Args:
            descriptions: as `describe_groups` returns them.
            topics: what `topics` returned not long ago; None asks for them.
        """
        found: dict[str, list[GroupLag] | ClientError] = {}
        others = []
        for each in descriptions:
            if each.group_type != "share":
                others.append(each)
                continue
            try:
                found[each.group_id] = self._share_lag(each.group_id)
            except ClientError as error:
                found[each.group_id] = error
        known = {}
        for description, offsets in self._offsets_of(others):
            if isinstance(offsets, ClientError):
                found[description.group_id] = offsets
            else:
                known[description.group_id] = description, offsets
        return found | self._lags_of_known(known, topics)

    def _offsets_of(
        self, descriptions: Iterable[GroupDescription]
    ) -> list[tuple[GroupDescription, dict[TopicPartition, OffsetAndMetadata] | ClientError]]:
        by_node: dict[Node, list[GroupDescription]] = {}
        for each in descriptions:
            by_node.setdefault(each.coordinator, []).append(each)
        found: list[tuple[GroupDescription, dict[TopicPartition, OffsetAndMetadata] | ClientError]] = []
        with self._lock:
            waiting = []
            for node, groups in by_node.items():
                for together in self._in_one_request(node, groups):
                    body = _offsets_request([each.group_id for each in together])
                    waiting.append((together, self._sent(node, OffsetFetchRequest, body)))
            for together, pending in waiting:
                answers: Any
                try:
                    answer = self._cluster.client.wait(pending)
                    answers = {each.group_id: each for each in answer.groups} or {
                        together[0].group_id: answer
                    }
                except ClientError as error:
                    found += [(each, error) for each in together]
                    continue
                found += [(each, _offsets(each.group_id, answers.get(each.group_id))) for each in together]
        return found

    def _in_one_request(self, node: Node, groups: list[GroupDescription]) -> Iterable[list[GroupDescription]]:
        """Returns which groups go into each request: all in one since Kafka 3.0 (KIP-709)."""
        _, highest = self._cluster.client.versions(node).get(OffsetFetchRequest.api_key, (0, 0))
        return [groups] if highest >= GROUPS_VERSION else [[each] for each in groups]


def _offsets_request(groups: list[str]) -> Callable[[int], OffsetFetchRequest]:
    alone = fetch_request(groups[0], None)

    def build(version: int) -> OffsetFetchRequest:
        if version < GROUPS_VERSION:
            return alone(version)
        return OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=each, topics=None) for each in groups]
        )

    return build


def _offsets(group: str, answer: Any) -> dict[TopicPartition, OffsetAndMetadata] | ClientError:
    if answer is None:
        return UnsupportedApiError(f"the coordinator did not answer for group {group!r}")
    try:
        single = answer if isinstance(answer, OffsetFetchResponse) else OffsetFetchResponse(groups=[answer])
        return fetched_offsets(group, single)
    except ClientError as error:
        return error
