"""Sends a node's requests to the active controller: within the process if it is in it, else by network.

Both ways have the same turns (`Forwards`) and meaning of a missing answer. Within the process the number of
requests that wait is not bounded, and there is neither a connection nor encoding: requests and answers are
handed over as they are.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bowstring.engine import background
from bowstring.engine.quorum.forwards import OWN_CONNECTIONS, Forwards
from bowstring.engine.raft.voters import Node
from bowstring.protocol import API_VERSIONS
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.schema import Request, Response

if TYPE_CHECKING:
    from bowstring.engine.quorum.connections import Connections

OwnController = Callable[[Request, int], Coroutine[Any, Any, Response | None]]
"""Answers a request of a version as if it had come by network; None where it would close the connection."""
RETRY_S: Final = 0.02


class LeaderRequests:
    """The requests of one node to the active controller.

    Args:
        leader: Returns the active controller; None while none is known.
        is_known: Set while one is known.
        connections: Returns those to other nodes.

    Attributes:
        own_controller: Answers while the active controller is in this process; None on nodes without one.
        forwards: The turns of requests of clients.
    """

    def __init__(
        self,
        node_id: int,
        timeout_ms: int,
        leader: Callable[[], Node | None],
        is_known: asyncio.Event,
        connections: "Callable[[], Connections]",
    ) -> None:
        self.own_controller: OwnController | None = None
        self.forwards = Forwards()
        self._activations = 0
        self._activated = asyncio.Event()
        self._node_id = node_id
        self._timeout_ms = timeout_ms
        self._leader = leader
        self._is_known = is_known
        self._connections = connections
        self._answering: set[asyncio.Task[Response | None]] = set()

    async def ask(
        self, body: Request, timeout_ms: int | None = None, version: int | None = None, client: str = ""
    ) -> Any:
        """Sends a request; see `QuorumService.ask_leader`."""
        timeout_s = (timeout_ms or self._timeout_ms) / 1000
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        own = OWN_CONNECTIONS.get(body.api_key)
        if own is not None:
            return await self._until_answered(body, version, own, deadline_s)
        size_bytes = len(getattr(body, "request_data", b""))
        counts = not self._is_within(self._leader())
        async with self.forwards.turn(client, size_bytes, timeout_s, counts=counts) as place:
            return await self._until_answered(body, version, place, deadline_s)

    def note_active(self) -> None:
        """Repeats what this node's controller has refused: it is active now."""
        self._activations += 1
        self._activated.set()
        self._activated.clear()

    async def stop(self) -> None:
        """Ends what this node's own controller has not answered."""
        self.own_controller = None
        for task in self._answering:
            task.cancel()
        if self._answering:
            await asyncio.wait(self._answering)

    async def _until_answered(
        self, body: Request, version: int | None, purpose: str | int, deadline_s: float
    ) -> Any:
        """Asks the active controller, and after NOT_CONTROLLER the next one.

        Raises:
            KafkaError: NOT_CONTROLLER: none is known in time, or it does not answer before it is too late or
                another one is known. Then it is open whether the request had an effect.
        """
        api = API_VERSIONS[body.api_key]
        versions = (api.lowest, api.highest) if version is None else (version, version)
        loop = asyncio.get_running_loop()
        while True:
            node, activations = self._leader(), self._activations
            if node is not None:
                timeout_s = max(0.001, deadline_s - loop.time())
                if self._is_within(node) and self.own_controller is not None:
                    answer: Any = await self._within(self.own_controller(body, versions[1]), timeout_s)
                elif not node.host:
                    raise KafkaError(Errors.NOT_CONTROLLER, "this node's controller has ended")
                else:
                    is_wanted = partial(self._may_lead, node)
                    answer = await self._connections().ask(
                        node, purpose, body, versions, timeout_s, is_wanted=is_wanted
                    )
                if not _refuses_as_inactive(answer):
                    return answer
            if loop.time() >= deadline_s:
                raise KafkaError(Errors.NOT_CONTROLLER, "no controller is active")
            if activations == self._activations:
                await self._pause(deadline_s)

    def _is_within(self, node: Node | None) -> bool:
        """Whether a controller is in this process."""
        return node is not None and node.id == self._node_id and self.own_controller is not None

    def _may_lead(self, node: Node) -> bool:
        """Whether no other node is known as the active controller: one that is elected next may be the
        same.
        """
        return self._leader() in (None, node)

    async def _pause(self, deadline_s: float) -> None:
        """Waits until a leader is known; where one is, a moment, or until this node's controller is active:
        no event says that another node has learned of its leadership, or where it listens.
        """
        known = self._is_known.is_set()
        with suppress(TimeoutError):
            async with asyncio.timeout(RETRY_S) if known else asyncio.timeout_at(deadline_s):
                await (self._activated if known else self._is_known).wait()

    async def _within(self, work: Coroutine[Any, Any, Response | None], timeout_s: float) -> Response:
        """Returns the answer of this node's controller. As over a connection, the request goes on when nobody
        waits for it any more.
        """
        task = background.spawn(work, "a request to this node's controller", among=self._answering)
        done, _ = await asyncio.wait({task}, timeout=timeout_s)
        answer = task.result() if done and not task.cancelled() else None
        if answer is None:
            detail = f"the active controller {self._node_id}, in this process, does not answer"
            raise KafkaError(Errors.NOT_CONTROLLER, detail)
        return answer


def _refuses_as_inactive(answer: Any) -> bool:
    """Whether a node answers that it is not the active controller; CreateTopics says it of each topic."""
    if getattr(answer, "api_key", None) == ApiKeys.CREATE_TOPICS:
        return any(each.error_code == Errors.NOT_CONTROLLER.code for each in answer.topics)
    return bool(getattr(answer, "error_code", 0) == Errors.NOT_CONTROLLER.code)
