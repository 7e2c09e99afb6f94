from collections.abc import Callable, Iterator
from typing import Any

Item = tuple[bytes | None, tuple[int, bytes | None]]

def decode_offset_commits(
    items: Iterator[Item],
    most: int,
    partitions_of: Callable[[str, str, int], dict[int, Any]],
    cls: type[tuple[Any, ...]],
    others: list[Item],
) -> int: ...
