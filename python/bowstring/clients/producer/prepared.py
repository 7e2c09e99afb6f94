"""Ends transactions in another process than the one that sent their records: one decides for many writers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bowstring.clients.config.security import client_security
from bowstring.clients.errors import BrokerError, ClientError, broker_error
from bowstring.clients.group.offset_queries import retried
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.coordinators import TRANSACTION, coordinator_request, found_coordinators
from bowstring.clients.net.metadata import ClusterMetadata, parse_bootstrap
from bowstring.clients.producer.transaction_messages import end_transaction
from bowstring.clients.records import Node
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.describe_transactions import DescribeTransactionsRequest
from bowstring.protocol.messages.end_txn import EndTxnRequest
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest

_FENCED = (Errors.PRODUCER_FENCED.code, Errors.INVALID_PRODUCER_EPOCH.code)
_ENDED_OTHERWISE = (Errors.PRODUCER_FENCED.code, Errors.INVALID_TXN_STATE.code)


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
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        commit: bool = True,
        timeout: float = 60.0,
        security: Mapping[str, Any] | None = None,
    ) -> None:
        """Commits or aborts it. Calling it again with the same outcome does nothing.

        Args:
            bootstrap_servers: `host:port,host:port`, or a list of them.
            commit: False aborts.
            timeout: seconds.
            security: settings of TLS and SASL, as of `Producer`.

        Raises:
            ProducerFencedError: it is aborted, by a later producer.
            BrokerError: INVALID_TXN_STATE: it has ended otherwise, by its timeout or by another `complete`.
            ClientError: not answered within `timeout` seconds, or refused.
        """
        client = NetworkClient("bowstring-prepared", transactional=True, security=client_security(security))
        try:
            cluster = ClusterMetadata(client, parse_bootstrap(bootstrap_servers), allow_auto_create=False)
            for error in complete_all(cluster, [self], commit=commit, timeout_s=timeout).values():
                raise error
        finally:
            client.close()


def complete_all(
    cluster: ClusterMetadata, transactions: Sequence[PreparedTransaction], *, commit: bool, timeout_s: float
) -> dict[PreparedTransaction, BrokerError]:
    """Commits or aborts many transactions; the requests to one broker are in flight together.

    Returns:
        Those that have ended otherwise: PRODUCER_FENCED after a later producer, INVALID_TXN_STATE after the
        timeout (PRODUCER_FENCED before transaction version 2) or another `complete_all`.

    Raises:
        ClientError: not all were answered within `timeout_s` seconds, or one was refused.
    """
    left = {each.transactional_id: each for each in transactions}
    otherwise: dict[PreparedTransaction, BrokerError] = {}

    def attempt(left_s: float) -> None:
        failure: ClientError | None = None
        sent: list[tuple[PreparedTransaction, Any]] = []
        nodes = _coordinators(cluster, left, left_s)
        for name, each in left.items():
            request = end_transaction(name, (each.producer_id, each.epoch), commit)
            sent.append((each, cluster.client.send(nodes[name], EndTxnRequest, request, timeout_s=left_s)))
        for each, pending in sent:
            try:
                _check(cluster.client.wait(pending).error_code, _ending(each))
                del left[each.transactional_id]
            except ClientError as error:
                if isinstance(error, BrokerError) and error.code in _ENDED_OTHERWISE:
                    otherwise[left.pop(each.transactional_id)] = error
                elif failure is None or not error.retriable:
                    failure = error
        if failure is not None:
            raise failure

    if left:
        retried(cluster, timeout_s, attempt)
    return otherwise


def open_transactions(
    cluster: ClusterMetadata, transactional_ids: Iterable[str], timeout_s: float
) -> dict[str, PreparedTransaction]:
    """Returns the transactions of these ids that are neither committed nor aborted, by id (KIP-664).

    Raises:
        ClientError: not answered within `timeout_s` seconds, or refused.
    """
    names = list(transactional_ids)

    def attempt(left_s: float) -> dict[str, PreparedTransaction]:
        by_node: dict[Node, list[str]] = {}
        for name, node in _coordinators(cluster, names, left_s).items():
            by_node.setdefault(node, []).append(name)
        sent = [
            cluster.client.send(
                node,
                DescribeTransactionsRequest,
                DescribeTransactionsRequest(transactional_ids=asked),
                timeout_s=left_s,
            )
            for node, asked in by_node.items()
        ]
        found = {}
        for pending in sent:
            for state in cluster.client.wait(pending).transaction_states:
                if state.error_code == Errors.TRANSACTIONAL_ID_NOT_FOUND.code:
                    continue
                _check(state.error_code, f"describing transactional id {state.transactional_id!r}")
                if state.transaction_state == "Ongoing":
                    found[state.transactional_id] = PreparedTransaction(
                        state.transactional_id, state.producer_id, state.producer_epoch
                    )
        return found

    return retried(cluster, timeout_s, attempt) if names else {}


def _coordinators(cluster: ClusterMetadata, names: Iterable[str], timeout_s: float) -> dict[str, Node]:
    """Returns the broker that coordinates each transactional id."""
    keys = list(names)

    request = coordinator_request(*keys, kind=TRANSACTION)
    answer = cluster.call(cluster.any_node, FindCoordinatorRequest, request, timeout_s)
    found = found_coordinators(answer, keys, TRANSACTION)
    if answer.coordinators:
        return found
    others = keys[1:]  # which a broker before Kafka 3.0 finds one by one
    return found | (_coordinators(cluster, others, timeout_s) if others else {})


def _ending(transaction: PreparedTransaction) -> str:
    return f"ending a transaction of {transaction.transactional_id!r}"


def _check(code: int, what: str) -> None:
    if code in _FENCED:
        raise broker_error(Errors.PRODUCER_FENCED.code, what)
    if code:
        error: ClientError = broker_error(code, what)
        error.retriable = error.retriable or code == Errors.CONCURRENT_TRANSACTIONS.code
        raise error
