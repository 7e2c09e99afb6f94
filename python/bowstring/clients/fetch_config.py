"""What a consumer asks of its fetches."""

from __future__ import annotations

from dataclasses import dataclass

from bowstring.clients.local_discovery import Local


@dataclass(slots=True)
class FetchConfig:
    """What the consumer was asked for."""

    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    prefetch_max_bytes: int
    max_wait_ms: int
    read_committed: bool
    check_crcs: bool
    reset_policy: str
    local: Local = False
