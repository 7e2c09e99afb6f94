"""How many files the process may have open."""

import resource


def raise_file_limit() -> int:
    """Raises the soft limit on open files to the hard one and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
