"""Provides fixtures for programs that use Kafka: `bowstring_broker` and `bowstring_cluster` per session,
`bowstring_topic` per test.

    def test_orders(bowstring_broker, bowstring_topic):
        send_orders(bowstring_broker.bootstrap_servers, bowstring_topic)

Sessions that do not use them load nothing of Bowstring.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from bowstring.broker import Broker
    from bowstring.cluster.cluster import Cluster

TOPIC_NAME_MAX = 249


@pytest.fixture(scope="session")
def bowstring_broker() -> Iterator[Broker]:
    """A broker inside the test process, on a free port, for the whole session; its data is deleted at the
    end.
    """
    from bowstring.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def _bowstring_cluster_of_session() -> Iterator[Cluster]:
    from bowstring.cluster.cluster import Cluster

    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def bowstring_cluster(_bowstring_cluster_of_session: Cluster) -> Iterator[Cluster]:
    """Three brokers as processes, started once for the session. A test may kill, pause and cut off nodes:
    they run again when it ends.
    """
    yield _bowstring_cluster_of_session
    _bowstring_cluster_of_session.repair()


@pytest.fixture
def bowstring_topic(request: pytest.FixtureRequest, bowstring_broker: Broker) -> Iterator[str]:
    """The name of a new, empty topic of one partition, named for the test and deleted after it."""
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.errors import UnknownTopicError

    test = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name).strip("-")
    suffix = uuid.uuid4().hex[:8]
    name = f"{test[: TOPIC_NAME_MAX - len(suffix) - 1]}-{suffix}"
    with Admin(bowstring_broker.bootstrap_servers) as admin:
        admin.create_topic(name, 1)
        yield name
        try:
            admin.delete_topics([name])
        except UnknownTopicError:
            return  # the test has already deleted it
