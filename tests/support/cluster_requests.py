"""Requests to one broker of a `bowstring.Cluster`."""

from typing import Any

import bowstring
from bowstring.protocol.schema import Request
from tests.support.wire_client import WireClient


def asked(cluster: bowstring.Cluster, broker_id: int, request: Request) -> Any:
    """Returns a broker's answer to a request in its newest version."""
    host, _, port = cluster.address(broker_id).rpartition(":")
    client = WireClient(int(port), host)
    try:
        return client.ask(request)
    finally:
        client.close()
