"""Types of a leader's view of its followers; see in_sync_replicas.pyx."""

from collections.abc import Collection, Mapping, Sequence
from typing import Self

class Followers:
    def __new__(
        cls,
        replicas: Sequence[int],
        isr: Collection[int],
        *,
        epoch_start_offset: int = 0,
        min_in_sync: int = 1,
        lag_max_ms: int = 30000,
        now_ms: int = 0,
        broker_epochs: Mapping[int, int] | None = None,
        ineligible: Collection[int] = (),
        before: Followers | None = None,
    ) -> Self: ...
    def fetched(self, broker_id: int, offset: int, leader_end_offset: int, now_ms: int) -> None: ...
    def take_fetch(
        self,
        broker_id: int,
        broker_epoch: int,
        offset: int,
        *,
        leader_end_offset: int,
        own_end_offset: int,
        high_watermark: int,
        now_ms: int,
    ) -> tuple[int, bool, int]: ...
    def take_lags(self, leader_end_offset: int, now_ms: int) -> list[int]: ...
    def ack_error(self) -> int: ...
    def end_of(self, broker_id: int) -> int: ...
    def high_watermark(self, leader_end_offset: int, now_ms: int) -> int: ...
    def may_join(self, broker_id: int, high_watermark: int) -> bool: ...
    def try_join(self, broker_id: int, high_watermark: int) -> bool: ...
    def lags(self, broker_id: int, leader_end_offset: int, now_ms: int) -> bool: ...
    def set_isr(
        self,
        isr: Collection[int],
        joining: Collection[int] = (),
        leaving: Collection[int] = (),
        changing: bool | None = None,
    ) -> None: ...
    def set_eligible(self, broker_id: int, eligible: bool) -> None: ...
