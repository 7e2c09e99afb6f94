"""Describes groups one by one, for the describe API of each group type."""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any

from bowstring.engine.api.denials import denied_among, denies
from bowstring.engine.api.message_paths import found_at
from bowstring.engine.coordinators.effects import Respond
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Errors, KafkaError

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.groups.shard import GroupShard
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer

Describe = Callable[["GroupShard", str], Any]


class GroupRights:
    """What the client that requests descriptions may see.

    Args:
        topics: Paths to the names of topics in a description. A client that may not describe one of them does
            not get the description.
        advice: The error message that it gets.
    """

    def __init__(
        self,
        request: "Request",
        authorizer: "Authorizer",
        time_slices: "TimeSlices",
        *,
        topics: Iterable[str] = (),
        advice: str = "",
    ) -> None:
        self._request = request
        self._authorizer = authorizer
        self._time_slices = time_slices
        self._topics = tuple(topics)
        self._advice = advice

    def denies(self, group_id: str) -> bool:
        """Returns whether the client may not describe a group."""
        return denies(self._authorizer, self._request, AclOperation.DESCRIBE, AclResourceType.GROUP, group_id)

    def operations(self, group_id: str) -> int:
        """Returns the operations that the client may do on a group."""
        return self._authorizer.operations(self._request, AclResourceType.GROUP, group_id)

    async def check_topics(self, described: Any) -> None:
        """Checks that the client may describe all topics of a group.

        Raises:
            KafkaError: TOPIC_AUTHORIZATION_FAILED.
        """
        if not (self._authorizer.is_on and self._topics):
            return
        # Members of large groups come from a generator, which yields them once.
        described.members = [each async for each in self._time_slices.each(described.members)]
        names = (name for path in self._topics for name in found_at(described, path))
        operation, kind = AclOperation.DESCRIBE, AclResourceType.TOPIC
        if await denied_among(
            self._authorizer, self._request, operation, kind, names, time_slices=self._time_slices
        ):
            raise KafkaError(Errors.TOPIC_AUTHORIZATION_FAILED, self._advice)


async def described_groups(
    groups: "GroupCoordinatorService",
    group_ids: Iterable[str],
    describe: Describe,
    *,
    rights: GroupRights,
    refused: Callable[..., Any],
    with_operations: bool,
    enabled: bool = True,
    allows_empty_id: bool = False,
) -> AsyncIterator[Any]:
    """Yields the description of each group, in order, or an error for a group that cannot be described. As in
    Kafka, groups that the client may not describe come first.

    Args:
        describe: Returns the description of a group, by its shard.
        rights: What the client may see.
        refused: Makes a description from a group id and an error code.
        with_operations: Whether descriptions contain the operations that the client may perform.
        enabled: Whether the group type is enabled here.
        allows_empty_id: Whether "" is a group id.
    """
    denied: set[str] = set()
    if enabled:
        for group_id in group_ids:
            if rights.denies(group_id):
                denied.add(group_id)
                yield refused(group_id=group_id, error_code=Errors.GROUP_AUTHORIZATION_FAILED.code)
    for group_id in group_ids:
        if group_id in denied:
            continue
        try:
            if not enabled:
                raise KafkaError(Errors.UNSUPPORTED_VERSION)
            if not (group_id or allows_empty_id):
                raise KafkaError(Errors.INVALID_GROUP_ID)
            described = await _described(groups, group_id, describe)
        except KafkaError as error:
            described = refused(group_id=group_id, error_code=error.code)
        if with_operations and not described.error_code:
            described.authorized_operations = rights.operations(group_id)
        try:
            await rights.check_topics(described)
        except KafkaError as error:
            described = refused(group_id=group_id, error_code=error.code, error_message=error.detail)
        yield described


async def _described(groups: "GroupCoordinatorService", group_id: str, describe: Describe) -> Any:
    """Describes a group as it is now, once that is committed."""
    return await groups.ask(
        group_id, lambda shard, token, now_ms: [Respond(token, describe(shard, group_id))]
    )
