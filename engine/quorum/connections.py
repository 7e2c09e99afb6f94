"""Connects a replica of the metadata quorum with other nodes.

`QuorumService` loads this module when it needs another node for the first time: a quorum of one does not.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.network.broker_addresses import controller_security
from bowstring.engine.network.connection import NoAnswerError, UnsupportedByPeerError, has_ended
from bowstring.engine.network.peers import Peers
from bowstring.engine.quorum.exchanges import Exchanges
from bowstring.engine.raft.voters import Node
from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.schema import Request


class Connections:
    """The connections of one node, by what they are for; each is made when it is needed.

    Attributes:
        exchanges: Sends the replica's messages, on connections of their own: its Fetch may wait at the
            leader.
    """

    def __init__(
        self, client_id: str, listener: str, configs: BrokerConfigs, directory: LogDirectory
    ) -> None:
        self._client_id = client_id
        self._security = controller_security(configs, listener)
        self._peers = Peers(client_id, self._security)
        timeout_ms = configs.value("controller.quorum.request.timeout.ms")
        self.exchanges = Exchanges(self._peers, listener, timeout_ms, directory)
        self._to_leader: dict[str | int, Peers] = {}

    async def ask(
        self,
        node: Node,
        purpose: str | int,
        body: Request,
        versions: tuple[int, int],
        timeout_s: float,
        *,
        is_wanted: Callable[[], bool],
    ) -> Any:
        """Sends a request to the active controller; returns its answer's body.

        Args:
            purpose: Requests of one purpose share a connection: one of `OWN_CONNECTIONS`, or a place of
                `Forwards`.
            versions: The lowest and highest version to use.
            is_wanted: Whether this node may still be the active controller. `look` reads it.

        Raises:
            KafkaError: NOT_CONTROLLER: it does not answer before it is too late or another one is known. It
                is open whether the request had an effect.
        """
        peers = self._to_leader.get(purpose)
        if peers is None:
            peers = self._to_leader[purpose] = Peers(self._client_id, self._security)
        try:
            return await peers.exchange(node, body, versions, timeout_s, is_wanted)
        except (NoAnswerError, UnsupportedByPeerError) as error:
            detail = f"the active controller {node.id} does not answer: {error}"
            raise KafkaError(Errors.NOT_CONTROLLER, detail) from error

    def look(self) -> None:
        """Ends the requests to an active controller that another one has followed."""
        for peers in self._to_leader.values():
            peers.look()

    @staticmethod
    async def count_ended(nodes: Iterable[Node]) -> int:
        """Returns the processes of how many nodes have ended: their addresses refuse connections."""
        return sum(await asyncio.gather(*(has_ended(each.host, each.port) for each in nodes)))

    def close(self) -> None:
        """Closes them."""
        for peers in (self._peers, *self._to_leader.values()):
            peers.close()
