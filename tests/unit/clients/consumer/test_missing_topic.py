"""Topics that do not exist: after a grace for their creation the error says so, long before the timeout."""

import pytest

import bowstring
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.metadata import MetadataRequest
from tests.support.fake_broker import FakeBroker
from tests.support.waiting import FOR_EVER_S


@pytest.fixture
def broker():
    with FakeBroker() as made:
        yield made


def refuse(broker, until):
    """Answers metadata without the topic until the answer with this number."""
    answers = []

    def metadata(version, request):
        answer = broker.metadata(version, request)
        answers.extend(answer.topics)
        for topic in answer.topics:
            if len(answers) < until:
                topic.error_code, topic.partitions = Errors.UNKNOWN_TOPIC_OR_PARTITION.code, []
        return answer

    broker.handlers[MetadataRequest] = metadata


def test_a_missing_topic_is_named_after_the_grace(broker, monkeypatch):
    monkeypatch.setattr("bowstring.clients.net.metadata.MISSING_TOPIC_GRACE_S", 0.1)
    refuse(broker, 1 << 30)
    with (
        bowstring.Consumer(broker.bootstrap) as consumer,
        pytest.raises(bowstring.UnknownTopicError, match=r"'typo'.*Check the name, or create it"),
    ):
        consumer.partitions_for("typo", FOR_EVER_S)


def test_a_topic_that_is_being_created_is_found(broker):
    refuse(broker, 3)
    with bowstring.Consumer(broker.bootstrap) as consumer:
        assert consumer.partitions_for("events", FOR_EVER_S)
