"""Finds the addresses at which brokers reach one another."""

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from bowstring.engine import background, event_log
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.configs.listener_configs import PLAINTEXT, listener_protocols
from bowstring.engine.metadata.image import BrokerImage

if TYPE_CHECKING:
    from bowstring.engine.network.peer_security import PeerSecurity

_RETRY_S: Final = 1.0


def inter_broker_listener(configs: BrokerConfigs) -> str:
    """Returns the name of the listener through which brokers connect to one another, as Kafka chooses it:
    inter.broker.listener.name, else the name of security.inter.broker.protocol.
    """
    name = configs.value("inter.broker.listener.name") or configs.value("security.inter.broker.protocol")
    return str(name).upper()


def inter_broker_security(configs: BrokerConfigs) -> "PeerSecurity | None":
    """Returns how brokers connect to brokers; None for plain text."""
    listener = inter_broker_listener(configs)
    protocol = listener_protocols(configs).get(listener) or configs.value("security.inter.broker.protocol")
    return _security(configs, listener, protocol, "sasl.mechanism.inter.broker.protocol")


def controller_security(configs: BrokerConfigs, listener: str) -> "PeerSecurity | None":
    """Returns how nodes connect to controllers; None for plain text."""
    protocol = listener_protocols(configs).get(listener, PLAINTEXT)
    return _security(configs, listener, protocol, "sasl.mechanism.controller.protocol")


def check_peer_security(configs: BrokerConfigs, controller_listener: str, *, is_broker: bool) -> None:
    """Refuses settings with which this node could connect to no other.

    Raises:
        ConfigError: A setting is wrong or missing.
    """
    both = configs.static.keys() & {"inter.broker.listener.name", "security.inter.broker.protocol"}
    if len(both) > 1:
        raise ConfigError("set only one of inter.broker.listener.name and security.inter.broker.protocol")
    listener = inter_broker_listener(configs)
    names = {text.partition("://")[0].strip().upper() for text in configs.value("listeners")}
    if is_broker and both and listener not in names:
        raise ConfigError(
            f"{both.pop()} names a listener {listener}, but listeners has only "
            f"{', '.join(sorted(names))}; add {listener}://HOST:PORT, or correct the setting"
        )
    for security in (
        inter_broker_security(configs) if is_broker else None,
        controller_security(configs, controller_listener),
    ):
        if security is not None:
            security.check()


def _security(configs: BrokerConfigs, listener: str, protocol: str, mechanism: str) -> "PeerSecurity | None":
    if protocol == PLAINTEXT:
        return None
    from bowstring.engine.network.peer_security import PeerSecurity

    return PeerSecurity(listener, protocol, mechanism, configs)


class BrokerAddresses:
    """Numeric addresses of brokers at one listener. Names are resolved on another thread, again for each
    registration of a broker.

    Args:
        listener: Name of the listener.
        when_found: Called when a name has been resolved.
    """

    def __init__(self, listener: str, when_found: Callable[[], None]) -> None:
        self._listener = listener
        self._when_found = when_found
        self._found: dict[tuple[str, int, int], str] = {}
        self._asked: dict[tuple[str, int, int], asyncio.Task[None]] = {}
        self._without: set[tuple[int, int]] = set()

    def __call__(self, broker: BrokerImage) -> tuple[str, int] | None:
        """Returns host and port of a broker; None without such a listener, or before its name is resolved."""
        endpoint = broker.endpoint(self._listener)
        if endpoint is None:
            self._tell_missing(broker)
            return None
        if (numeric := _numeric(endpoint.host)) is not None:
            return numeric, endpoint.port
        key = (endpoint.host, broker.id, broker.epoch)
        found = self._found.get(key)
        if found is None:
            if key not in self._asked:
                self._asked[key] = background.spawn(self._resolve(key), "name of a broker")
            return None
        return found, endpoint.port

    def close(self) -> None:
        """Stops resolving."""
        for task in self._asked.values():
            task.cancel()

    async def _resolve(self, key: tuple[str, int, int]) -> None:
        loop = asyncio.get_running_loop()
        is_told = False
        while True:
            try:
                found = await loop.getaddrinfo(key[0], None, type=socket.SOCK_STREAM)
                break
            except OSError as error:
                if not is_told:
                    is_told = True
                    event_log.error(
                        "the name of a broker does not resolve, so its partitions are not replicated; check "
                        "its advertised.listeners and the name service",
                        broker=key[1],
                        host=key[0],
                        detail=str(error),
                    )
                await asyncio.sleep(_RETRY_S)
        self._found[key] = str(found[0][4][0])
        del self._asked[key]
        self._when_found()

    def _tell_missing(self, broker: BrokerImage) -> None:
        incarnation = (broker.id, broker.epoch)
        if incarnation in self._without:
            return
        self._without.add(incarnation)
        event_log.error(
            "a broker has no listener of the name that this broker uses between brokers, so its partitions "
            "are not replicated here; set the same inter.broker.listener.name on all brokers",
            broker=broker.id,
            listener=self._listener,
            its_listeners=",".join(each.listener for each in broker.endpoints),
        )


@lru_cache(maxsize=1024)
def _numeric(host: str) -> str | None:
    """Returns a numeric address in its usual form; None for a name. It is called for each partition."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None
