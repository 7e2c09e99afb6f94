"""Shortens expected errors in Spark's Python processes: users get one sentence instead of a stack."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from bowstring.clients.errors import ClientError

# PySpark checks it when a worker fails, and then sends the exception without its stack to the JVM. The worker
# ends after that, so other errors are not affected.
HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
# Prefixes of the variables that give every Python process the address of Spark's JVM.
STARTED_BY_SPARK = ("PYTHON_WORKER_FACTORY_", "PYTHON_UNIX_DOMAIN_")


@contextmanager
def one_sentence() -> Iterator[None]:
    """Makes a ClientError raised inside the block reach Spark's users with only its message."""
    try:
        yield
    except ClientError:
        if any(name.startswith(STARTED_BY_SPARK) for name in os.environ):
            os.environ[HIDE_TRACEBACK] = "1"
        raise
