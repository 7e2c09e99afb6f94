"""Topologies of streams groups, in few words."""

from bowstring.protocol.messages import streams_group_heartbeat as messages


def topic(name, partitions=0, **configs):
    """An internal topic."""
    return messages.TopicInfo(
        name=name,
        partitions=partitions,
        topic_configs=[messages.KeyValue(key=key, value=value) for key, value in configs.items()],
    )


def subtopology(name, sources=(), *, repartition=(), sinks=(), changelogs=(), together=()):
    """A subtopology; `repartition` and `changelogs` are topics or names, `together` pairs of indexes."""
    return messages.Subtopology(
        subtopology_id=name,
        source_topics=list(sources),
        repartition_source_topics=[_topic(each) for each in repartition],
        repartition_sink_topics=list(sinks),
        state_changelog_topics=[_topic(each) for each in changelogs],
        copartition_groups=[
            messages.CopartitionGroup(source_topics=list(external), repartition_source_topics=list(internal))
            for external, internal in together
        ],
    )


def _topic(each):
    return topic(each) if isinstance(each, str) else each


def topology(*subtopologies, epoch=0):
    """A topology as a member sends it."""
    return messages.Topology(epoch=epoch, subtopologies=list(subtopologies))


def counting(epoch=0):
    """A count by key: a repartition topic and a changelog."""
    return topology(
        subtopology("0", ["words"], sinks=["app-repartition"]),
        subtopology("1", repartition=["app-repartition"], changelogs=["app-changelog"]),
        epoch=epoch,
    )
