"""Defines the fetch settings of a consumer."""

from __future__ import annotations

from dataclasses import dataclass

from bowstring.clients.local.discovery import Local


@dataclass(slots=True)
class FetchConfig:
    """The consumer's settings for fetches."""

    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    prefetch_max_bytes: int
    max_wait_ms: int
    read_committed: bool
    check_crcs: bool
    reset_policy: str
    local: Local = False
    rack: str = ""
    replica_max_age_s: float = 300.0
    """A preferred read replica is used for this long; then the leader chooses again (KIP-392)."""
