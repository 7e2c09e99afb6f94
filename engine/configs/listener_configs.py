"""Reads configs that a listener may have for itself, and the security protocols of listeners."""

from typing import Any, Final

from bowstring.engine.configs.broker_configs import BrokerConfigs
from bowstring.engine.configs.config_key import ConfigError
from bowstring.engine.configs.table import BROKER_CONFIGS, broker_key
from bowstring.engine.configs.table_security import SECURITY

PLAINTEXT: Final = "PLAINTEXT"
SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""Ids of security protocols in registrations, by name."""

MECHANISMS: Final = ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer", "gssapi")
"""SASL mechanisms, as they stand in names of configs."""

_MAP: Final = "listener.security.protocol.map"


def listener_prefix(listener: str, mechanism: str = "") -> str:
    """Returns the prefix of a listener's own configs (KIP-103), and of those of a SASL mechanism there."""
    return f"listener.name.{listener.lower()}." + (f"{mechanism.lower()}." if mechanism else "")


def listener_text(configs: BrokerConfigs, listener: str, name: str, *, mechanism: str = "") -> str | None:
    """Returns the text in force of a config at a listener; None when it is not set.

    `listener.name.<listener>.<mechanism>.<name>` comes before `listener.name.<listener>.<name>`, and that
    before `<name>`, whichever of them is dynamic.
    """
    prefixes = [listener_prefix(listener, mechanism)] if mechanism else []
    for prefix in (*prefixes, listener_prefix(listener)):
        for layer in (configs.dynamic_broker, configs.dynamic_default, configs.static):
            if prefix + name in layer:
                return layer[prefix + name]
    return configs.text(name)


def listener_value(configs: BrokerConfigs, listener: str, name: str, *, mechanism: str = "") -> Any:
    """Returns the typed value in force of a config at a listener, as `listener_text` finds it."""
    text = listener_text(configs, listener, name, mechanism=mechanism)
    return None if text is None else broker_key(name).parse(text)


def misnamed(configs: BrokerConfigs) -> tuple[list[str], list[str]]:
    """Returns why configs of single listeners have no effect: reasons to refuse those that protect, and
    warnings of others. Each has a name of a listener or a mechanism that is nowhere, or not in lower case.

    Names count that occur in a config of listeners, also those of other nodes in
    listener.security.protocol.map: nodes may share a file.
    """
    own = [name for name in configs.static if name.startswith("listener.name.")]
    if not own:
        return [], []
    known = _listener_names(configs)
    refusals: list[str] = []
    warnings: list[str] = []
    for name in own:
        reason = _why_misnamed(name, known)
        if reason is not None:
            protects = broker_key(name).name in SECURITY
            (refusals if protects else warnings).append(f"{name} would have no effect: {reason}")
    return sorted(refusals), sorted(warnings)


def _listener_names(configs: BrokerConfigs) -> list[str]:
    """Returns the names of listeners that the configs have, in lower case."""
    value = configs.value
    found = [*value("controller.listener.names")]
    for setting in ("listeners", "advertised.listeners"):
        found += (text.partition("://")[0] for text in value(setting) or ())
    found.append(value("inter.broker.listener.name") or "")
    if _MAP in configs.static:
        found += (pair.partition(":")[0] for pair in value(_MAP).split(","))
    return list(dict.fromkeys(name.strip().lower() for name in found if name.strip()))


def _why_misnamed(name: str, known: list[str]) -> str | None:
    """Returns what is wrong with the listener or the mechanism in the name of a config; None: nothing."""
    for listener in known:
        prefix = listener_prefix(listener)
        if name.startswith(prefix):
            mechanism, _, rest = name.removeprefix(prefix).partition(".")
            if name.removeprefix(prefix) in BROKER_CONFIGS:
                return None
            if mechanism in MECHANISMS and rest in BROKER_CONFIGS and not rest.startswith("ssl."):
                return None
            return (
                f"{mechanism} is not a SASL mechanism in lower case; write {prefix}MECHANISM.{rest} with "
                f"{', '.join(MECHANISMS)}"
            )
    lower = name.lower()
    if any(lower.startswith(listener_prefix(listener)) for listener in known):
        return "the name of the listener must be in lower case"
    return f"no listener has that name; the listeners are {', '.join(known)}"


def listener_protocols(configs: BrokerConfigs) -> dict[str, str]:
    """Returns the security protocol of each listener name that has one.

    As in Kafka, listeners of controllers need no entry in the default map, unless a listener's name is that
    of a protocol with TLS or SASL.
    """
    protocols = {}
    for pair in configs.value(_MAP).split(","):
        name, colon, protocol = pair.strip().upper().partition(":")
        if colon:
            protocols[name.strip()] = protocol.strip()
    controllers = [name.upper() for name in configs.value("controller.listener.names")]
    if _MAP not in configs.static:
        names = [
            *controllers,
            *(text.partition("://")[0].strip().upper() for text in configs.value("listeners")),
        ]
        if not any(SECURITY_PROTOCOLS.get(name) for name in names):
            protocols = dict.fromkeys(controllers, PLAINTEXT) | protocols
    return protocols


def listener_protocol(configs: BrokerConfigs, listener: str) -> str:
    """Returns the security protocol of a listener.

    Raises:
        ConfigError: It has none, or one that does not exist.
    """
    protocol = listener_protocols(configs).get(listener.upper())
    if protocol is None:
        raise ConfigError(
            f"listeners: no security protocol for {listener}; add {listener}:PLAINTEXT (or :SSL, "
            f":SASL_PLAINTEXT, :SASL_SSL) to {_MAP}"
        )
    if protocol not in SECURITY_PROTOCOLS:
        raise ConfigError(
            f"{_MAP}: {protocol} of {listener} is not a security protocol; use one of "
            f"{', '.join(SECURITY_PROTOCOLS)}"
        )
    return protocol
