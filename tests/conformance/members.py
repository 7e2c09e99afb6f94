"""Members of groups as the clients' drivers have them, and numbered records that they read."""

import base64
from typing import Any

from tests.conformance.drivers import Json, Session
from tests.support.waiting import wait_until

SESSION_TIMEOUT_MS = 30000


class Member:
    """A member of one group, spelled shortly."""

    def __init__(
        self, client: Session, group: str, topic: str, assignor: str | None = None, **options: Any
    ) -> None:
        self.client, self.topic = client, topic
        self.handle = client.driver.handle()
        settings: dict[str, Any] = {"session_timeout_ms": SESSION_TIMEOUT_MS, **options}
        client.call(
            "join",
            handle=self.handle,
            group=group,
            topics=[topic],
            assignor=assignor or client.client.assignor,
            **settings,
        )

    def state(self) -> Json:
        return self.client.call("member", handle=self.handle)

    def partitions(self) -> list[int]:
        return sorted(partition for _, partition in self.state()["assignment"])

    def values(self) -> list[bytes]:
        return [base64.b64decode(value) for *_, value in self.state()["records"]]

    def lost(self) -> list[int]:
        return sorted(partition for _, partition in self.state()["lost"])

    def commit(self) -> None:
        self.client.call("commit", handle=self.handle)

    def leave(self) -> None:
        self.client.call("leave", handle=self.handle)


def fill(client: Session, topic: str, partitions: int, start: int, count: int) -> None:
    """Writes numbered records round-robin."""
    numbers = range(start, start + count)
    client.produce(topic, [{"partition": i % partitions, "value": b"%d" % i} for i in numbers])


def numbers(*members: Member) -> set[int]:
    """What the members read. Kafka promises at least once: a rebalance may show uncommitted records again."""
    return {int(value) for member in members for value in member.values()}


def wait_for_numbers(expected: range, *members: Member) -> None:
    """Waits until the members have read these numbers and no others."""
    wait_until(
        lambda: numbers(*members) == set(expected),
        lambda: f"read {sorted(numbers(*members))}, wanted {expected}: {[each.state() for each in members]}",
        every_s=0.05,
    )
