"""Groups of all kinds, coordinated by brokers of Kafka and of Bowstring, continue while brokers come and go.

A group's name depends on the partition of the internal topic that coordinates it.
"""

import base64
from collections.abc import Sequence
from functools import partial
from typing import Any

from bowstring import Admin
from bowstring.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tests.conformance.drivers import CLIENTS, Driver, DriverError, Session
from tests.conformance.members import Member, fill, wait_for_numbers
from tests.support.acked_load import produce_one_by_one
from tests.support.mixed_cluster import MixedCluster, key_of
from tests.support.raw_transactions import GROUP_TYPE, coordinator_of
from tests.support.share_offsets import describe_request
from tests.support.streams_topologies import subtopology, topology
from tests.support.waiting import HANG_S, wait_until

# The tests' member sends a heartbeat when something has happened, which may take long.
CONFIGS = {
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
    "group.streams.max.session.timeout.ms": "900000",
    "group.streams.session.timeout.ms": "900000",
    "group.streams.initial.rebalance.delay.ms": "0",
}
RECORDS = 6
# librdkafka's number for it.
NOTHING_TO_COMMIT = -168


class Clients:
    """Kafka's Java clients in one process, and confluent-kafka in another; a context manager that ends them."""

    def __init__(self, bootstrap: str) -> None:
        self._drivers = [Driver(CLIENTS[name]) for name in ("java", "confluent")]
        self.java, self.confluent = (Session(each, bootstrap) for each in self._drivers)

    def __enter__(self) -> "Clients":
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._drivers:
            each.close()


def has_committed(member: Member) -> bool:
    """Whether a commit succeeds; librdkafka drops some while the coordinator moves, without an error code."""
    try:
        member.commit()
    except DriverError as error:
        return error.code == NOTHING_TO_COMMIT
    return True


class ConsumerGroup:
    """A group of KIP-848 with a member of Java and one of librdkafka, which commit what they have read."""

    def __init__(self, clients: Clients, topic: str, partition: int) -> None:
        self._clients = clients
        self._topic = topic
        self._count = 0
        group = key_of("consumers", partition)
        self._members = [
            Member(client, group, topic, protocol="consumer") for client in (clients.java, clients.confluent)
        ]

    def feed(self) -> None:
        """Writes records."""
        fill(self._clients.confluent, self._topic, 3, self._count, RECORDS)
        self._count += RECORDS

    def check(self) -> None:
        """Both have partitions, read new records, and commit them."""
        wait_until(
            lambda: all(member.partitions() for member in self._members),
            lambda: [member.state() for member in self._members],
            every_s=0.1,
        )
        wait_for_numbers(range(self._count), *self._members)
        for member in self._members:
            wait_until(partial(has_committed, member), every_s=0.1)


class ShareGroup:
    """A share group with a member of Java, which acknowledges what it gets."""

    def __init__(self, cluster: MixedCluster, clients: Clients, topic: str, partition: int) -> None:
        self._cluster = cluster
        self._session = clients.java
        self._topic = topic
        self._count = 0
        self._left: set[bytes] = set()
        self._group = key_of("sharers", partition)
        with Admin(cluster.bootstrap, timeout_ms=int(HANG_S * 1000)) as admin:
            admin.alter_configs("group", self._group, set={"share.auto.offset.reset": "earliest"})
        self._handle = clients.java.driver.handle()
        clients.java.call(
            "share_open",
            handle=self._handle,
            group=self._group,
            topics=[topic],
            mode="implicit",
            acquire_mode="batch_optimized",
            max_poll_records=500,
        )

    def feed(self) -> None:
        """Writes records."""
        values = [b"%d" % number for number in range(self._count, self._count + RECORDS)]
        self._count += RECORDS
        produce_one_by_one(self._cluster.bootstrap, self._topic, values)
        self._left |= set(values)

    def check(self) -> None:
        """New records are delivered, and the share coordinator has their acknowledgements."""

        def all_delivered() -> bool:
            self._left.difference_update(self._poll())
            return not self._left and self._lag() == 0

        wait_until(all_delivered, lambda: (self._left, self._lag()))

    def _poll(self) -> Sequence[bytes]:
        found = self._session.call("share_poll", handle=self._handle, timeout_ms=200)["records"]
        if found:
            # Unacknowledged records of a moving partition are delivered again.
            self._session.call("share_commit", handle=self._handle)
        return [base64.b64decode(value) for _, _, value in found]

    def _lag(self) -> int | None:
        """Records that are not acknowledged; None while no coordinator can answer."""
        coordinator = coordinator_of(self._cluster, self._cluster.running[0], self._group, GROUP_TYPE)
        if coordinator not in self._cluster.running:
            return None
        (group,) = self._cluster.ask(coordinator, describe_request(self._group)).groups
        lags = [part.lag for topic in group.topics for part in topic.partitions if not part.error_code]
        return lags[0] if lags else None


class StreamsGroup:
    """A streams group with one member, as raw heartbeats: keeps its epoch and tasks at each coordinator."""

    def __init__(self, cluster: MixedCluster, topic: str, partition: int) -> None:
        self._cluster = cluster
        self._group = key_of("streams", partition)
        self._epoch = 0
        wanted = topology(subtopology("0", [topic], changelogs=[f"{self._group}-changelog"]))
        nothing: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        self._tasks: list[Any] = []
        wait_until(
            lambda: self._beat(
                **nothing, topology=wanted, process_id="p", rebalance_timeout_ms=int(HANG_S * 1000)
            )
        )

    def _beat(self, **fields: Any) -> Any:
        coordinator = coordinator_of(self._cluster, self._cluster.running[0], self._group, GROUP_TYPE)
        if coordinator not in self._cluster.running:
            return None
        request = StreamsGroupHeartbeatRequest(
            group_id=self._group, member_id="m", member_epoch=self._epoch, **fields
        )
        answer = self._cluster.ask(coordinator, request)
        if answer.error_code:
            return None
        self._epoch = answer.member_epoch
        return answer

    def feed(self) -> None:
        """Waits for tasks if the member has none yet."""
        if not self._tasks:
            self._tasks = wait_until(lambda: (answer := self._beat()) and answer.active_tasks, every_s=0.1)
            (task,) = self._tasks
            assert (task.subtopology_id, task.partitions) == ("0", [0, 1, 2])

    def check(self) -> None:
        """The coordinator has the member, its epoch and its tasks."""
        epoch = self._epoch
        answer = wait_until(
            lambda: self._beat(active_tasks=self._tasks, standby_tasks=[], warmup_tasks=[]), every_s=0.1
        )
        assert (answer.member_epoch, answer.active_tasks, answer.status) == (epoch, None, [])
