"""Authenticates connections: SaslHandshake, SaslAuthenticate and tokens without headers, by listener (KIP-43,
KIP-152, KIP-368).
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from bowstring.engine import event_log
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.configs.listener_configs import listener_value
from bowstring.engine.security.distinguished_names import CertificateError, subject_of
from bowstring.engine.security.principal_rules import PrincipalRules
from bowstring.engine.security.sasl_mechanisms import (
    Credentials,
    Mechanism,
    mechanisms_of,
    warn_of_plain_text,
)
from bowstring.engine.security.sasl_server import AuthenticationFailedError, SaslServer
from bowstring.protocol import ProtocolError, decode_request, encode_response
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from bowstring.protocol.messages.sasl_handshake import SaslHandshakeResponse
from bowstring.protocol.schema import Response

if TYPE_CHECKING:
    from bowstring.engine.security.jwt_validator import JwtValidator

_RAW: Final = -1
_CERTIFICATE: Final = -2
_RULES: Final = "ssl.principal.mapping.rules"
_FAILED_AUTHENTICATION_DELAY: Final = "connection.failed.authentication.delay.ms"
_LOG_AGAIN_S: Final = 10.0
_HOSTS_MAX: Final = 1000


class Plane(Protocol):
    """What authentication uses of the data plane."""

    def reply(self, connection_id: int, slot: int, payload: bytes | None) -> None:
        """Answers a request; None closes the connection."""

    def skip(self, connection_id: int, slot: int) -> None:
        """Ends a request that gets no answer."""

    def disconnect(self, connection_id: int) -> None:
        """Closes a connection."""

    def finish(self, connection_id: int) -> None:
        """Closes a connection behind its answers."""

    def admit(self, connection_id: int, principal: str, *, lifetime_ms: int = 0) -> None:
        """Ends the authentication phase."""


class Listener(Protocol):
    """What authentication uses of a listener."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def host(self) -> str:
        """Its host."""

    @property
    def protocol(self) -> str:
        """Its security protocol."""


class Message(Protocol):
    """A request in the authentication phase, as the data plane has it."""

    connection_id: int
    slot: int
    api_key: int
    api_version: int
    correlation_id: int
    body: Any
    peer: str
    listener: int
    principal: str


class _Session:
    """A connection that has sent SaslHandshake."""

    __slots__ = ("has_token", "max_session_ms", "mechanism", "principal", "server")

    def __init__(self) -> None:
        self.mechanism = ""
        self.max_session_ms = 0
        self.server: SaslServer | None = None
        self.principal: str | None = None
        self.has_token = False


class Authentication:
    """The authentication of the connections of a data plane.

    Args:
        configs: The configs in force. Changes of dynamic ones hold for later handshakes.
        listeners: In the data plane's order.
        plane: The data plane.
        credentials: What the cluster has of users.
        clock: Milliseconds since the epoch.

    Attributes:
        failures: Connections that did not authenticate.
        successes: Times that a connection authenticated.

    Raises:
        ConfigError: A listener lacks a mechanism, or what the mechanism needs.
    """

    def __init__(
        self,
        configs: BrokerConfigs,
        listeners: Sequence[Listener],
        plane: Plane,
        credentials: Credentials,
        *,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.failures = 0
        self.successes = 0
        self._configs = configs
        self._listeners = listeners
        self._plane = plane
        self._credentials = credentials
        self._clock = clock
        self._sessions: dict[int, _Session] = {}
        self._validators: dict[str, JwtValidator] = {}
        self._logged_s: dict[str, float] = {}
        self._mechanisms: dict[int, Mapping[str, Mechanism]] = {}
        self._rules: dict[int, PrincipalRules] = {}
        try:
            for index, listener in enumerate(listeners):
                if listener.protocol.startswith("SASL_"):
                    self._mechanisms[index] = self._read(listener)
                elif listener.protocol == "SSL":
                    self._rules[index] = PrincipalRules(listener_value(configs, listener.name, _RULES))
        except BaseException:
            self.close()
            raise
        self._dynamic = (configs.dynamic_broker, configs.dynamic_default)

    def warn(self, is_loopback: Callable[[str], bool]) -> None:
        """Logs which listeners take passwords in the clear from other machines."""
        for index, mechanisms in self._mechanisms.items():
            listener = self._listeners[index]
            if listener.protocol == "SASL_PLAINTEXT" and not is_loopback(listener.host):
                warn_of_plain_text(listener.name, listener.host, mechanisms)

    def _read(self, listener: Listener) -> Mapping[str, Mechanism]:
        return mechanisms_of(
            self._configs, listener.name, listener.protocol, self._credentials, self._validator
        )

    def _validator(self, listener: str) -> "JwtValidator":
        """Returns the check of a listener's tokens. Its configs do not change while the broker runs."""
        found = self._validators.get(listener)
        if found is None:
            # Imported late: it needs optional packages.
            from bowstring.engine.security.jwt_validator import JwtValidator

            found = self._validators[listener] = JwtValidator(self._configs, listener)
        return found

    def close(self) -> None:
        """Ends threads that read signing keys."""
        for each in self._validators.values():
            each.close()

    def _offered(self, index: int) -> Mapping[str, Mechanism]:
        dynamic = (self._configs.dynamic_broker, self._configs.dynamic_default)
        if dynamic[0] is not self._dynamic[0] or dynamic[1] is not self._dynamic[1]:
            self._dynamic = dynamic
            for each in self._mechanisms:
                try:
                    self._mechanisms[each] = self._read(self._listeners[each])
                except ConfigError as error:
                    event_log.error(
                        "changed SASL configs are not valid, so the earlier ones stay in force",
                        detail=str(error),
                    )
        return self._mechanisms[index]

    # ------------------------------------------------------------ requests

    def take(self, message: Message) -> None:
        """Answers a request of the authentication phase, or closes its connection."""
        try:
            if message.api_key == _CERTIFICATE:
                self._certificate(message)
            elif message.api_key == ApiKeys.SASL_HANDSHAKE:
                self._handshake(message)
            elif message.api_version == _RAW:
                self._raw_token(message)
            else:
                self._authenticate(message)
        except ProtocolError as error:
            self._fail(message, f"a request is malformed: {error}", None)
        except Exception:
            # Whatever it is, a client without a name gets no further.
            self._fail(message, "a bug", None, traceback=True)

    def _certificate(self, message: Message) -> None:
        """Admits a client of a TLS listener by its certificate, which the data plane has verified."""
        listener = self._listeners[message.listener]
        if listener.protocol != "SSL":  # as in Kafka, SASL decides who the client of SASL_SSL is
            self._plane.admit(message.connection_id, message.principal)
            return
        try:
            name = self._rules[message.listener].name_of(subject_of(bytes(message.body)))
        except CertificateError as error:
            name, reason = None, str(error)
        else:
            reason = f"no rule of {_RULES} applies to the client's certificate"
        if name is None:
            self.failures += 1
            self._log(message, reason)
            self._plane.disconnect(message.connection_id)
            return
        self.successes += 1
        self._plane.admit(message.connection_id, f"User:{name}")

    def _handshake(self, message: Message) -> None:
        body: Any = decode_request(message.api_key, message.api_version, message.body)
        session = self._sessions.setdefault(message.connection_id, _Session())
        offered = self._offered(message.listener)
        if session.server is not None:
            answer = SaslHandshakeResponse(error_code=Errors.ILLEGAL_SASL_STATE.code)
            self._fail(message, "the client begins an exchange before the end of the last one", answer)
            return
        mechanism = offered.get(body.mechanism)
        names = list(offered)
        if mechanism is None:
            answer = SaslHandshakeResponse(
                error_code=Errors.UNSUPPORTED_SASL_MECHANISM.code, mechanisms=names
            )
            self._fail(message, "the client has chosen a mechanism that the listener does not offer", answer)
            return
        if session.principal is None:
            session.mechanism = body.mechanism
        elif session.mechanism != body.mechanism:
            session.server = _Refusing(
                f"SASL mechanism '{body.mechanism}' requested by client is not supported for "
                f"re-authentication of mechanism '{session.mechanism}'"
            )
        if session.server is None:
            session.server = mechanism.new_server()
            # Kept: configs may change before the last token.
            session.max_session_ms = mechanism.max_session_ms
        self._reply(message, SaslHandshakeResponse(mechanisms=names))

    def _authenticate(self, message: Message) -> None:
        body: Any = decode_request(message.api_key, message.api_version, message.body)
        session = self._sessions.get(message.connection_id)
        if session is None or session.server is None:
            self._fail(message, "SaslAuthenticate came before SaslHandshake", None)
            return
        try:
            token = session.server.step(bytes(body.auth_bytes))
            lifetime_ms = self._completed(message, session) if session.server.is_complete else 0
        except AuthenticationFailedError as error:
            what = "authentication" if session.principal is None else "re-authentication"
            text = error.answer or (
                f"Authentication failed during {what} due to invalid credentials with SASL mechanism "
                f"{session.mechanism}"
            )
            answer = SaslAuthenticateResponse(
                error_code=Errors.SASL_AUTHENTICATION_FAILED.code, error_message=text
            )
            self._fail(message, str(error), None if error.closes else answer)
            return
        self._reply(
            message, SaslAuthenticateResponse(auth_bytes=token or b"", session_lifetime_ms=lifetime_ms)
        )

    def _raw_token(self, message: Message) -> None:
        session = self._sessions.get(message.connection_id)
        if session is None or session.server is None:
            self._fail(message, "a SASL token came before SaslHandshake", None)
            return
        try:
            token = session.server.step(bytes(message.body))
            if session.server.is_complete:
                self._completed(message, session)
        except AuthenticationFailedError as error:
            self._fail(message, str(error), None)
            return
        if token is None:
            self._plane.skip(message.connection_id, message.slot)
        else:
            self._plane.reply(message.connection_id, message.slot, token)

    def _completed(self, message: Message, session: _Session) -> int:
        """Admits the connection. Returns the lifetime of its session in milliseconds; 0: no limit."""
        server = session.server
        assert server is not None
        principal = f"User:{server.name}"
        if session.principal is not None and session.principal != principal:
            raise AuthenticationFailedError(
                "the client changes its principal",
                "Cannot change principals during re-authentication from "
                f"{session.principal.replace(':', '.', 1)}: {principal.replace(':', '.', 1)}",
            )
        limits = [session.max_session_ms]
        if server.expires_ms is not None:
            limits.append(max(0, server.expires_ms - self._clock()))
            lifetime_ms = min(limits) if limits[0] > 0 else limits[1]
        else:
            lifetime_ms = max(0, limits[0])
        is_limited = server.expires_ms is not None or limits[0] > 0
        session.principal = principal
        session.has_token = server.has_token
        session.server = None
        self.successes += 1
        self._plane.admit(
            message.connection_id, principal, lifetime_ms=max(1, lifetime_ms) if is_limited else 0
        )
        return lifetime_ms

    def _reply(self, message: Message, answer: Response) -> None:
        self._plane.reply(
            message.connection_id,
            message.slot,
            encode_response(message.api_key, message.api_version, message.correlation_id, answer),
        )

    # ------------------------------------------------------------ failures

    def _fail(
        self, message: Message, reason: str, answer: Response | None, *, traceback: bool = False
    ) -> None:
        """Answers after connection.failed.authentication.delay.ms, as Kafka does, and closes the connection.
        Until then the connection is not read from.
        """
        self.failures += 1
        self._log(message, reason, traceback=traceback)
        self._sessions.pop(message.connection_id, None)
        listener = self._listeners[message.listener].name
        delay_ms = listener_value(self._configs, listener, _FAILED_AUTHENTICATION_DELAY)
        asyncio.get_running_loop().call_later(delay_ms / 1000, self._refuse, message, answer)

    def _refuse(self, message: Message, answer: Response | None) -> None:
        if answer is None:
            self._plane.reply(message.connection_id, message.slot, None)
            return
        # In this order: a client that has the answer must not get another request in.
        self._plane.finish(message.connection_id)
        self._reply(message, answer)

    def _log(self, message: Message, reason: str, *, traceback: bool = False) -> None:
        """Logs a failure, for each host only once in a while: an attacker must not fill the disk."""
        host, now_s = message.peer.rpartition(":")[0], time.monotonic()
        if now_s - self._logged_s.get(host, -_LOG_AGAIN_S) < _LOG_AGAIN_S:
            return
        if len(self._logged_s) >= _HOSTS_MAX:
            self._logged_s.clear()
        self._logged_s[host] = now_s
        session = self._sessions.get(message.connection_id)
        facts = {
            "peer": message.peer,
            "listener": self._listeners[message.listener].name,
            "mechanism": session.mechanism if session is not None else "",
        }
        if traceback:
            event_log.error("bug: a log-in failed; report the traceback", traceback=True, **facts)
            return
        event_log.warning(
            "a client did not authenticate, so its connection is closed; check its mechanism and credentials",
            reason=reason,
            **facts,
        )

    # ------------------------------------------------------------ connections

    def ended(self, connection_ids: Sequence[int]) -> None:
        """Forgets connections that have ended."""
        for connection_id in connection_ids:
            self._sessions.pop(connection_id, None)

    def has_token(self, connection_id: int) -> bool:
        """Returns whether a connection has authenticated with a delegation token (KIP-48)."""
        session = self._sessions.get(connection_id)
        return session is not None and session.has_token

    def __len__(self) -> int:
        return len(self._sessions)


class _Refusing:
    """Fails with the first token, as Kafka does: see its REAUTH_BAD_MECHANISM."""

    is_complete = False
    has_token = False
    name = ""
    expires_ms: int | None = None

    def __init__(self, answer: str) -> None:
        self._answer = answer

    def step(self, token: bytes) -> bytes:
        raise AuthenticationFailedError(self._answer, self._answer)
