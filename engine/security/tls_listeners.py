"""Gives TLS listeners their keys, and replaces them while the node runs (KIP-103, KIP-226, KIP-651)."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from bowstring._native.tls.certificate import Certificate
from bowstring._native.tls.library import TlsError
from bowstring.engine import background, event_log
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.configs.listener_configs import listener_prefix, listener_text, listener_value
from bowstring.security.key_material import KeyMaterial, check_files, file_state

if TYPE_CHECKING:
    from bowstring._native.tls.context import TlsContext

_KEY_SETTINGS: Final = (
    *(f"ssl.keystore.{name}" for name in ("location", "type", "password", "key", "certificate.chain")),
    *(f"ssl.truststore.{name}" for name in ("location", "type", "password", "certificates")),
    "ssl.key.password",
)
_CLIENT_AUTH: Final = "ssl.client.auth"
_DAY_MS: Final = 86_400_000
_WARN_DAYS: Final = (1, 7, 30)
_CHECK_S: Final = 2.0


class Listener(Protocol):
    """What this uses of a listener."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def protocol(self) -> str:
        """Its security protocol."""


class Plane(Protocol):
    """What this uses of the data plane."""

    def set_tls(self, listener: int, tls: "TlsContext") -> None:
        """Replaces the keys of a listener."""


def has_tls(listener: Listener) -> bool:
    """Returns whether a listener's connections are encrypted."""
    return listener.protocol.endswith("SSL")


def client_auth(configs: BrokerConfigs, listener: Listener) -> str:
    """Returns ssl.client.auth of a TLS listener; with SASL only the listener's own one counts (KIP-684)."""
    if listener.protocol == "SSL":
        return str(listener_value(configs, listener.name, _CLIENT_AUTH))
    name = listener_prefix(listener.name) + _CLIENT_AUTH
    own = any(name in layer for layer in (configs.dynamic_broker, configs.dynamic_default, configs.static))
    return str(listener_value(configs, listener.name, _CLIENT_AUTH)) if own else "none"


class _Keys:
    """What a listener uses: the settings it was made from, the state of the files, the context.

    Attributes:
        terms: What clients must do: whether they authenticate; protocols; cipher suites.
    """

    def __init__(self, configs: BrokerConfigs, listener: Listener) -> None:
        self.settings = _settings_of(configs, listener)
        # Before they are read: a change in between is seen as one, and they are read again.
        locations = [text for name, text in self.settings.items() if name.endswith(".location")]
        states = {path: file_state(path) for path in locations}
        check_files(self.settings)  # the control loop reads them
        material = KeyMaterial.of(self.settings)
        self.files = {path: states.get(path) for path in material.files}
        self.terms = auth, protocols, ciphers = _terms_of(configs, listener)
        self.context = material.context(server=True, client_auth=auth, protocols=protocols, ciphers=ciphers)
        assert self.context.certificate is not None
        self.certificate = Certificate(self.context.certificate)

    def has_changed(self, configs: BrokerConfigs, listener: Listener) -> bool:
        """Whether its settings or files are others now."""
        return (
            _settings_of(configs, listener) != self.settings
            or _terms_of(configs, listener) != self.terms
            or any(file_state(path) != state for path, state in self.files.items())
        )


def _terms_of(configs: BrokerConfigs, listener: Listener) -> tuple[str, list[str], list[str]]:
    return (
        client_auth(configs, listener),
        listener_value(configs, listener.name, "ssl.enabled.protocols"),
        listener_value(configs, listener.name, "ssl.cipher.suites"),
    )


def _settings_of(configs: BrokerConfigs, listener: Listener) -> dict[str, str]:
    found = {}
    for name in _KEY_SETTINGS:
        text = listener_text(configs, listener.name, name)
        # The default type of stores is that of their content.
        if text is not None and not (name.endswith(".type") and text == "JKS"):
            found[name] = text
    return found


def _compare(configs: BrokerConfigs, listener: Listener, old: Certificate, new: Certificate) -> None:
    """As Kafka: clients that check names must not be surprised by another certificate (KIP-226)."""
    for setting, before, after in (
        ("ssl.allow.dn.changes", old.subject, new.subject),
        ("ssl.allow.san.changes", old.names - new.names, frozenset()),
    ):
        if before != after and not listener_value(configs, listener.name, setting):
            what = (
                f"its name is {after} instead of {before}"
                if setting == "ssl.allow.dn.changes"
                else f"it lacks the names {', '.join(sorted(before))}"
            )
            raise ConfigError(f"the new certificate differs: {what}; to allow that, set {setting}=true")


class TlsListeners:
    """The keys of a data plane's TLS listeners.

    Args:
        configs: The configs in force.
        listeners: In the data plane's order.
        must_authenticate: Whether a listener, by its index, may not be open to clients without a certificate.
        clock: Milliseconds since the epoch.

    Attributes:
        reloads: Times that keys were replaced.

    Raises:
        ConfigError: The settings of a listener are not acceptable; the message says what to do.
    """

    def __init__(
        self,
        configs: BrokerConfigs,
        listeners: Sequence[Listener],
        *,
        must_authenticate: Callable[[int], bool] = lambda index: False,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.reloads = 0
        self._configs = configs
        self._must_authenticate = must_authenticate
        self._clock = clock
        self._listeners = {index: each for index, each in enumerate(listeners) if has_tls(each)}
        self._keys: dict[int, _Keys] = {}
        self._failing: dict[int, str] = {}
        self._warned: dict[int, tuple[int, int]] = {}
        self._watching: asyncio.Task[None] | None = None
        for index, listener in self._listeners.items():
            try:
                self._keys[index] = _Keys(configs, listener)
            except TlsError as error:
                raise ConfigError(
                    f"listener {listener.name}: {error} (settings: {listener_prefix(listener.name)}ssl.*, "
                    "or ssl.* for all listeners)"
                ) from error

    def context(self, index: int) -> "TlsContext | None":
        """Returns what a listener begins with; None: plain text."""
        keys = self._keys.get(index)
        return keys.context if keys is not None else None

    def start(self, plane: Plane) -> None:
        """Begins to look for changes every few seconds."""
        self._watching = background.keep_running(lambda: self._watch(plane), "keys of TLS listeners")

    def stop(self) -> None:
        """Ends that."""
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self, plane: Plane) -> None:
        while True:
            self.check(plane)
            await asyncio.sleep(_CHECK_S)

    def valid_until_ms(self) -> dict[str, int]:
        """Returns until when the certificate of each listener is valid, in milliseconds since the epoch."""
        return {
            listener.name: self._keys[index].certificate.valid_until_ms
            for index, listener in self._listeners.items()
        }

    def check(self, plane: Plane) -> None:
        """Replaces keys whose settings or files have changed, for new connections, and warns of certificates
        that expire. What is not acceptable is reported once, and the earlier keys stay in force.
        """
        for index, listener in self._listeners.items():
            if self._keys[index].has_changed(self._configs, listener):
                self._replace(plane, index, listener)
            self._warn(index, listener)

    def check_change(self, broker: Mapping[str, str], default: Mapping[str, str]) -> None:
        """Checks whether the keys could be used with other dynamic configs. May be called on any thread.

        Args:
            broker: Those of this broker.
            default: Those of all brokers.

        Raises:
            ConfigError: Of a listener, the keys are not acceptable.
        """
        configs = BrokerConfigs(self._configs.static)
        configs.set_dynamic(broker, default)
        for index, listener in self._listeners.items():
            if self._keys[index].has_changed(configs, listener):
                try:
                    self._acceptable(configs, index, listener)
                except (TlsError, ConfigError) as error:
                    raise ConfigError(f"listener {listener.name}: {error}") from error

    def _acceptable(self, configs: BrokerConfigs, index: int, listener: Listener) -> _Keys:
        """Returns the keys of a listener as they are now.

        Raises:
            TlsError, ConfigError: They are not acceptable.
        """
        keys = _Keys(configs, listener)
        _compare(configs, listener, self._keys[index].certificate, keys.certificate)
        self._check_authentication(index, keys)
        return keys

    def _replace(self, plane: Plane, index: int, listener: Listener) -> None:
        try:
            keys = self._acceptable(self._configs, index, listener)
        except (TlsError, ConfigError) as error:
            if self._failing.get(index) != str(error):
                self._failing[index] = str(error)
                event_log.error(
                    "changed keys of a TLS listener are not acceptable, so the earlier ones stay in force",
                    listener=listener.name,
                    detail=str(error),
                )
            return
        self._failing.pop(index, None)
        plane.set_tls(index, keys.context)
        self._keys[index] = keys
        self.reloads += 1
        event_log.info(
            "a TLS listener has new keys; connections that exist keep the earlier ones",
            listener=listener.name,
            subject=keys.certificate.subject,
        )

    def _check_authentication(self, index: int, new: _Keys) -> None:
        """As at a start: a change opens no listener to everyone whose machine can reach it."""
        before, after = self._keys[index].terms[0], new.terms[0]
        if before == "required" != after and self._must_authenticate(index):
            raise ConfigError(
                f"{_CLIENT_AUTH}={after} would let every machine that can reach the listener do everything; "
                "leave it at required, or start the node with bowstring.listen.unauthenticated=true"
            )

    def _warn(self, index: int, listener: Listener) -> None:
        """Warns 30, 7 and 1 days before a certificate expires, and when it has."""
        until_ms = self._keys[index].certificate.valid_until_ms
        left_ms = until_ms - self._clock()
        stage = 0 if left_ms <= 0 else next((days for days in _WARN_DAYS if left_ms <= days * _DAY_MS), None)
        if stage is None or self._warned.get(index) == (until_ms, stage):
            return
        self._warned[index] = until_ms, stage
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(until_ms / 1000))
        report = event_log.error if stage <= 1 else event_log.warning
        state = f"expires in {stage} days or less" if stage else "has expired, and clients refuse it"
        report(
            f"the certificate of a TLS listener {state}; replace its file",
            listener=listener.name,
            expires=when,
        )
