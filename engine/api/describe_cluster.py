"""Handles DescribeCluster: lists the brokers of the cluster (KIP-700)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from bowstring.engine.api.authorized_operations import NOT_ASKED, cluster_operations
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from bowstring.protocol.records.cluster_metadata.nodes import RegisterControllerRecord

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.quorum.service import QuorumService
    from bowstring.engine.requests.request import Request
    from bowstring.engine.security.authorizer import Authorizer

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


async def handle(
    request: "Request",
    *,
    node_id: int,
    cluster_id: str,
    metadata: "Metadata",
    quorum: "QuorumService",
    authorizer: "Authorizer",
) -> DescribeClusterResponse:
    """Lists the brokers of the cluster.

    Behaviour: brokers without the listener on which the request arrived are left out. Controllers list
    controllers on their own listeners: those that have registered, and the voters.

    Versions: 1 adds the endpoint type, which must be that of the listener (KIP-919). 2 adds fenced brokers.
    """
    body: DescribeClusterRequest = request.body
    if request.listener.is_controller:
        return _controllers(
            cluster_id, metadata, quorum, body, lambda: cluster_operations(authorizer, request)
        )
    if body.endpoint_type != _BROKERS:
        known = body.endpoint_type == _CONTROLLERS
        error = Errors.MISMATCHED_ENDPOINT_TYPE if known else Errors.UNSUPPORTED_ENDPOINT_TYPE
        return DescribeClusterResponse(error_code=error.code, error_message=error.message)
    asked = body.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=cluster_id,
        controller_id=node_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=each.id,
                host=endpoint.host,
                port=endpoint.port,
                rack=each.rack,
                # Versions 0 and 1 have no such field and list no fenced brokers.
                is_fenced=each.fenced and request.version >= 2,
            )
            for each in metadata.image.brokers.values()
            if (endpoint := each.endpoint(request.listener.name)) is not None
            and (not each.fenced or body.include_fenced_brokers)
        ],
        cluster_authorized_operations=cluster_operations(authorizer, request) if asked else NOT_ASKED,
    )


def _controllers(
    cluster_id: str,
    metadata: "Metadata",
    quorum: "QuorumService",
    body: DescribeClusterRequest,
    operations: Callable[[], int],
) -> DescribeClusterResponse:
    if body.endpoint_type != _CONTROLLERS:
        known = body.endpoint_type == _BROKERS
        error = Errors.MISMATCHED_ENDPOINT_TYPE if known else Errors.UNSUPPORTED_ENDPOINT_TYPE
        return DescribeClusterResponse(error_code=error.code, error_message=error.message)
    nodes: dict[int, tuple[str, int]] = {}
    for record in metadata.image.kept.of(RegisterControllerRecord):
        assert isinstance(record, RegisterControllerRecord)
        for point in record.end_points:
            if point.name == quorum.listener:
                nodes[record.controller_id] = (point.host, point.port)
    for voter in quorum.voters:
        for endpoint in voter.endpoints:
            if endpoint.name == quorum.listener:
                nodes[voter.key.id] = (endpoint.host, endpoint.port)
    asked = body.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=cluster_id,
        endpoint_type=_CONTROLLERS,
        controller_id=quorum.leader_id,
        brokers=[
            DescribeClusterBroker(broker_id=id, host=host, port=port)
            for id, (host, port) in sorted(nodes.items())
        ],
        cluster_authorized_operations=operations() if asked else NOT_ASKED,
    )
