from typing import Final

from bowstring._native.server.control_request import ControlRequest
from bowstring._native.server.data_plane import DataPlane

LEASED_KEYS: Final[tuple[int, ...]]

class SessionLease:
    def __init__(
        self, plane: DataPlane, request: ControlRequest, answer: bytes, *, throttle_at: int = -1
    ) -> None: ...
    @property
    def used_ms(self) -> int: ...
    def withdraw(self) -> int: ...
