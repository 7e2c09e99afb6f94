"""Describes groups one by one, for the describe API of each group type."""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any

from bowstring.engine.api.authorized_operations import GROUP_OPERATIONS
from bowstring.engine.coordinators.effects import Respond
from bowstring.protocol.errors import Errors, KafkaError

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.groups.shard import GroupShard

Describe = Callable[["GroupShard", str], Any]


async def described_groups(
    groups: "GroupCoordinatorService",
    group_ids: Iterable[str],
    describe: Describe,
    *,
    refused: Callable[..., Any],
    with_operations: bool,
    enabled: bool = True,
    allows_empty_id: bool = False,
) -> AsyncIterator[Any]:
    """Yields the description of each group, in order, or an error for a group that cannot be described.

    Args:
        describe: Returns the description of a group, by its shard.
        refused: Makes a description from a group id and an error code.
        with_operations: Whether descriptions contain the operations that the client may perform.
        enabled: Whether the group type is enabled here.
        allows_empty_id: Whether "" is a group id.
    """
    for group_id in group_ids:
        try:
            if not enabled:
                raise KafkaError(Errors.UNSUPPORTED_VERSION)
            if not (group_id or allows_empty_id):
                raise KafkaError(Errors.INVALID_GROUP_ID)
            described = await _described(groups, group_id, describe)
        except KafkaError as error:
            described = refused(group_id=group_id, error_code=error.code)
        if with_operations and not described.error_code:
            described.authorized_operations = GROUP_OPERATIONS
        yield described


async def _described(groups: "GroupCoordinatorService", group_id: str, describe: Describe) -> Any:
    """Describes a group as it is now, once that is committed."""
    return await groups.ask(
        group_id, lambda shard, token, now_ms: [Respond(token, describe(shard, group_id))]
    )
