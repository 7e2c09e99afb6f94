"""Controllers in this process, on one event loop, over real sockets and disks."""

import asyncio
from pathlib import Path

from bowstring.engine.broker.controller_node import ControllerNode
from bowstring.engine.storage.log_directory import META_PROPERTIES
from bowstring.protocol.ids import format_uuid
from tests.support.serving import steady_port
from tests.support.waiting import wait_until_async

CLUSTER_ID = format_uuid(b"quorum-of-a-test")
# Short, so that tests do not wait; long enough for a busy machine.
FAST = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "600",
    "controller.quorum.election.backoff.max.ms": "100",
    "controller.quorum.append.linger.ms": "0",
}


def format_directory(path: Path, node_id: int, cluster_id: str = CLUSTER_ID, *, place: int = 0) -> None:
    """Gives a directory its identity; `place` distinguishes a node's directories."""
    path.mkdir(parents=True, exist_ok=True)
    directory_id = format_uuid(bytes([node_id]) * 15 + bytes([node_id + place]))
    (path / META_PROPERTIES).write_text(
        f"cluster.id={cluster_id}\ndirectory.id={directory_id}\nnode.id={node_id}\nversion=1\n"
    )


class Controllers:
    """Controllers with configured voters; `nodes` holds the running ones."""

    def __init__(self, directory: Path, count: int = 3, **configs: str) -> None:
        self.directory = directory
        self.ports = {id: steady_port() for id in range(1, count + 1)}
        self.configs = {name.replace("_", "."): value for name, value in configs.items()}
        self.nodes: dict[int, ControllerNode] = {}
        for id in self.ports:
            format_directory(directory / str(id), id)

    def settings(self, id: int) -> dict[str, str]:
        voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in self.ports.items())
        return {
            "node.id": str(id),
            "process.roles": "controller",
            "log.dirs": str(self.directory / str(id)),
            "listeners": f"CONTROLLER://127.0.0.1:{self.ports[id]}",
            "controller.quorum.voters": voters,
            **FAST,
            **self.configs,
        }

    async def start(self, *ids: int) -> None:
        for id in ids or self.ports:
            node = ControllerNode(self.settings(id))
            node.open()
            await node.start()
            self.nodes[id] = node

    async def stop(self, *ids: int) -> None:
        """Stops nodes; if all stop, no leader waits for the others."""
        timeout_ms = 5000 if ids else 0
        await asyncio.gather(*(self.nodes.pop(id).stop(timeout_ms) for id in ids or list(self.nodes)))

    async def kill(self, id: int) -> None:
        """Ends a node without a message to others; they find its port closed."""
        await self.nodes.pop(id).stop(0)

    async def leader(self) -> ControllerNode:
        """The active controller, once all running nodes see it."""

        def agreed():
            leaders = {node.quorum.leader_id for node in self.nodes.values()}
            epochs = {node.quorum.epoch for node in self.nodes.values()}
            if len(leaders) == 1 and len(epochs) == 1:
                found = self.nodes.get(leaders.pop())
                return found if found is not None and found.quorum.is_leader else None
            return None

        return await wait_until_async(agreed, "no leader")
