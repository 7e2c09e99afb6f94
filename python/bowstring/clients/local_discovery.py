"""Finding the socket of the very broker that is spoken to over TCP, if it is on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bowstring.clients.cluster import Cluster
from bowstring.clients.errors import ClientError, ConfigError, LocalReadsUnavailableError
from bowstring.clients.records import Node
from bowstring.engine.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)

if TYPE_CHECKING:
    from bowstring.clients.local_wire import LocalConnection

BROKER_RESOURCE = 4
SOCKET_CONFIG = "bowstring.local.socket"
INSTANCE_CONFIG = "bowstring.local.instance"

Local = bool | Literal["auto"]
"""True: through mapped files or not at all; "auto": if it can be; False: over TCP."""


def check_local(local: Local) -> None:
    """Refuses what is neither.

    Raises:
        ConfigError: `local` is something else.
    """
    if local not in (True, False, "auto"):
        raise ConfigError(f'local is {local!r}, it must be True, False or "auto"')


def connect(cluster: Cluster, node: Node, timeout_s: float) -> LocalConnection:
    """A connection to the socket of the broker `node`, which says over TCP where that is and who it is.

    A socket that another broker answers (of a copied directory, of a container with the same paths) is left.

    Raises:
        LocalReadsUnavailableError: the broker is elsewhere, is not Bowstring, or does not let this user in.
        NoBrokerError: it cannot be asked.
    """
    from bowstring.clients.local_wire import LocalConnection  # few consumers need it

    configs = _ask(cluster, node, timeout_s)
    path, instance = configs.get(SOCKET_CONFIG), configs.get(INSTANCE_CONFIG)
    if path is None:
        raise LocalReadsUnavailableError(f"{node} has no local reads: it is not Bowstring, or an older one")
    if not instance or not path.startswith("/"):
        raise LocalReadsUnavailableError(f"{node} has no socket for them ({SOCKET_CONFIG} is {path!r})")
    connection = LocalConnection(
        path, cluster.client.client_id, round(cluster.client.request_timeout_s * 1000)
    )
    hello = connection.hello
    if (hello.instance, hello.node_id, hello.cluster_id) != (instance, node.id, cluster.cluster_id):
        connection.close()
        raise LocalReadsUnavailableError(
            f"{path} is answered by another broker (node {hello.node_id} of cluster {hello.cluster_id}) than "
            f"{node} of cluster {cluster.cluster_id}: that one is on another machine or in another container"
        )
    return connection


def _ask(cluster: Cluster, node: Node, timeout_s: float) -> dict[str, str | None]:
    resource = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE,
        resource_name=str(node.id),
        configuration_keys=[SOCKET_CONFIG, INSTANCE_CONFIG],
    )
    request = DescribeConfigsRequest(resources=[resource])
    try:
        response = cluster.call(lambda: node, DescribeConfigsRequest, lambda _: request, timeout_s)
    except ClientError as error:
        raise LocalReadsUnavailableError(f"{node} does not say where its socket is: {error}") from error
    found: dict[str, str | None] = {}
    for result in response.results:
        if result.error_code:
            raise LocalReadsUnavailableError(
                f"{node} does not say where its socket is: {result.error_message or result.error_code}"
            )
        found.update((config.name, config.value) for config in result.configs)
    return found
