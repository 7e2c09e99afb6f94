"""Keeps the limits of a data plane's connections as configs and quotas of addresses have them (KIP-402,
KIP-612).
"""

import asyncio
import socket
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from bowstring.engine import background, event_log
from bowstring.engine.configs import ConfigError
from bowstring.engine.configs.listener_configs import listener_value
from bowstring.engine.metadata.client_quotas_image import (
    CONNECTION_CREATION_RATE,
    IP,
    ClientQuotasImage,
    limit_of,
)

if TYPE_CHECKING:
    from bowstring._native.server.data_plane import DataPlane
    from bowstring._native.server.plane_accept_limits import PlaneAcceptLimits
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.quorum.service import QuorumService
    from bowstring.engine.requests.listeners import Listener

_NO_LIMIT: Final = (1 << 31) - 1
_LIMITS: Final = ("max.connections", "max.connection.creation.rate")

_State = tuple[Any, ...]


class ConnectionLimits:
    """Follows the image and the configs, from `start` on. Without a limit, nothing is imported for them.

    Args:
        listeners: Those of the data plane, in its order. All are bound.
        between_brokers: The name of the listener that brokers use; it is protected if it is not the only one.

    Attributes:
        limits: Those of the data plane; None while there never were any.
    """

    limits: "PlaneAcceptLimits | None"

    def __init__(
        self,
        configs: "BrokerConfigs",
        quorum: "QuorumService",
        plane: "DataPlane",
        listeners: Sequence["Listener"],
        *,
        between_brokers: str = "",
    ) -> None:
        self.limits = None
        self._configs = configs
        self._quorum = quorum
        self._plane = plane
        self._listeners = listeners
        self._between_brokers = between_brokers
        self._version = 0
        self._state: _State = ()
        self._addresses: dict[str, list[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begins with the image and the configs of now. Call on the control loop."""
        self._quorum.on_applied.append(self._look)
        self._quorum.on_snapshot.append(self._look)
        self._version = self._quorum.image.client_quotas.version
        self.look()

    def stop(self) -> None:
        """Follows nothing any more, and looks up no more names."""
        for listeners in (self._quorum.on_applied, self._quorum.on_snapshot):
            if self._look in listeners:
                listeners.remove(self._look)
        for task in self._tasks:
            task.cancel()

    def _look(self, *change: Any) -> None:
        version = self._quorum.image.client_quotas.version
        if version != self._version:
            self._version = version
            self.look()

    def look(self) -> None:
        """Applies the limits of now. Names of hosts are resolved on a thread, and apply then."""
        value = self._configs.value
        overrides = _overrides(value("max.connections.per.ip.overrides"))
        rates = _rates(self._quorum.image.client_quotas)
        state = (
            value("max.connections"),
            value("max.connection.creation.rate"),
            value("max.connections.per.ip"),
            overrides,
            rates,
            [
                tuple(listener_value(self._configs, each.name, name) for name in _LIMITS)
                for each in self._listeners
            ],
        )
        if state == self._state:
            return
        self._state = state
        if self.limits is None and not self._is_limited(state):
            return
        unknown = {host for host in (*overrides, *rates) if host} - self._addresses.keys()
        names = []
        for host in unknown:
            try:
                self._addresses[host] = [_packed(host)]
            except ValueError:
                names.append(host)
        if names:
            background.spawn(self._resolve(names), "addresses of connection limits", among=self._tasks)
        self._apply()

    def _is_limited(self, state: _State) -> bool:
        most, rate, most_of_host, overrides, rates, of_listeners = state
        limits = (most, rate, most_of_host, *(each for pair in of_listeners for each in pair))
        return bool(overrides or rates) or any(each != _NO_LIMIT for each in limits)

    async def _resolve(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
                self._addresses[name] = [_packed(str(address[0])) for *_, address in found]
            except (OSError, ValueError) as error:
                event_log.warning(
                    "a limit of connections is for a host without an address, and has no effect; name an "
                    "address, or correct the host",
                    host=name,
                    detail=str(error),
                )
                self._addresses[name] = []
        self._apply()

    def _apply(self) -> None:
        if self.limits is None:
            from bowstring._native.server.plane_accept_limits import PlaneAcceptLimits

            self.limits = PlaneAcceptLimits(self._plane)
        most, rate, most_of_host, overrides, rates, of_listeners = self._state
        hosts: dict[bytes, tuple[int, float]] = {}
        for host, count in overrides.items():
            for address in self._addresses.get(host, ()):
                hosts[address] = (count, 0)
        for host, limit in rates.items():
            for address in self._addresses.get(host, ()):
                hosts[address] = (hosts.get(address, (-1, 0))[0], limit)
        protects = len(self._listeners) > 1
        self.limits.set(
            most=most,
            rate=rate,
            most_of_host=most_of_host,
            rate_of_host=rates.get("", 0),
            hosts=hosts,
            listeners=[
                (*limits, protects and listener.name == self._between_brokers)
                for listener, limits in zip(self._listeners, of_listeners, strict=True)
            ],
        )


def check_connection_limits(configs: "BrokerConfigs") -> None:
    """Refuses limits that contradict each other, as Kafka.

    Raises:
        ConfigError: No host may connect.
    """
    if configs.value("max.connections.per.ip") == 0 and not configs.value("max.connections.per.ip.overrides"):
        raise ConfigError(
            "max.connections.per.ip=0 lets nobody connect; set max.connections.per.ip.overrides, or a larger "
            "number"
        )


def _overrides(text: str) -> dict[str, int]:
    """Returns the limits of max.connections.per.ip.overrides by host; an IPv6 address may be in brackets."""
    found = {}
    for pair in text.split(","):
        host, _, count = pair.strip().rpartition(":")
        if host:
            found[host.strip().removeprefix("[").removesuffix("]")] = int(count)
    return found


def _rates(quotas: ClientQuotasImage) -> dict[str, float]:
    """Returns connection_creation_rate by host; that of the default has no name."""
    return {
        parts[IP] or "": limit_of(values[CONNECTION_CREATION_RATE])
        for entity, values in quotas.entities.items()
        if IP in (parts := dict(entity)) and CONNECTION_CREATION_RATE in values
    }


def _packed(address: str) -> bytes:
    """Returns the 16 bytes of an address; one of IPv4 is mapped to IPv6."""
    import ipaddress  # not at start, without limits

    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv4Address):
        return bytes(10) + b"\xff\xff" + parsed.packed
    return parsed.packed
