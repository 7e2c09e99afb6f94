"""Holds the topology of a streams group: its subtopologies and their topics."""

from collections.abc import Iterable
from typing import Any

from bowstring.engine.groups.streams.statuses import InvalidTopology
from bowstring.protocol.records import streams_group as records


class Topology:
    """A topology as members send it and as the log has it. Do not modify.

    Attributes:
        epoch: Its version, chosen by the application.
        subtopologies: By id.
        subtopology_of: Id of the subtopology that reads a topic, by name of a source or repartition topic.
        required_topics: Names of all topics that must exist before there are tasks.
    """

    __slots__ = ("epoch", "required_topics", "subtopologies", "subtopology_of")

    def __init__(self, epoch: int, subtopologies: Iterable[records.Subtopology]) -> None:
        self.epoch = epoch
        self.subtopologies: dict[str, records.Subtopology] = {}
        self.subtopology_of: dict[str, str] = {}
        required: set[str] = set()
        for each in subtopologies:
            self.subtopologies[each.subtopology_id] = each
            sources = [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
            self.subtopology_of.update(dict.fromkeys(sources, each.subtopology_id))
            required.update(sources)
            required.update(topic.name for topic in each.state_changelog_topics)
        self.required_topics = frozenset(required)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Topology)
            and self.epoch == other.epoch
            and self.subtopologies == other.subtopologies
        )

    __hash__ = None  # type: ignore[assignment]

    def record_value(self) -> records.StreamsGroupTopologyValue:
        """Returns the topology as the log has it."""
        return records.StreamsGroupTopologyValue(
            epoch=self.epoch, subtopologies=list(self.subtopologies.values())
        )


def from_record(value: records.StreamsGroupTopologyValue) -> Topology:
    """Returns the topology of a record."""
    return Topology(value.epoch, value.subtopologies)


def from_request(topology: Any) -> Topology:
    """Returns the topology of a StreamsGroupHeartbeat.

    Raises:
        InvalidTopology: It names a subtopology twice, has a negative epoch, or says how many partitions a
            changelog topic has.
    """
    if topology.epoch < 0:
        raise InvalidTopology("Topology epoch must be non-negative.")
    named: set[str] = set()
    for subtopology in topology.subtopologies:
        if subtopology.subtopology_id in named:
            raise InvalidTopology(f"Subtopology {subtopology.subtopology_id} is defined twice.")
        named.add(subtopology.subtopology_id)
        for topic in subtopology.state_changelog_topics:
            if topic.partitions != 0:
                raise InvalidTopology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}."
                )
    return Topology(topology.epoch, (_subtopology(each) for each in topology.subtopologies))


def _subtopology(each: Any) -> records.Subtopology:
    return records.Subtopology(
        subtopology_id=each.subtopology_id,
        source_topics=list(each.source_topics),
        source_topic_regex=list(each.source_topic_regex),
        state_changelog_topics=[_topic(topic) for topic in each.state_changelog_topics],
        repartition_sink_topics=list(each.repartition_sink_topics),
        repartition_source_topics=[_topic(topic) for topic in each.repartition_source_topics],
        copartition_groups=[
            records.CopartitionGroup(
                source_topics=list(group.source_topics),
                source_topic_regex=list(group.source_topic_regex),
                repartition_source_topics=list(group.repartition_source_topics),
            )
            for group in each.copartition_groups
        ],
    )


def _topic(topic: Any) -> records.TopicInfo:
    return records.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[records.TopicConfig(key=each.key, value=each.value) for each in topic.topic_configs],
    )
