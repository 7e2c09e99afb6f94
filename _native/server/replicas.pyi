"""Types of Replicas; see replicas.pyx."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bowstring._native.server.data_plane import DataPlane

class Replicas:
    def __init__(
        self,
        plane: DataPlane,
        *,
        broker_id: int,
        broker_epoch: int = -1,
        fetchers: int = 1,
        wait_max_ms: int = 500,
        min_bytes: int = 1,
        part_max_bytes: int = 1048576,
        response_max_bytes: int = 10485760,
        backoff_ms: int = 1000,
        socket_timeout_ms: int = 30000,
        lag_max_ms: int = 30000,
        is_secured: bool = False,
    ) -> None: ...
    def set_broker_epoch(self, broker_epoch: int) -> None: ...
    def set_fetchers(self, fetchers: int) -> None: ...
    def set_endpoints(self, endpoints: Sequence[tuple[int, str | None, int, str | None]]) -> None: ...
    def set_rack_aware(self, rack_aware: bool) -> None: ...
    def set_quota(self, *, leader_rate: int | None = None, follower_rate: int | None = None) -> None: ...
    def set_throttled(self, topic: str, partition: int, *, leader: bool, follower: bool) -> None: ...
    def change_roles(
        self, changes: list[tuple[Callable[..., None], tuple[Any, ...], dict[str, Any]]]
    ) -> None: ...
    def lead(
        self,
        topic: str,
        partition: int,
        *,
        leader_epoch: int,
        replicas: Iterable[int],
        isr: Iterable[int],
        broker_epochs: dict[int, int] | None = None,
        ineligible: Iterable[int] = (),
    ) -> None: ...
    def set_isr(
        self,
        topic: str,
        partition: int,
        isr: Iterable[int],
        *,
        joining: Iterable[int] = (),
        leaving: Iterable[int] = (),
        changing: bool = False,
        ineligible: Iterable[int] | None = None,
    ) -> None: ...
    def try_join(self, topic: str, partition: int, broker_id: int, *, leader_epoch: int) -> bool: ...
    def set_min_in_sync(self, topic: str, partition: int, min_insync_replicas: int) -> None: ...
    def check_lag(self) -> None: ...
    def follow(
        self,
        topic: str,
        partition: int,
        *,
        leader_epoch: int,
        leader_id: int = -1,
        host: str | None = None,
        port: int = 0,
    ) -> None: ...
    def stop(self, topic: str, partition: int) -> None: ...
    def take_dials(self) -> list[tuple[int, int, int, int]]: ...
    def give_link(
        self, dial: tuple[int, int, int, int], fd: int, stream: object, *, renew_after_ms: int = 0
    ) -> None: ...
    def refuse_dial(self, dial: tuple[int, int, int, int], why: str) -> None: ...
    def take_events(self) -> list[tuple[str, str, int, int, int, int]]: ...
    def followers(self, topic: str, partition: int) -> dict[int, tuple[int, int, bool, int]]: ...
    def low_watermark(self, topic: str, partition: int) -> int: ...
    def lag(self, topic: str, partition: int) -> int: ...
