"""Follows which share partitions have state: requests to share coordinators, and their results.

Nothing here waits: the shell queries share coordinators and reports.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from bowstring.engine.groups.append_errors import append_error_of_group
from bowstring.engine.groups.effects import InitializeShareState
from bowstring.engine.groups.modern.changes import Changes
from bowstring.engine.groups.share import records
from bowstring.engine.groups.share.group import ShareGroup
from bowstring.engine.groups.share.membership import found_group
from bowstring.engine.groups.share.state_partitions import (
    NO_PARTITIONS,
    UNKNOWN_TOPIC,
    StatePartitions,
    StateTopic,
    Topics,
    united,
)
from bowstring.engine.groups.state import ShardState
from bowstring.protocol.errors import Error, Errors, KafkaError

# ---- heartbeats initialize


class Begun(NamedTuple):
    """Partitions that are being initialized, and which of them begin at offset 0."""

    topics: Topics
    from_start: frozenset[tuple[bytes, int]]


def begin(state: ShardState, group: ShareGroup, names: Iterable[str], changes: Changes, now_ms: int) -> Begun:
    """Notes that partitions of subscribed topics without state are being initialized; returns them.

    An initialization older than group.share.initialize.retry.interval.ms is begun again. New partitions of
    a topic that the group has begin at offset 0, so that no record is left out that came before.
    """
    held = group.partitions or NO_PARTITIONS
    oldest_ms = now_ms - state.config.group_share_initialize_retry_interval_ms
    begun: dict[bytes, StateTopic] = {}
    for name in names:
        topic_id = state.cluster.topic_id(name)
        if topic_id is None:
            continue
        count = state.cluster.partition_count(topic_id)
        initialized = held.initialized.get(topic_id)
        have = frozenset() if initialized is None else initialized.partitions
        initializing = held.initializing.get(topic_id)
        if initializing is not None and initializing.since_ms > oldest_ms:
            have |= initializing.partitions
        if len(have) < count:
            begun[topic_id] = StateTopic(name, frozenset(range(count)) - have, now_ms)
    if begun:
        _change(group, held.begun(begun), changes)
    return Begun(begun, _from_start(held, begun))


def _from_start(held: StatePartitions, begun: Topics) -> frozenset[tuple[bytes, int]]:
    """Returns the partitions that came after their topics. Those of a topic without any state that are begun
    again are not among them: unlike in Kafka, they still begin where share.auto.offset.reset says.
    """
    return frozenset(
        (topic_id, index)
        for topic_id, index in partitions_of(begun)
        if topic_id in held.initialized
        or (topic_id in held.initializing and index not in held.initializing[topic_id].partitions)
    )


def request(state: ShardState, group_id: str, state_epoch: int, begun: Begun) -> None:
    """Has the shell initialize partitions."""
    if begun.topics:
        partitions = partitions_of(begun.topics)
        state.outbox.append(InitializeShareState(group_id, state_epoch, partitions, begun.from_start))


def partitions_of(topics: Topics) -> tuple[tuple[bytes, int], ...]:
    """Returns topic id and index of each partition."""
    return tuple((topic_id, index) for topic_id, each in topics.items() for index in sorted(each.partitions))


def _change(group: ShareGroup, partitions: StatePartitions, changes: Changes) -> None:
    changes.add(
        records.state_partitions(group.group_id, partitions), partial(group.set_partitions, partitions)
    )


def initialized(
    state: ShardState,
    group_id: str,
    partitions: Iterable[tuple[bytes, int]],
    now_ms: int,
    *,
    error: Error = Errors.NONE,
    token: object = None,
) -> None:
    """Reports that share coordinators have the state of partitions, or that at least one does not; answers
    with an Error.
    """
    group = state.groups.get(group_id)
    if not isinstance(group, ShareGroup) or group.partitions is None:
        if token is not None:
            state.respond(token, Errors.NONE)
        return
    by_topic: dict[bytes, set[int]] = {}
    for topic_id, index in partitions:
        by_topic.setdefault(topic_id, set()).add(index)
    topics = {
        topic_id: StateTopic(state.cluster.topic_name(topic_id) or UNKNOWN_TOPIC, frozenset(indexes), now_ms)
        for topic_id, indexes in by_topic.items()
    }
    changes = Changes()
    if error:
        state.note(f"share group {group_id}: {len(topics)} topics could not be initialized: {error.name}")
        after = group.partitions.given_up(topics)
    else:
        after = group.partitions.initialized_now(topics)
    _change(group, after, changes)
    changes.commit(state, token, Errors.NONE, append_error_of_group)


# ---- admin clients


class Alteration(NamedTuple):
    """The parameters of AlterShareGroupOffsets: a state epoch, and start offsets by topic id and
    partition.
    """

    state_epoch: int
    start_offsets: dict[tuple[bytes, int], int]


class Deletion(NamedTuple):
    """Share partitions whose state will be deleted, and why topics are refused."""

    partitions: tuple[tuple[bytes, int], ...]
    refused: Mapping[str, Error]


def alter(
    state: ShardState,
    group_id: str,
    start_offsets: Mapping[tuple[bytes, int], int],
    token: object,
    now_ms: int,
) -> None:
    """Begins to set start offsets of existing partitions in a group without members, which is created if it
    does not exist; answers with an Alteration or a KafkaError.
    """
    changes = Changes()
    try:
        if group_id in state.groups:
            group = found_group(state, group_id)
        else:
            group = ShareGroup(group_id)
            changes.then(partial(state.groups.__setitem__, group_id, group))
        _refuse_members(group)
    except KafkaError as error:
        return state.respond(token, error)
    topics: dict[bytes, StateTopic] = {}
    for topic_id, index in start_offsets:
        name = state.cluster.topic_name(topic_id) or UNKNOWN_TOPIC
        topics = united(topics, {topic_id: StateTopic(name, frozenset((index,)), now_ms)})
    if topics:
        _change(group, (group.partitions or NO_PARTITIONS).begun(topics), changes)
        body = Alteration(group.epoch, dict(start_offsets))
        return changes.commit(state, token, body, _failed)
    return state.respond(token, Alteration(group.epoch, {}))


def _refuse_members(group: ShareGroup) -> None:
    if not group.is_empty:
        raise KafkaError(Errors.NON_EMPTY_GROUP)


def _failed(error: Error) -> KafkaError:
    return KafkaError(error)


def begin_deletion(state: ShardState, group_id: str, names: Iterable[str], token: object) -> None:
    """Begins to delete the state of topics in a group without members; answers with a Deletion or a
    KafkaError.
    """
    try:
        group = found_group(state, group_id)
        _refuse_members(group)
    except KafkaError as error:
        return state.respond(token, error)
    held = group.partitions
    if held is None:
        return state.respond(token, Deletion((), {}))
    refused: dict[str, Error] = {}
    doomed: dict[bytes, StateTopic] = {}
    for name in names:
        topic_id = state.cluster.topic_id(name)
        if topic_id is not None and topic_id in held.initialized:
            doomed[topic_id] = held.initialized[topic_id]
        elif topic_id is not None and topic_id in held.deleting:
            doomed[topic_id] = _all_of(state, topic_id, name)
        else:
            refused[name] = Errors.UNKNOWN_TOPIC_OR_PARTITION
    left = {topic_id: each for topic_id, each in held.initialized.items() if topic_id not in doomed}
    deleting = {**held.deleting, **{topic_id: each.name for topic_id, each in doomed.items()}}
    changes = Changes()
    _change(group, held._replace(initialized=left, deleting=deleting), changes)
    return changes.commit(state, token, Deletion(partitions_of(doomed), refused), _failed)


def _all_of(state: ShardState, topic_id: bytes, name: str) -> StateTopic:
    return StateTopic(name, frozenset(range(state.cluster.partition_count(topic_id))))


def deleted(state: ShardState, group_id: str, topic_ids: Iterable[bytes], token: object) -> None:
    """Reports that share coordinators have deleted the state of topics; answers with an Error."""
    group = state.groups.get(group_id)
    if not isinstance(group, ShareGroup) or group.partitions is None:
        return state.respond(token, Errors.NONE)
    gone = set(topic_ids)
    deleting = {id: name for id, name in group.partitions.deleting.items() if id not in gone}
    changes = Changes()
    _change(group, group.partitions._replace(deleting=deleting), changes)
    return changes.commit(state, token, Errors.NONE, append_error_of_group)


def begin_group_deletions(state: ShardState, group_ids: Iterable[str], token: object) -> None:
    """Begins to delete the state of whole groups; answers with the partitions by group id, of share groups
    without members that have any, or with a KafkaError.
    """
    changes = Changes()
    doomed: dict[str, tuple[tuple[bytes, int], ...]] = {}
    for group_id in group_ids:
        group = state.groups.get(group_id)
        if not isinstance(group, ShareGroup) or group.members or group.partitions is None:
            continue
        held = group.partitions
        # What an earlier request left behind is deleted again, unless its topic is gone.
        again = {
            topic_id: _all_of(state, topic_id, name)
            for topic_id, name in held.deleting.items()
            if state.cluster.topic_name(topic_id) is not None
        }
        topics = united(united(held.initialized, held.initializing), again)
        _change(
            group,
            StatePartitions({}, {}, {topic_id: each.name for topic_id, each in topics.items()}),
            changes,
        )
        doomed[group_id] = partitions_of(topics)
    changes.commit(state, token, doomed, _failed)


def topic_deleted(state: ShardState, topic_id: bytes) -> None:
    """Forgets a deleted topic. Share coordinators delete its state themselves."""
    changes = Changes()
    for group in state.groups.values():
        if isinstance(group, ShareGroup) and group.partitions is not None:
            left = group.partitions.without_topics((topic_id,))
            if left != group.partitions:
                _change(group, left, changes)
    if changes.records:
        changes.commit(state, None, None, _ignored)


def _ignored(error: Error) -> None:
    """No request waits for an answer."""
