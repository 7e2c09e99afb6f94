"""Each client's transactions, as against Apache Kafka."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.drivers import CLIENTS, Session

TIMEOUT_MS = 60_000


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
