"""Finds the clusters of Kafka Connect for a request, and who may see and change them."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request

from bowstring.clients.http_login import HttpLogin
from bowstring.console.connect.connect_cluster import ConnectCluster, login_of
from bowstring.console.options import ConsoleOptions
from bowstring.console.sessions import access_of, sessions_of
from bowstring.protocol.acls import AclOperation

RIGHTS_S = 10.0
NO_CONNECT = "The console has no Kafka Connect: start it with --connect-url http://host:8083."


def clusters_from(options: ConsoleOptions) -> dict[str, ConnectCluster]:
    """Returns the clusters that the console is started with, by address.

    Raises:
        ConfigError: an address, or the file with the log-in, is wrong.
    """
    login = login_of(options.connect_config) if options.connect_config else HttpLogin()
    made = [ConnectCluster(url, login) for url in options.connect_urls]
    return {each.address: each for each in made}


def clusters_of(request: Request) -> Mapping[str, ConnectCluster]:
    """Returns all clusters by address."""
    found: Mapping[str, ConnectCluster] = request.app.state.connect
    return found


async def why_not_shown(request: Request) -> str:
    """Returns why the user may not see connectors, in a sentence; empty if they may.

    Connect has no users of the cluster. Where users sign in, connectors are for those who may describe the
    configs of the cluster.

    Raises:
        ClientError: the cluster does not answer.
    """
    if not clusters_of(request):
        access_of(request)
        return NO_CONNECT
    return await _missing(request, AclOperation.DESCRIBE_CONFIGS, RIGHTS_S)


async def why_not_changed(request: Request) -> str:
    """Returns why the user may not change connectors; empty if they may, which needs ALTER_CONFIGS on the
    cluster where users sign in. Raises like `why_not_shown`.
    """
    return await why_not_shown(request) or await _missing(request, AclOperation.ALTER_CONFIGS, 0.0)


async def _missing(request: Request, operation: AclOperation, seconds: float) -> str:
    access = access_of(request)
    if not sessions_of(request).options.sign_in:
        return ""
    allowed = await access.cached(("cluster operations",), seconds, lambda admin: admin.cluster_operations())
    if operation in allowed:
        return ""
    return f"You need the right {operation.name} on the cluster for this. `bowstring acls add` grants it."
