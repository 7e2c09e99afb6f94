"""Reads from the configs which SASL mechanisms a listener offers, and makes their servers."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from bowstring.engine import event_log
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.configs.listener_configs import listener_prefix, listener_text, listener_value
from bowstring.engine.security.sasl_oauthbearer import OAuthBearerServer
from bowstring.engine.security.sasl_plain import SaslPlain
from bowstring.engine.security.sasl_scram import CredentialOf, DecoyOf, ScramServer, TokenOf
from bowstring.engine.security.sasl_server import SaslServer
from bowstring.security.jaas import JaasError, Login, parse_login
from bowstring.security.scram import SCRAM_MECHANISMS, ScramCredential, ScramMechanism

if TYPE_CHECKING:
    from bowstring.engine.security.jwt_validator import JwtValidator

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"

_ENABLED: Final = "sasl.enabled.mechanisms"
_JAAS: Final = "sasl.jaas.config"
_USER: Final = "user_"
_MODULES: Final = {
    PLAIN: "PlainLoginModule",
    OAUTHBEARER: "OAuthBearerLoginModule",
    GSSAPI: "Krb5LoginModule",
} | dict.fromkeys(SCRAM_MECHANISMS, "ScramLoginModule")


class Credentials(NamedTuple):
    """Where mechanisms find what the cluster has of users.

    Attributes:
        of_user: Returns the SCRAM credential of a user, by mechanism and name.
        of_token: Returns the log-in of a delegation token, by mechanism and token id.
        of_nobody: Returns what stands for the credential of an unknown name, by mechanism.
    """

    of_user: Callable[[ScramMechanism], CredentialOf]
    of_token: Callable[[ScramMechanism], TokenOf]
    of_nobody: Callable[[ScramMechanism], DecoyOf]


class Mechanism(NamedTuple):
    """A mechanism that a listener offers.

    Attributes:
        new_server: Begins an exchange.
        max_session_ms: connections.max.reauth.ms (KIP-368); 0: no limit.
    """

    new_server: Callable[[], SaslServer]
    max_session_ms: int


def mechanisms_of(
    configs: BrokerConfigs,
    listener: str,
    protocol: str,
    credentials: Credentials,
    validator_of: Callable[[str], "JwtValidator"],
) -> dict[str, Mechanism]:
    """Returns the mechanisms of a listener by name, in the order of sasl.enabled.mechanisms.

    Args:
        validator_of: Returns the check of the tokens of a listener.

    Raises:
        ConfigError: A mechanism is unknown, lacks its JAAS line, or the line is malformed.
    """
    names = listener_value(configs, listener, _ENABLED) or []
    if not names:
        raise ConfigError(
            f"listener {listener} has the protocol {protocol} and no SASL mechanism; set {_ENABLED}, for "
            "example to SCRAM-SHA-512"
        )
    return {
        name: Mechanism(
            _server_maker(configs, listener, name, credentials, validator_of),
            listener_value(configs, listener, "connections.max.reauth.ms", mechanism=name),
        )
        for name in names
    }


def check_mechanisms(configs: BrokerConfigs, listener: str, protocol: str) -> None:
    """Checks the configs of a listener's mechanisms, without reading signing keys.

    Raises:
        ConfigError: As from `mechanisms_of`.
    """
    nobody = Credentials(
        lambda mechanism: lambda name: None, lambda mechanism: lambda token_id: None, _no_decoys
    )
    names = listener_value(configs, listener, _ENABLED) or []
    if OAUTHBEARER not in names:
        mechanisms_of(configs, listener, protocol, nobody, _no_validator)


def _no_decoys(mechanism: ScramMechanism) -> DecoyOf:
    def of(name: str, is_token: bool) -> ScramCredential:
        raise AssertionError("configs are checked without log-ins")

    return of


def _no_validator(listener: str) -> "JwtValidator":
    raise AssertionError(f"{listener} offers no OAUTHBEARER")


def _server_maker(
    configs: BrokerConfigs,
    listener: str,
    name: str,
    credentials: Credentials,
    validator_of: Callable[[str], "JwtValidator"],
) -> Callable[[], SaslServer]:
    login = jaas_login(configs, listener, name)
    if name == PLAIN:
        passwords = _passwords(listener, login)
        return lambda: SaslPlain(passwords)
    if name in SCRAM_MECHANISMS:
        mechanism = SCRAM_MECHANISMS[name]
        users, tokens = credentials.of_user(mechanism), credentials.of_token(mechanism)
        decoys = credentials.of_nobody(mechanism)
        return lambda: ScramServer(mechanism, users, tokens, decoys)
    if name == OAUTHBEARER:
        validator = validator_of(listener)
        return lambda: OAuthBearerServer(validator.validated)
    if name == GSSAPI:
        # Imported late: brokers without Kerberos do not need it.
        from bowstring.engine.security.sasl_gssapi import gssapi_server

        return gssapi_server(configs, listener, login)
    raise ConfigError(
        f"{_ENABLED} of listener {listener}: {name} is not a mechanism of this broker; use, in upper case, "
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI"
    )


def jaas_login(configs: BrokerConfigs, listener: str, mechanism: str) -> Login | None:
    """Returns the JAAS login of a mechanism at a listener; None when there is none.

    `listener.name.<listener>.<mechanism>.sasl.jaas.config` comes first. A line without the mechanism counts
    if it is of the mechanism's login module.

    Raises:
        ConfigError: The line is malformed, or is of another module although it names the mechanism.
    """
    text = listener_text(configs, listener, _JAAS, mechanism=mechanism)
    if text is None:
        return None
    own = f"{listener_prefix(listener, mechanism)}{_JAAS}"
    try:
        login = parse_login(text)
    except JaasError as error:
        raise ConfigError(
            f'{own}: {error}; write, for example, "org.apache.kafka.common.security.plain.PlainLoginModule '
            'required user_alice=\\"PASSWORD\\";"'
        ) from None
    expected = _MODULES.get(mechanism)
    if expected is None or login.module_name == expected:
        return login
    if own in configs.static:
        raise ConfigError(f"{own} has the login module {login.module_name}; {mechanism} needs {expected}")
    return None


def _passwords(listener: str, login: Login | None) -> Mapping[str, str]:
    options = {} if login is None else login.options
    passwords = {
        name.removeprefix(_USER): password for name, password in options.items() if name.startswith(_USER)
    }
    if not passwords:
        raise ConfigError(
            f"listener {listener} offers PLAIN and has no users; set "
            f"{listener_prefix(listener, PLAIN)}{_JAAS} to "
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="PASSWORD";'
        )
    return passwords


def warn_of_plain_text(listener: str, host: str, mechanisms: Mapping[str, Mechanism]) -> None:
    """Logs that passwords cross the network in the clear at a listener."""
    if PLAIN in mechanisms:
        event_log.warning(
            "a listener takes passwords over connections that are not encrypted; give it the protocol "
            "SASL_SSL, or offer SCRAM",
            listener=listener,
            host=host or "all interfaces",
        )
