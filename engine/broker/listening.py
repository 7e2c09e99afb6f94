"""Binds the listeners of a data plane."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bowstring._native.server.data_plane import DataPlane
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.requests.listeners import Listener, is_loopback

if TYPE_CHECKING:
    from bowstring.engine.security.tls_listeners import TlsListeners


def listen(
    plane: DataPlane, configs: BrokerConfigs, wanted: Sequence[Listener]
) -> "tuple[list[Listener], TlsListeners | None]":
    """Returns the listeners with the ports that were bound, and the keys of those with TLS, if any.

    Raises:
        ConfigError: Keys or settings of a listener are not acceptable. OSError: an address is in use.
    """
    tls = None
    if any(each.has_tls for each in wanted):
        # Imported late: a node without TLS starts without it, and without OpenSSL.
        from bowstring.engine.security.tls_listeners import TlsListeners

        tls = TlsListeners(
            configs, wanted, must_authenticate=lambda index: _must_authenticate(configs, wanted[index])
        )
    bound = [
        each._replace(
            port=plane.listen(
                each.host,
                each.port,
                tls=tls.context(index) if tls is not None else None,
                authenticates=each.has_sasl,
            )
        )
        for index, each in enumerate(wanted)
    ]
    return bound, tls


def _must_authenticate(configs: BrokerConfigs, listener: Listener) -> bool:
    """Whether a certificate is all that keeps everyone out."""
    is_open = configs.value("bowstring.listen.unauthenticated") or is_loopback(listener.host)
    return not (listener.has_sasl or is_open)
