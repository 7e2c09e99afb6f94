"""Deletes the state of share partitions at their share coordinators."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from bowstring.engine.requests.time_slices import portions
from bowstring.engine.share.persister.interface import SharePartitionKey
from bowstring.protocol.errors import Error, Errors

if TYPE_CHECKING:
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.share.persister.network import NetworkPersister

_AT_ONCE: Final = 100


async def delete_share_state(
    time_slices: "TimeSlices",
    persister: "NetworkPersister",
    group_id: str,
    partitions: Iterable[tuple[bytes, int]],
) -> dict[bytes, Error]:
    """Deletes the state of partitions, by topic id and index; returns an error for each topic, NONE when all
    of its partitions are deleted.
    """
    errors: dict[bytes, Error] = {}
    async for portion in time_slices.each(portions(partitions, _AT_ONCE)):
        found = await asyncio.gather(
            *(persister.delete(SharePartitionKey(group_id, *partition)) for partition in portion)
        )
        for (topic_id, _), error in zip(portion, found, strict=True):
            errors[topic_id] = errors.get(topic_id, Errors.NONE) or error
    return errors
