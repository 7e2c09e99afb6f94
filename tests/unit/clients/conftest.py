"""A broker to test the clients against: an embedded one, or a running one, such as Apache Kafka.

BOWSTRING_TEST_BOOTSTRAP  host:port of the running one.
"""

import os
import time
import uuid

import pytest

from bowstring.clients.admin import Admin
from bowstring.clients.consumer import Consumer


@pytest.fixture(scope="session")
def bootstrap(request):
    running = os.environ.get("BOWSTRING_TEST_BOOTSTRAP")
    return running or request.getfixturevalue("bowstring_broker").bootstrap_servers


@pytest.fixture(scope="session")
def admin(bootstrap):
    with Admin(bootstrap, timeout_ms=15_000) as made:
        yield made


@pytest.fixture
def new_topic(admin):
    """Makes topics that go after the test."""
    names = []

    def make(partitions=1, **configs):
        name = f"t-{uuid.uuid4().hex[:12]}"
        admin.create_topic(
            name, partitions, configs={k.replace("_", "."): str(v) for k, v in configs.items()}
        )
        names.append(name)
        while name not in admin.topics():  # Kafka's brokers learn of it a moment later
            time.sleep(0.02)
        return name

    yield make
    for name in names:
        if name in admin.topics():
            admin.delete_topics([name])


@pytest.fixture
def new_group():
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def consumer_for(bootstrap):
    """Makes consumers of all partitions of a topic, from their begin, that are closed after the test."""
    made = []

    def make(topic=None, **options):
        consumer = Consumer(bootstrap, **{"auto_offset_reset": "earliest", **options})
        made.append(consumer)
        if topic is not None:
            consumer.assign(consumer.partitions_for(topic))
        return consumer

    yield make
    for consumer in made:
        consumer.close()
