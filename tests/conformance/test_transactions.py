"""Each client's transactions, as against Apache Kafka."""

from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from bowstring.clients.admin.admin import Admin
from bowstring.clients.records import TopicPartition
from tests.conformance.drivers import CLIENTS, Session
from tests.support.java_tools import TOOLS, java_tool
from tests.support.waiting import HANG_S

TIMEOUT_MS = 60_000
TRANSACTIONS = f"{TOOLS}.TransactionsCommand"


@pytest.mark.parametrize("name", list(CLIENTS))
def test_each_client_commits_a_transaction(
    name: str, drivers: Callable[..., Any], bootstrap: str, topic_name: str
) -> None:
    client = Session(drivers(name), bootstrap)
    client.call("create_topic", topic=topic_name, partitions=1)
    client.call("transact", topic=topic_name, id=topic_name, timeout_ms=TIMEOUT_MS)
    client.call("transact", topic=topic_name, id=topic_name, timeout_ms=TIMEOUT_MS)
    values = [record["value"] for record in client.consume(topic_name, 2)]
    assert values == [b"in a transaction", b"in a transaction"]


def test_kafka_transactions(drivers: Callable[..., Any], bootstrap: str, topic_name: str) -> None:
    """Kafka's own tool lists and describes transactions, and aborts one that hangs."""
    at = ["--bootstrap-server", bootstrap]
    client = Session(drivers("confluent"), bootstrap)
    client.call("create_topic", topic=topic_name, partitions=1)
    client.call("transact", topic=topic_name, id=topic_name, timeout_ms=TIMEOUT_MS)
    listed = java_tool(TRANSACTIONS, *at, "list")
    assert topic_name in listed and "CompleteCommit" in listed
    described = java_tool(TRANSACTIONS, *at, "describe", "--transactional-id", topic_name)
    assert "CompleteCommit" in described
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"{topic_name}-2"}
    )
    producer.init_transactions(HANG_S)
    producer.begin_transaction()
    producer.produce(topic_name, b"hangs", partition=0)
    producer.flush(HANG_S)
    place = ["--topic", topic_name, "--partition", "0"]
    with Admin(bootstrap) as admin:
        (state,) = [
            each
            for each in admin.describe_producers([TopicPartition(topic_name, 0)])[
                TopicPartition(topic_name, 0)
            ]
            if each.transaction_start_offset is not None
        ]
    producers = java_tool(TRANSACTIONS, *at, "describe-producers", *place)
    assert str(state.producer_id) in producers
    java_tool(TRANSACTIONS, *at, "abort", *place, "--start-offset", str(state.transaction_start_offset))
    with Admin(bootstrap) as admin:
        after = admin.describe_producers([TopicPartition(topic_name, 0)])[TopicPartition(topic_name, 0)]
    assert all(each.transaction_start_offset is None for each in after)
