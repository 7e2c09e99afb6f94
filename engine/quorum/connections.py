"""Connects a replica of the metadata quorum with other nodes.

`QuorumService` loads this module when it needs another node for the first time: a quorum of one does not.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from bowstring.engine.network.connection import has_ended
from bowstring.engine.network.peers import Peers
from bowstring.engine.quorum.exchanges import Exchanges, ask_leader
from bowstring.engine.raft.voters import Node
from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.protocol.schema import Request


class Connections:
    """The connections of one node, by what they are for; each is made when it is needed.

    Attributes:
        exchanges: Sends the replica's messages, on connections of their own: its Fetch may wait at the
            leader.
    """

    def __init__(self, client_id: str, listener: str, timeout_ms: int, directory: LogDirectory) -> None:
        self._client_id = client_id
        self._peers = Peers(client_id)
        self.exchanges = Exchanges(self._peers, listener, timeout_ms, directory)
        self._to_leader: dict[str | int, Peers] = {}

    async def ask_leader(
        self,
        body: Request,
        version: int | None,
        leader: Callable[[], Node | None],
        purpose: str | int,
        timeout_ms: int,
    ) -> Any:
        """Sends a request to the active controller (`exchanges.ask_leader`).

        Args:
            purpose: Requests of one purpose share a connection: one of `OWN_CONNECTIONS`, or a place of
                `Forwards`.
        """
        peers = self._to_leader.get(purpose)
        if peers is None:
            peers = self._to_leader[purpose] = Peers(self._client_id)
        return await ask_leader(body, version, leader, peers, timeout_ms)

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
