"""Names the statuses that members of a streams group get, and the errors of topologies."""

from enum import IntEnum


class Status(IntEnum):
    """Status codes of StreamsGroupHeartbeat (KIP-1071)."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class InvalidTopology(Exception):
    """A topology that can never have tasks; the member gets STREAMS_INVALID_TOPOLOGY."""


class TopicsNotReady(Exception):
    """Topics do not fit the topology yet; members get the status and no tasks."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
