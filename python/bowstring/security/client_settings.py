"""Reads the settings of TLS and SASL of a client, see security_names.py."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from bowstring.security.jaas import JaasError, Login, parse_login
from bowstring.security.key_material import KeyMaterial
from bowstring.security.oauth_tokens import (
    ClientCredentials,
    Token,
    TokenSource,
    from_file,
    lifetime_of,
    token_of,
)
from bowstring.security.sasl_client import (
    OAuthBearerClient,
    PlainClient,
    SaslClient,
    SaslError,
    ScramExchange,
)
from bowstring.security.security_names import CANONICAL

if TYPE_CHECKING:
    from bowstring._native.tls.context import TlsContext

_log = logging.getLogger("bowstring.security")

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM_MECHANISMS, "OAUTHBEARER", "GSSAPI")
_OF_MODULE = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": SCRAM_MECHANISMS,
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
    "Krb5LoginModule": ("GSSAPI",),
}
_TRUE, _FALSE = ("true", "1", "yes", "on", "t"), ("false", "0", "no", "off", "f")
# What programs give in any case, whatever the protocol.
_HARMLESS = (
    "enable.ssl.certificate.verification",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.keystore.type",
    "ssl.truststore.type",
)
_EXTENSION_PREFIX = "extension_"
OAUTH_TIMEOUT_MS = "10000"

NewSasl = Callable[[str], SaslClient]
"""Makes an exchange with a host."""


class SecuritySettingsError(ValueError):
    """Settings of TLS or SASL are wrong; the message names them and never has a secret."""


def canonical(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of TLS and SASL among `settings` under their names of security_names.py;
    without those that are None.

    Raises:
        SecuritySettingsError: two names set one setting to different values.
    """
    found: dict[str, Any] = {}
    given: dict[str, str] = {}
    for each, value in settings.items():
        name = CANONICAL.get(each.replace("_", ".").casefold())
        if name is None or value is None:
            continue
        meant = value
        if name == "ssl.endpoint.identification.algorithm" and each.replace("_", ".").casefold() != name:
            meant = "https" if _truth(each, value) else "none"  # kafka-python's ssl_check_hostname
        if name in found and found[name] != meant:
            raise SecuritySettingsError(
                f"{given[name]} and {each} both set {name}, to different values; remove one"
            )
        found[name], given[name] = meant, each
    return found


def check_use(settings: Mapping[str, Any]) -> None:
    """Refuses settings of TLS or SASL that the protocol does not use: whoever gives them expects protection.

    Args:
        settings: as `canonical` returns them.

    Raises:
        SecuritySettingsError: there are such.
    """
    protocol = protocol_of(settings)
    has_tls, has_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    unused = [
        name
        for name in settings
        if name not in _HARMLESS
        if (name.startswith(("ssl.", "enable.ssl.")) and not has_tls)
        or (name.startswith("sasl.") and not has_sasl)
    ]
    if unused:
        told = "is PLAINTEXT, the default," if "security.protocol" not in settings else f"is {protocol}"
        meant = "SASL_SSL" if has_sasl or any(name.startswith("sasl.") for name in unused) else "SSL"
        raise SecuritySettingsError(
            f"{', '.join(sorted(unused))} given, but security.protocol {told} and does not use it: set "
            f"security.protocol={meant}, or remove the setting"
        )


def protocol_of(settings: Mapping[str, Any]) -> str:
    """Returns one of PROTOCOLS.

    Raises:
        SecuritySettingsError: the value is none of them.
    """
    given = str(settings.get("security.protocol", PROTOCOLS[0]))
    if given.upper() not in PROTOCOLS:
        raise SecuritySettingsError(
            f"security.protocol is {given!r}, it must be one of {', '.join(PROTOCOLS)}"
        )
    return given.upper()


def _truth(name: str, value: Any) -> bool:
    word = str(value).casefold()
    if word not in (*_TRUE, *_FALSE):
        raise SecuritySettingsError(f"{name} is {value!r}, it must be true or false")
    return word in _TRUE


class ClientSecurity:
    """How a client protects its connections, and who it is. One for each client, shared by its connections.

    Attributes:
        protocol: one of PROTOCOLS.
        tls: for new TLS sessions; None without TLS.
        verifies_host: whether a server's certificate must have its host name.
        mechanism: of SASL; empty without.

    Args:
        protocol, tls, verifies_host, new_sasl: as the attributes; `new_sasl` makes the client's side of
            a login.
    """

    def __init__(
        self, protocol: str, tls: TlsContext | None, verifies_host: bool, mechanism: str, make: NewSasl | None
    ):
        self.protocol, self.tls, self.verifies_host = protocol, tls, verifies_host
        self.mechanism = mechanism
        self._make = make

    def __repr__(self) -> str:
        return f"ClientSecurity({self.protocol}{', ' if self.mechanism else ''}{self.mechanism})"

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> ClientSecurity:
        """Reads settings by any of their names; others are not looked at.

        Raises:
            SecuritySettingsError: one is wrong or missing, or a file cannot be read.
        """
        given = canonical(settings)
        protocol = protocol_of(given)
        tls = _tls(given) if protocol.endswith("SSL") else None
        mechanism, make = _sasl(given) if protocol.startswith("SASL") else ("", None)
        verifies = _truth(
            "enable.ssl.certificate.verification", given.get("enable.ssl.certificate.verification", True)
        )
        return cls(protocol, tls, verifies and _verifies_host(given), mechanism, make)

    def server_host(self, host: str) -> str | None:
        """Returns the host name that a server's certificate must have; None for any."""
        return host if self.verifies_host else None

    def new_sasl(self, host: str) -> SaslClient | None:
        """Returns a new exchange of the mechanism with a host; None without SASL. Its `first` may block for a
        token or a ticket.
        """
        return self._make(host) if self._make is not None else None


def _verifies_host(given: Mapping[str, Any]) -> bool:
    algorithm = str(given.get("ssl.endpoint.identification.algorithm", "https")).casefold()
    if algorithm not in ("https", "none", ""):
        raise SecuritySettingsError(
            f"ssl.endpoint.identification.algorithm is {algorithm!r}, it must be https or none"
        )
    return algorithm == "https"


def _tls(given: Mapping[str, Any]) -> TlsContext:
    verify = _truth(
        "enable.ssl.certificate.verification", given.get("enable.ssl.certificate.verification", True)
    )
    if not verify:
        _log.warning(
            "enable.ssl.certificate.verification is false: whoever answers at the address is trusted"
        )
    protocols = [
        each.strip() for each in str(given.get("ssl.enabled.protocols", "")).split(",") if each.strip()
    ]
    suites = str(given.get("ssl.cipher.suites", "")).replace(":", ",").split(",")
    try:
        material = KeyMaterial.of({name: str(value) for name, value in given.items()})
        return material.context(
            server=False,
            protocols=tuple(protocols) or ("TLSv1.2", "TLSv1.3"),
            ciphers=tuple(each.strip() for each in suites if each.strip()),
            verify=verify,
        )
    except ValueError as error:
        raise SecuritySettingsError(str(error)) from error


# ------------------------------------------------------------ SASL


def _sasl(given: Mapping[str, Any]) -> tuple[str, NewSasl]:
    """Returns the mechanism, and what makes an exchange of it."""
    login, allowed = _login_module(given)
    options = {} if login is None else login.options
    mechanism = str(given.get("sasl.mechanism", "")).upper()
    if not mechanism and len(allowed) == 1:
        mechanism = allowed[0]
    if mechanism not in MECHANISMS:
        told = f"is {given['sasl.mechanism']!r}, it" if mechanism else "is missing, it"
        raise SecuritySettingsError(f"sasl.mechanism {told} must be one of {', '.join(MECHANISMS)}")
    if allowed and mechanism not in allowed:
        raise SecuritySettingsError(
            f"sasl.jaas.config has the login module of {' and '.join(allowed)}, but sasl.mechanism is "
            f"{mechanism}"
        )
    if mechanism == "OAUTHBEARER":
        return mechanism, _oauth(given, options)
    if mechanism == "GSSAPI":
        return mechanism, _kerberos(given, login)
    return mechanism, _password(given, options, mechanism)


def _login_module(given: Mapping[str, Any]) -> tuple[Login | None, tuple[str, ...]]:
    """Returns the login module in sasl.jaas.config, and the mechanisms that it is for."""
    text = given.get("sasl.jaas.config")
    if text is None:
        return None, ()
    try:
        login = parse_login(str(text))
    except JaasError as error:
        raise SecuritySettingsError(f"sasl.jaas.config: {error}") from error
    module = login.module_name
    if module not in _OF_MODULE:
        raise SecuritySettingsError(
            f"sasl.jaas.config names the login module {module}; use one of {', '.join(_OF_MODULE)}"
        )
    return login, _OF_MODULE[module]


def _one(given: Mapping[str, Any], name: str, options: Mapping[str, str], option: str) -> str | None:
    """Returns a value that is given by itself or in sasl.jaas.config."""
    plain, inner = given.get(name), options.get(option)
    if plain is not None and inner is not None and str(plain) != inner:
        raise SecuritySettingsError(f"{name} and sasl.jaas.config have different values; remove one")
    return str(plain) if plain is not None else inner


def _password(given: Mapping[str, Any], options: Mapping[str, str], mechanism: str) -> NewSasl:
    username = _one(given, "sasl.username", options, "username")
    password = _one(given, "sasl.password", options, "password")
    if not username or password is None:
        missing = "username" if not username else "password"
        inner = f", and sasl.jaas.config has no {missing}=" if given.get("sasl.jaas.config") else ""
        raise SecuritySettingsError(
            f"sasl.{missing} is missing{inner}: {mechanism} needs a user name and a password"
        )
    if "\0" in username or "\0" in password:
        raise SecuritySettingsError("sasl.username and sasl.password must not have a NUL character")
    if mechanism == "PLAIN":
        return lambda host: PlainClient(username, password)
    token_auth = _truth("tokenauth", options.get("tokenauth", "false"))
    return lambda host: ScramExchange(mechanism, username, password, token_auth=token_auth)


def _kerberos(given: Mapping[str, Any], login: Login | None) -> NewSasl:
    # Imported late: other mechanisms do not need it.
    from bowstring.security.gssapi_client import GssapiClient
    from bowstring.security.kerberos import KerberosError, KerberosInitiator, KerberosMissingError
    from bowstring.security.kerberos_options import KerberosOptionsError, kerberos_options

    options = {} if login is None else login.options
    keytab = _one(given, "sasl.kerberos.keytab", options, "keyTab")
    principal = _one(given, "sasl.kerberos.principal", options, "principal")
    service = given.get("sasl.kerberos.service.name")
    uses_cache, ticket_cache = not keytab, ""
    if login is not None:
        try:
            found = kerberos_options(login, None if service is None else str(service))
        except KerberosOptionsError as error:
            raise SecuritySettingsError(f"sasl.jaas.config: {error}") from error
        if options.get("isInitiator", "true").lower() == "false":
            raise SecuritySettingsError("sasl.jaas.config: isInitiator=false cannot log in; remove it")
        service, ticket_cache = found.service, found.ticket_cache
        if "sasl.kerberos.keytab" not in given:
            keytab, uses_cache = found.keytab, found.uses_cache
    service = str(service or "kafka")
    try:
        initiator = KerberosInitiator(
            service,
            principal=principal or "",
            keytab=keytab or "",
            ticket_cache=ticket_cache,
            uses_cache=uses_cache,
        )
    except (KerberosMissingError, KerberosError) as error:
        raise SecuritySettingsError(f"sasl.mechanism GSSAPI (Kerberos): {error}") from error
    domain = given.get("sasl.kerberos.domain.name")

    def made(host: str) -> SaslClient:
        name = str(domain or host)
        return GssapiClient(lambda: initiator.context(name), f"{service}@{name}")

    return made


def _oauth(given: Mapping[str, Any], options: Mapping[str, str]) -> NewSasl:
    source = TokenSource(_tokens(given, options))
    extensions = {
        name.removeprefix(_EXTENSION_PREFIX): value
        for name, value in options.items()
        if name.startswith(_EXTENSION_PREFIX)
    }
    for pair in filter(None, str(given.get("sasl.oauthbearer.extensions", "")).split(",")):
        name, _, value = pair.partition("=")
        extensions[name.strip()] = value.strip()
    try:
        OAuthBearerClient(source.token, extensions)
    except SaslError as error:
        raise SecuritySettingsError(f"sasl.oauthbearer.extensions: {error}") from error
    return lambda host: OAuthBearerClient(source.token, extensions)


def _tokens(given: Mapping[str, Any], options: Mapping[str, str]) -> Callable[[], Token]:
    """Returns what gets tokens: exactly one of the ways is given."""
    prefix = "sasl.oauthbearer."
    url = given.get(f"{prefix}token.endpoint.url")
    ways = [name for name in ("token", "token.function", "token.endpoint.url") if f"{prefix}{name}" in given]
    if len(ways) != 1:
        told = " and ".join(prefix + name for name in ways) if ways else "no token"
        raise SecuritySettingsError(
            f"OAUTHBEARER has {told}: give one of {prefix}token, {prefix}token.function (oauth_cb) and "
            f"{prefix}token.endpoint.url with client id and secret"
        )
    if ways == ["token"]:
        value = str(given[f"{prefix}token"])
        return lambda: Token(value, lifetime_of(value))
    if ways == ["token.function"]:
        return _of_function(given[f"{prefix}token.function"])
    parts = urlsplit(str(url))
    if parts.scheme == "file":
        return from_file(unquote(parts.path))
    client_id = _one(given, f"{prefix}client.id", options, "clientId")
    secret = _one(given, f"{prefix}client.secret", options, "clientSecret")
    if not client_id or secret is None:
        missing = "client.id" if not client_id else "client.secret"
        raise SecuritySettingsError(
            f"{prefix}{missing} is missing: the token endpoint needs client id and secret"
        )
    try:
        return ClientCredentials(
            str(url),
            client_id,
            secret,
            scope=_one(given, f"{prefix}scope", options, "scope") or "",
            ca_pem=_https_authorities(given),
            timeout_s=int(given.get("sasl.login.read.timeout.ms", OAUTH_TIMEOUT_MS)) / 1000,
        )
    except ValueError as error:
        raise SecuritySettingsError(str(error)) from error


def _of_function(function: Any) -> Callable[[], Token]:
    """Returns what calls the user's function: ours, confluent-kafka's `oauth_cb`, or kafka-python's
    provider.
    """
    if callable(getattr(function, "token", None)):
        return lambda: token_of(function.token())
    if not callable(function):
        raise SecuritySettingsError(
            "sasl.oauthbearer.token.function must be a function, or have a method token()"
        )
    from inspect import Parameter, signature

    try:
        needed = [
            each
            for each in signature(function).parameters.values()
            if each.default is Parameter.empty
            and each.kind is not each.VAR_POSITIONAL
            and each.kind is not each.VAR_KEYWORD
        ]
    except (TypeError, ValueError):
        needed = []
    if needed:  # confluent-kafka hands over sasl.oauthbearer.config
        return lambda: token_of(function(""))
    return lambda: token_of(function())


def _https_authorities(given: Mapping[str, Any]) -> str | None:
    if "https.ca.pem" in given:
        return str(given["https.ca.pem"])
    if "https.ca.location" not in given:
        return None
    try:
        return Path(str(given["https.ca.location"])).read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise SecuritySettingsError(f"https.ca.location: {error}") from error
