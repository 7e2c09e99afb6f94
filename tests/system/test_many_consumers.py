"""Five hundred consumers join one group at once, and lose a broker: each reads on, and each record is read."""

from collections import Counter

import pytest
from confluent_kafka import Consumer

import bowstring
from tests.support.waiting import FOR_EVER_S, HANG_S, wait_until

MEMBERS = 500
PROTOCOLS: dict[str, dict[str, object]] = {
    "consumer": {"group.protocol": "consumer"},
    "classic": {"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": 120_000},
}


class Group:
    """Members that are polled in turn; `seen` counts the values that they have read of each partition."""

    def __init__(self, bootstrap: str, configs: dict[str, object]) -> None:
        common = {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "max.poll.interval.ms": 3_600_000,
            "log_level": 0,
        }
        self.members = [Consumer(common | configs) for _ in range(MEMBERS)]
        for each in self.members:
            each.subscribe(["m"])
        self.seen: Counter[tuple[int, bytes]] = Counter()

    def has_read(self, value: bytes) -> bool:
        """Polls each member once; whether this value of each partition was read."""
        for each in self.members:
            message = each.poll(0)
            if message is not None and message.error() is None:
                self.seen[message.partition(), message.value()] += 1
        return sum(found == value for _, found in self.seen) == MEMBERS

    def sizes(self) -> Counter[int]:
        return Counter(len(each.assignment()) for each in self.members)

    def close(self) -> None:
        for each in self.members:
            each.close()


def produce(bootstrap: str, value: bytes) -> None:
    with bowstring.Producer(bootstrap, delivery_timeout_ms=int(HANG_S * 1000)) as producer:
        for index in range(MEMBERS):
            producer.send("m", value, partition=index)


@pytest.mark.timeout(2 * FOR_EVER_S)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_five_hundred_consumers(protocol: str) -> None:
    with bowstring.Cluster(3, linked=False, start_timeout_s=HANG_S) as cluster:
        bootstrap = cluster.bootstrap_servers
        with bowstring.Admin(bootstrap, timeout_ms=int(HANG_S * 1000)) as admin:
            admin.create_topic("m", partitions=MEMBERS, replication_factor=3)
        produce(bootstrap, b"first")
        group = Group(bootstrap, PROTOCOLS[protocol])
        try:
            wait_until(lambda: group.has_read(b"first"), group.sizes, every_s=0.05, hang_s=FOR_EVER_S)
            wait_until(
                lambda: group.has_read(b"first") and group.sizes() == {1: MEMBERS},
                group.sizes,
                every_s=0.05,
                hang_s=FOR_EVER_S,
            )
            cluster.kill(2)
            produce(bootstrap, b"second")
            wait_until(lambda: group.has_read(b"second"), group.sizes, every_s=0.05, hang_s=FOR_EVER_S)
        finally:
            group.close()
