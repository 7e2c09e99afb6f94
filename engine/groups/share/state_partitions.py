"""Holds which share partitions of a group have state at their share coordinators."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

UNKNOWN_TOPIC = "<UNKNOWN>"
"""The topic name in records of a topic that no longer exists."""


class StateTopic(NamedTuple):
    """Partitions of a topic.

    Attributes:
        since_ms: When this was written or read, wall time.
    """

    name: str
    partitions: frozenset[int]
    since_ms: int = 0


Topics = Mapping[bytes, StateTopic]
"""By topic id."""


class StatePartitions(NamedTuple):
    """Share partitions of a group by how far their state is.

    Attributes:
        initializing: The share coordinator has been requested to create their state.
        initialized: Their state is there, so members may get them.
        deleting: Names of topics, by id, whose state the share coordinator has been requested to delete.
    """

    initializing: Topics
    initialized: Topics
    deleting: Mapping[bytes, str]

    def begun(self, topics: Topics) -> "StatePartitions":
        """Returns it with partitions that are being initialized; their topics are no longer deleted."""
        initializing = united(self.initializing, topics)
        deleting = {id: name for id, name in self.deleting.items() if id not in initializing}
        return self._replace(initializing=initializing, deleting=deleting)

    def initialized_now(self, topics: Topics) -> "StatePartitions":
        """Returns it with partitions that have state now."""
        return self._replace(
            initializing=without(self.initializing, topics), initialized=united(self.initialized, topics)
        )

    def given_up(self, topics: Topics) -> "StatePartitions":
        """Returns it without partitions whose state could not be created: a later heartbeat tries again."""
        return self._replace(initializing=without(self.initializing, topics))

    def without_topics(self, topic_ids: Iterable[bytes]) -> "StatePartitions":
        """Returns it without topics."""
        gone = set(topic_ids)
        return StatePartitions(
            {id: each for id, each in self.initializing.items() if id not in gone},
            {id: each for id, each in self.initialized.items() if id not in gone},
            {id: name for id, name in self.deleting.items() if id not in gone},
        )


NO_PARTITIONS = StatePartitions({}, {}, {})


def united(one: Topics, other: Topics) -> dict[bytes, StateTopic]:
    """Returns the partitions of both; names and times of `other` win."""
    found = dict(one)
    for topic_id, topic in other.items():
        held = found.get(topic_id)
        found[topic_id] = (
            topic if held is None else topic._replace(partitions=held.partitions | topic.partitions)
        )
    return found


def without(one: Topics, other: Topics) -> dict[bytes, StateTopic]:
    """Returns the partitions of `one` that are not in `other`."""
    found = {}
    for topic_id, topic in one.items():
        left = topic.partitions - other[topic_id].partitions if topic_id in other else topic.partitions
        if left:
            found[topic_id] = topic._replace(partitions=left)
    return found
