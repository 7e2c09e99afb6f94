"""Finds files with private keys that other users of the machine can read."""

import os
import stat
from collections.abc import Mapping
from typing import Final

_KEY_FILES: Final = ("keystore.location", "private.key.file")


def exposed_files(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the files with keys that others than their owner's group can read, by name of the setting.

    Files that are not there are left to those that read them.

    Args:
        settings: of a broker or controller, by name; those of listeners count, too.
    """
    found = {}
    for name, path in settings.items():
        if name.endswith(_KEY_FILES) and path:
            try:
                mode = os.stat(path.strip()).st_mode
            except OSError:
                continue
            if mode & stat.S_IROTH:
                found[name] = path.strip()
    return found
