"""Reads the contents of a topic by this project's own consumer, without Spark."""

from __future__ import annotations

import time

import bowstring
from bowstring import Record
from tests.support.waiting import HANG_S, wait_until

READ_TIMEOUT_S = HANG_S


def read_all(servers: str, topic: str) -> list[Record]:
    """Every record of the topic, by partition and offset."""
    found: list[Record] = []
    with bowstring.Consumer(servers, auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions_for(topic)
        ends = consumer.end_offsets(partitions)
        left = {each for each in partitions if ends[each] > 0}
        consumer.assign(partitions)
        deadline = time.monotonic() + READ_TIMEOUT_S
        while left:
            assert time.monotonic() < deadline, f"{topic}: no end of {left} after {READ_TIMEOUT_S} s"
            found += consumer.poll(timeout=1)
            left = {each for each in left if consumer.position(each) < ends[each]}
    return sorted(found, key=lambda record: (record.partition, record.offset))


def make_again(servers: str, topic: str) -> None:
    """Creates a topic as soon as the broker is done with a deleted one of its name."""
    with bowstring.Admin(servers) as admin:

        def is_made() -> bool:
            try:
                admin.create_topics([bowstring.NewTopic(topic, 1)])
            except bowstring.BrokerError:
                return False
            return True

        wait_until(is_made)
