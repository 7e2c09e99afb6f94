"""Finds files with private keys that other users of the machine can read."""

import os
import stat
from collections.abc import Mapping
from typing import Final

from bowstring.security.jaas import JaasError, parse_login

_KEY_FILES: Final = ("keystore.location", "private.key.file")
_JAAS: Final = "sasl.jaas.config"


def exposed_files(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the files with keys that others than their owner's group can read, by name of the setting.

    Files that are not there are left to those that read them.

    Args:
        settings: of a broker or controller, by name; those of listeners count, too.
    """
    found = {}
    for name, text in settings.items():
        path = _keytab(text) if name.endswith(_JAAS) else text.strip() if name.endswith(_KEY_FILES) else ""
        if path:
            try:
                mode = os.stat(path).st_mode
            except OSError:
                continue
            if mode & stat.S_IROTH:
                found[name] = path
    return found


def _keytab(jaas: str) -> str:
    """Returns the keytab that a JAAS line names; empty for none."""
    try:
        return parse_login(jaas).options.get("keyTab", "").removeprefix("FILE:")
    except JaasError:
        return ""
