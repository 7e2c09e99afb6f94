"""Exchanges the messages of a replica of the metadata quorum with other nodes."""

from typing import Any, Final

from bowstring.engine import event_log
from bowstring.engine.network.connection import NoAnswerError, UnsupportedByPeerError
from bowstring.engine.network.peers import Peers
from bowstring.engine.raft import messages, wire
from bowstring.engine.raft.voters import Node
from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.protocol import API_VERSIONS
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.api_versions import ApiVersionsRequest
from bowstring.protocol.messages.describe_cluster import DescribeClusterRequest

_CONTROLLERS: Final = 2


class Exchanges:
    """Sends the replica's messages.

    Attributes:
        unreachable: Ids of nodes that did not answer the last time.
    """

    def __init__(self, peers: Peers, listener: str, timeout_ms: int, directory: LogDirectory) -> None:
        self.unreachable: set[int] = set()
        self._peers = peers
        self._listener = listener
        self._timeout_s = timeout_ms / 1000
        self._directory = directory
        self._told_clusters: set[Node] = set()

    async def answer(self, to: Node, request: messages.Request) -> messages.Response:
        """Returns a node's answer; an ErrorResponse if there is none, or the node is too old."""
        key = wire.request_class(request).api_key  # type: ignore[attr-defined]
        api = API_VERSIONS[key]
        lowest = wire.FETCH_VERSION_MIN if isinstance(request, messages.FetchRequest) else api.lowest
        connection = self._peers.at(to.id, to.host, to.port)

        def prepare(version: int) -> Any:
            body = wire.request_body(request, version)
            if isinstance(body, ApiVersionsRequest):
                body.client_software_name, body.client_software_version = "bowstring", "1"
            return body

        try:
            body, _ = await connection.exchange_prepared(prepare, key, (lowest, api.highest), self._timeout_s)
        except NoAnswerError as error:
            self.unreachable.add(to.id)
            return messages.ErrorResponse(Errors.BROKER_NOT_AVAILABLE, refused=error.refused)
        except (UnsupportedByPeerError, wire.UnsupportedVersionError):
            return messages.ErrorResponse(Errors.UNSUPPORTED_VERSION)
        self.unreachable.discard(to.id)
        found = wire.parse_response(body, self._listener)
        if found is None:
            return messages.ErrorResponse(Errors.BROKER_NOT_AVAILABLE)
        if isinstance(found, messages.ErrorResponse) and found.error is Errors.INCONSISTENT_CLUSTER_ID:
            await self._tell_of_other_cluster(to)
        return found

    async def _tell_of_other_cluster(self, node: Node) -> None:
        """Logs once that a node belongs to another cluster, and to which."""
        if node in self._told_clusters:
            return
        self._told_clusters.add(node)
        asked = DescribeClusterRequest(endpoint_type=_CONTROLLERS)
        theirs = "another one"
        try:
            connection = self._peers.at(node.id, node.host, node.port)
            answer: Any = (await connection.exchange(asked, (1, 2), self._timeout_s))[0]
            theirs = answer.cluster_id or theirs
        except (NoAnswerError, UnsupportedByPeerError):
            pass  # the line says less then
        event_log.error(
            "a controller belongs to another cluster; correct controller.quorum.bootstrap.servers or "
            "controller.quorum.voters, or format this node for that cluster",
            controller=f"{node.host}:{node.port}",
            its_cluster_id=theirs,
            own_cluster_id=self._directory.cluster_id,
        )
