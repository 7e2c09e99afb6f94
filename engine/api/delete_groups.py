"""DeleteGroups: deletes empty groups with their offsets (KIP-229)."""

from typing import TYPE_CHECKING

from bowstring.engine.errors import KafkaError
from bowstring.engine.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request


async def handle(broker: "Broker", request: "Request") -> DeleteGroupsResponse:
    """Groups of one partition go in one append; each group has its own result."""
    body: DeleteGroupsRequest = request.body
    by_partition: dict[int, list[str]] = {}
    for group_id in dict.fromkeys(body.groups_names):
        by_partition.setdefault(broker.groups.partition_of(group_id), []).append(group_id)
    results: list[DeletableGroupResult] = []
    for partition, group_ids in by_partition.items():
        results += await _delete(broker, partition, group_ids)
    return DeleteGroupsResponse(results=results)


async def _delete(broker: "Broker", partition: int, group_ids: list[str]) -> list[DeletableGroupResult]:
    try:
        answer: DeleteGroupsResponse = await broker.groups.ask_partition(
            partition, lambda shard, token, now_ms: shard.delete_groups(group_ids, token)
        )
    except KafkaError as error:
        return [DeletableGroupResult(group_id=group_id, error_code=error.code) for group_id in group_ids]
    return answer.results
