"""Authenticates with GSSAPI (RFC 4752): a client presents a ticket of Kerberos."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.configs.listener_configs import listener_prefix, listener_value
from bowstring.engine.security.kerberos_rules import CONFIG, KerberosNameError, KerberosRules
from bowstring.engine.security.sasl_server import AuthenticationFailedError
from bowstring.security.jaas import Login
from bowstring.security.kerberos_options import KerberosOptionsError, kerberos_options

if TYPE_CHECKING:
    from bowstring.security.kerberos import GssContext

GSSAPI: Final = "GSSAPI"

_SERVICE: Final = "sasl.kerberos.service.name"
_NO_LAYER: Final = 1
_OFFER: Final = bytes([_NO_LAYER, 0, 0, 0])
"""No security layer, so that messages have the size 0."""


class GssapiServer:
    """The server side of GSSAPI. See `SaslServer`.

    The client may name whom it acts as; as in Kafka, it is always itself.

    Args:
        context: A new context.
        name_of: Returns the name of a principal. Raises KerberosNameError.
    """

    has_token = False
    expires_ms: int | None = None

    def __init__(self, context: "GssContext", name_of: Callable[[str], str]) -> None:
        self.is_complete = False
        self.name = ""
        self._context = context
        self._name_of = name_of
        self._has_offered = False

    def step(self, token: bytes) -> bytes | None:
        """Takes tokens until the context is established, then the client's choice of a security layer.

        Raises:
            AuthenticationFailedError: Kerberos refuses a token, the client wants a security layer, or no rule
                gives its principal a name.
        """
        # Imported late: brokers without GSSAPI do not need it.
        from bowstring.security.kerberos import NOT_YET_VALID, REPLAY, KerberosError

        try:
            if not self._context.is_complete:
                answer = self._context.step(token)
                if answer or not self._context.is_complete:
                    return answer
                return self._offer()
            if not self._has_offered:
                if token:
                    raise AuthenticationFailedError("the client sends a token where none is expected")
                return self._offer()
            self._take_choice(self._context.unwrap(token))
        except KerberosError as error:
            raise AuthenticationFailedError(
                f"Kerberos refuses the client: {error}", closes=error.code in (*NOT_YET_VALID, REPLAY)
            ) from None
        except KerberosNameError as error:
            raise AuthenticationFailedError(str(error)) from None
        return None

    def _offer(self) -> bytes:
        self._has_offered = True
        return self._context.wrap(_OFFER)

    def _take_choice(self, choice: bytes) -> None:
        if len(choice) < len(_OFFER):
            raise AuthenticationFailedError("the client's choice of a security layer is malformed")
        if not choice[0] & _NO_LAYER:
            raise AuthenticationFailedError(
                f"the client chooses the security layer {choice[0]}; Kafka's protocol has none: use SASL_SSL"
            )
        self.name = self._name_of(self._context.peer)
        self.is_complete = True


def gssapi_server(configs: BrokerConfigs, listener: str, login: Login | None) -> Callable[[], GssapiServer]:
    """Returns what begins exchanges at a listener.

    Args:
        login: The listener's JAAS line.

    Raises:
        ConfigError: The keytab cannot be used, a setting is missing or malformed, or the package gssapi is
            not installed.
    """
    where = f"{listener_prefix(listener, GSSAPI)}sasl.jaas.config"
    if login is None:
        raise ConfigError(
            f"listener {listener} offers GSSAPI and has no keytab; set {where} to "
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            'keyTab="/etc/bowstring/kafka.keytab" principal="kafka/HOST@REALM"; (GSSAPI is the default of '
            "sasl.enabled.mechanisms)"
        )
    try:
        options = kerberos_options(login, listener_value(configs, listener, _SERVICE, mechanism=GSSAPI))
    except KerberosOptionsError as error:
        raise ConfigError(f"{where}: {error}") from None
    if not options.service:
        raise ConfigError(f"listener {listener} offers GSSAPI; set {_SERVICE}, for example to kafka")
    if not options.uses_keytab:
        raise ConfigError(f'{where}: a broker needs useKeyTab=true and keyTab="FILE"')
    if not options.principal or options.principal == "*":
        raise ConfigError(f'{where}: principal is missing; write principal="kafka/HOST@REALM"')
    from bowstring.security.kerberos import KerberosError, KerberosMissingError, acceptor, default_realm

    try:
        rules = KerberosRules(listener_value(configs, listener, CONFIG), default_realm())
        new_context = acceptor(options.keytab, options.principal)
    except KerberosMissingError as error:
        raise ConfigError(f"listener {listener} offers GSSAPI (Kerberos): {error}") from None
    except KerberosError as error:
        raise ConfigError(f"{where}: {error}") from None
    return lambda: GssapiServer(new_context(), rules.name_of)
