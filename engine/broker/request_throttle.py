"""Counts the control thread's time and a member's fetched bytes for clients' quotas (KIP-124, KIP-219).

A dispatcher uses it only while the cluster has client quotas.
"""

import copy
import time
from collections.abc import Awaitable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from bowstring.engine.api.table import TABLE
from bowstring.engine.requests.answers import with_throttle_time
from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.schema import Response

if TYPE_CHECKING:
    from bowstring._native.server.plane_quotas import PlaneQuotas
    from bowstring.engine.requests.request import Received, Request

T = TypeVar("T")

_EXEMPT: Final = frozenset({ApiKeys.SASL_HANDSHAKE, ApiKeys.SASL_AUTHENTICATE, ApiKeys.WRITE_TXN_MARKERS})
_LIMITED: Final = frozenset(
    key for key, row in TABLE.items() if key not in _EXEMPT and not row.is_between_nodes
)


class RequestThrottle:
    """Computes how long clients wait after requests to the control thread.

    Args:
        quotas: Those of the data plane.
    """

    def __init__(self, quotas: "PlaneQuotas") -> None:
        self._quotas = quotas

    def limits_time(self, api_key: int) -> bool:
        """Whether time for requests of an API counts: as in Kafka, not for those between nodes."""
        return self._quotas.limits_time and api_key in _LIMITED

    def timed(self, request: "Request", work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Returns an awaitable that has the same result, and adds its time to the request."""
        return _Timed(work, request) if self.limits_time(request.api_key) else work

    def applied(self, request: "Request", response: Response) -> tuple[Response, int]:
        """Counts a request whose handler has ended. Returns its answer with the time that the client waits,
        and that time: at least what the controller has answered.
        """
        user, client_id = _names(request)
        answered_ms = throttle_ms = getattr(response, "throttle_time_ms", 0)
        if self.limits_time(request.api_key):
            throttle_ms = max(throttle_ms, self._quotas.use_time(user, client_id, request.spent_ns))
            request.spent_ns = 0
        if request.api_key == ApiKeys.SHARE_FETCH and self._quotas.limits_bytes:
            throttle_ms = max(throttle_ms, self._quotas.use_bytes(user, client_id, _records_bytes(response)))
        if throttle_ms != answered_ms and hasattr(response, "throttle_time_ms"):
            response = copy.copy(response)  # handlers may share what they answer
            cast(Any, response).throttle_time_ms = throttle_ms
        return response, throttle_ms

    def applied_to(self, message: "Received", payload: bytes, spent_ns: int) -> tuple[bytes, int]:
        """Counts a request whose answer is encoded. Returns the answer with the time that the client waits,
        and that time.
        """
        throttle_ms = self._quotas.use_time(*_names(message), spent_ns)
        if throttle_ms:
            payload = with_throttle_time(message.api_key, message.api_version, payload, throttle_ms)
        return payload, throttle_ms

    def note(self, principal: str, client_id: str | None, spent_ns: int) -> None:
        """Counts time for requests whose answers do not depend on it."""
        self._quotas.note_time(principal.partition(":")[2], client_id or "", spent_ns)

    def note_rest(self, request: "Request") -> None:
        """Counts the time since `applied`: that of encoding the answer."""
        if request.spent_ns:
            self._quotas.note_time(*_names(request), request.spent_ns)


def _names(request: "Request | Received") -> tuple[str, str]:
    return request.principal.partition(":")[2], request.client_id or ""


def _records_bytes(answer: Any) -> int:
    return sum(len(partition.records or b"") for topic in answer.responses for partition in topic.partitions)


class _Timed(Generic[T]):
    """A coroutine whose steps are timed."""

    def __init__(self, work: Coroutine[Any, Any, T], request: "Request") -> None:
        self._work = work
        self._request = request

    def __await__(self) -> Generator[Any, Any, T]:
        value: Any = None
        thrown: BaseException | None = None
        while True:
            started_ns = time.monotonic_ns()
            try:
                waited = self._work.send(value) if thrown is None else self._work.throw(thrown)
            except StopIteration as stop:
                return cast(T, stop.value)
            finally:
                self._request.spent_ns += time.monotonic_ns() - started_ns
            value = thrown = None
            try:
                value = yield waited
            except BaseException as error:  # the coroutine decides about it
                thrown = error
