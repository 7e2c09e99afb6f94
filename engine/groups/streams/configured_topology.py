"""Fits a topology to the topics that exist: numbers of tasks, partitions of internal topics, missing topics.

As Kafka's InternalTopicManager does: source topics must exist; repartition topics get as many partitions as
the largest input of the subtopologies that write them; topics of a copartition group get the same number;
changelog topics as many as their subtopology has tasks.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from bowstring.engine.groups.streams.statuses import InvalidTopology, Status, TopicsNotReady
from bowstring.engine.groups.streams.topology import Topology
from bowstring.protocol.records.streams_group import Subtopology, TopicInfo

PartitionsOf = Callable[[str], int | None]
"""Number of partitions of a topic; None while it does not exist."""
_NAMED_MAX: Final = 3


class InternalTopic(NamedTuple):
    """A repartition or changelog topic; a replication factor of 0 takes the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology whose numbers of partitions are decided."""

    tasks: int
    source_topics: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state, so that standby tasks make sense."""
        return bool(self.changelogs)

    def input_topics(self) -> list[str]:
        """Returns the names of the topics that it reads, in order."""
        return sorted({*self.source_topics, *(topic.name for topic in self.repartition_sources)})


class ConfiguredTopology(NamedTuple):
    """What a topology means with the present topics.

    Attributes:
        subtopologies: By id, in order; empty when the topics do not fit at all.
        missing: Internal topics that must be created.
        problem: Why there are no tasks yet; None when the topology is ready.
    """

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology]
    missing: tuple[InternalTopic, ...]
    problem: TopicsNotReady | None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.problem is None


def configure(topology: Topology, partitions_of: PartitionsOf) -> ConfiguredTopology:
    """Decides the numbers of partitions of internal topics.

    Raises:
        InvalidTopology: No topics could ever make it work.
    """
    try:
        _check_sources(topology, partitions_of)
        decided = _Decided(topology, partitions_of)
        subtopologies = {
            each: decided.subtopology(topology.subtopologies[each]) for each in sorted(topology.subtopologies)
        }
        missing = _missing(topology, subtopologies, partitions_of)
    except TopicsNotReady as unfit:
        return ConfiguredTopology(topology.epoch, {}, (), unfit)
    problem = None
    if missing:
        names = _summary([topic.name for topic in missing])
        problem = TopicsNotReady(Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}")
    return ConfiguredTopology(topology.epoch, subtopologies, missing, problem)


def _check_sources(topology: Topology, partitions_of: PartitionsOf) -> None:
    missing = sorted(
        {
            topic
            for subtopology in topology.subtopologies.values()
            for topic in subtopology.source_topics
            if partitions_of(topic) is None
        }
    )
    if missing:
        raise TopicsNotReady(Status.MISSING_SOURCE_TOPICS, f"Source topics {_summary(missing)} are missing.")


def _summary(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX} additional topics" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more


def _missing(
    topology: Topology,
    subtopologies: Mapping[str, ConfiguredSubtopology],
    partitions_of: PartitionsOf,
) -> tuple[InternalTopic, ...]:
    wanted = {
        topic.name: topic
        for subtopology in subtopologies.values()
        for topic in (*subtopology.repartition_sources, *subtopology.changelogs)
    }
    for name in sorted(topology.required_topics):
        found = partitions_of(name)
        if found is None or name not in wanted:
            continue
        expected = wanted.pop(name).partitions
        if found != expected:
            raise TopicsNotReady(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {expected}, found "
                f"{found}",
            )
    return tuple(wanted[name] for name in sorted(wanted))


class _Decided:
    """Numbers of partitions: the actual ones of existing topics, the planned ones of others."""

    def __init__(self, topology: Topology, partitions_of: PartitionsOf) -> None:
        self._existing = partitions_of
        # As in Kafka, an input counts only if it was decided before, so the order matters: as they are
        # numbered.
        self._subtopologies = sorted(
            topology.subtopologies.values(), key=lambda each: (len(each.subtopology_id), each.subtopology_id)
        )
        self._decided: dict[str, int] = {}
        self._decide_repartition_topics()
        self._decide_copartitioned_topics()
        for subtopology in self._subtopologies:
            tasks = self._tasks(subtopology)
            self._decided.update((topic.name, tasks) for topic in subtopology.state_changelog_topics)

    def subtopology(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        """Returns a subtopology with its numbers."""
        return ConfiguredSubtopology(
            self._tasks(subtopology),
            tuple(sorted(set(subtopology.source_topics))),
            self._topics(subtopology.repartition_source_topics),
            tuple(sorted(set(subtopology.repartition_sink_topics))),
            self._topics(subtopology.state_changelog_topics),
        )

    def _topics(self, topics: Iterable[TopicInfo]) -> tuple[InternalTopic, ...]:
        return tuple(
            InternalTopic(
                topic.name,
                self._at_least_one(topic.name, topic.partitions or self._decided[topic.name]),
                topic.replication_factor,
                {config.key: config.value for config in topic.topic_configs},
            )
            for topic in sorted(topics, key=lambda topic: topic.name)
        )

    def _at_least_one(self, name: str, partitions: int) -> int:
        if partitions < 1:
            raise InvalidTopology(f"Topic {name} cannot have {partitions} partitions.")
        return partitions

    def _count(self, topic: str) -> int | None:
        existing = self._existing(topic)
        return self._decided.get(topic) if existing is None else existing

    def _known(self, topic: str) -> int:
        count = self._count(topic)
        if count is None:
            raise InvalidTopology(f"The number of partitions of topic {topic} cannot be decided.")
        return count

    def _tasks(self, subtopology: Subtopology) -> int:
        names = [*subtopology.source_topics, *(each.name for each in subtopology.repartition_source_topics)]
        if not names:
            raise InvalidTopology(f"No source topics found for subtopology {subtopology.subtopology_id}")
        return max(self._known(name) for name in names)

    # ---- repartition topics

    def _decide_repartition_topics(self) -> None:
        """Follows the inputs of subtopologies to the repartition topics that they write, until none is
        left.
        """
        counts = {
            topic.name: topic.partitions
            for subtopology in self._subtopologies
            for topic in subtopology.repartition_source_topics
            if topic.partitions != 0
        }
        open_subtopologies = self._subtopologies
        while open_subtopologies:
            still_open = []
            for subtopology in open_subtopologies:
                sinks = [name for name in subtopology.repartition_sink_topics if name not in counts]
                count = self._largest_input(subtopology, counts) if sinks else None
                if count is not None:
                    counts.update(dict.fromkeys(sinks, count))
                elif sinks:
                    still_open.append(subtopology)
            if len(still_open) == len(open_subtopologies):
                raise InvalidTopology(
                    "Failed to compute number of partitions for all repartition topics. There may be loops "
                    "in the topology that cannot be resolved."
                )
            open_subtopologies = still_open
        for subtopology in self._subtopologies:
            if any(topic.name not in counts for topic in subtopology.repartition_source_topics):
                raise InvalidTopology(
                    "Failed to compute number of partitions for all repartition topics, because a "
                    "repartition source topic is never used as a sink topic."
                )
        self._decided.update(counts)

    def _largest_input(self, subtopology: Subtopology, counts: Mapping[str, int]) -> int | None:
        inputs = [counts.get(topic.name) for topic in subtopology.repartition_source_topics]
        inputs += [self._existing(name) for name in subtopology.source_topics]
        return max((count for count in inputs if count is not None), default=None)

    # ---- copartition groups

    def _decide_copartitioned_topics(self) -> None:
        repartition = [
            topic for subtopology in self._subtopologies for topic in subtopology.repartition_source_topics
        ]
        fixed = {topic.name for topic in repartition if topic.partitions != 0}
        flexible = {topic.name for topic in repartition if topic.partitions == 0}
        for subtopology in self._subtopologies:
            for names in _copartition_groups(subtopology):
                self._copartition(names, fixed, flexible)

    def _copartition(self, names: frozenset[str], fixed: set[str], flexible: set[str]) -> None:
        internal = {name: self._known(name) for name in sorted(names) if name in fixed or name in flexible}
        external = {name: self._known(name) for name in sorted(names) if name not in internal}
        if external:
            count = _same(external.values(), external)
        elif fixed:
            # As in Kafka, all topics of the topology with a number of their own count here.
            count = _same([self._known(name) for name in sorted(fixed)], internal)
        else:
            count = max(internal.values())
        for name, present in internal.items():
            if name in fixed and present != count:
                raise TopicsNotReady(
                    Status.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{present}] of repartition topic [{name}] doesn't match number of "
                    f"partitions [{count}] of the source topic.",
                )
            self._decided[name] = count


def _same(counts: Iterable[int], topics: Mapping[str, int]) -> int:
    different = set(counts)
    if len(different) > 1:
        named = ", ".join(f"{name}={count}" for name, count in sorted(topics.items()))
        raise TopicsNotReady(
            Status.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{named}}}]",
        )
    return different.pop()


def _copartition_groups(subtopology: Subtopology) -> Iterable[frozenset[str]]:
    repartition = [topic.name for topic in subtopology.repartition_source_topics]
    for group in subtopology.copartition_groups:
        names: set[str] = set()
        for indexes, of in (
            (group.source_topics, subtopology.source_topics),
            (group.repartition_source_topics, repartition),
        ):
            if any(not 0 <= index < len(of) for index in indexes):
                raise InvalidTopology(
                    f"A copartition group of subtopology {subtopology.subtopology_id} names a topic that the "
                    "subtopology does not have."
                )
            names.update(of[index] for index in indexes)
        if names:
            yield frozenset(names)
