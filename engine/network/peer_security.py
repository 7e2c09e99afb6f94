"""Decides how this node connects to a listener of other nodes: in plain text, over TLS, with a SASL login.

Settings come from the configs of the listener, as this node's own clients need them: a key store there is the
certificate that this node presents, and the JAAS line of the mechanism has its user name and password.
"""

import asyncio
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bowstring.engine import event_log
from bowstring.engine.configs import BROKER_CONFIGS, BrokerConfigs, ConfigError
from bowstring.engine.configs.listener_configs import listener_prefix, listener_text
from bowstring.engine.storage.open_files import with_reserve_async

if TYPE_CHECKING:
    from bowstring.engine.network.secure_link import SecureLink
    from bowstring.security.client_settings import ClientSecurity

_JAAS: Final = "sasl.jaas.config"
_FILES: Final = ("ssl.keystore.location", "ssl.truststore.location")
# What only the accepting side reads.
_OF_SERVERS: Final = (
    *("ssl.client.auth", "ssl.principal.mapping.rules", "ssl.allow.", "sasl.enabled.mechanisms"),
    *("sasl.mechanism.", "sasl.server.", "sasl.oauthbearer.expected.", "sasl.oauthbearer.jwks."),
    *("sasl.oauthbearer.allow.", "sasl.oauthbearer.jwt.validator.", "sasl.kerberos.principal."),
)
_SLOW_S: Final = 1.0
_PASSING_S: Final = 5.0
"""Closed connections are logged after this time."""


@dataclass
class _Failure:
    """Why a node is not reached."""

    detail: str
    since_s: float
    is_told: bool = False


class PeerSecurity:
    """How to connect to one listener of other nodes. Used on one event loop.

    Args:
        listener: Its name.
        protocol: Its security protocol.
        mechanism: The config that names the SASL mechanism.
        configs: Where the settings come from, each time when they have changed.

    Attributes:
        listener: Its name.
        failed_reloads: Changes of settings or files that could not be used.
    """

    def __init__(self, listener: str, protocol: str, mechanism: str, configs: BrokerConfigs) -> None:
        self.listener = listener
        self._protocol = protocol
        self._mechanism = mechanism
        self._configs = configs
        self._made: ClientSecurity | None = None
        self._made_from: object = None
        self._refused_from: object = None
        self.failed_reloads = 0
        self._failing: dict[tuple[str, int], _Failure] = {}

    # ------------------------------------------------------------ settings

    def settings(self) -> dict[str, str]:
        """Returns the settings as a client's, by Kafka's names."""
        mechanism = str(self._configs.value(self._mechanism))
        found = {"security.protocol": self._protocol}
        if self._protocol.startswith("SASL"):
            found["sasl.mechanism"] = mechanism
        for name, row in BROKER_CONFIGS.items():
            if name.startswith(("ssl.", "sasl.")) and not name.startswith(_OF_SERVERS):
                text = listener_text(self._configs, self.listener, name, mechanism=mechanism)
                if text is not None and text != row.default:
                    found[name] = text
        return found

    def client(self) -> "ClientSecurity":
        """Returns what connections use. It is made again when a setting, or a file named by one, has changed.
        While the changed ones cannot be used, the earlier ones stay in force; they are tried again with each
        connection.

        Raises:
            ConfigError: A setting is wrong, or is missing, and there are no earlier ones.
        """
        from bowstring.security.client_settings import ClientSecurity
        from bowstring.security.key_material import check_files, file_state

        settings = self.settings()
        made_from = settings, [file_state(settings[name]) for name in _FILES if name in settings]
        if self._made is None or self._made_from != made_from:
            # A client would take the tickets of whoever started the broker.
            if settings.get("sasl.mechanism") == "GSSAPI" and _JAAS not in settings:
                raise ConfigError(
                    f"connections to {self.listener} listeners: GSSAPI, the default mechanism, has no keytab"
                )
            try:
                check_files({name: settings[name] for name in _FILES if name in settings})
                self._made = ClientSecurity.of(settings)
            except ValueError as error:
                if self._made is None:
                    raise ConfigError(f"connections to {self.listener} listeners: {error}") from error
                self._note_refused(made_from, str(error))
                return self._made
            self._made_from = made_from
            self._refused_from = None
        return self._made

    def _note_refused(self, made_from: object, detail: str) -> None:
        """Counts and logs settings or files that cannot be used, once for each change."""
        if self._refused_from == made_from:
            return
        self._refused_from = made_from
        self.failed_reloads += 1
        event_log.error(
            "changed keys or settings for connections to other nodes cannot be used, so the earlier ones "
            "stay in force; this is tried again",
            listener=self.listener,
            detail=detail,
            look_at=self._where(),
        )

    def check(self) -> None:
        """Raises a ConfigError for settings with which no connection could be made."""
        try:
            self.client()
        except ConfigError as error:
            raise ConfigError(f"{error}; look at {self._where()}") from error

    def _where(self) -> str:
        """Names the settings that count, for errors."""
        prefix = listener_prefix(self.listener)
        parts = [f"{prefix}ssl.* or ssl.*"] if self._protocol.endswith("SSL") else []
        if self._protocol.startswith("SASL"):
            mechanism = str(self._configs.value(self._mechanism))
            parts.append(f"{self._mechanism}={mechanism}")
            parts.append(f"{listener_prefix(self.listener, mechanism)}{_JAAS}")
        return ", ".join(parts)

    # ------------------------------------------------------------ connecting

    async def connect(self, host: str, port: int, client_id: str) -> "SecureLink":
        """Connects to a node, and logs in.

        Args:
            host: A name or an address; the node's certificate must be for it.

        Raises:
            OSError: No process listens there, the node cannot be reached, or one of both does not accept the
                other. The message says which settings to look at, and is logged once until it passes.
        """
        from bowstring.engine.network.secure_link import LinkSecurityError, SecureLink

        loop = asyncio.get_running_loop()
        sock = await with_reserve_async(lambda: _connected(host, port))
        link = SecureLink(sock, f"{host}:{port}")
        began_s = loop.time()
        try:
            await link.secure(self.client(), host, client_id)
        except asyncio.CancelledError:
            link.close()
            if loop.time() - began_s >= _SLOW_S:
                detail = f"it did not answer in time, as if it had {link.when_closed}"
                self._note_failure(host, port, detail, is_certain=False)
            raise
        except LinkSecurityError as error:
            link.close()
            raise LinkSecurityError(self._note_failure(host, port, str(error))) from error
        except ConfigError as error:
            link.close()
            raise LinkSecurityError(self._note_failure(host, port, str(error))) from error
        except (EOFError, OSError) as error:
            link.close()
            detail = self._note_failure(host, port, f"it {link.when_closed}", is_certain=False)
            raise LinkSecurityError(detail) from error
        except BaseException:
            link.close()
            raise
        failure = self._failing.pop((host, port), None)
        if failure is not None and failure.is_told:
            event_log.info("a node is reached again over a secured connection", node=f"{host}:{port}")
        return link

    def _note_failure(self, host: str, port: int, detail: str, *, is_certain: bool = True) -> str:
        """Logs a failure that is another one than the last; returns the whole text.

        Args:
            is_certain: Settings are wrong; else the node may only be starting or stopping, which passes.
        """
        now_s = asyncio.get_running_loop().time()
        failure = self._failing.get((host, port))
        if failure is None or failure.detail != detail:
            failure = self._failing[host, port] = _Failure(detail, now_s)
        if not failure.is_told and (is_certain or now_s - failure.since_s >= _PASSING_S):
            failure.is_told = True
            event_log.error(
                "no secured connection to another node; this is tried again",
                node=f"{host}:{port}",
                listener=self.listener,
                protocol=self._protocol,
                detail=detail,
                look_at=self._where(),
            )
        return f"{detail}; look at {self._where()}"


async def _connected(host: str, port: int) -> socket.socket:
    """Returns a socket that is connected to the first address of a host that accepts it."""
    loop = asyncio.get_running_loop()
    failure: OSError = ConnectionError(f"{host} has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, protocol)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure
