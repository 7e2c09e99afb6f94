"""Tracks the request to each node: one at a time, given up after a timeout, a pause after a failure."""

from collections.abc import Sequence

from bowstring.engine.raft.config import QuorumConfig, RandomBelow
from bowstring.engine.raft.states import NEVER
from bowstring.engine.raft.voters import Node


class _Connection:
    """Until `ready_at_ms`, a request is on its way (with a correlation id), or the node is in a pause."""

    __slots__ = ("correlation_id", "ready_at_ms")

    def __init__(self, correlation_id: int | None, ready_at_ms: int) -> None:
        self.correlation_id = correlation_id
        self.ready_at_ms = ready_at_ms


class RequestManager:
    """The requests on their way. A node without an entry is ready."""

    def __init__(self, bootstrap: Sequence[Node], config: QuorumConfig, random: RandomBelow) -> None:
        self._bootstrap = list(bootstrap)
        self._config = config
        self._random = random
        self._connections: dict[int, _Connection] = {}
        self._last_correlation_id = 0

    def is_ready(self, id: int, now_ms: int) -> bool:
        """Whether a request can be sent."""
        connection = self._connections.get(id)
        if connection is None:
            return True
        if connection.ready_at_ms > now_ms:
            return False
        del self._connections[id]
        return True

    def has_timed_out(self, id: int, now_ms: int) -> bool:
        """Whether a request has had no answer in time."""
        connection = self._connections.get(id)
        waiting = connection is not None and connection.correlation_id is not None
        return waiting and self._connections[id].ready_at_ms <= now_ms

    def is_backing_off(self, id: int, now_ms: int) -> bool:
        """Whether the node is in a pause."""
        connection = self._connections.get(id)
        return (
            connection is not None and connection.correlation_id is None and connection.ready_at_ms > now_ms
        )

    def in_flight(self, now_ms: int) -> bool:
        """Whether any request is on its way."""
        for id in [id for id, each in self._connections.items() if each.ready_at_ms <= now_ms]:
            del self._connections[id]
        return any(each.correlation_id is not None for each in self._connections.values())

    def ready_bootstrap_server(self, now_ms: int) -> Node | None:
        """Returns a random bootstrap server; None while a request is on its way or all are in a pause."""
        if self.in_flight(now_ms) or not self._bootstrap:
            return None
        ready = [node for node in self._bootstrap if self.is_ready(node.id, now_ms)]
        return ready[self._random(len(ready))] if ready else None

    def next_ready_at_ms(self, now_ms: int) -> float:
        """When the next request's time or pause ends. Ended ones do not count."""
        coming = (each.ready_at_ms for each in self._connections.values() if each.ready_at_ms > now_ms)
        return min(coming, default=NEVER)

    def sent(self, id: int, now_ms: int) -> int:
        """Notes a request; returns its correlation id."""
        self._last_correlation_id += 1
        self._connections[id] = _Connection(
            self._last_correlation_id, now_ms + self._config.request_timeout_ms
        )
        return self._last_correlation_id

    def is_expected(self, id: int, correlation_id: int) -> bool:
        """Whether a response answers the request on its way."""
        connection = self._connections.get(id)
        return connection is not None and connection.correlation_id == correlation_id

    def answered(self, id: int, correlation_id: int, *, success: bool, now_ms: int) -> None:
        """Notes the end of a request, unless another one was sent since."""
        if not self.is_expected(id, correlation_id):
            return
        if success:
            del self._connections[id]
        else:
            self._connections[id] = _Connection(None, now_ms + self._config.retry_backoff_ms)

    def reset(self, id: int) -> None:
        """Forgets the request to a node; its response will not be expected."""
        self._connections.pop(id, None)

    def reset_all(self) -> None:
        """Forgets all requests."""
        self._connections.clear()
