"""Finds the Unix socket of a broker that is connected over TCP, if it is on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bowstring.clients.errors import ClientError, LocalReadsUnavailableError
from bowstring.clients.net.metadata import ClusterMetadata
from bowstring.clients.records import Node
from bowstring.protocol.local_read_configs import INSTANCE_CONFIG, SOCKET_CONFIG, TOKEN_CONFIG
from bowstring.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

if TYPE_CHECKING:
    from bowstring.clients.local.local_connection import LocalConnection

BROKER_RESOURCE = 4

Local = bool | Literal["auto"]
"""True: mapped files are required; "auto": used if possible; False: TCP only."""


def connect(cluster: ClusterMetadata, node: Node, timeout_s: float) -> LocalConnection:
    """Connects to the socket of the broker `node`, which reports path and identity over TCP.

    A socket of another broker (of a copied directory, or of a container with the same paths) is not used.

    Raises:
        LocalReadsUnavailableError: the broker is on another machine, is not Bowstring, or denies access to
            this user.
        NoBrokerError: the broker does not answer.
    """
    from bowstring.clients.local.local_connection import LocalConnection  # loaded late: few consumers need it

    configs = told_by(cluster, node, timeout_s)
    path, instance = configs.get(SOCKET_CONFIG), configs.get(INSTANCE_CONFIG)
    if path is None:
        raise LocalReadsUnavailableError(
            f"{node} does not offer local reads: it is not Bowstring, or is an older version"
        )
    if not instance or not path.startswith("/"):
        raise LocalReadsUnavailableError(
            f"{node} has no socket for local reads ({SOCKET_CONFIG} is {path!r})"
        )
    connection = LocalConnection(
        path,
        cluster.client.client_id,
        round(cluster.client.request_timeout_s * 1000),
        token=configs.get(TOKEN_CONFIG) or "",
    )
    hello = connection.hello
    if (hello.instance, hello.node_id, hello.cluster_id) != (instance, node.id, cluster.cluster_id):
        connection.close()
        raise LocalReadsUnavailableError(
            f"another broker (node {hello.node_id} of cluster {hello.cluster_id}) listens at {path}, not "
            f"{node} of cluster {cluster.cluster_id}, which is on another machine or in another container"
        )
    return connection


def told_by(cluster: ClusterMetadata, node: Node, timeout_s: float) -> dict[str, str | None]:
    """Returns what a broker reports about its socket: SOCKET_CONFIG and INSTANCE_CONFIG, if it has them, and
    with access control a token, which opens one connection.

    Raises:
        LocalReadsUnavailableError: it does not report them.
    """
    resource = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE,
        resource_name=str(node.id),
        configuration_keys=[SOCKET_CONFIG, INSTANCE_CONFIG, TOKEN_CONFIG],
    )
    request = DescribeConfigsRequest(resources=[resource])
    try:
        response = cluster.call(lambda: node, DescribeConfigsRequest, lambda _: request, timeout_s)
    except ClientError as error:
        raise LocalReadsUnavailableError(f"{node} does not report its socket: {error}") from error
    found: dict[str, str | None] = {}
    for result in response.results:
        if result.error_code:
            raise LocalReadsUnavailableError(
                f"{node} does not report its socket: {result.error_message or result.error_code}"
            )
        found.update((config.name, config.value) for config in result.configs)
    return found
