"""Turns the argument `security` of clients into what their connections use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bowstring.clients.config.config_table import nearest
from bowstring.clients.errors import ConfigError
from bowstring.security.security_names import CANONICAL

if TYPE_CHECKING:
    from bowstring.security.client_settings import ClientSecurity

PREFIX = "BOWSTRING_"


def client_security(settings: Mapping[str, Any] | None) -> ClientSecurity | None:
    """Reads settings of TLS and SASL by the names of Kafka's, librdkafka's and kafka-python's clients.

    Args:
        settings: as `security=` of clients; None for plain text.

    Returns:
        None for plain text.

    Raises:
        ConfigError: a setting is unknown, wrong or missing, has no effect together with the others, or a file
            cannot be read. The message has no secret.
    """
    given = {name: value for name, value in (settings or {}).items() if value is not None}
    if not given:
        return None
    from bowstring.security.client_settings import (
        ClientSecurity,
        SecuritySettingsError,
    )

    for name in given:
        plain = str(name).replace("_", ".").casefold()
        if plain not in CANONICAL:
            near = nearest(plain, CANONICAL)
            raise ConfigError(
                f"security has no setting {name!r}; "
                + (f"did you mean {near}?" if near else "see docs/guide/clients.md")
            )
    check_security(given)
    try:
        found = ClientSecurity.of(given)
    except SecuritySettingsError as error:
        raise ConfigError(str(error)) from error
    return found if found.protocol != "PLAINTEXT" else None


def check_security(settings: Mapping[str, Any]) -> None:
    """Refuses settings of TLS and SASL that contradict each other, without reading files.

    Raises:
        ConfigError: there are such.
    """
    from bowstring.security.client_settings import SecuritySettingsError, canonical, check_use

    try:
        check_use(canonical(settings))
    except SecuritySettingsError as error:
        raise ConfigError(str(error)) from error


def environment_security() -> dict[str, str]:
    """Returns the settings of TLS and SASL in the environment: `BOWSTRING_SASL_PASSWORD` is
    sasl.password, and so on.
    """
    return {name: value for name in CANONICAL if (value := os.environ.get(_variable(name)))}


def _variable(name: str) -> str:
    return PREFIX + name.upper().replace(".", "_")


def security_of_properties(properties: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Returns the settings of TLS and SASL in a properties file, and the names of its other settings."""
    found = {
        name: value for name, value in properties.items() if name.replace("_", ".").casefold() in CANONICAL
    }
    return found, [name for name in properties if name not in found]
