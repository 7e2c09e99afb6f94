"""Keeps the share session with one broker (KIP-932): its requests name only changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bowstring.clients.group.membership import Place
from bowstring.clients.share.held import Said
from bowstring.protocol.messages import share_acknowledge, share_fetch

FIRST_EPOCH = 0
LAST_EPOCH = -1
EPOCH_MAX = 0x7FFFFFFF


class ShareSession:
    """The session with one broker. One request is under way at a time, because epochs count them."""

    def __init__(self) -> None:
        self.epoch = FIRST_EPOCH
        self._known: set[Place] = set()

    @property
    def is_new(self) -> bool:
        """Whether the broker does not have the session: its first request may not acknowledge."""
        return self.epoch == FIRST_EPOCH

    def restart(self) -> None:
        """Begins a new session, because the broker has none."""
        self.epoch = FIRST_EPOCH
        self._known = set()

    def advance(self) -> None:
        """Continues after an answer."""
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def fetch_topics(
        self, wanted: set[Place], said: Mapping[Place, list[Said]]
    ) -> tuple[list[share_fetch.FetchTopic], list[share_fetch.ForgottenTopic]]:
        """Returns the partitions that a fetch names and those that it lets the broker forget."""
        named = sorted((wanted - self._known) | said.keys())
        gone = sorted(self._known - wanted - said.keys())
        self._known = set(wanted) | set(said.keys())
        topics: dict[bytes, list[share_fetch.FetchPartition]] = {}
        for place in named:
            batches = [_fetch_batch(each) for each in said.get(place, ())]
            part = share_fetch.FetchPartition(partition_index=place[1], acknowledgement_batches=batches)
            topics.setdefault(place[0], []).append(part)
        forgotten: dict[bytes, list[int]] = {}
        for topic_id, number in gone:
            forgotten.setdefault(topic_id, []).append(number)
        return (
            [share_fetch.FetchTopic(topic_id=each, partitions=parts) for each, parts in topics.items()],
            [
                share_fetch.ForgottenTopic(topic_id=each, partitions=parts)
                for each, parts in forgotten.items()
            ],
        )


def _fetch_batch(said: Said) -> share_fetch.AcknowledgementBatch:
    return share_fetch.AcknowledgementBatch(
        first_offset=said.first, last_offset=said.last, acknowledge_types=list(said.types)
    )


def acknowledged_topics(
    said: Mapping[Place, Iterable[Said]],
) -> list[share_acknowledge.AcknowledgeTopic]:
    """Returns the topics of a ShareAcknowledge request."""
    topics: dict[bytes, list[share_acknowledge.AcknowledgePartition]] = {}
    for (topic_id, number), runs in said.items():
        batches = [
            share_acknowledge.AcknowledgementBatch(
                first_offset=run.first, last_offset=run.last, acknowledge_types=list(run.types)
            )
            for run in runs
        ]
        part = share_acknowledge.AcknowledgePartition(partition_index=number, acknowledgement_batches=batches)
        topics.setdefault(topic_id, []).append(part)
    return [
        share_acknowledge.AcknowledgeTopic(topic_id=each, partitions=parts) for each, parts in topics.items()
    ]
