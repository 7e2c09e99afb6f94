"""Implements Admin for asyncio: the calls of bowstring.Admin as coroutines."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from bowstring.aio.worker import Worker, WorkersClient, awaited, listen_on_loop, same_arguments
from bowstring.clients.admin.admin import Admin as ThreadedAdmin

T = TypeVar("T")


class Admin(WorkersClient):
    """Inspects and changes a cluster. Belongs to one event loop; any number of its tasks may share it.

    Takes the arguments of `bowstring.Admin`; its methods take those of Admin's methods. Calls run one after
    another; a cancelled call may still take effect.

    Examples:
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
        client = self._admin
        self._listener = listen_on_loop(client.troubles, self._worker, client.listener)
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
    describe_log_dirs_of = awaited(ThreadedAdmin.describe_log_dirs_of)
    move_replicas = awaited(ThreadedAdmin.move_replicas)
    describe_brokers = awaited(ThreadedAdmin.describe_brokers)
    cluster_operations = awaited(ThreadedAdmin.cluster_operations)
    unregister_broker = awaited(ThreadedAdmin.unregister_broker)
    unregister_controller = awaited(ThreadedAdmin.unregister_controller)
    alter_reassignments = awaited(ThreadedAdmin.alter_reassignments)
    list_reassignments = awaited(ThreadedAdmin.list_reassignments)
    elect_leaders = awaited(ThreadedAdmin.elect_leaders)
    replica_ends = awaited(ThreadedAdmin.replica_ends)
    describe_quorum = awaited(ThreadedAdmin.describe_quorum)
    add_raft_voter = awaited(ThreadedAdmin.add_raft_voter)
    remove_raft_voter = awaited(ThreadedAdmin.remove_raft_voter)
    describe_features = awaited(ThreadedAdmin.describe_features)
    update_features = awaited(ThreadedAdmin.update_features)
    describe_configs = awaited(ThreadedAdmin.describe_configs)
    topic_configs = awaited(ThreadedAdmin.topic_configs)
    alter_configs = awaited(ThreadedAdmin.alter_configs)
    list_groups = awaited(ThreadedAdmin.list_groups)
    describe_group = awaited(ThreadedAdmin.describe_group)
    describe_groups = awaited(ThreadedAdmin.describe_groups)
    delete_groups = awaited(ThreadedAdmin.delete_groups)
    remove_members = awaited(ThreadedAdmin.remove_members)
    committed_offsets = awaited(ThreadedAdmin.committed_offsets)
    alter_offsets = awaited(ThreadedAdmin.alter_offsets)
    describe_share_offsets = awaited(ThreadedAdmin.describe_share_offsets)
    alter_share_offsets = awaited(ThreadedAdmin.alter_share_offsets)
    delete_share_offsets = awaited(ThreadedAdmin.delete_share_offsets)
    delete_offsets = awaited(ThreadedAdmin.delete_offsets)
    group_lag = awaited(ThreadedAdmin.group_lag)
    group_lags = awaited(ThreadedAdmin.group_lags)
    group_lags_of = awaited(ThreadedAdmin.group_lags_of)
    batch_timestamps = awaited(ThreadedAdmin.batch_timestamps)
    list_transactions = awaited(ThreadedAdmin.list_transactions)
    describe_transaction = awaited(ThreadedAdmin.describe_transaction)
    describe_transactions = awaited(ThreadedAdmin.describe_transactions)
    describe_producers = awaited(ThreadedAdmin.describe_producers)
    find_hanging_transactions = awaited(ThreadedAdmin.find_hanging_transactions)
    abort_transaction = awaited(ThreadedAdmin.abort_transaction)
    create_acls = awaited(ThreadedAdmin.create_acls)
    describe_acls = awaited(ThreadedAdmin.describe_acls)
    delete_acls = awaited(ThreadedAdmin.delete_acls)
    describe_user_scram_credentials = awaited(ThreadedAdmin.describe_user_scram_credentials)
    alter_user_scram_credentials = awaited(ThreadedAdmin.alter_user_scram_credentials)
    describe_client_quotas = awaited(ThreadedAdmin.describe_client_quotas)
    alter_client_quotas = awaited(ThreadedAdmin.alter_client_quotas)
    create_delegation_token = awaited(ThreadedAdmin.create_delegation_token)
    renew_delegation_token = awaited(ThreadedAdmin.renew_delegation_token)
    expire_delegation_token = awaited(ThreadedAdmin.expire_delegation_token)
    describe_delegation_tokens = awaited(ThreadedAdmin.describe_delegation_tokens)

    async def close(self) -> None:
        """Closes the connections after the calls in progress."""
        if self._finalizer.detach() is not None:
            try:
                await self._worker.call(self._admin.close, required=True)
            finally:
                self._worker.stop()
