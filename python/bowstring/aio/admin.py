"""Admin for asyncio: the calls of bowstring.Admin, each a coroutine."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from bowstring.aio.worker import Worker, WorkersClient, awaited, same_arguments
from bowstring.clients.admin import Admin as ThreadedAdmin

T = TypeVar("T")


class Admin(WorkersClient):
    """Looks at a cluster and changes it; belongs to one event loop, any number of its tasks may share it.

    Takes the arguments of `bowstring.Admin`, and its methods have theirs. Calls are made one after the other;
    one that is cancelled may take effect all the same.

    Example:
        >>> async def main():
        ...     async with bowstring.aio.Admin("localhost:9092") as admin:
        ...         await admin.create_topic("async-greetings", partitions=3)
        ...         print("async-greetings" in await admin.topics())
        >>> asyncio.run(main())
        True
    """

    @same_arguments(ThreadedAdmin.__init__)
    def __init__(self, *args: Any, **keywords: Any):
        self._admin = ThreadedAdmin(*args, **keywords)
        self._worker = Worker("Admin")
        self._finalizer = weakref.finalize(self, self._worker.stop)

    async def _call(self, method: Callable[..., T], *args: Any, **keywords: Any) -> T:
        return await self._worker.call(functools.partial(method, self._admin, *args, **keywords))

    topics = awaited(ThreadedAdmin.topics)
    list_topics = awaited(ThreadedAdmin.list_topics)
    describe_topic = awaited(ThreadedAdmin.describe_topic)
    create_topics = awaited(ThreadedAdmin.create_topics)
    create_topic = awaited(ThreadedAdmin.create_topic)
    delete_topics = awaited(ThreadedAdmin.delete_topics)
    create_partitions = awaited(ThreadedAdmin.create_partitions)
    list_offsets = awaited(ThreadedAdmin.list_offsets)
    beginning_offsets = awaited(ThreadedAdmin.beginning_offsets)
    end_offsets = awaited(ThreadedAdmin.end_offsets)
    delete_records = awaited(ThreadedAdmin.delete_records)
    describe_cluster = awaited(ThreadedAdmin.describe_cluster)
    describe_log_dirs = awaited(ThreadedAdmin.describe_log_dirs)
    move_replicas = awaited(ThreadedAdmin.move_replicas)
    describe_configs = awaited(ThreadedAdmin.describe_configs)
    alter_configs = awaited(ThreadedAdmin.alter_configs)
    list_groups = awaited(ThreadedAdmin.list_groups)
    describe_group = awaited(ThreadedAdmin.describe_group)
    delete_groups = awaited(ThreadedAdmin.delete_groups)
    committed_offsets = awaited(ThreadedAdmin.committed_offsets)
    alter_offsets = awaited(ThreadedAdmin.alter_offsets)
    delete_offsets = awaited(ThreadedAdmin.delete_offsets)
    group_lag = awaited(ThreadedAdmin.group_lag)

    async def close(self) -> None:
        """Closes the connections after the calls that are under way."""
        if self._finalizer.detach() is not None:
            try:
                await self._worker.call(self._admin.close, required=True)
            finally:
                self._worker.stop()
