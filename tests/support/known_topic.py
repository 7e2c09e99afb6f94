"""Producers with a short max_block_ms, which must have a topic's metadata first."""

from bowstring.clients.errors import NoBrokerError
from bowstring.clients.producer.producer import Producer
from tests.support.waiting import wait_until


def await_topic(producer: Producer, topic: str) -> None:
    """Retries until the producer has the topic's metadata, however short its max_block_ms."""

    def is_known() -> bool:
        try:
            producer.find_topic(topic)
        except NoBrokerError:
            return False
        return True

    wait_until(is_known, f"no metadata of {topic}")
