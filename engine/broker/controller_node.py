"""Runs a controller: a replica of the metadata quorum with its listeners (process.roles=controller)."""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from bowstring._native.server.data_plane import DataPlane
from bowstring.engine.broker.dispatch import Dispatcher
from bowstring.engine.broker.file_limit import raise_file_limit
from bowstring.engine.broker.node import (
    check_formatted,
    make_plane,
    new_log_directories,
    node_id_of,
)
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.metadata.store.start_checks import check_metadata_log
from bowstring.engine.quorum.settings import quorum_settings
from bowstring.engine.quorum.shell import HANDOVER_MS, Quorum
from bowstring.engine.raft.voters import Endpoint, Endpoints
from bowstring.engine.requests.broker_services import BrokerServices
from bowstring.engine.requests.listeners import Listener, advertised_listeners, controller_listeners

_NO_BROKER_EPOCH: Final = -1


def bind_controllers(configs: BrokerConfigs, plane: DataPlane, wanted: list[Listener]) -> list[Listener]:
    """Binds the listeners of controllers; returns them as others reach them."""
    bound = [each._replace(port=plane.listen(each.host, each.port, controller=True)) for each in wanted]
    return advertised_listeners(configs, bound)


def voter_endpoints(listeners: list[Listener]) -> Endpoints:
    """Returns listeners as the quorum names them."""
    return tuple(Endpoint(each.name, each.host, each.port) for each in listeners)


class ControllerNode(BrokerServices):
    """A node that is only a controller.

    `open` does everything that needs no event loop. `start` takes part in the quorum, on the control loop.
    `stop` hands a leadership over and shuts down cleanly.

    Attributes:
        dispatcher: Answers requests; holds their counters.
    """

    dispatcher: Dispatcher
    quorum: Quorum

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.configs = BrokerConfigs(settings)
        self.node_id = node_id_of(self.configs)
        self.settings = quorum_settings(self.configs, self.node_id)
        self.directories = new_log_directories(self.configs)
        self.dispatcher = Dispatcher(self)
        self.time_slices = self.dispatcher.time_slices
        self.listeners = []
        self.advertised = []
        self.endpoints = []

    def open(self) -> None:
        """Locks the directories, binds the listeners, opens the metadata log.

        Raises:
            ConfigError, DataDirectoryError, LogError, OSError: The message says what is wrong and what to do.
        """
        if reasons := self.configs.unenforced():
            raise ConfigError("\n".join(reasons))
        wanted = controller_listeners(self.configs)
        raise_file_limit()
        check_formatted(self.directories)
        check_metadata_log(self.directory.path)
        self.directories.open(self.node_id)
        with ExitStack() as undo:
            undo.callback(self.directories.close)
            self.plane = make_plane(self.configs, roles=self.settings.roles)
            self.listeners = self.endpoints = bind_controllers(self.configs, self.plane, wanted)
            self.quorum = Quorum(self.directory, self.configs, self.settings, node_id=self.node_id)
            self.metadata = self.quorum
            undo.callback(self.quorum.close)
            self.quorum.open()
            undo.pop_all()

    async def start(self) -> None:
        """Takes part in the quorum. Call on the control loop, after `open`."""
        asyncio.get_running_loop().add_reader(self.directories.event_fd, self.directories.look)
        self.directories.look()
        self.dispatcher.start()
        self.quorum.start(voter_endpoints(self.endpoints))
        self.plane.start()

    @property
    def metrics_port(self) -> int:
        """Port on which metrics are served; -1 when they are not."""
        return -1

    async def stop(self, timeout_ms: int = HANDOVER_MS) -> None:
        """Hands a leadership over, for at most `timeout_ms`, syncs and closes the log, writes the
        clean-shutdown marker.
        """
        try:
            await self.quorum.stop(timeout_ms)
            await self.dispatcher.stop()
            asyncio.get_running_loop().remove_reader(self.directories.event_fd)
            self.plane.stop()
            if not self.quorum.has_failed:
                self.directories.mark_clean(_NO_BROKER_EPOCH)
        finally:
            self.directories.close()
