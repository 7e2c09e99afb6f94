"""Types of descriptors.pyx."""

from typing import TypedDict, type_check_only

@type_check_only
class Stats(TypedDict):
    held: int
    wanted: int
    short: bool
    shortages: int
    refused_connections: int

def lend(error: int) -> bool: ...
def refill() -> bool: ...
def reserve(n: int, event_fd: int) -> bool: ...
def release(event_fd: int) -> None: ...
def stats() -> Stats: ...
