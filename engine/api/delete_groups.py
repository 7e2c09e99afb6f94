"""Handles DeleteGroups: deletes empty groups with their offsets (KIP-229)."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from bowstring.engine.api.denials import denies
from bowstring.engine.api.share_state_deletion import delete_share_state
from bowstring.engine.requests.time_slices import portions, streamed
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer
    from bowstring.engine.share.persister.network import NetworkPersister

_AT_ONCE: Final = 500


async def handle(
    request: "Request",
    *,
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    persister: "NetworkPersister",
    authorizer: "Authorizer",
) -> DeleteGroupsResponse:
    """Deletes the groups of each partition in one append, unless there are very many; each group has its own
    result. Those that the client may not delete come last.
    """
    body: DeleteGroupsRequest = request.body
    by_partition: dict[int, list[str]] = {}
    group_ids = await time_slices.different(body.groups_names)
    denied: list[str] = []
    async for group_id in time_slices.each(group_ids):
        if denies(authorizer, request, AclOperation.DELETE, AclResourceType.GROUP, group_id):
            denied.append(group_id)
        else:
            by_partition.setdefault(groups.partition_of(group_id), []).append(group_id)
    return DeleteGroupsResponse(
        results=streamed(_results(time_slices, groups, persister, by_partition, denied))
    )


async def _results(
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    persister: "NetworkPersister",
    by_partition: dict[int, list[str]],
    denied: list[str],
) -> AsyncIterator[DeletableGroupResult]:
    for partition, group_ids in by_partition.items():
        for portion in portions(group_ids, _AT_ONCE):
            for result in await _delete(time_slices, groups, persister, partition, portion):
                yield result
    for group_id in denied:
        yield DeletableGroupResult(group_id=group_id, error_code=Errors.GROUP_AUTHORIZATION_FAILED.code)


async def _delete(
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    persister: "NetworkPersister",
    partition: int,
    group_ids: list[str],
) -> list[DeletableGroupResult]:
    try:
        failed = await _delete_share_state(time_slices, groups, persister, partition, group_ids)
        left = [group_id for group_id in group_ids if group_id not in failed]
        answer: DeleteGroupsResponse = await groups.ask_partition(
            partition, lambda shard, token, now_ms: shard.delete_groups(left, token)
        )
    except KafkaError as error:
        return [DeletableGroupResult(group_id=group_id, error_code=error.code) for group_id in group_ids]
    return answer.results + [
        DeletableGroupResult(group_id=group_id, error_code=error.code) for group_id, error in failed.items()
    ]


async def _delete_share_state(
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    persister: "NetworkPersister",
    partition: int,
    group_ids: list[str],
) -> dict[str, Error]:
    """Deletes the state of share groups among the groups; returns errors by group id."""
    begun: dict[str, tuple[tuple[bytes, int], ...]] | KafkaError = await groups.ask_partition(
        partition, lambda shard, token, now_ms: shard.delete_share_groups(group_ids, token)
    )
    if isinstance(begun, KafkaError):
        raise begun
    failed: dict[str, Error] = {}
    for group_id, partitions in begun.items():
        for error in (await delete_share_state(time_slices, persister, group_id, partitions)).values():
            if error:
                failed[group_id] = error
    return failed
