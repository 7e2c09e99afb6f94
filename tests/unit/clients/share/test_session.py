"""Share sessions name only changes."""

from bowstring.clients.share.held import Said
from bowstring.clients.share.session import EPOCH_MAX, ShareSession, acknowledged_topics
from bowstring.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
)

T, U = bytes(15) + b"\1", bytes(15) + b"\2"


def test_a_session_names_changes_and_acknowledgements():
    session = ShareSession()
    assert session.is_new
    named = [FetchPartition(partition_index=0), FetchPartition(partition_index=1)]
    topics = [FetchTopic(topic_id=T, partitions=named)]
    assert session.fetch_topics({(T, 0), (T, 1)}, {}) == (topics, [])
    session.advance()
    assert session.epoch == 1 and not session.is_new
    assert session.fetch_topics({(T, 0), (T, 1)}, {}) == ([], [])
    batches = [AcknowledgementBatch(first_offset=3, last_offset=5, acknowledge_types=[1])]
    said = {(T, 1): [Said(3, 5, b"\1")]}
    told = [
        FetchTopic(
            topic_id=T, partitions=[FetchPartition(partition_index=1, acknowledgement_batches=batches)]
        )
    ]
    assert session.fetch_topics({(T, 0)}, said) == (told, [])
    assert session.fetch_topics({(U, 0)}, {}) == (
        [FetchTopic(topic_id=U, partitions=[FetchPartition(partition_index=0)])],
        [ForgottenTopic(topic_id=T, partitions=[0, 1])],
    )
    session.restart()
    assert session.is_new
    session.epoch = EPOCH_MAX
    session.advance()
    assert session.epoch == 1


def test_acknowledgements_alone():
    (topic,) = acknowledged_topics({(T, 1): [Said(3, 5, b"\1"), Said(7, 8, b"\1\2")]})
    (part,) = topic.partitions
    assert (topic.topic_id, part.partition_index) == (T, 1)
    told = [(b.first_offset, b.last_offset, b.acknowledge_types) for b in part.acknowledgement_batches]
    assert told == [(3, 5, [1]), (7, 8, [1, 2])]
