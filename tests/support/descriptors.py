"""Counts the open file descriptors of this process."""

import gc
import os


def open_descriptors() -> int:
    """Number of open descriptors, without those of objects that nobody has any more: earlier tests of this process
    may have left some, which would close at any moment.
    """
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def none_is_left(before: int, calls: int) -> bool:
    """Whether calls have left no descriptor each; what earlier tests of this process left running may open a few."""
    return open_descriptors() < before + calls // 2
