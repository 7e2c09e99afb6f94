"""Hides the secrets of connectors: in configs, and where texts repeat them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

HIDDEN = "[hidden]"
"""Stands for a secret; in a config that is sent it means: as it was."""
SHORT = 4
"""Shorter secrets are not searched for in texts: they would hide half of it."""
_NAME = re.compile(
    r"passw|passphrase|secret|credential|token|jaas|private|api.?key|access.?key|account.?key|basic.auth|user.?info"
    r"|(^|[._-])(pass|pwd|key|sas|auth)$",
    re.IGNORECASE,
)
_NO_SECRET = re.compile(
    r"(^|[._-])(converter|serializer|deserializer|strategy|enable|enabled|location|path|file|class|type|mode|ms|id"
    r"|bytes|field|fields|columns?|names?|source|topic|algorithms?)$",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$\{[^${}]*\}")
# Linear: a match never runs over the next "://".
_URL_LOGIN = re.compile(r"(?P<before>[a-z][a-z0-9+.-]{0,30}://)[^/@\s:]*:[^/@\s]*@", re.IGNORECASE)
LONG = 64 << 10
"""Longer values are not searched for log-ins: they are not shown at all."""
SECRETS_MAX = 200
"""Of a config whose secrets are searched for in texts."""


def is_secret(name: str, value: str, passwords: Collection[str] = ()) -> bool:
    """Whether a config's value must not be shown.

    Args:
        name: of the config.
        value: a reference to a config provider (`${file:/secrets:password}`) is no secret.
        passwords: configs that the plugin declares with type PASSWORD.
    """
    if len(value) > LONG:
        return True
    if not value or _REFERENCE.fullmatch(value.strip()):
        return False
    return name in passwords or (_NAME.search(name) is not None and _NO_SECRET.search(name) is None)


def masked(config: Mapping[str, str], passwords: Collection[str] = ()) -> dict[str, str]:
    """Returns a config with HIDDEN instead of its secrets, by name."""
    return {
        name: HIDDEN if is_secret(name, value, passwords) else without_logins(value)
        for name, value in sorted(config.items())
    }


def without_logins(text: str) -> str:
    """Returns text without the users and passwords of addresses in it."""
    return _URL_LOGIN.sub(rf"\g<before>{HIDDEN}@", text)


def unmasked(given: Mapping[str, str], held: Mapping[str, str], passwords: Collection[str]) -> dict[str, str]:
    """Returns a config that was shown masked and sent back, with the secrets that were left hidden."""
    shown = masked(held, passwords)
    return {
        name: held[name] if name in held and HIDDEN in value and value == shown[name] else value
        for name, value in given.items()
    }


def without_secrets(text: str, config: Mapping[str, str], passwords: Collection[str] = ()) -> str:
    """Returns a text, such as the trace of a task, without the secrets of a config."""
    if not text:
        return ""
    secrets = {value for name, value in config.items() if is_secret(name, value, passwords)}
    if len(secrets) > SECRETS_MAX:
        return HIDDEN
    for value in sorted(secrets, key=len, reverse=True):
        if len(value) >= SHORT:
            text = text.replace(value, HIDDEN)
    return without_logins(text)
