"""Raises the limit on open files of the process."""

import resource


def raise_file_limit() -> int:
    """Raises the soft limit on open files to the hard limit and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
