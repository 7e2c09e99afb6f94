"""Topics that brokers do not have yet: the grace to create one counts only while they report that."""

import threading
import time

import pytest

from bowstring.clients.producer.producer import Producer
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.metadata import MetadataRequest
from tests.support.fake_broker import CLOSE, FakeBroker
from tests.support.waiting import FOR_EVER_MS, pause

GRACE_S = 0.2
DOWN_S = 3 * GRACE_S


@pytest.fixture
def broker(monkeypatch):
    monkeypatch.setattr("bowstring.clients.producer.producer.MISSING_TOPIC_GRACE_S", GRACE_S)
    with FakeBroker() as made:
        yield made


def missing(broker, version, request):
    """The answer of a broker that creates the topic, or has forgotten it when it was killed."""
    answer = broker.metadata(version, request)
    for topic in answer.topics:
        topic.error_code, topic.partitions = Errors.UNKNOWN_TOPIC_OR_PARTITION.code, []
    return answer


def await_topic(broker):
    with Producer(broker.bootstrap, max_block_ms=FOR_EVER_MS, retry_backoff_max_ms=50) as producer:
        producer.find_topic("events")


def test_a_broker_that_starts_after_the_grace(broker):
    answers = []

    def metadata(version, request):
        if not request.topics:
            return broker.metadata(version, request)
        answers.append(request)
        if len(answers) == 1:
            pause(DOWN_S, "the broker has just started and does not answer for longer than the grace")
        return missing(broker, version, request) if len(answers) < 3 else broker.metadata(version, request)

    broker.handlers[MetadataRequest] = metadata
    await_topic(broker)
    assert len(answers) == 3


def test_a_broker_that_goes_down_while_it_creates_the_topic(broker):
    answers = []
    up_at = [0.0]
    lock = threading.Lock()

    def metadata(version, request):
        if not request.topics:
            return broker.metadata(version, request)
        with lock:
            if not answers:
                up_at[0] = time.monotonic() + DOWN_S
            elif time.monotonic() < up_at[0]:
                return CLOSE
            answers.append(request)
            return (
                missing(broker, version, request) if len(answers) < 3 else broker.metadata(version, request)
            )

    broker.handlers[MetadataRequest] = metadata
    await_topic(broker)
    assert len(answers) == 3
