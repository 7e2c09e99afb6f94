from os import PathLike
from typing import Self, TypedDict, type_check_only

# indexes for wake_by
CONTROL: int
SUPPLY: int

class WalError(OSError): ...

@type_check_only
class WalStats(TypedDict):
    segments: int
    free_segments: int
    full_segments: int
    frames: int
    written_bytes: int
    # of batches, without headers and padding
    payload_bytes: int
    # not yet on the medium
    staged_bytes: int
    # how often a commit had to wait for a segment
    waited_for_segment: int
    checkpoint_frame: int
    # writes that have not ended, or wait for an older one
    groups_under_way: int

class WriteAheadLog:
    io: str
    io_reason: str | None
    def __new__(
        cls,
        path: str | PathLike[str],
        *,
        last_frame: int = 0,
        segment_bytes: int = ...,
        staged_max_bytes: int = ...,
        io: str = "auto",
        liburing: str | PathLike[str] | None = None,
    ) -> Self: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def mark_clean(self) -> None: ...
    def commit(self) -> bool: ...
    def add_segment(self, number: int, *, make: bool = True) -> None: ...
    def released(self, frame: int) -> None: ...
    def take_wants_segment(self) -> bool: ...
    def wake_by(self, who: int, event_fd: int) -> None: ...
    def control_waits(self) -> None: ...
    @property
    def durable_frame(self) -> int: ...
    @property
    def staged_frame(self) -> int: ...
    @property
    def closed_frame(self) -> int: ...
    @property
    def failure(self) -> int | None: ...
    def stats(self) -> WalStats: ...
