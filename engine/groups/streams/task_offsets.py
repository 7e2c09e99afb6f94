"""Holds what members of a streams group say of the offsets of their tasks' changelogs (KIP-1071).

The offsets change all the time and are not in the log. The assignor sticky does not use them.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bowstring.engine.groups.streams.tasks import TaskId
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.streams_group_heartbeat import TaskOffset


class TaskOffsets(NamedTuple):
    """Sums of the changelogs' offsets by task: how far a member has come, and where they end."""

    reached: Mapping[TaskId, int]
    ends: Mapping[TaskId, int]

    def updated(
        self, reached: Sequence[TaskOffset] | None, ends: Sequence[TaskOffset] | None
    ) -> "TaskOffsets":
        """Returns the offsets with those of a heartbeat; None stands for what has not changed.

        Raises:
            KafkaError: INVALID_REQUEST, a task is named twice.
        """
        return TaskOffsets(
            self.reached if reached is None else _by_task(reached),
            self.ends if ends is None else _by_task(ends),
        )


NO_OFFSETS = TaskOffsets({}, {})


def _by_task(offsets: Sequence[TaskOffset]) -> dict[TaskId, int]:
    found = {(each.subtopology_id, each.partition): each.offset for each in offsets}
    if len(found) < len(offsets):
        named = set[TaskId]()
        for each in offsets:
            task = (each.subtopology_id, each.partition)
            if task in named:
                raise KafkaError(
                    Errors.INVALID_REQUEST,
                    f"Task offsets contain a duplicate entry for subtopology {each.subtopology_id} and "
                    f"partition {each.partition}.",
                )
            named.add(task)
    return found
