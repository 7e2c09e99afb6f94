"""Names the installed distribution: `bowstring`, which is everything, or `bowstring-client`, the clients.

Both bring the files of the clients, so an environment may have one of them only.
"""

from __future__ import annotations

import os
import sys
from typing import Final

_FOLDER: Final = os.path.dirname(__file__)
IS_CLIENT_ONLY: Final = os.path.exists(os.path.join(_FOLDER, "client_only.txt"))
"""The file comes with `bowstring-client`."""
_HAS_BROKER: Final = os.path.exists(os.path.join(_FOLDER, "serve.py"))


def refuse_two_distributions() -> None:
    """Refuses an environment where the files of one distribution lie over those of the other.

    Raises:
        ImportError: Both are installed.
    """
    if IS_CLIENT_ONLY and _HAS_BROKER:
        raise ImportError(
            f"bowstring and bowstring-client are both in {os.path.dirname(_FOLDER)}, and share files: "
            "pip uninstall --yes bowstring bowstring-client, then install one of them"
        )


_MISSING: Final = frozenset(
    f"bowstring.{name}" for name in ("broker", "cli", "cluster", "pytest_plugin", "serve", "spark")
)
"""What people import from `bowstring` by its module."""


class _MissingParts:
    """Says what to install where one of these is imported."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Refuses such a module; no finder before this one has it."""
        if fullname in _MISSING:
            raise ModuleNotFoundError(not_in_client(fullname), name=fullname)


if IS_CLIENT_ONLY and not _HAS_BROKER:
    sys.meta_path.append(_MissingParts())


def install_command(extra: str) -> str:
    """Returns the command that installs an extra of the installed distribution."""
    return f"pip install '{'bowstring-client' if IS_CLIENT_ONLY else 'bowstring'}[{extra}]'"


def not_in_client(what: str) -> str:
    """Returns what to say when a part of `bowstring` is used and only the clients are installed."""
    return (
        f"{what} is not in bowstring-client, which has the clients only: pip uninstall --yes "
        "bowstring-client, then pip install bowstring"
    )
