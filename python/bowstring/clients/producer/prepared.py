"""Ends a transaction in another process than the one that sent its records: one decides for many writers."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from bowstring.clients.errors import ClientError, broker_error
from bowstring.clients.group.offset_queries import retried
from bowstring.clients.group.offset_requests import TRANSACTION, coordinator_request
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.metadata import Cluster, parse_bootstrap
from bowstring.clients.producer.transaction_messages import end_transaction
from bowstring.clients.records import Node
from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages.end_txn import EndTxnRequest
from bowstring.engine.protocol.messages.find_coordinator import FindCoordinatorRequest

_FENCED = (Errors.PRODUCER_FENCED.code, Errors.INVALID_PRODUCER_EPOCH.code)


class PreparedTransaction(NamedTuple):
    """A transaction whose records are stored, and whose outcome is not decided. From `prepare_transaction`.

    Attributes:
        transactional_id: of its producer.
        producer_id, epoch: of its producer.
    """

    transactional_id: str
    producer_id: int
    epoch: int

    def complete(
        self, bootstrap_servers: str | Iterable[str], *, commit: bool = True, timeout: float = 60.0
    ) -> None:
        """Commits or aborts it. Calling it again with the same outcome does nothing.

        Args:
            bootstrap_servers: `host:port,host:port`, or a list of them.
            commit: False aborts.
            timeout: seconds.

        Raises:
            ProducerFencedError: it is aborted, by a later producer or by its timeout.
            ClientError: not answered within `timeout` seconds, or refused.
        """
        client = NetworkClient("bowstring-prepared", transactional=True)
        try:
            cluster = Cluster(client, parse_bootstrap(bootstrap_servers), allow_auto_create=False)
            self._end(cluster, commit, timeout)
        finally:
            client.close()

    def _end(self, cluster: Cluster, commit: bool, timeout_s: float) -> None:
        request = end_transaction(self.transactional_id, (self.producer_id, self.epoch), commit)
        what = f"ending a transaction of {self.transactional_id!r}"

        def attempt(left_s: float) -> None:
            deadline = time.monotonic() + left_s
            key = coordinator_request(self.transactional_id, TRANSACTION)
            answer = cluster.call(cluster.any_node, FindCoordinatorRequest, key, left_s)
            found = answer.coordinators[0] if answer.coordinators else answer
            _check(found.error_code, what)
            node = Node(found.node_id, found.host, found.port)
            left_s = max(0.001, deadline - time.monotonic())
            pending = cluster.client.send(node, EndTxnRequest, request, timeout_s=left_s)
            _check(cluster.client.wait(pending).error_code, what)

        retried(cluster, timeout_s, attempt)


def _check(code: int, what: str) -> None:
    if code in _FENCED:
        raise broker_error(Errors.PRODUCER_FENCED.code, what)
    if code:
        error: ClientError = broker_error(code, what)
        error.retriable = error.retriable or code == Errors.CONCURRENT_TRANSACTIONS.code
        raise error
