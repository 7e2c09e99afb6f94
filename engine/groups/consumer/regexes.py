"""Subscribes members with regular expressions in RE2's syntax, and looks up which topics these match.

The lookup takes time with many topics: the shell does it between other work and calls `resolved`.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from bowstring.engine.groups.consumer import records
from bowstring.engine.groups.consumer.group import NOTHING_RESOLVED, ConsumerGroup, ResolvedRegex, counts_with
from bowstring.engine.groups.consumer.member import Member
from bowstring.engine.groups.modern.changes import Changes
from bowstring.engine.groups.modern.cluster import ClusterView
from bowstring.engine.groups.modern.group import count_all
from bowstring.engine.groups.state import ShardState
from bowstring.engine.patterns import whole_text
from bowstring.protocol.errors import Error, KafkaError

# Lookups of one group do not follow each other faster.
REFRESH_INTERVAL_MIN_MS: Final = 10_000

_FIELD: Final = "SubscribedTopicRegex"
# What a search does in one step: about a millisecond.
_MATCHED_AT_ONCE: Final = 1_000


Sees = Callable[[str], bool] | None
"""Whether the member may see a topic; None: all of them."""


class RegexChange(NamedTuple):
    """How a member's regular expression changed; `bumps` says that the group needs a new epoch for that."""

    changed: bool
    bumps: bool


_NO_CHANGE: Final = RegexChange(changed=False, bumps=False)


def change(
    state: ShardState, group: ConsumerGroup, member: Member, updated: Member, changes: Changes
) -> RegexChange:
    """Checks a member's new regular expression, and forgets the old one if no other member has it.

    A member with an expression that has not been looked up yet gets no new epoch: the lookup makes one.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION.
    """
    old, new = member.subscribed_regex, updated.subscribed_regex
    if old == new:
        return _NO_CHANGE
    bumps = False
    if old and group.regex_counts.get(old) == 1:
        changes.add(records.regex_tombstone(group.group_id, old), partial(group.set_resolved, old, None))
    if new:
        if new not in group.regex_counts:
            whole_text(new, _FIELD)
        else:
            bumps = new in group.resolved
    elif old:
        bumps = True
    return RegexChange(changed=True, bumps=bumps)


def refresh(
    state: ShardState, group: ConsumerGroup, member: Member, updated: Member, now_ms: int, *, sees: Sees
) -> None:
    """Has the shell look up the topics of the group's regular expressions if that is due: one is new,
    there are new topics, or the last lookup is old. As in Kafka, they match only topics that the member may
    see for which this happens.
    """
    old, new = member.subscribed_regex, updated.subscribed_regex
    if not new and not group.regex_counts:
        return
    if group.resolving:
        return
    last_ms = next((each.timestamp_ms for each in group.resolved.values()), NOTHING_RESOLVED.timestamp_ms)
    if last_ms <= now_ms <= last_ms + REFRESH_INTERVAL_MIN_MS:
        return
    wanted = dict(group.regex_counts)
    if old:
        count_all(wanted, (old,), -1)
    if new:
        count_all(wanted, (new,), 1)
    due = (
        (new and new not in group.regex_counts)
        or len(wanted) != len(group.resolved)
        or group.resolved_at != state.cluster.created_version
        # The clock may have been set back by days: lookups in the future are old, too.
        or not last_ms <= now_ms <= last_ms + state.config.group_consumer_regex_refresh_interval_ms
    )
    if due and wanted:
        group.resolving = True
        state.resolve_regexes(group.group_id, tuple(wanted), sees)


class Lookup(NamedTuple):
    """The result of a search. `created_version` and `version` are the cluster's when the search began."""

    topics: Mapping[str, frozenset[str]]
    created_version: int
    version: int
    started_ms: int


class Search:
    """Looks up the topics of regular expressions, some of them at each step.

    Args:
        regexes: An expression that is not valid finds nothing.
        now_ms: Wall time.
        sees: Whether a topic may be found; None: all of them.
    """

    def __init__(self, cluster: ClusterView, regexes: Iterable[str], now_ms: int, sees: Sees = None) -> None:
        self._sees = sees
        self._names = iter(list(cluster.topic_names()))
        self._matching: dict[str, tuple[Callable[[str], bool], set[str]]] = {}
        self._versions = (cluster.created_version, cluster.offset, now_ms)
        self._invalid: list[str] = []
        self._uncompiled = iter(regexes)

    def step(self) -> bool:
        """Does a part of the work; returns whether all is done."""
        for regex in self._uncompiled:
            try:
                self._matching[regex] = (whole_text(regex, _FIELD), set())
            except KafkaError:
                self._invalid.append(regex)
            return False
        names = list(islice(self._names, max(1, _MATCHED_AT_ONCE // max(1, len(self._matching)))))
        for matches, found in self._matching.values():
            matching = filter(matches, names)
            found.update(matching if self._sees is None else filter(self._sees, matching))
        return not names

    @property
    def found(self) -> Lookup:
        """The result when all is done."""
        topics = {regex: frozenset(found) for regex, (_, found) in self._matching.items()}
        topics |= dict.fromkeys(self._invalid, frozenset())
        return Lookup(topics, *self._versions)


def resolved(state: ShardState, group_id: str, lookup: Lookup) -> None:
    """Writes the topics of a group's regular expressions. If they have changed, the group gets an epoch."""
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return
    changes = Changes()
    counts = group.regex_topic_counts
    bumps = False
    for regex, topics in lookup.topics.items():
        if regex not in group.regex_counts:
            continue
        found = ResolvedRegex(topics, lookup.version, lookup.started_ms)
        old = group.resolved.get(regex, NOTHING_RESOLVED)
        if old.topics != topics:
            bumps = True
            counts = counts_with(counts, old.topics, topics)
        changes.add(records.regex(group_id, regex, found), partial(group.set_resolved, regex, found))
    metadata_hash = state.cluster.metadata_hash(group.topic_counts.keys() | counts.keys())
    if bumps or metadata_hash != group.metadata_hash:
        epoch = group.epoch + 1
        changes.add(
            records.group_epoch(group_id, epoch, metadata_hash),
            partial(group.set_epoch, epoch, metadata_hash, state.cluster.topics_version),
        )
        state.rebalances[group.group_type] += 1
        state.note(f"group {group_id}: epoch {epoch}, topics of regular expressions changed")

    def finished(error: Error, now_ms: int) -> None:
        group.resolving = False
        if not error:
            group.resolved_at = lookup.created_version

    if changes.records:
        state.append(changes.records, written=changes.written, finished=finished)
    else:
        group.resolving = False
