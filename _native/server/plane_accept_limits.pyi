"""Types of PlaneAcceptLimits; see plane_accept_limits.pyx."""

from typing import Final, TypedDict, type_check_only

from bowstring._native.server.data_plane import DataPlane

NO_LIMIT: Final[int]

@type_check_only
class AcceptCounters(TypedDict):
    refused: int
    refused_later: int
    delayed: int
    delayed_ms: int
    ended: int
    listeners: list[int]

class PlaneAcceptLimits:
    def __init__(self, plane: DataPlane) -> None: ...
    def set(
        self,
        *,
        most: int,
        rate: float,
        most_of_host: int,
        rate_of_host: float,
        hosts: dict[bytes, tuple[int, float]],
        listeners: list[tuple[int, float, bool]],
    ) -> None: ...
    def counters(self) -> AcceptCounters: ...
